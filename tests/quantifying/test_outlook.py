"""Before quantify runs, it says what it can do: with many real features, that most people stay undecided."""

import numpy as np
import pytest

from fairmend.quantifying.run import foresee, free_real_features, quantify
from fairmend.spec import Feature, Label, Spec
from support.cli_case import run
from support.strategies import random_network


def case(real):
    features = [Feature("sex", "categorical", categories=("f", "m"), encoding="one-hot", protected=True)]
    features += [Feature(f"x{i}", "continuous", range=(0, 1)) for i in range(real)]
    spec = Spec(features, Label("good", "yes"))
    return random_network(np.random.default_rng(0), spec.width, [8], 1, "relu"), spec


def test_few_real_features_need_no_word():
    assert foresee(*case(3), seconds=10) is None


def test_many_real_features_leave_most_people_undecided_as_foreseen():
    net, spec = case(16)
    seconds = 4.0
    found = foresee(net, spec, seconds)
    result = quantify(net, spec, seconds=seconds, samples=0)
    assert len(found.features) == 16
    assert result.undecided <= found.undecided_soon + 1e-9
    assert found.undecided == pytest.approx(result.undecided, abs=0.25)
    assert "fairmend audit estimates" in found.describe(seconds)


def test_a_feature_that_the_network_does_not_read_does_not_count():
    net, spec = case(4)
    first = net.affines[0]
    weight = first.weight.copy()
    weight[:, -1] = 0
    blind = net.with_affines([type(first)(weight, first.bias), *net.affines[1:]])
    assert free_real_features(blind, spec) == ("x0", "x1", "x2")


def test_the_command_says_it_on_stderr(tmp_path):
    net, spec = case(16)
    net.save(tmp_path / "model.onnx")
    spec.save(tmp_path / "spec.toml")
    call = ("quantify", tmp_path / "model.onnx", "--spec", tmp_path / "spec.toml", "--seconds", "2", "--no-report")
    said = " ".join(run(*call).stderr.split())
    assert "divides the values of 16 numeric features" in said
    assert run(*call, "--json").stderr == ""
