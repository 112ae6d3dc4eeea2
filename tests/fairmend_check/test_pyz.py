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
    for suffix in SUFFIXES:
        certificate, model = case().save(tmp_path, suffix, bind=True)
        valid = started(python, pyz, certificate, model, "--json")
        assert (valid.returncode, valid.stderr) == (0, ""), suffix
        assert json.loads(valid.stdout)["valid"] is True
    invalid = started(python, pyz, tampered, model)
    assert (invalid.returncode, invalid.stdout[:9]) == (1, "INVALID: ")
    assert "input 2: feature" in invalid.stdout
    for spec in ("spec.toml", "other.toml"):
        compared = started(python, pyz, certificate, model, "--spec", tmp_path / spec)
        assert compared.returncode == (0 if sys.version_info >= (3, 11) else 2), compared.stderr


@pytest.mark.runs_models
def test_it_prints_what_fairmend_check_prints(pyz, tampered, tmp_path):
    certificate, model = case().save(tmp_path)

    def untimed(text):
        return [line for line in text.splitlines() if "Checked in" not in line and '"seconds"' not in line]

    for arguments in ((certificate, model), (tampered, model), (certificate, model, "--json"), (certificate, "absent")):
        ours, theirs = started(sys.executable, pyz, *arguments), run("check", *arguments)
        assert ours.returncode == theirs.exit_code
        assert untimed(ours.stdout) == untimed(theirs.stdout)
        assert ours.stderr == theirs.stderr


def test_help_and_version(pyz):
    help_text = started(sys.executable, pyz, "--help")
    assert help_text.returncode == 0
    assert help_text.stdout.startswith("usage: fairmend-check")
    assert all(option in help_text.stdout for option in ("--spec", "--json", "--version", "Exit codes: 0"))
    version = started(sys.executable, pyz, "--version")
    assert version.stdout.startswith("fairmend-check ")
    assert started(sys.executable, pyz).returncode == 2


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
