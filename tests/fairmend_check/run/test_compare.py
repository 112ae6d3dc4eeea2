"""`check` runs the model: what a runtime computes outside the bounds of the proof takes VALID away."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest

import fairmend
import fairmend_check
from fairmend_check.kernel.spec import read_spec
from fairmend_check.main import EXIT_CODES
from fairmend_check.readers.read_model import read_model
from fairmend_check.run import compare
from fairmend_check.run.compare import installed_runtimes, people_of_spec, run_model, why_not_run
from support.checker_cases import case
from support.keras_files import import_keras, quiet

pytestmark = pytest.mark.runs_models


@pytest.fixture
def fake_runtime(monkeypatch, tmp_path):
    """Install a module in place of onnxruntime for the process that runs the model."""

    def install(source):
        folder = tmp_path / "fake"
        folder.mkdir(exist_ok=True)
        (folder / "onnxruntime.py").write_text(textwrap.dedent(source))
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])

    return install


WORKING = """
    import numpy as np
    __version__ = "0.0"
    class SessionOptions: pass
    class Value:
        name, type, shape = "x", "tensor(float)", ["n", 4]
    class InferenceSession:
        def __init__(self, path, options, providers): pass
        def get_inputs(self): return [Value]
        def run(self, names, fed): {run}
"""


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("spec", ["ordinal", "dropped", "tolerance", "continuous"])
def test_an_honest_model_runs_within_its_bounds(spec, outputs, tmp_path):
    result = fairmend.check(*case(spec, outputs).save(tmp_path, "onnx"))
    assert result.valid, result
    (ran,) = result.runs
    assert ran.program.startswith("ONNX Runtime ")
    assert ran.people > 500
    assert result.not_run == ""


@pytest.mark.parametrize("suffix", ["h5", "keras"])
def test_keras_files_run_in_keras(suffix, tmp_path):
    result = fairmend.check(*case().save(tmp_path, suffix))
    assert result.valid, result
    assert [ran.program for ran in result.runs if "PyTorch" in ran.program]


def test_the_same_files_are_run_on_the_same_people(tmp_path):
    files = case("one-hot").save(tmp_path)
    first, second = (fairmend.check(*files) for _ in range(2))
    assert first.runs == second.runs


@pytest.mark.parametrize("suffix", ["pth", "safetensors", "nnet"])
def test_what_has_no_program_is_not_run_and_said_so(suffix, tmp_path):
    files = case().save(tmp_path, suffix)
    result = fairmend.check(*files)
    assert result.valid
    assert result.runs == ()
    assert "verify_deployment" in result.not_run
    required = fairmend.check(*files, require_run=True)
    assert required.verdict == "unreadable"
    assert "nothing was run" in required.reasons[0]


def test_a_program_that_refuses_the_file_runs_no_other_network(tmp_path, fake_runtime):
    """A file for a later version of the runtime: the proof holds, and the verdict says that nothing was run."""
    fake_runtime(WORKING.replace("providers): pass", "providers): raise ValueError('opset 99')"))
    files = case().save(tmp_path)
    result = fairmend.check(*files)
    assert result.valid
    assert result.not_run == "ONNX Runtime 0.0 does not load the file (ValueError: opset 99)"
    assert fairmend.check(*files, require_run=True).verdict == "unreadable"


def test_no_run_leaves_the_runtime_alone(tmp_path, fake_runtime):
    fake_runtime("import os; os.abort()")
    result = fairmend.check(*case().save(tmp_path), run=False)
    assert result.valid
    assert "--no-run" in result.not_run


def test_a_runtime_that_computes_another_network_takes_valid_away(tmp_path, fake_runtime):
    """The outputs of a person are those of another: each is possible, but not for this row."""
    fake_runtime(WORKING.format(run="return [np.full((len(fed['x']), 1), 0.123)]"))
    result = fairmend.check(*case().save(tmp_path))
    assert result.verdict == "invalid"
    assert "ONNX Runtime 0.0 does not compute the network that was checked" in result.reasons[0]
    assert "instead of" in result.reasons[0]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed (SIGSEGV)"),
        ("import os; os._exit(3)", "ended with code 3"),
        ("import time; time.sleep(1000)", "did not end within"),
        ("raise ImportError('a library is missing')", "a library is missing"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("import os; print('{\"version\": 1}' * 10_000); os._exit(0)", "left no answer"),
        (WORKING.format(run="return [np.zeros((3, 1))]"), "cannot run the file"),
        (WORKING.format(run="return ['garbage']"), "cannot run the file"),
        (WORKING.format(run="raise RuntimeError('no kernel')"), "no kernel"),
    ],
)
def test_a_runtime_that_fails_gives_no_verdict(source, reason, tmp_path, fake_runtime, monkeypatch):
    monkeypatch.setattr(compare, "SECONDS", 10.0 if "sleep" not in source else 1.0)
    fake_runtime(source)
    result = fairmend.check(*case().save(tmp_path))
    assert result.verdict == "unreadable"
    assert EXIT_CODES[result.verdict] == 2
    assert len(result.reasons) == 1
    assert reason in result.reasons[0]
    assert "--no-run" in result.reasons[0]


@pytest.mark.parametrize("value", ["np.nan", "np.inf"])
def test_outputs_that_are_no_numbers_are_outside(value, tmp_path, fake_runtime):
    fake_runtime(WORKING.format(run=f"return [np.full((len(fed['x']), 1), {value})]"))
    assert fairmend.check(*case().save(tmp_path)).verdict == "invalid"


def test_other_answers_than_outputs_are_refused(tmp_path, monkeypatch):
    """Whatever the process leaves in its folder, it is data, and never makes a certificate valid."""
    files = case().save(tmp_path)

    def leave(answer, outputs):
        def start(folder, backend):
            (folder / "answer.json").write_bytes(answer)
            (folder / "outputs.npz").write_bytes(outputs)
            return ""

        monkeypatch.setattr(compare, "_start_and_wait", start)
        return fairmend.check(*files)

    assert "left no answer" in leave(b"garbage", b"").reasons[0]
    assert "left no answer" in leave(b"[1]", b"").reasons[0]
    assert "cannot be read" in leave(b'{"version": "9"}', b"garbage").reasons[0]
    assert "every person" in leave(b'{"version": "9"}', npz(1, 0)).reasons[0]
    assert "every person" in leave(b'{"version": "9"}', npz(2, 1)).reasons[0]
    pickled = npz(2, 1, outputs=np.array([[{}], [{}]], dtype=object))
    assert "cannot be read" in leave(b'{"version": "9"}', pickled).reasons[0]


def npz(rows, start, **changes):
    import io

    stream = io.BytesIO()
    content = {"numbers": np.arange(start, start + rows), "outputs": np.zeros((rows, 1)), "labels": np.zeros(rows, int)}
    np.savez(stream, **{**content, **changes})
    return stream.getvalue()


def test_a_module_in_the_folder_of_the_user_is_not_imported(tmp_path, monkeypatch):
    """A stranger's folder may hold a file onnxruntime.py, or a package of that name."""
    files = case().save(tmp_path)
    (tmp_path / "onnxruntime.py").write_text("raise SystemExit('imported from the folder')")
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the folder')")
    command = [Path(sys.executable).with_name("fairmend"), "check", *map(str, files), "--json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["runs"][0]["program"].startswith("ONNX Runtime 1")


@quiet
@pytest.mark.parametrize("suffix", ["h5", "keras"])
def test_inputs_in_a_dict_are_fed_by_name_in_the_order_of_the_file(suffix, tmp_path):
    """Keras sorts them by name, and the columns of a row do not follow."""
    keras = import_keras()
    keras.utils.set_random_seed(0)
    inputs = {"sex_and_age": keras.Input((2,), name="sex_and_age"), "income": keras.Input((2,), name="income")}
    joined = keras.layers.Concatenate()([inputs["sex_and_age"], inputs["income"]])
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(4, "relu")(joined)))
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    network, _ = read_model(path)
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32).astype(np.float64)
    assert run_model(path, network, rows, installed_runtimes(f".{suffix}")[-1]).people == 20


