"""`fairmend doctor` reports what is installed, what is missing, and how to install it."""

import json
import subprocess
import sys
from importlib import metadata

import pytest

from fairmend.cli import doctor
from support.cli_case import run, succeeded

REQUIRES = [
    "numpy>=1.26",
    "scikit-learn>=1.7",
    'backport>=1; python_version < "3"',
    'pooch>=1.8; extra == "bench"',
    'pyscipopt>=5.4; extra == "scip"',
    'pytest>=8; extra == "dev"',
    "fairmend[bench]; extra == 'dev'",
]


class Distribution:
    class metadata:  # noqa: N801
        @staticmethod
        def get_all(key):
            return {"Provides-Extra": ["bench", "dev", "docs", "scip"]}[key]


@pytest.fixture
def _stated(monkeypatch):
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution)
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)


@pytest.mark.usefixtures("_stated")
def test_requirements_are_those_of_this_python_without_the_extras_for_development():
    found = {(p.name, p.needed, p.extra) for p in doctor.required_packages()}
    assert found == {
        ("numpy", "1.26", None),
        ("scikit-learn", "1.7", None),
        ("pooch", "1.8", "bench"),
        ("pyscipopt", "5.4", "scip"),
    }


@pytest.mark.usefixtures("_stated")
@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("pooch", 'the package "pooch" of the extra "bench". Run pip install \'fairmend[bench]\''),
        (
            "sklearn.metrics",
            "the package \"scikit-learn\", which is not installed. Run pip install 'scikit-learn>=1.7'",
        ),
        ("unheard_of", 'the module "unheard_of", which is not installed. Run pip install fairmend'),
    ],
)
def test_a_missing_module_is_named_with_its_package_and_the_command(module, message):
    assert doctor.how_to_install(module).startswith(message)


@pytest.mark.parametrize("module", ["fairmend.nonsense", "fairmend_check", ""])
def test_a_missing_module_of_fairmend_is_a_bug_and_not_a_missing_package(module):
    assert doctor.how_to_install(module) is None


def test_fairmend_that_is_not_installed_still_gives_an_answer(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert "pip install fairmend" in doctor.how_to_install("rich")


def test_the_installed_metadata_names_numpy():
    assert "numpy" in {package.name for package in doctor.required_packages()}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def document():
    result = run("doctor", "--json")
    return result.exit_code, json.loads(result.stdout)


def test_a_complete_installation_is_ready_to_use():
    code, shown = document()
    assert (code, shown["problems"], shown["can_work"]) == (0, [], True)
    assert shown["solvers"]["highs"] == "works"
    assert shown["packages"]["numpy"]["found"] == metadata.version("numpy")
    assert shown["threads"]["torch"] >= 1
    text = succeeded(run("doctor"))
    assert "fairmend is ready to use." in text.stdout


@pytest.mark.parametrize("name", ["numpy", "torch", "jinja2"])
def test_a_missing_requirement_exits_2_with_the_remedy(monkeypatch, name):
    real = metadata.version

    def version(package):
        if package == name:
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(doctor.metadata, "version", version)
    code, shown = document()
    assert (code, shown["can_work"]) == (2, False)
    assert any(p.startswith(f"{name}: not installed; pip install '{name}>=") for p in shown["problems"])


def test_a_requirement_that_is_too_old_exits_2(monkeypatch):
    real = metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "1.14.0" if name == "highspy" else real(name))
    code, shown = document()
    assert code == 2
    assert any("highspy: 1.14.0 is too old, 1.15.1 is needed" in p for p in shown["problems"])


def test_a_missing_extra_is_no_problem_and_its_command_is_shown(monkeypatch):
    real = metadata.version

    def version(package):
        if package == "pyscipopt":
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(doctor.metadata, "version", version)
    code, shown = document()
    assert code == 0
    assert shown["extras_missing"]["scip"] == "pip install 'fairmend[scip]'"


@pytest.mark.parametrize(("found", "old"), [("1.15.1", False), ("1.16.0.dev1", False), ("1.9", True), ("1.15", True)])
def test_versions_are_compared_as_versions(monkeypatch, found, old):
    real = metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: found if name == "highspy" else real(name))
    assert bool(document()[1]["packages"]["highspy"]["problem"]) == old


def test_a_checker_only_environment_is_told_what_works_and_what_is_missing(monkeypatch):
    real = metadata.version

    def version(package):
        if package not in ("click", "numpy", "packaging", "fairmend"):
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(doctor, "_check_solver", lambda name: "not installed")
    result = run("doctor")
    assert result.exit_code == 2
    last = result.stdout.splitlines()[-1]
    assert last.startswith("Only fairmend check is ready to use. The other commands need ")
    assert "rich" in last
    assert "torch" in last
    assert last.endswith(": pip install fairmend")


def test_it_works_where_numpy_does_not():
    code = (
        "import sys; sys.modules['numpy'] = None; sys.modules['pandas'] = None\n"
        "from fairmend.cli.main import main; main(['doctor', '--json'])"
    )
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    shown = json.loads(result.stdout)
    assert "cannot be imported" in shown["packages"]["numpy"]["problem"]


def test_the_config_in_force_is_named_and_checked(tmp_path):
    (tmp_path / "fairmend.toml").write_text("[repair]\nseed = 3\n")
    assert document()[1]["config"] == str(tmp_path / "fairmend.toml")
    (tmp_path / "fairmend.toml").write_text("[repair]\nsede = 3\n")
    code, shown = document()
    assert code == 2
    assert 'did you mean "seed"' in shown["problems"][0]
    assert run("doctor", "--no-config").exit_code == 0
