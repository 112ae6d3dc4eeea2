"""Mean outputs of groups are those that pandas computes from the data and ONNX Runtime's or the network's outputs."""

import json

import numpy as np
import pandas as pd
import pytest

from fairmend.evaluate.outcomes import tabulate_means
from fairmend.spec import Feature
from support.cli_case import run
from support.price_case import PriceCase, price_network, price_people, price_spec

SEX = Feature("sex", "categorical", categories=("f", "m", "x"), protected=True)


def test_means_and_intervals_are_those_of_pandas():
    rng = np.random.default_rng(0)
    sex, outputs = rng.choice(["f", "m"], 300), rng.normal(100, 20, 300)
    (found,) = tabulate_means([(SEX, sex)], outputs[:, None].astype(np.float32))
    table = pd.Series(outputs.astype(np.float32).astype(float)).groupby(sex).agg(["size", "mean", "sem"])
    for group in found.groups:
        expected = table.loc[group.name]
        ends = expected["mean"] - 1.959964 * expected["sem"], expected["mean"] + 1.959964 * expected["sem"]
        assert group.rows == expected["size"]
        assert (group.mean, group.low, group.high) == pytest.approx((expected["mean"], *ends))
    gap = table["mean"].max() - table["mean"].min()
    error = 1.959964 * np.hypot(*table["sem"])
    shown = found.difference
    assert (shown.mean, shown.low, shown.high) == pytest.approx((gap, gap - error, gap + error))
    assert table.loc[found.highest, "mean"] > table.loc[found.lowest, "mean"]


def test_a_small_group_is_shown_but_not_compared():
    sex = np.array(["f"] * 100 + ["m"] * 99 + ["x"])
    outputs = np.where(sex == "x", 1000.0, 1.0) + np.arange(200) / 1000
    (found,) = tabulate_means([(SEX, sex)], outputs)
    one = next(group for group in found.groups if group.name == "x")
    assert one.small
    assert (one.low, one.high) == (None, None)
    assert found.small_groups == 1
    assert found.difference.mean < 1


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return PriceCase(tmp_path)


def test_an_audit_shows_them_in_json_terminal_and_page(case):
    call = ("audit", case.model, "--spec", case.spec, "--data", case.data)
    document = json.loads(run(*call, "--json").stdout)
    people = price_people()
    outputs = pd.Series(price_network().logits(price_spec().encode(people)).ravel().astype(float))
    means = outputs.groupby(people["sex"]).mean()
    (found,) = document["mean_outputs"]
    assert {group["name"]: group["mean"] for group in found["groups"]} == pytest.approx(means.to_dict())
    assert found["difference"]["mean"] == pytest.approx(means.max() - means.min())
    text = run(*call).stdout
    assert "Mean output of each group" in text
    assert f"{means['m']:.4g}" in text
    assert "Mean outputs of groups" in (case.folder / "fairmend-audit" / "report.html").read_text()


def test_a_network_that_decides_has_none(tmp_path, monkeypatch):
    from support.cli_case import Case

    monkeypatch.chdir(tmp_path)
    case = Case(tmp_path)
    done = run("audit", case.model, "--spec", case.spec, "--data", case.data, "--json", "--no-report")
    assert json.loads(done.stdout)["mean_outputs"] == []