def test_a_range_that_the_model_cannot_hold_is_no_alarm():
    spec = read_spec(
        {"feature": [
            {"name": "sex", "kind": "categorical", "categories": ["f", "m"], "protected": True},
            {"name": "x", "kind": "continuous", "range": [0, 1e39]},
        ]},
        "spec",
    )  # fmt: skip
    assert np.isfinite(people_of_spec(spec, "float32", 50, np.random.default_rng(0))).all()


def test_labels_must_be_the_classes():
    for labels, classes in (([0, 1, 1, 0], [0, 1, -1, 0]), ([1, 0, 0, 1], [0, 1, 1, 0]), ([-1, -1, -1], [0, 1, 0])):
        compare._check_labels("program", np.array(labels), np.array(classes))
    for labels, classes in (([0, 1, 1], [0, 1, 0]), ([0, 1, 2], [0, 1, 1]), ([1, 1, 0], [0, 1, 1]), ([0, 0], [0, 1])):
        with pytest.raises(fairmend_check.errors.NotConfirmedError, match="labels"):
            compare._check_labels("program", np.array(labels), np.array(classes))


def test_where_no_runtime_is_installed_the_verdict_says_how_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "_is_installed", lambda module: False)
    result = fairmend.check(*case().save(tmp_path))
    assert result.valid
    assert "pip install onnxruntime" in result.not_run
    for suffix in (".h5", ".keras", ".onnx", ".pt2", ".pth", ".nnet"):
        assert installed_runtimes(suffix) == []
        assert why_not_run(suffix)


def test_a_model_with_a_fixed_batch_is_run_in_it(tmp_path):
    certificate, model = case().save(tmp_path)
    graph = onnx.load(model)
    for value in (*graph.graph.input, *graph.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 5
    onnx.save(graph, model)
    assert fairmend.check(certificate, model, require_run=True).runs
