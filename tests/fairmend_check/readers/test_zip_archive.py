"""Zip archives have one reading: what PyTorch and Python write passes, and every other byte is refused."""

import contextlib
import io
import random
import struct
import zipfile
import zlib

import pytest

from fairmend_check.errors import CheckError
from fairmend_check.readers.zip_archive import read_archive

PLAIN = {"config.json": b"{}", "folder/model.h5": bytes(range(256)) * 20, "empty": b""}


def zipped(members=None, method=zipfile.ZIP_STORED, large=False):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in (PLAIN if members is None else members).items():
            with archive.open(name, "w", force_zip64=large) as file:
                file.write(data)
    return buffer.getvalue()


def of_torch():
    import torch

    buffer = io.BytesIO()
    torch.save(torch.nn.Linear(3, 2).state_dict(), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_python(method, large):
    content = zipped(method=method, large=large)
    assert read_archive(content, compressed=True) == PLAIN
    assert list(read_archive(zipped({"é/b": b"x"}, large=large))) == ["é/b"]


def test_an_archive_of_pytorch():
    content = of_torch()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert read_archive(content) == {name: archive.read(name) for name in archive.namelist()}


def test_a_compressed_archive_is_refused_where_its_format_has_none():
    with pytest.raises(CheckError, match="compressed"):
        read_archive(zipped(method=zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize("make", [zipped, of_torch, lambda: zipped(large=True)])
def test_no_changed_byte_passes_unless_all_programs_read_it(make):
    """Only the times, the versions and the permissions may change: no reader of members looks at them."""
    content, rng = make(), random.Random(0)
    members = read_archive(content)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.randrange(8)
        with contextlib.suppress(CheckError):
            assert read_archive(bytes(changed)) == members, place


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"\x80\x02." + content,  # a pickle first
        lambda content: content + b" ",
        lambda content: content[:-2] + b"\1\0x",  # a comment
        lambda content: content[:-22],
        lambda content: b"",
        lambda content: content[:-22] + content[-22:].replace(b"\3\0\3\0", b"\2\0\2\0"),
    ],
)
def test_more_or_less_than_an_archive(change):
    with pytest.raises(CheckError):
        read_archive(change(zipped()))


def moved(content, at, by):
    """Insert bytes that belong to nothing and correct every offset."""
    end = len(content) - 22
    directory = struct.unpack_from("<I", content, end + 16)[0]
    changed = bytearray(content)
    position = directory
    while changed[position : position + 4] == b"PK\1\2":
        length = struct.unpack_from("<H", changed, position + 28)[0]
        header = struct.unpack_from("<I", changed, position + 42)[0]
        struct.pack_into("<I", changed, position + 42, header + (by if header >= at else 0))
        position += 46 + length
    struct.pack_into("<I", changed, end + 16, directory + by)
    return bytes(changed[:at] + b"Z" * by + changed[at:])


@pytest.mark.parametrize("at", [0, 43, None])
def test_bytes_that_belong_to_no_member(at):
    content = zipped()
    at = struct.unpack_from("<I", content, len(content) - 6)[0] if at is None else at
    with zipfile.ZipFile(io.BytesIO(moved(content, at, 7))) as archive:
        assert archive.read("config.json") == b"{}"  # Python reads it all the same
    with pytest.raises(CheckError):
        read_archive(moved(content, at, 7))


@pytest.mark.parametrize("name", ["a\\b", "../a", "/a", "a//b", "a/./b", "folder/", "a\x1b[2Jb", "a\u202eb"])
def test_a_name_that_is_not_a_plain_path(name):
    with pytest.raises(CheckError, match="plain path"):
        read_archive(zipped({name: b"x"}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["a/data.pkl", "a/DATA.pkl", "A/data.pkl"])
def test_names_that_are_equal_for_a_reader_that_ignores_case(second):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", b"1")
        archive.writestr(second, b"2")
    with pytest.raises(CheckError, match="equal or differ only in case"):
        read_archive(buffer.getvalue())


@pytest.mark.parametrize("attributes", [0x10, 0o120777 << 16, 0o040755 << 16])
def test_an_entry_that_some_programs_take_for_a_folder_or_a_link(attributes):
    """PyTorch's reader returns no data for a member with the attribute of a folder, and no error."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("a/data.pkl")
        entry.external_attr = attributes
        archive.writestr(entry, b"1")
    with pytest.raises(CheckError, match="plain file"):
        read_archive(buffer.getvalue())


def test_a_member_that_is_larger_than_it_says():
    """The size limit holds before and during decompression."""
    size = 0x345678
    bomb = zipped({"a": bytes(size)}, zipfile.ZIP_DEFLATED)
    smaller = bomb.replace(struct.pack("<I", size), struct.pack("<I", 2**10))
    with pytest.raises(CheckError, match="does not have the size that the archive says"):
        read_archive(smaller, compressed=True)
    with pytest.raises(CheckError, match="more than"):
        read_archive(bomb.replace(struct.pack("<I", size), struct.pack("<I", 2**31)), compressed=True)


def test_bytes_after_the_end_of_compressed_data():
    stream = zlib.compressobj(wbits=-15)
    data = stream.compress(b"one") + stream.flush()
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("a", data + b"more")
    wrong = struct.pack("<3I", zlib.crc32(data + b"more"), len(data) + 4, len(data) + 4)
    right = struct.pack("<3I", zlib.crc32(b"one"), len(data) + 4, 3)
    content = bytearray(buffer.getvalue().replace(wrong, right))
    content[8] = content[content.index(b"PK\1\2") + 10] = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        assert archive.read("a") == b"one"
    with pytest.raises(CheckError, match="does not have the size that the archive says"):
        read_archive(bytes(content), compressed=True)
