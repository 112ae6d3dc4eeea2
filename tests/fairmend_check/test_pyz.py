"""fairmend-check.pyz: the checker as one file, which runs with Python and NumPy alone."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from support.checker_cases import SUFFIXES, case, write
from support.cli_case import run

ROOT = Path(__file__).parents[2]
BARE = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV_"))}


@pytest.fixture(scope="module")
def pyz(tmp_path_factory):
    target = tmp_path_factory.mktemp("pyz") / "fairmend-check.pyz"
    runpy.run_path(str(ROOT / ".ci" / "build-checker"))["build"](target)
    return target


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment that holds NumPy and nothing else."""
    folder = tmp_path_factory.mktemp("numpy-only")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, env=BARE)
    found = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    asked = "import sysconfig; print(sysconfig.get_path('platlib'))"
    packages = Path(subprocess.check_output([found, "-I", "-c", asked], text=True, env=BARE).strip())
    installed = Path(numpy.__file__).parent
    for part in (installed, installed.with_name("numpy.libs")):
        if part.is_dir():
            (packages / part.name).symlink_to(part)
    return found


def started(*arguments):
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, env=BARE, cwd="/")


ONE_BY_ONE = """
import contextlib, io, json, runpy, sys
pyz, answers = sys.argv[1], []
for arguments in json.loads(sys.argv[2]):
    sys.argv, code, said = [pyz, *arguments], 0, (io.StringIO(), io.StringIO())
    with contextlib.redirect_stdout(said[0]), contextlib.redirect_stderr(said[1]):
        try:
            runpy.run_path(pyz, run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    answers.append((code, *(text.getvalue() for text in said)))
print(json.dumps(answers))
"""


def one_by_one(python, pyz, *calls):
    """Run the file with each list of arguments, all in one process: what it imports is compiled once."""
    done = started(python, "-c", ONE_BY_ONE, pyz, json.dumps([list(map(str, call)) for call in calls]))
    assert (done.returncode, done.stderr) == (0, "")
    return [
        subprocess.CompletedProcess(call, *answer) for call, answer in zip(calls, json.loads(done.stdout), strict=True)
    ]


@pytest.fixture(scope="module")
def tampered(tmp_path_factory):
    """The case's certificate with a person who cannot be one."""
    content = case().content
    content["inputs"][2, 1] = 99
    return write(tmp_path_factory.mktemp("tampered"), content)


def test_it_needs_numpy_alone_and_reads_every_format(pyz, python, tampered, tmp_path):
    others = started(python, "-c", "import importlib.util as u; print(u.find_spec('fairmend'), u.find_spec('pandas'))")
    assert others.stdout.split() == ["None", "None"]
    case().spec.save(tmp_path / "spec.toml")
    (tmp_path / "other.toml").write_text("# one more line\n" + (tmp_path / "spec.toml").read_text())
    calls = []
    for suffix in SUFFIXES:
        (tmp_path / suffix).mkdir()
        files = case().save(tmp_path / suffix, suffix, bind=True)
        calls.append((*files, "--json"))
    certificate, model = files
    specs = [(certificate, model, "--spec", tmp_path / spec) for spec in ("spec.toml", "other.toml")]
    *read, invalid, same, commented = one_by_one(python, pyz, *calls, (tampered, model), *specs)
    for suffix, valid in zip(SUFFIXES, read, strict=True):
        assert (valid.returncode, valid.stderr) == (0, ""), suffix
        assert json.loads(valid.stdout)["valid"] is True
    assert (invalid.returncode, invalid.stdout[:9]) == (1, "INVALID: ")
    assert "input 2: feature" in invalid.stdout
    for compared in (same, commented):
        assert compared.returncode == (0 if sys.version_info >= (3, 11) else 2), compared.stderr


@pytest.mark.runs_models
def test_it_prints_what_fairmend_check_prints(pyz, tampered, tmp_path):
    certificate, model = case().save(tmp_path)

    def untimed(text):
        return [line for line in text.splitlines() if "Checked in" not in line and '"seconds"' not in line]

    calls = (tampered, model), (certificate, model, "--json"), (certificate, "absent")
    first = started(sys.executable, pyz, certificate, model)
    for ours in (first, *one_by_one(sys.executable, pyz, *calls)):
        theirs = run("check", *(ours.args[2:] if ours is first else ours.args))
        assert ours.returncode == theirs.exit_code
        assert untimed(ours.stdout) == untimed(theirs.stdout)
        assert ours.stderr == theirs.stderr


def test_help_and_version(pyz):
    help_text, version, without = one_by_one(sys.executable, pyz, ["--help"], ["--version"], [])
    assert help_text.returncode == 0
    assert help_text.stdout.startswith("usage: fairmend-check")
    assert all(option in help_text.stdout for option in ("--spec", "--json", "--version", "Exit codes: 0"))
    assert version.stdout.startswith("fairmend-check ")
    assert without.returncode == 2


def test_without_numpy_one_line_says_what_to_install(pyz):
    found = started(sys.executable, "-I", "-S", pyz, "certificate.json", "model.onnx")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "Error: fairmend-check needs NumPy. Install it: python -m pip install numpy\n"


def test_the_same_source_gives_the_same_bytes(pyz, tmp_path):
    os.utime(ROOT / "src" / "fairmend_check" / "check.py")
    again = started(sys.executable, ROOT / ".ci" / "build-checker", tmp_path / "new" / "again.pyz")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "new" / "again.pyz").read_bytes() == pyz.read_bytes()


def test_it_attests_and_reads_the_attestation_back(pyz, python, tmp_path):
    files = case(spec="tolerance").save(tmp_path)
    attestation = tmp_path / "attestation.json"
    for option in ("--attest", "--attestation"):
        command = [python, "-I", pyz, *files, option, attestation]
        assert subprocess.run(command, env=BARE, capture_output=True, check=False).returncode == 0
    assert json.loads(attestation.read_text())["predicate"]["result"] == "WARNED"
