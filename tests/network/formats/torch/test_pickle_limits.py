"""Pickles that would keep PyTorch busy for ever are refused; all others are left to PyTorch."""

import io
import pickle
import zipfile

import pytest
import torch

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network.formats.torch.pickle_limits import check_pickles


def nested_key(levels, width=2):
    """Return a pickle of a dict whose key is a tuple of tuples; each level names the one below `width` times."""
    key = (1,)
    for _ in range(levels):
        key = (key,) * width
    pickled = pickle.dumps({"a": key}, protocol=2)
    name = pickled.index(b"X\1\0\0\0a")
    value = name + 8
    return pickled[:name] + pickled[value:-2] + b"X\1\0\0\0as."


def archive(data):
    buffer = io.BytesIO()
    torch.save({"a.weight": torch.zeros(1, 2)}, buffer)
    with zipfile.ZipFile(buffer) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
        for name, content in {**members, "archive/data.pkl": data}.items():
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("content", [archive(nested_key(60)), archive(nested_key(6, 50)), nested_key(60)])
def test_a_key_of_nested_tuples_is_refused_before_it_is_hashed(tmp_path, content):
    path = tmp_path / "model.pth"
    path.write_bytes(content)
    with pytest.raises(FairmendError, match="nested tuples of more than 100,000 parts"):
        fairmend.load_network(path)


def test_a_key_in_a_later_pickle_of_an_old_file(tmp_path):
    path = tmp_path / "model.pth"
    torch.save({"a.weight": torch.zeros(1, 2)}, path, _use_new_zipfile_serialization=False)
    first = path.read_bytes().index(b".") + 1
    path.write_bytes(path.read_bytes()[:first] + nested_key(60))
    with pytest.raises(FairmendError, match="nested tuples"):
        fairmend.load_network(path)


def test_checkpoints_pass(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(1, 3)).sum().backward()
    optimizer.step()
    content = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "shape": torch.Size([3, 2])}
    torch.save(content, tmp_path / "model.pth")
    assert fairmend.load_network(tmp_path / "model.pth", "relu").depth == 2


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"\x80\x02.", b"\x80\x02u.", b"\x80\x02h\x05.", b"R"])
def test_damaged_files_are_left_to_pytorch(tmp_path, content):
    (tmp_path / "model.pth").write_bytes(content)
    check_pickles(tmp_path / "model.pth")
    if content:
        with pytest.raises(FairmendError, match=r"not a readable PyTorch file|pickled object"):
            fairmend.load_network(tmp_path / "model.pth")
