"""HDF5: the checker reads what h5py writes, and refuses what libhdf5 writes in no case or reads in another way."""

import io
import struct

import h5py
import numpy as np
import pytest

from fairmend_check.errors import CheckError
from fairmend_check.readers.hdf5 import Array, Group, read_hdf5
from support.fuzzing.hdf5_layout import fields


def written(fill, **options):
    content = io.BytesIO()
    with h5py.File(content, "w", **options) as file:
        fill(file)
    return content.getvalue()


def changed(content, label, path, value, number=0):
    """The file with another value in one of its fields."""
    field = [field for field in fields(content) if (field.label, field.path) == (label, path)][number]
    new = value.to_bytes(field.size, "little") if isinstance(value, int) else value
    return content[: field.start] + new + content[field.start + len(new) :]


def value_of(content, label, path):
    field = next(field for field in fields(content) if (field.label, field.path) == (label, path))
    return int.from_bytes(content[field.start : field.start + field.size], "little")


DAMAGED = (CheckError, ValueError, IndexError, struct.error)  # read_model turns the others into a CheckError


def assert_refused(content, why=None):
    with pytest.raises(DAMAGED, match=why):
        read_hdf5(content)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 4), (5,), ()])
def test_arrays_are_read_bit_by_bit(dtype, shape):
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    found = read_hdf5(written(lambda root: root.create_dataset("a/b", data=values))).find("a", "b")
    assert isinstance(found, Array)
    assert found.floats("b").dtype == dtype
    assert np.array_equal(found.floats("b"), values)


@pytest.mark.parametrize("count", [1, 8, 9, 300, 2000])
def test_groups_of_many_names(count):
    names = np.random.default_rng(count).permutation([f"n{i}" for i in range(count)])
    root = read_hdf5(written(lambda file: [file.create_dataset(name, data=np.float32([1])) for name in names]))
    assert list(root.members) == sorted(names)
    assert root.find("absent") is None
    assert root.find("n0", "below") is None


@pytest.mark.parametrize("texts", [["one"], ["a", "größe", "c" * 100], []])
def test_attributes_of_text(texts):
    def fill(root):
        root.attrs["fixed"] = np.array([text.encode() for text in texts])
        root.attrs["variable"] = np.array(texts, dtype=h5py.string_dtype())
        root.attrs["single"] = "one"

    assert read_hdf5(written(fill)).attributes == {"fixed": texts, "variable": texts, "single": "one"}


