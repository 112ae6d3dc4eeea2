"""A worker refuses other versions by name, and reports what the user can correct as text."""

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from fairmend._version import __version__
from fairmend.base.errors import FairmendError
from fairmend.spec import Spec
from fairmend.tables import examine
from fairmend.workers import open_engine
from fairmend.workers.engine import HERE, Failure
from fairmend.workers.remote_call import call_for_data, call_remotely, pack, read_answer
from support.cli_case import run, small_network, small_people, small_spec
from support.engines import ClusterEngine
from support.killed_workers import COMMANDS, content, small_parts


def add(shared, task):
    if task < 0:
        raise FairmendError("a negative task")
    return shared + task


def test_a_task_is_a_call_with_the_shared_part():
    assert call_remotely(pack(add, 10), 5) == 15
    assert call_remotely(pack(add, 20), 5) == 25
    assert call_remotely(pack(add, 20), -1) == Failure("a negative task")


@pytest.mark.parametrize(("place", "name"), [(0, "fairmend"), (1, "NumPy")])
def test_another_version_on_the_worker_is_refused_by_name(place, name):
    part = pack(add, 1)
    versions = [list(each) for each in part.versions]
    versions[place][1] = "0.0.1"
    found = call_remotely(replace(part, versions=tuple(map(tuple, versions))), 1)
    assert f"install {name} 0.0.1 on the workers" in found.message
    assert place or f"has fairmend {__version__}, and this program 0.0.1" in found.message


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_an_answer_is_plain_data():
    part = pack(add, 10)
    answer = call_for_data(part, 5)
    assert (type(answer), read_answer(part, answer, "tcp://here")) == (bytes, 15)
    assert read_answer(part, call_for_data(part, -1), "tcp://here") == Failure("a negative task")


@pytest.mark.parametrize("answer", [Evil(), pickle.dumps(Evil()), 15, b"", None, "text"])
def test_an_answer_that_is_not_plain_data_is_refused(answer):
    """A cluster that someone else runs may answer with anything; nothing of it is unpickled."""
    with pytest.raises(FairmendError, match="tcp://here: a worker sent "):
        read_answer(pack(add, 10), answer, "tcp://here")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_gives_the_same_by_plain_data(monkeypatch, command):
    small_parts(monkeypatch)
    cluster = ClusterEngine()
    assert content(command, cluster) == content(command)
    assert cluster.sent


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_audit_gives_the_same_by_plain_data(monkeypatch, tmp_path, kind):
    """Slices of files, which workers read, with ids, labels, pairs and values out of range; and blocks of samples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examine, "_WORTHWHILE", 0)
    monkeypatch.setattr(open_engine, "open_engine", lambda address, jobs: HERE if address is None else ClusterEngine())
    small_network().save("model.onnx")
    Spec(small_spec().features, small_spec().label, id_column="customer").save("spec.toml")
    people = small_people(400).assign(customer=[f"c{n}" for n in range(400)])
    people.loc[7, "credits"] = 9
    for number in range(4):
        part = people[number * 100 : number * 100 + 100]
        part.to_csv(f"{number}.csv", index=False) if kind == "csv" else part.to_parquet(f"{number}.parquet")

    def audit(*options):
        result = run("audit", "model.onnx", "--spec", "spec.toml", "--json", "--no-report", *options)
        assert result.exit_code == 1, result.stderr
        return {**json.loads(result.stdout), "seconds": None, "plan": None}

    files = ("--data", f"?.{kind}", "--out-of-range", "widen", "--out", "pairs.csv")
    found, lines = audit(*files), Path("pairs.csv").read_text()
    assert audit(*files, "--cluster", "tcp://here") == found
    assert Path("pairs.csv").read_text() == lines
    assert audit("--samples", 300) == audit("--samples", 300, "--cluster", "tcp://here")
