"""A spec that does not match the network makes everyone look equal: warnings say so."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from fairmend.cli.main import main
from fairmend.spec.sanity import spec_warnings


def test_a_constant_prediction_and_a_low_auc_get_a_warning():
    assert spec_warnings(np.array([0, 1] * 20), 0.9) == []
    assert spec_warnings(np.ones(5, int), 0.1) == []  # too few people to say anything
    (one,) = spec_warnings(np.ones(30, int))
    assert one.startswith("The network gives all 30 people the same prediction (class 1). Check that")
    (against,) = spec_warnings(np.array([0, 1] * 20), 0.04)
    assert "AUC 0.040" in against


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    from fairmend.cli.demo import run_demo

    folder = tmp_path_factory.mktemp("warnings") / "demo"
    run_demo(folder, json_output=True, rows=600, epochs=4, method="blind")
    text = (folder / "spec.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("scale")]
    (folder / "unscaled.toml").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("command", [["audit", "--no-report"], ["certify", "--rows", "50"]])
def test_a_spec_without_its_scales_gets_a_warning(command, demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "applicants.csv", "unscaled.toml"):
        shutil.copy(demo / name, tmp_path)
    arguments = [command[0], "model.onnx", "--data", "applicants.csv", "--spec", "unscaled.toml", *command[1:]]
    shown = CliRunner().invoke(main, arguments)
    assert "Warning: The network gives all" in " ".join(shown.stdout.split())
    document = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert any("same prediction" in warning for warning in document["warnings"])


def test_spec_check_says_how_well_the_network_does(demo):
    files = [str(demo / name) for name in ("spec.toml", "applicants.csv", "model.onnx")]
    shown = CliRunner().invoke(main, ["spec", "check", files[0], "--data", files[1], "--model", files[2]])
    assert shown.exit_code == 0
    words = " ".join(shown.stdout.split())
    assert "the model has accuracy" in words
    assert "Warning" not in words
    wrong = CliRunner().invoke(main, ["spec", "check", str(demo / "unscaled.toml"), "--data", files[1], "--model", files[2]])  # noqa: E501  # fmt: skip
    assert "Warning: The network gives all 600 people the same prediction" in " ".join(wrong.stdout.split())
