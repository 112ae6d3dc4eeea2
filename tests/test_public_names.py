"""The public surface: what is there, what it costs to import, and what it says about what is not there."""

import subprocess
import sys

import numpy as np
import pytest

import fairmend

NAMES = {
    "FairmendError",
    "Feature",
    "Label",
    "Network",
    "RepairResult",
    "Spec",
    "__version__",
    "load_network",
    "repair",
}


def run_python(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_public_names_are_all_there():
    assert set(fairmend.__all__) >= NAMES
    for name in fairmend.__all__:
        assert getattr(fairmend, name) is not None


def test_dir_is_the_public_surface():
    assert dir(fairmend) == sorted(fairmend.__all__)


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match="no attribute 'mend'"):
        _ = fairmend.mend
    with pytest.raises(ImportError, match="mend"):
        exec("from fairmend import mend")


def test_version_looks_like_one():
    assert [part.isdigit() for part in fairmend.__version__.split(".")[:2]] == [True, True]


def test_every_error_is_one_class():
    assert issubclass(fairmend.FairmendError, Exception)
    with pytest.raises(fairmend.FairmendError):
        fairmend.Spec([])
    with pytest.raises(fairmend.FairmendError):
        fairmend.load_network("there-is-no-such-file.onnx")


@pytest.mark.parametrize("module", ["torch", "pandas", "onnx", "highspy"])
def test_import_does_not_load(module):
    done = run_python(f"import fairmend, sys; sys.exit({module!r} in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_what_does_not_train_does_not_load_torch():
    names = [name for name in fairmend.__all__ if name not in ("repair", "RepairResult")]
    done = run_python(
        f"import fairmend, sys; [getattr(fairmend, n) for n in {names}]; sys.exit('torch' in sys.modules)"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "first",
    [
        "import fairmend.repair.run",
        "import fairmend; import fairmend.repair.run",
        "import fairmend; import fairmend.repair",
        "import fairmend.repair",
        "import fairmend; fairmend.repair; from fairmend.repair.run import repair",
        "import fairmend; fairmend.RepairResult",
        "from fairmend.repair import RepairResult, repair",
    ],
)
def test_repair_is_callable_after(first):
    done = run_python(f"{first}\nimport fairmend\nassert callable(fairmend.repair), fairmend.repair")
    assert done.returncode == 0, done.stderr


def test_repair_takes_a_file_a_module_or_a_network(tmp_path):
    from torch import nn

    spec = fairmend.Spec([fairmend.Feature("a", "integer", range=(0, 1), protected=True)])
    X, y = np.array([[0.0], [1.0]]), [0, 1]
    module = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1))
    network = fairmend.load_network(module)
    network.save(tmp_path / "net.onnx")
    results = [
        fairmend.repair(source, spec, X, X, y, "prof", steps=2) for source in (network, module, tmp_path / "net.onnx")
    ]
    assert all(isinstance(result, fairmend.RepairResult) for result in results)
    assert len({result.network.affines for result in results}) == 1


def test_an_option_that_does_not_exist_is_refused():
    spec = fairmend.Spec([fairmend.Feature("a", "integer", range=(0, 1), protected=True)])
    affine = fairmend.network.Affine(np.ones((1, 1)), np.zeros(1))
    with pytest.raises(TypeError, match="marginn"):
        fairmend.repair(fairmend.Network([affine], []), spec, [[0.0]], [[0.0]], [0], "prof", marginn=1)