NOT_PLAIN = {
    "symbolic link": (lambda root: root.update({"x": h5py.SoftLink("/y")}), "a link, which is not followed"),
    "external link": (lambda root: root.update({"x": h5py.ExternalLink("other.h5", "/x")}), r"link|newer kind"),
    "two names": (lambda root: root.update({"x": root.create_group("y")}), "two names"),
    "compressed": (
        lambda root: root.create_dataset("x", data=np.ones(100, np.float32), compression="gzip"),
        "compressed or filtered data",
    ),
    "in chunks": (lambda root: root.create_dataset("x", data=np.zeros(4), chunks=(2,)), "fill|not stored contiguously"),
    "never written": (lambda root: root.create_dataset("x", shape=(4,), dtype="f4"), "truncated"),
    "a fill value": (lambda root: root.create_dataset("x", data=np.zeros(4), fillvalue=1.0), "does not write"),
    "a number": (lambda root: root.attrs.create("x", 1.0), "not a text"),
    "an empty space": (lambda root: root.attrs.create("x", h5py.Empty("f")), "damaged"),
    "a table of texts": (lambda root: root.attrs.create("x", np.array([[b"a"]])), "not a text or a list"),
    "a foreign name": (lambda root: root.attrs.create("größe", "a"), "unknown kind|ascii"),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_keras_does_not_write_is_refused(name):
    fill, why = NOT_PLAIN[name]
    assert_refused(written(lambda root: fill(root) and None), why)


NOT_FLOATS = {
    "whole numbers": np.arange(3),
    "five dimensions": np.zeros((2, 2, 2, 2, 2)),
    "big-endian": np.zeros(4, ">f4"),
    "half precision": np.zeros(4, np.float16),
}


@pytest.mark.parametrize("name", NOT_FLOATS)
def test_arrays_of_other_kinds(name):
    found = read_hdf5(written(lambda root: root.create_dataset("x", data=NOT_FLOATS[name]))).find("x")
    with pytest.raises(CheckError, match="does not consist of float32"):
        found.floats("x")


def test_other_versions_and_other_files_are_refused():
    assert_refused(written(lambda root: None, libver="latest"), "newer version")
    assert_refused(written(lambda root: None, userblock_size=512), "not an HDF5 file")
    assert_refused(b"PK" + bytes(100), "not an HDF5 file")


def test_every_cut_off_file_is_refused():
    whole = written(lambda root: root.create_dataset("x", data=np.ones(50)))
    for length in range(0, len(whole), 7):
        assert_refused(whole[:length])


def two_arrays(root):
    root["a"], root["b"] = np.float32([1]), np.float32([2])


def two_groups(root):
    root["x/w"], root["y/w"] = np.float32([1]), np.float32([2])


def opened(content, read):
    with h5py.File(io.BytesIO(content)) as file:
        return read(file)


def test_a_text_that_libhdf5_takes_from_another_place():
    def fill(root):
        root.attrs["a"], root.attrs["b"] = "first", "other"

    content = changed(written(fill), "object index", "/", 1, number=1)
    assert opened(content, lambda file: file.attrs["a"]) == "other"  # two texts of number 1: the last counts
    assert_refused(content, "heap of texts is damaged")


def test_a_text_that_ends_within():
    content = changed(written(lambda root: root.attrs.create("a", "first")), "text", "/", b"fi\0st")
    assert opened(content, lambda file: file.attrs["a"]) == "fi"
    assert_refused(content, "zero byte")


@pytest.mark.parametrize(("padding", "text", "read"), [(2, b"ker   ", b"ker"), (0, b"ker\0xx", b"ker")])
def test_padding_that_is_not_zeros(padding, text, read):
    content = written(lambda root: root.attrs.create("a", np.array([b"kernel"])))
    content = changed(changed(content, "text", "/", text), "attribute type", "/", padding, number=1)
    assert opened(content, lambda file: file.attrs["a"].tolist()) == [read]
    assert_refused(content, "not a text as h5py writes it")


def test_a_link_named_dot():
    def fill(root):
        root["g/-/w"], root["g/w"] = np.float32([1]), np.float32([2])

    content = changed(written(fill), "name", "/g/-", b".\0")
    assert opened(content, lambda file: file["g"]["./w"][0]) == 2
    assert_refused(content, "cannot be part of a path")


def test_names_that_are_not_sorted():
    content = written(two_arrays)
    first, second = (value_of(content, "name place", path) for path in ("/a", "/b"))
    content = changed(changed(content, "name place", "/b", first), "name place", "/a", second)
    assert opened(content, lambda file: (list(file), "b" in file)) == (["b", "a"], False)
    assert_refused(content, "tree and its names differ|not sorted")


def test_a_tree_whose_keys_are_not_those_of_its_names():
    content = written(two_arrays)
    content = changed(content, "key", "/", value_of(content, "name place", "/a"), number=1)
    assert not opened(content, lambda file: "b" in file)  # a scan finds it
    assert_refused(content, "tree and its names differ")


def test_an_attribute_given_twice():
    def fill(root):
        root.attrs["a"], root.attrs["b"] = "one", "two"

    assert_refused(changed(written(fill), "attribute name", "/", b"a", number=1), "twice")


OVERLAPS = {"data address": ("/a", "/b"), "header address": ("/x", "/y"), "tree": ("/x", "/y"), "heap": ("/x", "/y")}


@pytest.mark.parametrize("label", OVERLAPS)
def test_parts_that_share_bytes(label):
    content, (first, second) = written(two_arrays if label == "data address" else two_groups), OVERLAPS[label]
    assert_refused(changed(content, label, first, value_of(content, label, second)), "overlap|cached")


@pytest.mark.parametrize("label", ["cached tree", "cached heap"])
@pytest.mark.parametrize("path", ["/", "/x"])
def test_cached_addresses_of_another_group(label, path):
    content = written(two_groups)
    assert_refused(changed(content, label, path, value_of(content, label, "/y")), "cached addresses")


# Which fields may have another value: contents, times, and the parts that count nothing.
FREE = ("data", "text", "name", "attribute name", "names", "message 0x0", "message 0x12", "references")


def test_every_other_field_has_one_value():
    def fill(root):
        two_groups(root)
        root.attrs["single"] = "one"
        root["x"].attrs["fixed"] = np.array([b"kernel", b"bias"])
        root["y"].attrs["list"] = np.array(["kernel", "bias"], dtype=h5py.string_dtype())

    content = written(fill)
    accepted = set()
    for field in fields(content):
        if field.label not in FREE:
            for change in (1, 2, 128):
                byte = content[field.start] ^ change
                try:
                    read_hdf5(content[: field.start] + bytes([byte]) + content[field.start + 1 :])
                    accepted.add(field.label)
                except DAMAGED:
                    pass
    # UTF-8 or ASCII, shorter texts, an empty group, another type of number, a note that libhdf5 leaves on attributes.
    assert accepted <= {"attribute type", "text size", "entries", "message 0x3", "message flags"}


def test_a_group_is_found_by_its_path():
    root = read_hdf5(written(two_groups))
    assert isinstance(root.find("x"), Group)
    assert isinstance(root.find("x", "w"), Array)
