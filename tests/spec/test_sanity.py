"""A spec that is not the network's makes everybody equal: that must not look like an answer."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from fairmend.cli.main import main
from fairmend.spec.sanity import spec_doubts


def test_one_answer_for_all_and_scores_against_the_labels():
    assert spec_doubts(np.array([0, 1] * 20), 0.9) == []
    assert spec_doubts(np.ones(5, int), 0.1) == []  # too few people to say anything
    (one,) = spec_doubts(np.ones(30, int))
    assert "all 30 people one answer (1)" in one
    (against,) = spec_doubts(np.array([0, 1] * 20), 0.04)
    assert "AUC 0.040" in against


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    from fairmend.cli.demo import run_demo

    folder = tmp_path_factory.mktemp("doubts") / "demo"
    run_demo(folder, json_output=True, rows=600, epochs=4, method="blind", steps=5)
    text = (folder / "spec.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("scale")]
    (folder / "unscaled.toml").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("command", [["audit", "--no-report"], ["certify", "--rows", "50"]])
def test_a_spec_without_its_scales_is_doubted(command, demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "applicants.csv", "unscaled.toml"):
        shutil.copy(demo / name, tmp_path)
    arguments = [command[0], "model.onnx", "--data", "applicants.csv", "--spec", "unscaled.toml", *command[1:]]
    shown = CliRunner().invoke(main, arguments)
    assert "one answer" in " ".join(shown.stdout.split())
    document = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert any("one answer" in warning for warning in document["warnings"])


def test_spec_check_says_how_well_the_network_does(demo):
    files = [str(demo / name) for name in ("spec.toml", "applicants.csv", "model.onnx")]
    shown = CliRunner().invoke(main, ["spec", "check", files[0], "--data", files[1], "--model", files[2]])
    assert shown.exit_code == 0
    words = " ".join(shown.stdout.split())
    assert "the network is right for" in words
    assert "Warning" not in words
    wrong = CliRunner().invoke(main, ["spec", "check", str(demo / "unscaled.toml"), "--data", files[1], "--model", files[2]])  # noqa: E501  # fmt: skip
    assert "Warning: the network gives all 600 people one answer" in " ".join(wrong.stdout.split())
