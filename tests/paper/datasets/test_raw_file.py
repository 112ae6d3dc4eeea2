"""Raw files: the user's folder before the cache, the cache before the network, and nothing kept unchecked."""

import io
import sys
import zipfile
from dataclasses import replace
from hashlib import sha256

import pytest
import requests

from fairmend.base.errors import FairmendError
from fairmend.paper import datasets
from fairmend.paper.datasets import adult, bank, compas, german
from support.raw_rows import GERMAN, TINY

MODULES = {"adult": adult, "compas": compas, "german": german, "bank": bank}
FILES = [*adult.FILES, compas.FILE, german.FILE, bank.FILE]


class Served:
    """What `requests.get` gives for some bytes."""

    def __init__(self, content):
        self.content, self.headers = content, {"content-length": str(len(content))}

    def raise_for_status(self):
        pass

    def iter_content(self, chunk_size):
        return iter([self.content])


@pytest.fixture
def asked(monkeypatch):
    """The addresses asked for; nothing answers."""
    addresses = []

    def refuse(url, **options):
        addresses.append(url)
        raise requests.ConnectionError("no route to the host")

    monkeypatch.setattr(requests, "get", refuse)
    return addresses


@pytest.fixture
def cache(tmp_path, monkeypatch, asked):
    """An empty cache, no folder of the user's, and no network."""
    folder = tmp_path / "deep" / "cache"
    monkeypatch.setenv("FAIRMEND_CACHE", str(folder))
    monkeypatch.delenv("FAIRMEND_DATA", raising=False)
    return folder


def pin(monkeypatch, name):
    """Make the hand-made files of a dataset its published ones."""
    module, texts = MODULES[name], TINY[name][0]

    def pinned(file):
        return replace(file, sha256=(sha256(texts[file.name].encode()).hexdigest(),))

    if name == "adult":
        monkeypatch.setattr(module, "FILES", tuple(map(pinned, module.FILES)))
    else:
        monkeypatch.setattr(module, "FILE", pinned(module.FILE))


def serve(monkeypatch, content):
    monkeypatch.setattr(requests, "get", lambda url, **options: Served(content))


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "-") + ".csv", text)
    return buffer.getvalue()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", datasets.NAMES)
def test_files_in_the_cache_are_read_without_the_network(name, cache, asked, monkeypatch):
    pin(monkeypatch, name)
    cache.mkdir(parents=True)
    for file, text in TINY[name][0].items():
        (cache / file).write_bytes(text.encode())
    assert len(datasets.load(name).X_train) == len(datasets.load(name, download=False).X_train) == 1
    assert asked == []


def test_a_folder_of_the_users_comes_before_the_cache_and_is_the_only_place(cache, asked, tmp_path, monkeypatch):
    pin(monkeypatch, "german")
    cache.mkdir(parents=True)
    (cache / "german.data").write_bytes(GERMAN.encode())
    own, variable = tmp_path / "own", tmp_path / "variable"
    for folder, rows in ((own, 3), (variable, 4)):
        folder.mkdir()
        (folder / "german.data").write_bytes((GERMAN.splitlines()[0] + "\n").encode() * rows)

    def rows(*arguments):
        dataset = datasets.load("german", *arguments)
        return len(dataset.X_train) + len(dataset.X_test)

    assert rows() == 2
    monkeypatch.setenv("FAIRMEND_DATA", str(variable))
    assert rows() == 4
    assert rows(own) == 3
    (own / "german.data").unlink()
    with pytest.raises(FairmendError, match=r"'german\.data' is not in .*own"):
        datasets.load("german", own)
    assert asked == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_offline_the_message_says_where_to_get_the_file_and_where_to_put_it(file, cache, asked, monkeypatch):
    name = next(name for name, (texts, _) in TINY.items() if file.name in texts)
    if name == "adult":
        monkeypatch.setattr(adult, "FILES", (file,))
    for download, start in ((True, "could not be downloaded: no route to the host"), (False, "is not on this machine")):
        with pytest.raises(FairmendError) as caught:
            datasets.load(name, download=download)
        message = str(caught.value)
        assert message.startswith(f"{file.name!r} {start}. Get it from {file.source}, at {file.url}, and put it into ")
        assert str(cache) in message
        assert "--data-dir (data_dir in Python)" in message
        assert "FAIRMEND_DATA" in message
    assert asked == [file.url]
    assert names(cache) == []


