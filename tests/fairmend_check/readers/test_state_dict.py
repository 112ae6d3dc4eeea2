"""State dicts: the certificate names the steps, and the condition says what the module must compute."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Activation
from fairmend_check.readers.read_model import read_model
from fairmend_check.readers.state_dict import model_of_tensors
from support.state_dict_steps import chain, function, layer, norm

# The .safetensors reader: files of every release pass, and none that two readers read differently.


CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "safetensors").glob("*.safetensors"))
NAMES = {"classifier": ("fc1", "out"), "unicode": ("première", "dernière")}  # the last are refused
ONE = chain(3, layer("a"))
TENSORS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a.bias": np.ones(2, np.float32)}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_files_of_every_release(path):
    first, last = NAMES.get(path.name.split("-safetensors-")[0], ("0", "2"))
    stored = load_file(path)
    steps = [layer(name, f"{name}.bias" in stored) for name in (first, last)]
    described = chain(3, steps[0], function("relu"), steps[1])
    if not first.isascii():
        with pytest.raises(CheckError, match="a name must have at most 200 letters, digits"):
            read_model(path, described)
        return
    model, _ = read_model(path, described)
    for name, own in zip((first, last), model.layers, strict=True):
        assert np.array_equal(own.weight, stored[f"{name}.weight"])
        assert np.array_equal(own.bias, stored.get(f"{name}.bias", np.zeros(len(own.weight))))
    bias = "" if f"{last}.bias" in stored else ", without a bias"
    assert f'"{first}" (3 to 4{bias}), relu, "{last}" (4 to 2{bias})' in model.condition


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
        assert np.array_equal(reading(tmp_path, text, body).layers[0].weight, TENSORS["a.weight"])


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


def test_a_file_without_steps(tmp_path):
    save_file(TENSORS, tmp_path / "bare.safetensors")
    with pytest.raises(CheckError, match="a certificate names the steps of the module"):
        read_model(tmp_path / "bare.safetensors")


SQUARE = {f"{name}.{part}": np.full(shape, number, np.float32)
          for number, name in enumerate("ab") for part, shape in (("weight", (2, 2)), ("bias", 2))}  # fmt: skip


def test_the_certificate_decides_order_and_activations():
    for names, given in (("ab", function("relu")), ("ba", function("leaky_relu", slope=0.01))):
        model = model_of_tensors(SQUARE, chain(2, layer(names[0]), given, layer(names[1])))
        assert [layer.weight[0, 0] for layer in model.layers] == [float(name == "b") for name in names]
        shown, slope = ("relu", 0.0) if names == "ab" else ("leaky_relu(0.01)", float(np.float32(0.01)))
        assert model.activations == (Activation(given["name"], slope),)
        steps = f'"{names[0]}" (2 to 2), {shown}, "{names[1]}" (2 to 2)'
        assert f"computes in float32, in this order: {steps}. Each layer computes W x + b" in model.condition


def test_a_single_layer_without_a_name_or_a_bias():
    model = model_of_tensors({"weight": np.ones((1, 3))}, chain(3, layer("", bias=False)))
    assert '"" (3 to 1, without a bias)' in model.condition
    assert model.condition.endswith("A module in float32 would round the weights, which the claim does not cover.")
    assert not model.layers[0].bias.any()


A, B, RELU = layer("a"), layer("b"), function("relu")


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (None, "a certificate names the steps of the module"),
        (chain(2), "steps has 1 entries"),
        (chain(2, A), 'the tensor "b.weight", which belongs to no step'),
        (chain(2, layer("a", bias=False), RELU, B), 'the tensor "a.bias", which belongs to no step'),
        (chain(2, A, RELU, layer("c")), 'names the tensor "c.weight", which is not there'),
        (chain(2, A, function("sine"), B), "'sine', which is not the name of a function"),
        (chain(2, A, function("softmax"), B), "'softmax', which is not the name of a function"),
        (chain(2, A, function("leaky_relu", slope=1e40), B), "slope inf is unknown"),
        (chain(2, A, function("relu", slope=0.5), B), "activation relu with slope 0.5 is unknown"),
        (chain(2, A, RELU, B, RELU), "ends with relu"),
        (chain(3, A, RELU, B), "reads 3 values"),
        (chain(2, A, RELU, B, unused=[3]), "names the tensor '3'"),
        (chain(2, A, RELU, B, unused=['a" (1 to 1), relu, "b']), "at most 200 letters"),
        (chain(2, A, RELU, B, unused=["a\x1b[2J"]), "at most 200 letters"),
        (chain(2, A, RELU, B, unused=["a" * 201]), "at most 200 letters"),
    ],
)
def test_steps_that_do_not_fit(network, reason):
    with pytest.raises(CheckError, match=re.escape(reason)):
        model_of_tensors(SQUARE, network)


def test_the_condition_says_whatever_a_module_could_do_otherwise():
    """A slope of 0 is not PyTorch's default, a layer may have no bias, and a sigmoid is not a softmax."""
    tensors = {key: array for key, array in SQUARE.items() if key != "a.bias"}
    network = chain(2, layer("a", bias=False), function("leaky_relu", slope=0.0), B)
    condition = model_of_tensors(tensors, network).condition
    assert '"a" (2 to 2, without a bias), leaky_relu(0.0), "b" (2 to 2)' in condition
    assert "W = weight (out, in)" in condition
    assert "only a softmax after them" in condition


def test_a_tensor_that_is_not_used_is_named_and_so_is_the_layer_without_it():
    condition = model_of_tensors(SQUARE, chain(2, layer("a", bias=False), RELU, B, unused=["a.bias"])).condition
    assert 'v1 = "a" of x, without a bias; v2 = relu of v1; v3 = "b" of v2.' in condition
    assert 'It does not use "a.bias" beyond the numbers above.' in condition


def test_tensors_with_other_names_and_stored_the_other_way_round_are_named():
    tensors = {"W": np.eye(2), "b": np.ones(2), "m": np.ones(2), "v": np.ones(2), "s.weight": np.ones(1)}
    scaled = {"kind": "batch_norm", "mean": "m", "variance": "v", "gain": None, "shift": "b", "epsilon": 0.5}
    steps = [{"kind": "affine", "weight": "W", "bias": "b", "transposed": True}, scaled]
    slopes = [function("prelu", parameters="s.weight"), function("prelu", parameters="b")]
    last = {"kind": "affine", "weight": "W", "bias": None}
    condition = model_of_tensors(tensors, chain(2, *steps, *slopes, last)).condition
    assert 'v1 = x "W" + "b"; v2 = (v1 - "m") / sqrt("v" + 0.5) 1 + "b"' in condition
    assert 'v3 = "s" of v2 (torch.nn.PReLU); v4 = prelu of v3 with the numbers "b"' in condition
    assert 'v5 = v4 "W" transposed. Its output is v5' in condition
    assert "It must be in evaluation mode." in condition


def test_a_norm_without_gain_and_shift_says_so_and_its_counter_belongs_to_it():
    stored = {"n.running_mean": np.zeros(2), "n.running_var": np.ones(2), "n.num_batches_tracked": np.array(3)}
    tensors = {"a.weight": np.eye(2), "a.bias": np.ones(2), **stored}
    condition = model_of_tensors(tensors, chain(2, A, norm("n", 0.001, affine=False))).condition
    assert '"a" (2 to 2), "n" (torch.nn.BatchNorm1d with eps = 0.001 and affine = False).' in condition
    assert "The module must be in evaluation mode." in condition
    with pytest.raises(CheckError, match=r'names the tensor "n\.weight", which is not there'):
        model_of_tensors(tensors, chain(2, A, norm("n")))
