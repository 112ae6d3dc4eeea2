"""`fairmend search` from the shell: what it shows and writes, and how it ends."""

import json

import numpy as np
import pytest

from fairmend.network import Affine, Network
from fairmend.tables import read_table
from support.cli_case import refused, run, small_network, small_spec, succeeded


def search(case, *more):
    few = ["--seeds", "40", "--local-steps", "20"]
    return run("search", case.model, "--spec", case.spec, "--data", case.data, *few, *more)


@pytest.mark.parametrize("method", ["adf", "eidig", "neuronfair", "grft"])
def test_a_finding_is_exit_1_with_figures_in_json(case, method):
    result = search(case, "--method", method, "--seed", "2", "--json")
    assert result.exit_code == 1, result.stderr
    assert result.stderr == ""
    shown = json.loads(result.stdout)
    assert shown["method"] == method
    assert shown["count"] > 0
    assert (shown["seeds"], shown["local_steps"], shown["origin"]["seed"]) == (40, 20, 2)
    assert shown["pairs"][0]["answers"][0] != shown["pairs"][0]["answers"][1]


def test_words(case):
    result = search(case)
    assert result.exit_code == 1, result.stderr
    for words in ("Found to be treated unequally", "Model calls", "The same person", "instead of"):
        assert words in result.stdout


def test_no_finding_is_exit_0_and_no_proof(case):
    weight = np.zeros((1, small_spec().width), np.float32)
    weight[0, 3] = 1
    Network([Affine(weight, np.zeros(1, np.float32))], []).save(case.model)
    result = succeeded(search(case))
    assert "The tester found no unequal treatment. This is not a proof" in result.stdout


def test_every_idi_is_written_with_a_neighbour(case):
    out = case.folder / "found.csv"
    result = search(case, "--out", out, "--json")
    assert result.exit_code == 1, result.stderr
    table, net, spec = read_table(out), small_network(), small_spec()
    assert len(table) == json.loads(result.stdout)["count"]
    assert (table["answer"] != table["other_answer"]).all()
    names = [f.name for f in spec.features]
    predicted = net.predict(spec.encode(table[names]))
    assert np.where(predicted == 1, "yes", "not yes").tolist() == table["answer"].tolist()
    assert not table[["income", "credits"]].duplicated().any()


@pytest.mark.parametrize("more", [["--method", "guess"], ["--seeds", "0"], ["--out", "found.txt"]])
def test_bad_options_are_exit_2(case, more):
    assert search(case, *more).exit_code == 2


def test_bad_files_are_exit_2_and_named(case):
    case.data.write_text("age,gender\n1,f\n")
    refused(search(case), "people.csv")
    case.data.unlink()
    assert search(case).exit_code == 2
    Network([Affine(np.ones((1, 3), np.float32), np.ones(1, np.float32))], []).save(case.model)
    refused(search(case), "reads 3 columns")


def test_the_result_is_the_same_with_processes_and_after_an_interruption(case, monkeypatch):
    monkeypatch.setattr("fairmend.searching.run._FEWEST", 16)
    monkeypatch.setattr("fairmend.searching.run._MOST", 16)
    out, found = case.folder / "found.csv", []
    resume = ["--resume", case.folder / "parts"]
    for options in ([], ["--jobs", "2"], resume, resume):
        result = search(case, *options, "--out", out, "--json")
        assert result.exit_code == 1, result.stderr
        found.append(({**json.loads(result.stdout), "seconds": None, "origin": None}, out.read_text()))
    assert all(each == found[0] for each in found)
    assert len(list((case.folder / "parts").glob("part-*"))) == 3
    refused(
        search(case, *resume, "--method", "grft"),
        "parts: holds results for another set of options; choose another folder",
    )


def test_jobs_beside_a_cluster_is_refused(case):
    assert "--jobs has no effect with --cluster" in search(case, "--cluster", "tcp://host:1", "--jobs", "2").stderr


def test_a_network_that_gives_everyone_the_same_prediction_is_a_warning(case):
    weight = np.zeros((1, small_spec().width), np.float32)
    Network([Affine(weight, np.ones(1, np.float32))], []).save(case.model)
    assert "same prediction" in json.loads(search(case, "--json").stdout)["warnings"][0]
    assert "same prediction" in " ".join(search(case).output.split())
