"""Requirements are read from the metadata, and a missing package is named with the command that installs it."""

from importlib import metadata

import pytest

from fairmend.cli import packages

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
    found = {(p.name, p.needed, p.extra) for p in packages.required_packages()}
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
    assert packages.how_to_install(module).startswith(message)


@pytest.mark.parametrize("module", ["fairmend.nonsense", "fairmend_check", ""])
def test_a_missing_module_of_fairmend_is_a_bug_and_not_a_missing_package(module):
    assert packages.how_to_install(module) is None


def test_fairmend_that_is_not_installed_still_gives_an_answer(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert "pip install fairmend" in packages.how_to_install("rich")


def test_the_installed_metadata_names_numpy():
    assert "numpy" in {package.name for package in packages.required_packages()}
