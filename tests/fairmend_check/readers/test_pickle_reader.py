"""The pickle of a .pth file is read opcode by opcode and never run."""

import io
import pickle
import zipfile
from collections import Counter, defaultdict

import pytest
import torch

import fairmend
from fairmend_check.errors import CheckError
from fairmend_check.readers.read_torch import Storage, read_pickle


def pickled(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with zipfile.ZipFile(buffer) as archive:
        return archive.read("archive/data.pkl")


LINEAR = pickled(torch.nn.Linear(3, 2).state_dict())


def test_tensors_are_described():
    tensors, storages = read_pickle(LINEAR)
    assert [storage.key for storage in storages] == ["0", "1"]
    assert list(tensors) == ["weight", "bias"]
    weight = tensors["weight"]
    assert weight.storage == Storage("FloatStorage", "0", "cpu", 6)
    assert (weight.offset, weight.size, weight.stride) == (0, (2, 3), (3, 1))


@pytest.mark.parametrize("count", [1, 2, 40, 400, 1000, 1001])
def test_long_and_short_state_dicts(count):
    """From 256 entries on, the memo has long numbers, and from 1000 on, entries are in batches."""
    state = {f"{i}.weight": torch.zeros(1, 300) for i in range(count)}
    assert list(read_pickle(pickled(state))[0]) == list(state)


def test_a_tensor_under_two_names():
    weight = torch.zeros(2, 2)
    tensors, _ = read_pickle(pickled({"a": weight, "b": weight, "c": torch.nn.Parameter(weight)}))
    assert tensors["a"] is tensors["b"]
    assert tensors["c"].storage == tensors["a"].storage


def test_plain_values_are_those_that_were_saved():
    plain = {
        "epoch": 3,
        0: -1,
        "loss": [0.25, 1e300],
        "many": list(range(2500)),
        "large": [256, 70_000, -5, 2**40, -(2**70)],
    }
    plain |= {
        "texts": ("é", ""),
        "nothing": [None, True, False, (), [], {}],
        "pairs": [(1, 2), (1, 2, 3), (1, 2, 3, 4), (1,)],
    }
    assert read_pickle(pickled(plain)) == (plain, [])


def test_values_of_torch_are_passed_over():
    shapes = {
        "shape": torch.Size([3, 2]),
        "type": torch.float32,
        "device": torch.device("cpu"),
        "seed": torch.zeros(3).byte(),
    }
    found, storages = read_pickle(pickled(shapes))
    assert list(found) == list(shapes)
    assert [storage.kind for storage in storages] == ["ByteStorage"]


@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_in_a_pickle_runs(tmp_path, protocol):
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    for content in ({"w": Attack()}, Attack()):
        with pytest.raises(CheckError, match=r"pickle calls|state dict"):
            read_pickle(pickle.dumps(content, protocol=protocol))
    assert not ran.exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\x80\x02", b"\x80\x03"),
        (b"K\x03", b"I3\n"),
        (b"K\x03", b"J\xff\xff\xff\xff"),  # a negative size
        (b"K\x03", b"\x88"),
        (b"q\x02", b"q\x03"),  # another number in the memo
        (b"q\x02", b""),
        (b"q\x02", b"q\x02q\x02"),
        (b"h\x00)R", b"h\x01)R"),  # a reference to something else
        (b"h\x00)R", b"h\xee)R"),
        (b"\x89h", b"Nh"),
        (b"t", b"}t"),  # one argument more
        (b"\x89h\x00)Rq\x0b", b"\x89h\x00)Rq\x0b}q\x0cX\x03\x00\x00\x00negq\x0d\x88s"),
        (b"torch FloatStorage".replace(b" ", b"\n"), b"numpy\nFloatStorage"),
        (b"torch._utils\n_rebuild_tensor_v2", b"torch._utils\n_rebuild_tensor"),
        (b"collections\nOrderedDict", b"builtins\ndict"),
        (b"X\x04\x00\x00\x00bias", b"X\x06\x00\x00\x00weight"),  # the same key twice
        (b"X\x04\x00\x00\x00bias", b"}"),
        (b"X\x04\x00\x00\x00bias", b"X\x04\x00\x00\x00bi\xff\xff"),
        (b"X\x03\x00\x00\x00cpu", b"X\x04\x00\x00\x00meta"),
        (b"X\x01\x00\x00\x000", b"X\x02\x00\x00\x00/0"),
        (b"X\x09\x00\x00\x00_metadata", b"X\x09\x00\x00\x00__class__"),
        (b"sb.", b"s."),
        (b"sb.", b"sb"),
        (b"sb.", b"sb.."),
        (b"u}", b"0}"),
        (b"(X\x06", b"((X\x06"),
    ],
)
def test_what_torch_does_not_write(old, new):
    assert old in LINEAR
    with pytest.raises(CheckError):
        read_pickle(LINEAR.replace(old, new, 1))


def test_every_prefix_is_refused():
    for length in range(len(LINEAR)):
        with pytest.raises(CheckError):
            read_pickle(LINEAR[:length])


def test_depth_costs_nothing():
    deep = b"\x80\x02" + b"ctorch._utils\n_rebuild_parameter\n" * 100_000
    with pytest.raises(CheckError):
        read_pickle(deep)
    nested = b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01ctorch._utils\n_rebuild_parameter\nq\x02"
    with pytest.raises(CheckError):
        read_pickle(nested + b"h\x02" * 100_000)


@pytest.mark.parametrize(
    "extra",
    [Counter(a=3), Counter(), {1, 2}, b"bytes", bytearray(b"bytes"), 1 + 2j, {(1, None): 2}, {0.5: 1}, {None: True}],
    ids=repr,
)
def test_harmless_values_of_a_checkpoint_are_read_as_the_loader_reads_them(extra, tmp_path):
    state = torch.nn.Linear(3, 1).state_dict()
    content, storages = read_pickle(pickled({"state_dict": state, "extra": extra}))
    assert list(content["state_dict"]) == ["weight", "bias"]
    assert len(storages) == 2
    torch.save({"state_dict": state, "extra": extra}, tmp_path / "model.pth")
    assert fairmend.load_network(tmp_path / "model.pth").inputs == 3


@pytest.mark.parametrize("extra", [defaultdict(list), frozenset([1]), slice(2)], ids=repr)
def test_other_objects_are_refused_by_both(extra, tmp_path):
    state = torch.nn.Linear(3, 1).state_dict()
    with pytest.raises(CheckError, match="only a state dict"):
        read_pickle(pickled({"state_dict": state, "extra": extra}))
    torch.save({"state_dict": state, "extra": extra}, tmp_path / "model.pth")
    with pytest.raises(fairmend.FairmendError, match="holds a pickled object"):
        fairmend.load_network(tmp_path / "model.pth")
