"""The demo shows a real bias, repairs it, and is honest about what is left."""

import json
import os
import subprocess
import sys

import pytest

from fairmend.audit.neighbours import find_unequal
from fairmend.cli.demo import FILES, run_demo
from fairmend.datasets.demo import loan_applicants, loan_spec, train_network
from fairmend.errors import FairmendError
from fairmend.network import load_network
from fairmend.spec import Spec
from fairmend.tables import read_table

SMALL = {"rows": 600, "epochs": 8, "repair_rows": 20, "calibration_rows": 100}


def test_the_population_is_seeded_and_fits_its_spec():
    spec, frame = loan_spec(), loan_applicants(500, seed=4)
    assert frame.equals(loan_applicants(500, seed=4))
    assert not frame.equals(loan_applicants(500, seed=5))
    X = spec.encode(frame)
    assert spec.decode(X)["gender"].tolist() == frame["gender"].tolist()
    assert {f.kind for f in spec.features} == {"integer", "continuous", "categorical"}
    assert [f.name for f in spec.protected] == ["age", "gender"]


def test_the_population_has_the_bias_it_is_said_to_have():
    frame = loan_applicants(20_000)
    approved = frame["approved"] == "yes"
    assert 0.5 < approved.mean() < 0.7
    women, men = (approved[frame["gender"] == gender].mean() for gender in ("female", "male"))
    assert men - women > 0.05
    alike = frame["years_employed"].between(3, 7)  # age brings experience, which makes up for some of it
    young, old = approved[alike & (frame["age"] < 30)].mean(), approved[alike & (frame["age"] > 55)].mean()
    assert young - old > 0.05


def test_training_is_deterministic_and_leaves_the_random_state_alone():
    import torch

    spec, frame = loan_spec(), loan_applicants(300)
    X, y = spec.encode(frame), spec.labels(frame)
    before = torch.random.get_rng_state()
    first, second = (train_network(X, y, epochs=2, seed=1) for _ in range(2))
    assert first == second
    assert first != train_network(X, y, epochs=2, seed=2)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_folder_holds_everything_and_it_fits_together(tmp_path, capsys):
    run_demo(tmp_path / "demo", **SMALL)
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == sorted(FILES)
    spec, frame = Spec.load(tmp_path / "demo" / "spec.toml"), read_table(tmp_path / "demo" / "applicants.csv")
    before, after = (load_network(tmp_path / "demo" / f"{name}.onnx") for name in ("model", "repaired-model"))
    result = json.loads((tmp_path / "demo" / "result.json").read_text())
    assert find_unequal(after, spec, read_table(tmp_path / "demo" / "repair_inputs.csv")).count == 0
    assert find_unequal(before, spec, frame).count == result["before"]["unfair_data_rows"]
    assert find_unequal(after, spec, frame).count == result["after"]["unfair_data_rows"]

    pairs = read_table(tmp_path / "demo" / "unfair_pairs.csv")
    assert len(pairs) == result["before"]["unfair_data_rows"] > 0
    nearest = pairs.assign(age=pairs["other_age"], gender=pairs["other_gender"])
    for name, net in (("before", before), ("after", after)):
        assert net.predict(spec.encode(pairs)).tolist() == pairs[f"answer_{name}"].tolist()
        assert net.predict(spec.encode(nearest)).tolist() == pairs[f"other_answer_{name}"].tolist()
    assert (pairs["answer_before"] != pairs["other_answer_before"]).all()

    shown = " ".join(capsys.readouterr().out.split())
    for pair in result["pairs"]:
        sentence = f"Applicant {pair['applicant']}: {pair['before'][0]}. The same person, "
        assert sentence in shown
        assert pair["before"][0] != pair["before"][1]
        if pair["proven"]:
            assert pair["after"][0] == pair["after"][1]
    assert "instead of" in shown


def test_the_same_seed_gives_the_same_files(tmp_path):
    for name in ("a", "b"):
        run_demo(tmp_path / name, seed=3, json_output=True, **SMALL)
    for name in FILES:
        if name not in ("result.json", "report.json", "report.html"):  # they hold seconds, and the time of day
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FairmendError, match="is a file"):
        run_demo(tmp_path / "file")
    with pytest.raises(FairmendError, match="not a folder"):
        run_demo(tmp_path / "file" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_whole_demo_is_worth_watching(tmp_path):
    code = "from fairmend.cli.main import main; main(prog_name='fairmend')"
    environment = {**os.environ, "COLUMNS": "100"}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, "demo", "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    document = json.loads(result.stdout)
    before, after = document["before"], document["after"]
    assert (document["data_rows"], document["repair_inputs"]) == (5_000, 100)
    assert len(document["calibration_rows"]) == 500
    assert 0.1 < before["unfair_data_rate"] < 0.4
    assert before["accuracy"] > 0.8
    assert before["unfair_repair_inputs"] > 0
    assert after["unfair_repair_inputs"] == 0
    assert after["unfair_data_rate"] < before["unfair_data_rate"] / 3
    assert after["accuracy"] > before["accuracy"] - 0.05
    assert 0.4 < after["positive_rate"] < 0.8
    assert sorted(path.name for path in (tmp_path / "fairmend-demo").iterdir()) == sorted(FILES)
