"""HDF5: the checker reads what h5py writes, and refuses all that leads out of the file or is not plain data."""

import io

import h5py
import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.hdf5 import Hdf5


def opened(fill, **options):
    content = io.BytesIO()
    with h5py.File(content, "w", **options) as file:
        fill(file)
    return Hdf5(memoryview(content.getvalue()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 4), (5,), ()])
def test_arrays_are_read_bit_by_bit(dtype, shape):
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    file = opened(lambda root: root.create_dataset("a/b", data=values))
    found = file.array(file.find(file.root, ["a", "b"]))
    assert found.dtype == dtype
    assert np.array_equal(found, values)


def test_groups_of_many_names():
    file = opened(lambda root: [root.create_dataset(f"n{i}", data=np.float32([i])) for i in range(300)])
    assert len(file.root.links) == 300
    assert file.array(file.find(file.root, ["n257"])) == [257]
    assert file.find(file.root, ["absent"]) is None
    assert file.find(file.root, ["n1", "below"]) is None


@pytest.mark.parametrize("texts", [["one"], ["a", "größe", "c" * 100], []])
def test_attributes_of_text(texts):
    def fill(root):
        root.attrs["fixed"] = np.array([text.encode() for text in texts])
        root.attrs["variable"] = np.array(texts, dtype=h5py.string_dtype())

    file = opened(fill)
    assert file.texts(file.root, "fixed") == texts
    assert file.texts(file.root, "variable") == texts
    assert file.texts(file.root, "absent") is None


REFUSED = {
    "symbolic link": (lambda root: root.update({"x": h5py.SoftLink("/y")}), "a link, which is not followed"),
    "compressed": (
        lambda root: root.create_dataset("x", data=np.ones(100, np.float32), compression="gzip"),
        "compressed or filtered data",
    ),
    "whole numbers": (lambda root: root.create_dataset("x", data=np.arange(3)), "does not consist of float32"),
    "three dimensions": (lambda root: root.create_dataset("x", data=np.zeros((2, 2, 2))), "at most two dimensions"),
    "in chunks": (lambda root: root.create_dataset("x", data=np.zeros(4), chunks=(2,)), "not stored contiguously"),
    "big-endian": (lambda root: root.create_dataset("x", data=np.zeros(4, ">f4")), "does not consist of float32"),
    "a group": (lambda root: root.create_group("x"), "not a plain array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_plain_array_is_refused(name):
    fill, why = REFUSED[name]
    file = opened(lambda root: fill(root) and None)
    with pytest.raises(CheckError, match=why):
        file.array(file.find(file.root, ["x"]))


def test_a_link_to_another_file_is_refused():
    def fill(root):
        root["x"] = h5py.ExternalLink("other.h5", "/x")

    file = opened(fill)
    with pytest.raises(CheckError, match=r"link|newer kind"):
        file.find(file.root, ["x"])


def test_other_versions_and_other_files_are_refused():
    with pytest.raises(CheckError, match="newer version"):
        _ = opened(lambda root: None, libver="latest").root
    with pytest.raises(CheckError, match="not an HDF5 file"):
        _ = Hdf5(memoryview(b"PK" + bytes(100))).root


def test_every_cut_off_file_is_refused():
    content = io.BytesIO()
    with h5py.File(content, "w") as root:
        root.create_dataset("x", data=np.ones(50))
    whole = content.getvalue()
    for length in range(0, len(whole), 7):
        file = Hdf5(memoryview(whole[:length]))
        with pytest.raises(CheckError):
            _ = file.root
