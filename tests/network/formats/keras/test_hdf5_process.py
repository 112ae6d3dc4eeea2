"""The program that decodes HDF5: numbers and texts of the file itself come out, everything else is refused."""

import io

import h5py
import numpy as np
import pytest

from fairmend.network.formats.keras.hdf5_process import UnreadableError, extract


def content(fill) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        fill(file)
    return buffer.getvalue()


def entry(fill, name: str = "a") -> dict:
    """What is said of /root/<name>."""
    entries, _ = extract(content(lambda file: fill(file.create_group("root"))), ["root"], ["texts"])
    return next(entry for entry in entries if entry["path"] == ["root", name])


@pytest.mark.parametrize(
    "options", [{}, {"chunks": (2, 2)}, {"compression": "gzip", "shuffle": True, "fletcher32": True}]
)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<i8", "u1"])
def test_arrays_come_out_as_they_went_in(options, dtype):
    values = np.arange(12).reshape(4, 3).astype(dtype)
    entries, arrays = extract(content(lambda file: file.create_dataset("root/a", data=values, **options)), ["root"], [])
    assert [entry["path"] for entry in entries] == [[], ["root"], ["root", "a"]]
    assert entries[2]["array"] == 0
    assert arrays[0].dtype == values.dtype
    assert np.array_equal(arrays[0], values)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("one", ["one"]),
        (np.bytes_(b"one"), ["one"]),
        (np.array([b"a", b"bc"]), ["a", "bc"]),
        (["x", "é"], ["x", "é"]),
        ([], []),
        (h5py.Empty("f"), []),
    ],
)
def test_texts_are_read_however_keras_wrote_them(written, read):
    def fill(file):
        file.create_group("root").attrs["texts"] = written

    entries, _ = extract(content(fill), ["root"], ["texts"])
    assert entries[1]["texts"] == {"texts": read}


def test_only_the_roots_are_read():
    entries, arrays = extract(content(lambda file: file.create_dataset("optimizer/a", data=[1.0])), ["root"], [])
    assert (entries, arrays) == ([{"path": [], "texts": {}, "names": ["optimizer"]}], [])


REFUSED = {
    "soft link": (lambda group: group.__setitem__("a", h5py.SoftLink("/root")), "is a link"),
    "external link": (lambda group: group.__setitem__("a", h5py.ExternalLink("other.h5", "/")), "is a link"),
    "texts": (lambda group: group.create_dataset("a", data="text"), "not an array of numbers"),
    "a type": (lambda group: group.__setitem__("a", np.dtype("f4")), "not an array of numbers"),
    "other file": (
        lambda group: group.create_dataset("a", (2,), "f4", external=[("other.raw", 0, 8)]),
        "in another file",
    ),
    "plug-in": (lambda group: group.create_dataset("a", data=np.ones(9), compression="lzf"), "filter 32000"),
    "too large": (lambda group: group.create_dataset("a", (2**40, 2**20), "f4"), "far more than the file has"),
    "never written": (lambda group: group.create_dataset("a", (3,), "f4"), "never written"),
    "a circle": (lambda group: group.__setitem__("a", group), "two places"),
    "names in bytes": (lambda group: group.create_group("a").create_group(b"\xff\xfe"), "a name that is not text"),
    "numbers for texts": (lambda group: group.create_group("a").attrs.__setitem__("texts", 3), "'texts' is not a list"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_plain_is_refused_where_it_stands(case):
    fill, words = REFUSED[case]
    found = entry(fill)
    assert words in found["refused"]
    assert "array" not in found
    assert "names" not in found


def test_groups_without_end_and_files_that_are_none_are_refused():
    deep = content(lambda file: file.create_group("root/" + "/".join("a" * 40)))
    for bad, words in ((deep, "too many groups"), (b"text" * 100, "signature"), (deep[:300], "truncated")):
        with pytest.raises(UnreadableError, match=words):
            extract(bad, ["root"], [])