def test_a_download_is_checked_kept_and_not_repeated(cache, monkeypatch, capfd):
    pin(monkeypatch, "german")
    serve(monkeypatch, GERMAN.encode())
    first = datasets.load("german")
    assert names(cache) == ["german.data"]
    assert capfd.readouterr() == ("", "")  # no terminal, no bar
    serve(monkeypatch, b"")
    assert datasets.load("german").X_train.tolist() == first.X_train.tolist()


def test_a_download_into_a_terminal_shows_a_bar(cache, monkeypatch, capfd):
    pin(monkeypatch, "german")
    serve(monkeypatch, GERMAN.encode())
    monkeypatch.setenv("FORCE_COLOR", "1")
    datasets.load("german")
    printed, shown = capfd.readouterr()
    assert printed == ""
    assert "german.data" in shown


def test_a_file_within_an_archive_is_taken_out_and_checked(cache, monkeypatch):
    pin(monkeypatch, "bank")
    text = TINY["bank"][0]["bank-full.csv"]
    serve(monkeypatch, zipped(bank="other", bank_full=text))
    assert len(datasets.load("bank").X_train) == 1
    assert names(cache) == ["bank-full.csv"]
    assert (cache / "bank-full.csv").read_bytes() == text.encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped(bank_full="age;job\n"), "'bank-full.csv' is not the published file: its SHA-256 is .*, not d1513"),
        (zipped(bank="age;job\n"), "'bank-full.csv' could not be downloaded: .*no item named 'bank-full.csv'"),
        (b"<html>moved</html>", "'bank-full.csv' could not be downloaded: File is not a zip file"),
    ],
)
def test_an_archive_with_something_else_in_it_is_refused_and_not_kept(content, message, cache, monkeypatch):
    serve(monkeypatch, content)
    with pytest.raises(FairmendError, match=message):
        datasets.load("bank")
    assert names(cache) == []


def test_a_download_with_another_checksum_is_refused_and_not_kept(cache, monkeypatch):
    serve(monkeypatch, GERMAN.encode())
    found = sha256(GERMAN.encode()).hexdigest()
    with pytest.raises(FairmendError, match=rf"sent for 'german\.data' .*SHA-256 is {found}, not b21f3d81.*not kept"):
        datasets.load("german")
    assert names(cache) == []


def test_a_changed_file_in_the_cache_is_refused_by_name(cache, asked):
    cache.mkdir(parents=True)
    (cache / "german.data").write_bytes(GERMAN.encode())
    with pytest.raises(FairmendError, match=r"german\.data: is not the published file: its SHA-256 is .* Delete it"):
        datasets.load("german")
    assert asked == []


def test_the_cache_is_the_systems_unless_said_otherwise(monkeypatch):
    monkeypatch.delenv("FAIRMEND_CACHE", raising=False)
    from fairmend.paper.datasets._raw_file import cache_folder

    assert "fairmend" in cache_folder().parts


def test_the_pinned_checksums_are_those_of_the_reference_files(shared):
    for file in FILES:
        content = (shared / "data" / file.name).read_bytes()
        lines = b"".join(line + b"\n" for line in content.splitlines())
        assert file.sha256[0] == sha256(content).hexdigest()
        assert all(other == sha256(lines).hexdigest() for other in file.sha256[1:])


def test_the_real_files_load_from_the_cache(shared, monkeypatch, asked):
    monkeypatch.setenv("FAIRMEND_CACHE", str(shared / "data"))
    monkeypatch.delenv("FAIRMEND_DATA", raising=False)
    assert len(datasets.load("compas").X_train) == 4937
    assert asked == []


def test_a_download_without_pooch_names_the_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(
        FairmendError, match=r"needs the package pooch of the extra bench\. Run pip install 'fairmend\["
    ):
        datasets.load("german")
    monkeypatch.delenv("FAIRMEND_CACHE")
    with pytest.raises(FairmendError, match="--data-dir"):
        datasets.load("german", download=False)


def test_files_in_a_folder_need_no_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    (tmp_path / "german.data").write_bytes(GERMAN.encode())
    assert len(datasets.load("german", tmp_path).X_train) == 1
