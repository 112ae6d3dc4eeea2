"""Whatever the files hold: exit 2, one line that says why, nothing executed, nothing written, little memory, soon.

The command runs in processes of its own, forked from one that has imported everything, each with a limit on memory and
on time; a few run as the user runs them.
"""

import json
import pickle
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_case import small_network, small_people, small_spec
from support.hostile_models import MARKER, MODELS, pickled
from support.hostile_tables import DATA, SPECS

SECONDS = 60
MEMORY = 1536 * 2**20  # beyond what the imports took

FORKS = f"""
import gc, json, os, pkgutil, resource, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import onnx, onnxruntime, h5py, torch, pandas, pyarrow.parquet, sklearn.metrics
from fairmend.cli.main import main
import fairmend.cli.console, fairmend.cli.repair, fairmend.cli.repaired, fairmend.report.build
import fairmend.workflows.inputs, fairmend.workflows.outputs, fairmend.workflows.repair
import fairmend.evaluate.compare, fairmend.evaluate.split, fairmend.evaluate.training_rows
import fairmend.models, fairmend.network.formats
from fairmend.network.formats.keras import hdf5
from support.forks import Hdf5Forks

for package in (fairmend.models, fairmend.network.formats):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        __import__(module.name)
readers = Hdf5Forks()  # of HDF5 files, in processes of their own with limits of their own
readers.start()
hdf5.subprocess = readers.subprocess

def size():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

def child(case):
    os.chdir(case["cwd"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(case[name], os.O_WRONLY | os.O_CREAT), number)
    limit = size() + {MEMORY}
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
    signal.alarm({10 * SECONDS})  # for what waits; a busy machine gives little of the seconds above
    main(case["arguments"], prog_name="fairmend")

gc.freeze()  # so that a child does not copy what it never touches
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            child(json.loads(line))
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
CASES = {
    **{f"model, {name}": ("model", suffix, make) for name, (suffix, make) in MODELS.items()},
    **{f"data, {name}": ("data", suffix, make) for name, (suffix, make) in DATA.items()},
    **{f"spec, {name}": ("spec", ".toml", make) for name, make in SPECS.items()},
}


class Hostile:
    """A folder of its own for a case: good files, one of them replaced, and an empty folder to run in."""

    def __init__(self, folder: Path, case: str) -> None:
        self.folder, self.cwd, self.out = folder, folder / "cwd", folder / "cwd" / "out"
        self.cwd.mkdir(parents=True)
        which, suffix, make = CASES[case]
        files = {"model": folder / "model.onnx", "data": folder / "data.csv", "spec": folder / "spec.toml"}
        files[which] = files[which].with_suffix(suffix)
        small_network().save(folder / "model.onnx")
        small_people().to_csv(folder / "data.csv", index=False)
        small_spec().save(folder / "spec.toml")
        files[which].write_bytes(make(folder))
        self.culprit = files[which].name
        self.arguments = ["repair", str(files["model"]), "--data", str(files["data"]), "--spec", str(files["spec"])]
        self.arguments += ["--out", str(self.out), "--method", "prof", "--steps", "1", "--repair-rows", "5"]
        self.before = self.listing()

    def listing(self) -> dict[str, bytes | None]:
        files = {path: path.is_file() and not path.is_symlink() for path in sorted(self.folder.rglob("*"))}
        return {str(path): path.read_bytes() if plain else None for path, plain in files.items()}

    def check(self, code: int, stdout: str, stderr: str) -> None:
        assert code == 2, (code, stderr[-2000:])
        assert stdout == ""
        lines = stderr.splitlines()
        assert len(lines) == 1, stderr[-2000:]
        assert lines[0].startswith("Error: ")
        assert self.culprit in lines[0]
        assert "unexpected" not in lines[0]
        assert "out of memory" not in lines[0]
        assert len(lines[0]) < 1500
        assert self.listing() == self.before  # no output, no marker of a pickle that ran
        assert not list(self.folder.rglob(MARKER))


@pytest.fixture(scope="module")
def forks():
    """A process that runs one command for each line it reads."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()


def test_there_are_many():
    assert len(MODELS) >= 30
    assert len(DATA) + len(SPECS) >= 30


def test_the_attack_works_when_it_is_unpickled(tmp_path):
    pickle.loads(pickled(tmp_path))
    assert (tmp_path / MARKER).exists()


@needs_proc
@pytest.mark.parametrize("case", CASES)
def test_hostile_files_are_refused_in_one_line(case, forks, tmp_path):
    hostile = Hostile(tmp_path / "case", case)
    said = {name: tmp_path / name for name in ("stdout", "stderr")}
    order = {"arguments": hostile.arguments, "cwd": str(hostile.cwd)} | {key: str(path) for key, path in said.items()}
    forks.stdin.write(json.dumps(order) + "\n")
    forks.stdin.flush()
    code = int(forks.stdout.readline())
    hostile.check(code, *(path.read_text() for path in said.values()))


@pytest.mark.parametrize(
    "case",
    ["model, pth: an archive with a pickle that runs", "model, keras: a zip bomb", "model, h5: a text without end"],
)
def test_as_the_user_runs_it(case, tmp_path):
    hostile = Hostile(tmp_path / "case", case)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))  # PyTorch reserves much more than it uses
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    result = subprocess.run(
        [sys.executable, "-c", "from fairmend.cli.main import main; main()", *hostile.arguments],
        cwd=hostile.cwd,
        capture_output=True,
        text=True,
        timeout=10 * SECONDS,
        preexec_fn=limit,
        check=False,
    )
    hostile.check(result.returncode, result.stdout, result.stderr)
