"""State dicts: the certificate names the layers, and the condition says what the module must compute."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Activation, Layer
from fairmend_check.readers.read_model import read_model
from fairmend_check.readers.state_dict import model_of_tensors

# The .safetensors reader: files of every release pass, and none that two readers read differently.


CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "safetensors").glob("*.safetensors"))
NAMES = {"classifier": ("fc1", "out"), "unicode": ("première", "dernière")}
ONE = [Layer("a", Activation("none"))]
TENSORS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a.bias": np.ones(2, np.float32)}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_files_of_every_release(path):
    first, last = NAMES.get(path.name.split("-safetensors-")[0], ("0", "2"))
    model, _ = read_model(path, [Layer(first, Activation("relu")), Layer(last, Activation("none"))])
    stored = load_file(path)
    for name, weight, bias in zip((first, last), model.weights, model.biases, strict=True):
        assert np.array_equal(weight, stored[f"{name}.weight"])
        assert np.array_equal(bias, stored.get(f"{name}.bias", np.zeros(len(weight))))
    assert f'"{first}" (3 to 4), relu, "{last}" (4 to 2)' in model.condition


def parts(folder):
    save_file(TENSORS, folder / "m.safetensors", metadata={"format": "pt"})
    content = (folder / "m.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    return content[8 : 8 + length].decode(), content[8 + length :]


def reading(folder, header, body):
    text = header.encode()
    (folder / "m.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)
    return read_model(folder / "m.safetensors", ONE)[0]


def test_the_order_in_the_header_and_its_padding_are_free(tmp_path):
    header, body = parts(tmp_path)
    entries = dict(reversed(json.loads(header).items()))
    for text in (header, header.rstrip(), header + " " * 100, json.dumps(entries, separators=(",", ":"))):
        assert np.array_equal(reading(tmp_path, text, body).weights[0], TENSORS["a.weight"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"a.weight"', '"a.weigh\\u0074"'),
        ("[2,3]", "[2, 3]"),
        ("[2,3]", "[2.0,3]"),
        ("[2,3]", "[2e0,3]"),
        ("[2,3]", "[3,2]"),  # read, with another shape
        ("[2,3]", "[6]"),
        ("[2,3]", "[]"),
        ("[2,3]", "[1,2,3]"),
        ("[2,3]", "[true,3]"),
        ('"F32"', '"f32"'),
        ('"F32"', '"I32"'),
        ('"dtype":"F32"', '"dtype":"F64","dtype":"F32"'),
        ('"dtype":"F32"', '"dtype":"F32","stride":[3,1]'),
        ('"a.bias":', '"a.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a.bias":'),
        ('{"format":"pt"}', '{"format":3}'),
        ('{"format":"pt"}', "null"),
        ('{"__metadata__"', ' {"__metadata__"'),
        ('{"__metadata__"', '{"__metadata__":{},"__metadata__"'),
        ("[0,24]", "[0,20]"),
        ("[0,24]", "[-8,16]"),
        ("[24,32]", "[16,24]"),
        ("[24,32]", "[0,8]"),
        ("[24,32]", "[25,33]"),
    ],
)
def test_a_changed_header(tmp_path, old, new):
    header, body = parts(tmp_path)
    layout = header.replace("[8,32]", "[0,24]").replace("[0,8]", "[24,32]")  # the weight first
    body = body[8:] + body[:8] if layout != header else body
    reading(tmp_path, layout, body)
    changed = layout.replace(old, new, 1)
    assert changed != layout
    with pytest.raises(CheckError):
        reading(tmp_path, changed, body)


def test_bytes_that_belong_to_no_tensor(tmp_path):
    header, body = parts(tmp_path)
    with pytest.raises(CheckError, match="belong to no tensor"):
        reading(tmp_path, header, body + b"\0")
    with pytest.raises(CheckError, match="does not fit"):
        reading(tmp_path, header, body[:-1])


def test_a_file_without_layers_in_the_certificate(tmp_path):
    save_file(TENSORS, tmp_path / "bare.safetensors")
    with pytest.raises(CheckError, match="does not name the layers"):
        read_model(tmp_path / "bare.safetensors")


SQUARE = {f"{name}.{part}": np.full(shape, number, np.float32)
          for number, name in enumerate("ab") for part, shape in (("weight", (2, 2)), ("bias", 2))}  # fmt: skip
NONE = Activation("none")


def test_the_certificate_decides_order_and_activations():
    slope = float(np.float32(0.01))
    for names, activation in (("ab", Activation("relu")), ("ba", Activation("leaky_relu", slope))):
        model = model_of_tensors(SQUARE, [Layer(names[0], activation), Layer(names[1], NONE)])
        assert [weight[0, 0] for weight in model.weights] == [float(name == "b") for name in names]
        assert model.activations == (activation,)
        shown = "relu" if names == "ab" else "leaky_relu with slope 0.01"
        steps = f'"{names[0]}" (2 to 2), {shown}, "{names[1]}" (2 to 2)'
        assert f"computes in float32, in this order: {steps}. Each layer computes W x + b" in model.condition


def test_a_single_layer_without_a_name_or_a_bias():
    model = model_of_tensors({"weight": np.ones((1, 3))}, [Layer("", NONE)])
    assert '"" (3 to 1)' in model.condition
    assert model.condition.endswith("A module in float32 would round the weights, which the claim does not cover.")
    assert not model.biases[0].any()


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        (None, r"does not name the layers of the module \(model\.layers is null\)"),
        ([], "belongs to no layer"),
        ([Layer("a", NONE)], 'the tensor "b.weight", which belongs to no layer'),
        ([Layer("a", Activation("relu")), Layer("c", NONE)], 'no tensor "c.weight"'),
        ([Layer("a", Activation("relu")), Layer("a", NONE)], 'no tensor "a.weight", or the certificate names it twice'),
        ([Layer("a", Activation("sine")), Layer("b", NONE)], "sine"),
        ([Layer("a", Activation("leaky_relu", 1e40)), Layer("b", NONE)], "slope inf is unknown"),
    ],
)
def test_layers_that_do_not_fit(layers, reason):
    with pytest.raises(CheckError, match=reason):
        model_of_tensors(SQUARE, layers)


def test_the_condition_says_whatever_a_module_could_do_otherwise():
    """A slope of 0 is not PyTorch's default, a layer may have no bias, and a sigmoid is not a softmax."""
    tensors = {
        "a.weight": np.eye(2, dtype=np.float32),
        "b.weight": np.eye(2, dtype=np.float32),
        "b.bias": np.ones(2, np.float32),
    }
    layers = [Layer("a", Activation("leaky_relu", 0.0)), Layer("b", Activation("identity"))]
    condition = model_of_tensors(tensors, layers).condition
    assert "leaky_relu with slope 0.0" in condition
    assert 'Without a bias: "a".' in condition
    assert "W = weight (out, in)" in condition
    assert "only a softmax after them" in condition
