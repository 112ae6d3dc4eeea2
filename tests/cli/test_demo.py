"""`fairmend demo`: shows a bias, repairs it, and says what is proven."""

import contextlib
import io
import json
import os
import subprocess
import sys

import pytest

from fairmend.auditing.neighbours import find_unequal
from fairmend.base.errors import FairmendError
from fairmend.base.text import percent
from fairmend.cli.demo import run_demo
from fairmend.network import load_network
from fairmend.spec import Spec
from fairmend.tables import read_table
from fairmend.workflows.demo import FILES

SMALL = {"rows": 600, "epochs": 8, "repair_rows": 20, "calibration_rows": 100}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a small demo, and what it printed."""
    folder, printed = tmp_path_factory.mktemp("small") / "demo", io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_demo(folder, seed=3, **SMALL)
    return folder, printed.getvalue()


def test_the_folder_holds_everything_and_it_fits_together(demo):
    folder, printed = demo
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    spec, frame = Spec.load(folder / "spec.toml"), read_table(folder / "applicants.csv")
    before, after = (load_network(folder / f"{name}.onnx") for name in ("model", "repaired-model"))
    result = json.loads((folder / "result.json").read_text())
    assert find_unequal(after, spec, read_table(folder / "repair_inputs.csv")).count == 0
    assert find_unequal(before, spec, frame).count == result["before"]["data"]["count"]
    assert find_unequal(after, spec, frame).count == result["after"]["data"]["count"]

    pairs = read_table(folder / "unfair_pairs.csv")
    assert len(pairs) == result["before"]["data"]["count"] > 0
    counterfactuals = pairs.assign(age=pairs["other_age"], gender=pairs["other_gender"])
    for name, net in (("before", before), ("after", after)):
        assert net.predict(spec.encode(pairs)).tolist() == pairs[f"answer_{name}"].tolist()
        assert net.predict(spec.encode(counterfactuals)).tolist() == pairs[f"other_answer_{name}"].tolist()
    assert (pairs["answer_before"] != pairs["other_answer_before"]).all()

    shown = " ".join(printed.split())
    for pair in result["examples"]:
        sentence = f"Applicant {pair['applicant']}: {pair['before'][0]}. The same person, "
        assert sentence in shown
        assert pair["before"][0] != pair["before"][1]
        if pair["proven"]:
            assert pair["after"][0] == pair["after"][1]
    assert "instead of" in shown


def test_the_same_seed_gives_the_same_files(demo, tmp_path):
    run_demo(tmp_path / "again", seed=3, json_output=True, **SMALL)
    for name in FILES:
        if name not in ("result.json", "report.html"):  # they hold seconds, and the time of day
            assert (demo[0] / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FairmendError, match="is a file"):
        run_demo(tmp_path / "file")
    with pytest.raises(FairmendError, match="not a folder"):
        run_demo(tmp_path / "file" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_whole_demo_tells_its_story_and_its_figures_are_good(tmp_path):
    code = "from fairmend.cli.main import main; main(prog_name='fairmend')"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, "demo"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    folder = tmp_path / "fairmend-demo"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    document = json.loads((folder / "result.json").read_text())
    before, after = document["before"], document["after"]
    assert (document["data_rows"], document["repair_inputs"]) == (5_000, 100)
    assert len(document["calibration_rows"]) == 500
    assert 0.1 < before["data"]["idi_rate"] < 0.4
    assert before["utility"]["accuracy"] > 0.8
    assert before["repair_inputs"]["count"] > 0
    assert after["repair_inputs"]["count"] == 0
    assert after["data"]["idi_rate"] < before["data"]["idi_rate"] / 3
    assert after["utility"]["accuracy"] > before["utility"]["accuracy"] - 0.05
    assert 0.4 < after["utility"]["positive_rate"] < 0.8

    story = " ".join(result.stdout.split())
    for sentence in (
        "5,000 people applied for a loan",
        f"But {before['data']['count']:,} of 5,000 applicants ({percent(before['data']['idi_rate'])}) would get",
        f"Repair inputs treated unequally {before['repair_inputs']['count']} of 100 0 of 100",
        "The same applicants after the repair",
        "The certificate is valid",
        "fairmend repair fairmend-demo/model.onnx --data fairmend-demo/applicants.csv",
    ):
        assert " ".join(sentence.split()) in story, sentence
    for pair in document["examples"]:
        assert f"Applicant {pair['applicant']}: {pair['before'][0]}. The same person, " in story
        assert pair["after"][0] == pair["after"][1] or not pair["proven"]
