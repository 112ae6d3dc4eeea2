"""Whatever is wrong with the input: a clear message, exit 2, no traceback, nothing half-written."""

import errno
import os
import socket
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.numpy import save_file
from torch import nn
from torch.nn import functional as F

from fairmend.base.errors import FairmendError
from fairmend.spec import Feature, Label, Spec
from support.cli_case import run, small_network, small_people, small_spec, succeeded


def refused(case, result, *words):
    """The message is there, short and without a traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    message = " ".join(result.stderr.split())
    for word in words:
        assert word in message
    assert "Traceback" not in result.output
    assert "unexpected" not in message
    assert len(result.stderr.splitlines()) <= 6


@pytest.fixture
def untouched(case):
    """Check after the test that the folder is as the test left it before the command ran."""

    def repair(*words, **replaced):
        before = case.listing()
        refused(case, case.repair(**replaced), *words)
        assert case.listing() == before

    return repair


@pytest.mark.parametrize("name", ["audit", "certify", "search", "quantify"])
def test_a_scheduler_that_does_not_answer_is_named_before_the_data_is_read(case, name):
    case.data.write_text("not,these\n1,2\n")
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = f"tcp://127.0.0.1:{sock.getsockname()[1]}"
    before = case.listing()
    done = run(name, case.model, "--spec", case.spec, "--data", case.data, "--cluster", address)
    refused(case, done, f"Error: {address}: nothing answers there (")
    assert done.stderr.count("\n") == 1
    assert case.listing() == before


@pytest.mark.parametrize("which", ["model", "data", "spec", "repair_data"])
def test_a_missing_file(case, untouched, which):
    suffix = {"model": ".onnx", "spec": ".toml"}.get(which, ".csv")
    missing = case.folder / f"nowhere{suffix}"
    untouched(str(missing), **{which: missing})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.onnx", b"this is no model"),
        ("m.pth", b"this is no model"),
        ("m.pt2", b"this is no model"),
        ("m.ckpt", b"this is no model"),
        ("m.safetensors", b"this is no model"),
        ("m.onnx", b""),
        ("m.txt", b"this is no model"),
    ],
)
def test_what_is_no_model(case, untouched, name, content):
    model = case.folder / name
    model.write_bytes(content)
    untouched(name, model=model)


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        (
            "h5-frozen-sequential-with-its-last-layer-unfrozen.h5",
            "as .keras, or set model.trainable = True before",
        ),
        (
            "h5-adapted-normalization-in-a-nested-model.h5",
            "as .keras, or give the layer mean and variance",
        ),
    ],
)
def test_a_model_that_keras_loads_otherwise_than_it_saved_it(case, untouched, name, way_out):
    model = Path(__file__).parents[1] / "corpus" / "findings" / name
    untouched(name, way_out, model=model)
    done = run("audit", model, "--spec", case.spec, "--data", case.data)
    refused(case, done, way_out)
    assert done.stderr.count("Error:") == 1


def test_a_state_dict_whose_activation_nobody_names(case, untouched):
    tensors = {}
    for i, affine in enumerate(small_network().affines):
        tensors |= {f"layers.{i}.weight": affine.weight, f"layers.{i}.bias": affine.bias}
    save_file(tensors, case.folder / "m.safetensors")
    untouched(
        "m.safetensors: a state dict does not hold the architecture",
        "--activation relu",
        model=case.folder / "m.safetensors",
    )


def test_a_folder_as_model(case, untouched):
    (case.folder / "m.onnx").mkdir()
    untouched("m.onnx: this is a folder", model=case.folder / "m.onnx")
    (case.folder / "m.onnx" / "MLmodel").write_text("flavors:\n  onnx:\n    data: model.onnx\n")
    untouched("the MLflow model folder names 'model.onnx', which is not there", model=case.folder / "m.onnx")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_truncated_model(case, untouched, share):
    whole = case.model.read_bytes()
    case.model.write_bytes(whole[: int(share * len(whole))])
    untouched("model.onnx")


def test_a_network_of_another_width(case, untouched):
    features = [f for f in small_spec().features if f.name != "credits"]
    Spec(features, Label("good", "yes")).save(case.spec)
    untouched("model.onnx", "reads 5 columns", "describes 4", "gender=f")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(case, untouched, value):
    model = onnx.load(case.model)
    tensor = model.graph.initializer[0]
    weights = numpy_helper.to_array(tensor).copy()
    weights.flat[3] = value
    tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    onnx.save(model, case.model)
    untouched("model.onnx", "not finite")


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [
        ("income", np.nan, "missing"),
        ("income", np.inf, "above the range"),
        ("income", "plenty", "not a number"),
        ("age", 17.5, "age"),
        ("age", 200, "above the range"),
        ("gender", "x", "not one of its categories"),
        ("good", None, "label"),
    ],
)
def test_data_that_no_person_has(case, untouched, column, value, word):
    frame = small_people().astype({column: object})
    frame.loc[4, column] = value
    case.write(frame)
    untouched("people.csv", column if column != "good" else "label", "row 6", word)


@pytest.mark.parametrize("content", ["", "age,gender,income,credits,good\n", "\n\n"])
def test_empty_data(case, untouched, content):
    case.data.write_text(content)
    untouched("people.csv")


def test_data_without_a_column(case, untouched):
    case.write(small_people().rename(columns={"income": "Incom"}))
    untouched("people.csv", 'no column "income"', 'did you mean "Incom"?')


def test_bad_repair_data_is_named(case, untouched):
    small_people().assign(age=5).to_csv(case.folder / "chosen.csv", index=False)
    untouched("chosen.csv", "age", "row 2", repair_data=case.folder / "chosen.csv")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("protected", "proteced", ['unknown key "proteced"', 'did you mean "protected"?']),
        ('kind = "integer"', 'kind = "integr"', ['"integr"', "integer"]),
        ("[[feature]]", "[[feature]", ["line", "not valid TOML"]),
        ("protected = true", "protected = false", ["no feature is protected"]),
    ],
)
def test_a_spec_with_a_typo(case, untouched, old, new, words):
    text = case.spec.read_text()
    assert old in text
    case.spec.write_text(text.replace(old, new))
    untouched("spec.toml", *words)


def test_a_spec_without_a_label(case, untouched):
    Spec(small_spec().features).save(case.spec)
    untouched("the spec has no label")


def test_classes_the_network_does_not_have(case, untouched):
    small_network(outputs=3).save(case.model)
    untouched("people.csv", "is not a class number; the network has 3 classes")


def test_out_below_a_file_cannot_be_written(case, untouched):
    untouched("people.csv is not a folder", out=case.data / "sub")


def test_out_is_a_file(case, untouched):
    untouched("people.csv: this is a file", "--out", out=case.data)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which not even root may write")
def test_out_without_permission_to_write(untouched):
    untouched("cannot write there", out="/proc/fairmend/out")


def test_out_that_would_overwrite_an_input(case, untouched):
    untouched("model.onnx: would overwrite an input file", out=case.folder)


def test_out_with_a_folder_in_the_way(case, untouched):
    (case.out / "result.json").mkdir(parents=True)
    untouched("result.json: this is a folder")


def test_the_folder_is_checked_before_the_long_work(case, untouched, monkeypatch):
    monkeypatch.setattr("fairmend.workflows.inputs.load_model", lambda *_: pytest.fail("the long work began"))
    untouched("is a file", out=case.data)


def test_a_disk_that_fills_up_while_writing_leaves_nothing(case, monkeypatch):
    def full(path, document):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    case.out.mkdir()
    (case.out / "model.onnx").write_text("old")
    before = case.listing()
    monkeypatch.setattr("fairmend.report.report.write_json", full)
    refused(case, case.repair(), "result.json", "No space left on device")
    assert case.listing() == before


def test_an_interrupt_while_writing_leaves_nothing(case, monkeypatch):
    def interrupted(path, document):
        raise KeyboardInterrupt

    before = case.listing()
    monkeypatch.setattr("fairmend.report.report.write_json", interrupted)
    result = case.repair()
    assert (result.exit_code, result.stdout) == (130, "")
    assert "interrupted; nothing was written" in result.stderr
    assert case.listing() == before


def raising(error):
    def repair_files(*arguments, **options):
        raise error

    return repair_files


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "some/file"), "some/file: Permission denied"),
        (OSError("out of luck"), "out of luck"),
        (FairmendError("say this"), "Error: say this"),
        (MemoryError(), "out of memory"),
    ],
)
def test_errors_of_the_machine_are_one_line_even_when_verbose(case, monkeypatch, error, words):
    monkeypatch.setattr("fairmend.workflows.repair.repair_files", raising(error))
    result = case.repair("--verbose")
    assert result.exit_code == 2
    assert words in result.stderr
    assert len([line for line in result.stderr.splitlines() if " INFO " not in line]) == 1


def test_a_bug_shows_its_traceback_only_when_asked(case, monkeypatch):
    monkeypatch.setattr("fairmend.workflows.repair.repair_files", raising(ZeroDivisionError("by zero")))
    quiet, verbose = case.repair(), case.repair("-v")
    early = run("-v", *case.arguments())
    assert quiet.exit_code == verbose.exit_code == early.exit_code == 2
    assert "unexpected ZeroDivisionError: by zero" in quiet.stderr
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in verbose.stderr
    assert "Traceback" in early.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["repair"],
        ["repair", "m.onnx", "--data", "d.csv"],
        ["no-such-command"],
        ["repair", "m.onnx", "--data", "d", "--spec", "s", "--out", "o", "--method", "magic"],
        ["repair", "m.onnx", "--data", "d", "--spec", "s", "--out", "o", "--margin", "0"],
        ["repair", "m.onnx", "--data", "d", "--spec", "s", "--out", "o", "--repair-rows", "0"],
    ],
)
def test_wrong_usage_exits_2(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


@pytest.mark.parametrize("activation", ["swish", "leaky_relu(x)"])
def test_an_unknown_activation(case, untouched, activation):
    untouched(activation, activation=activation)


def test_a_label_that_is_a_feature(case, untouched):
    text = case.spec.read_text().replace('column = "good"', 'column = "age"')
    case.spec.write_text(text)
    untouched('"age" is both a feature and the label')


def test_features_with_words_in_them_are_no_markup(case):
    """Names with brackets reach the terminal as they are."""
    spec = small_spec()
    odd = Feature("age [red]", "integer", range=(18, 75), scale={"min": 18, "max": 75}, protected=True)
    Spec([odd, *spec.features[1:]], spec.label).save(case.spec)
    case.write(small_people().rename(columns={"age": "age [red]"}))
    result = succeeded(case.repair())
    assert "age [red]" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (
            'when = {gender = "x"}\nthen = {credits = {offset = 1}}',
            ["link number 1", '"x" is not one of the categories'],
        ),
        ('when = {gender = "f"}\nthen = {credit = {offset = 1}}', ['"credit", which is not a feature', "credits"]),
        ('when = {gender = "f"}\nthen = {gender = {f = "m"}}', ["circle"]),
        ('when = {gender = "f"}\nthen = {credits = {range = [3, 9]}}', ["9 is outside the range 0 to 5"]),
        ("when = {}\nthen = {credits = {offset = 1}}", ["link number 1: when must be a table"]),
    ],
)
def test_a_link_that_is_impossible(case, untouched, link, words):
    with case.spec.open("a") as file:
        file.write(f"\n[[link]]\n{link}\n")
    untouched("spec.toml", *words)
    for name in ("audit", "certify", "search"):
        refused(case, run(name, case.model, "--data", case.data, "--spec", case.spec), *words)


def test_links_that_chain_in_a_circle(case, untouched):
    with case.spec.open("a") as file:
        file.write('\n[[link]]\nwhen = {gender = "f"}\nthen = {credits = {offset = 1}}\n')
        file.write('\n[[link]]\nwhen = {credits = 1}\nthen = {gender = {f = "m"}}\n')
    untouched('the links form a circle: "gender" → "credits" → "gender"')


@pytest.mark.parametrize("command", ["audit", "certify", "quantify", "repair", "search"])
def test_a_gpu_that_is_not_there_is_refused_in_one_line(case, monkeypatch, command):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(case.folder)
    before = case.listing()
    more = ["--out", case.out] if command == "repair" else []
    result = run(command, case.model, "--spec", case.spec, "--data", case.data, *more, "--device", "cuda")
    refused(case, result, "device is 'cuda', but", "use device cpu, or auto to take a GPU if any")
    assert case.listing() == before


@pytest.mark.parametrize("command", ["audit", "certify", "quantify", "repair", "search"])
def test_a_device_that_does_not_exist_is_refused(case, command):
    result = run(command, case.model, "--spec", case.spec, "--data", case.data, "--device", "gpu")
    refused(case, result, "'gpu' is not auto, cpu, cuda, or cuda:1 for the second GPU")


class Multiplies(nn.Module):
    """Attention over two tokens, or what `kind` makes of it that has no bounds."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.a, self.b = kind, nn.Linear(small_spec().width, 4), nn.Linear(small_spec().width, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        if self.kind == "reciprocal":
            return self.head(a / b)
        if self.kind == "logarithm":
            return self.head(a + b.log())
        if self.kind == "logarithm of a sum":
            return self.head(a + b.sum(-1, keepdim=True).log())
        if self.kind == "inverse root":
            return self.head(a * b**-0.5)
        if self.kind in ROWS:
            return self.head(ROWS[self.kind](a))
        tokens = a.reshape(-1, 2, 2)
        seen = (b[:, :2] > 0).unsqueeze(1)
        if self.kind == "fused mask":
            return self.head(F.scaled_dot_product_attention(tokens, tokens, tokens, attn_mask=~seen).flatten(1))
        filled = -torch.inf if self.kind == "mask of infinity" else -1e9
        scores = (tokens @ tokens.transpose(1, 2)).masked_fill(seen, filled)
        return self.head((scores.softmax(-1) @ tokens).flatten(1))


