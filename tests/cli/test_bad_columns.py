"""Columns that are named wrongly, or read as they are where that says too little: one line, exit 2, nothing written."""

import numpy as np
import pandas as pd
import pytest

from fairmend.network import Activation, Affine, Network
from support.cli_case import refused_in_one_line, run

SEX = 'name = "sex"\nkind = "categorical"\ncategories = ["F", "M"]\nencoding = "one-hot"\nprotected = true\n'
LOG = 'name = "log"\nkind = "as-is"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a network of three columns, and people whose sex is one-hot already."""
    folder, rng = tmp_path_factory.mktemp("columns"), np.random.default_rng(0)
    sizes = ((4, 3), (1, 4))
    layers = [Affine(rng.normal(size=s).astype(np.float32), np.zeros(s[0], np.float32)) for s in sizes]
    Network(layers, [Activation("relu")]).save(folder / "m.onnx")
    sex = rng.integers(0, 2, 40)
    pd.DataFrame({"sex_F": sex, "sex_M": 1 - sex, "log": rng.normal(size=40)}).to_csv(folder / "p.csv", index=False)
    return folder


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([SEX + 'columns = ["sex_F", "sex_X"]', LOG], 'no column "sex_X"'),
        ([SEX + 'columns = ["sex_M", "sex_F"]', LOG], 'has the name of the category "M"'),
        ([SEX + 'columns = ["sex_F"]', LOG], "1 names for 2 categories"),
        ([SEX + 'columns = ["sex_F", "log"]', LOG], 'is the feature "log" already'),
        ([SEX + 'columns = ["sex_F", "log"]', 'name = "sex_M"\nkind = "as-is"\n'], "neither 0 nor 1"),
        ([SEX + 'columns = ["sex_F", "sex_M"]', LOG + "protected = true"], "cannot have protected"),
        ([SEX + 'columns = ["sex_F", "sex_M"]', LOG + "tolerance = 1"], "cannot have tolerance"),
    ],
)
def test_a_wrong_spec_is_refused_in_a_line(folder, tmp_path, features, words):
    spec = tmp_path / "spec.toml"
    spec.write_text("\n".join(f"[[feature]]\n{feature}\n" for feature in features))
    report = tmp_path / "report"
    done = run(
        "audit", str(folder / "m.onnx"), "--data", str(folder / "p.csv"), "--spec", str(spec), "--report", str(report)
    )
    refused_in_one_line(done, words)
    assert not report.exists()


def test_what_needs_all_values_names_the_column(folder, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(f'[[feature]]\n{SEX}columns = ["sex_F", "sex_M"]\n\n[[feature]]\n{LOG}')
    for command in ("quantify", "audit"):
        refused_in_one_line(run(command, str(folder / "m.onnx"), "--spec", str(spec)), '"log"')
