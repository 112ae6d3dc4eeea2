"""The checker takes the weights from a .pt2 archive, and refuses what torch.export.save does not write."""

import io
import json

import numpy as np
import pytest
import torch

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.readers.read_torch import read_pt2
from support.state_dict_steps import chain, layer

WEIGHT, BIAS = np.array([[1.0, -2.0, 0.5]], np.float32), np.array([0.25], np.float32)
LAYERS = chain(3, layer(""))


def meta(array, **changes):
    strides = [step // array.itemsize for step in array.strides]
    sizes = {"sizes": [{"as_int": n} for n in array.shape], "strides": [{"as_int": n} for n in strides]}
    return {"dtype": 7, **sizes, "storage_offset": {"as_int": 0}, **changes}


def entry(number, array, **changes):
    found = {"path_name": f"weight_{number}", "is_param": True, "use_pickle": False, "tensor_meta": meta(array)}
    return {**found, **changes}


def archive(members):
    """An archive as PyTorch writes it."""
    buffer = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(buffer)
    for name, data in members.items():
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return buffer.getvalue()


def made(config=None, **changes):
    config = config or {"weight": entry(0, WEIGHT), "bias": entry(1, BIAS)}
    members = {
        "data/weights/weight_0": WEIGHT.tobytes(),
        "data/weights/weight_1": BIAS.tobytes(),
        "data/weights/model_weights_config.json": json.dumps({"config": config}).encode(),
        "models/model.json": b"{}",
    }
    return archive({**members, **changes})


def test_the_weights_are_those_of_the_archive():
    model = read_pt2(made(), LAYERS)
    assert np.array_equal(model.layers[0].weight, WEIGHT)
    assert np.array_equal(model.layers[0].bias, BIAS)
    assert "the program in the file is not checked" in model.condition


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"weight": entry(0, WEIGHT, use_pickle=True), "bias": entry(1, BIAS)}, "not stored as raw numbers"),
        ({"weight": entry(7, WEIGHT), "bias": entry(1, BIAS)}, "not stored as raw numbers"),
        ({"weight": entry(0, WEIGHT, tensor_meta=meta(WEIGHT, dtype=6)), "bias": entry(1, BIAS)}, "stored as type 6"),
        ({"weight": entry(0, WEIGHT, tensor_meta=meta(BIAS)), "bias": entry(1, BIAS)}, "does not fit"),
        (
            {
                "weight": entry(0, WEIGHT, tensor_meta=meta(WEIGHT, storage_offset={"as_int": 1})),
                "bias": entry(1, BIAS),
            },
            "not stored row by row",
        ),
    ],
)
def test_tensors_that_are_not_plain_numbers_are_refused(config, words):
    with pytest.raises(CheckError, match=words):
        read_pt2(made(config), LAYERS)


@pytest.mark.parametrize("name", ["data/weights/model.pt", "data/constants/model.pt", "models/other.json"])
def test_an_archive_with_other_weights_or_programs_is_refused(name):
    """PyTorch reads data/weights/model.pt, if there is one, instead of the tensors beside it."""
    with pytest.raises(CheckError, match="the archive is not one that"):
        read_pt2(made(**{name: b"{}"}), LAYERS)


def test_tensors_that_share_numbers_are_of_one_type():
    """PyTorch reads the file of both as the type of the first."""
    shared = {"weight": entry(0, WEIGHT), "bias": entry(0, WEIGHT, tensor_meta=meta(WEIGHT, dtype=4))}
    with pytest.raises(CheckError, match="the same numbers as different types"):
        read_pt2(made(shared), LAYERS)


@pytest.mark.parametrize(
    "changed", [3, entry("0/../weight_0", WEIGHT), entry(0, WEIGHT, tensor_meta=meta(WEIGHT, strides=[]))]
)
def test_entries_of_another_form_are_refused(changed):
    with pytest.raises(CheckError):
        read_pt2(made({"weight": changed, "bias": entry(1, BIAS)}), LAYERS)


def test_an_extra_tensor_and_another_archive_are_refused():
    extra = {"weight": entry(0, WEIGHT), "bias": entry(1, BIAS), "more": entry(1, BIAS)}
    with pytest.raises(NotConfirmedError, match='"more", which belongs to no step'):
        read_pt2(made(extra), LAYERS)
    with pytest.raises(CheckError, match=r"torch\.export\.save"):
        read_pt2(archive({"models/model.json": b"{}"}), LAYERS)
    content = bytearray(made())
    place = content.index(WEIGHT.tobytes())
    content[place] ^= 1
    with pytest.raises(CheckError):
        read_pt2(bytes(content), LAYERS)