ROWS = {
    "softmax over rows": lambda a: a.softmax(0),
    "mean over rows": lambda a: a - a.mean(0, keepdim=True),
    "largest of rows": lambda a: a - a.amax(0, keepdim=True),
    "logarithm over rows": lambda a: a - a.logsumexp(0, keepdim=True),
    "length over rows": lambda a: a / (1 + a.norm(dim=0, keepdim=True)),
    "rows times rows": lambda a: (a @ a.transpose(0, 1)) @ a,
}
BY_DATA = "makes a mask of what depends on the input"
NO_BOUNDS = {
    ("reciprocal", ".pt2"): "node 3 (reciprocal) may read",
    ("reciprocal", ".onnx"): "node 3 (reciprocal) may read",
    ("logarithm", ".pt2"): "node 3 (log) reads",
    ("softmax over rows", ".pt2"): "softmax() at 'softmax' in the exported program has dim=0",
    ("softmax over rows", ".onnx"): "node '/Softmax' (Softmax) is not over the last axis, but over axis 0",
    ("logarithm", ".onnx"): "node 3 (log) reads",
    ("logarithm of a sum", ".pt2"): "node 8 (log) reads",
    ("logarithm of a sum", ".onnx"): "node 8 (log) reads",
    ("inverse root", ".pt2"): "node 3 (rsqrt) reads",
    ("inverse root", ".onnx"): "node 3 (rsqrt) reads",
    ("mean over rows", ".pt2"): "mean() at 'mean' in the exported program adds up over axis 0",
    ("mean over rows", ".onnx"): "node '/ReduceMean' (ReduceMean) is over axis 0 of (rows, 4)",
    ("largest of rows", ".pt2"): "amax() at 'amax' in the exported program is the largest over axis 0",
    ("largest of rows", ".onnx"): "node '/ReduceMax' (ReduceMax) is over axis 0 of (rows, 4)",
    ("logarithm over rows", ".pt2"): "logsumexp() at 'logsumexp' in the exported program adds up over axis 0",
    ("logarithm over rows", ".onnx"): "node '/ReduceLogSumExp' (ReduceLogSumExp) is over axis 0 of (rows, 4)",
    ("length over rows", ".pt2"): "linalg_vector_norm() at 'linalg_vector_norm' in the exported program adds up over",
    ("length over rows", ".onnx"): "node '/ReduceL2' (ReduceL2) is over axis 0 of (rows, 4)",
    ("rows times rows", ".pt2"): "matmul() at 'matmul' in the exported program multiplies the rows with each other",
    ("rows times rows", ".onnx"): "node '/MatMul' (MatMul) multiplies the rows with each other",
    ("mask", ".pt2"): f"gt() at 'gt' in the exported program {BY_DATA}",
    ("mask", ".onnx"): "node '/Where' (Where) chooses by a value that depends on the input",
    ("mask of infinity", ".pt2"): f"gt() at 'gt' in the exported program {BY_DATA}",
    ("mask of infinity", ".onnx"): "node '/Where' (Where) chooses by a value that depends on the input",
    ("fused mask", ".pt2"): f"gt() at 'gt' in the exported program {BY_DATA}",
    ("fused mask", ".onnx"): "(Where) chooses by a value that depends on the input",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_what_has_no_bounds_is_named_with_its_cause(case, untouched, suffix):
    for kind in (kind for kind, each in NO_BOUNDS if each == suffix):
        names_node_and_cause(case, untouched, kind, suffix)


def names_node_and_cause(case, untouched, kind, suffix):
    module, rows = Multiplies(kind).eval(), torch.rand(3, small_spec().width)
    path = case.folder / f"bad{suffix}"
    if suffix == ".pt2":
        batch = ({0: torch.export.Dim("batch")},)
        torch.export.save(torch.export.export(module, (rows,), dynamic_shapes=batch), path)
    else:
        axes = {"x": {0: "n"}, "y": {0: "n"}}  # of any number of rows
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(module, (rows,), path, dynamo=False, dynamic_axes=axes, **names)
    untouched(NO_BOUNDS[kind, suffix], model=path)
    compared = kind == "reciprocal" or (kind in ("mask", "fused mask") and suffix == ".onnx")
    if not compared:  # what runs, so that similar people can be compared one by one
        done = run("certify", path, "--spec", case.spec, "--data", case.data, "--rows", 3)
        refused(case, done, NO_BOUNDS[kind, suffix])
