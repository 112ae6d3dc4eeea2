"""Networks that are graphs are repaired: a small run of benchmarks/repairs/graphs.py, on people who are made up."""

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.repairs import graphs
from fairmend import Feature
from fairmend.auditing.neighbours import find_unequal
from fairmend.network import load_network


def people(rows=500):
    rng = np.random.default_rng(0)
    columns = {"sex": 2, "race": 3, "workclass": 4, "age": 40, "hours-per-week": 60}
    frame = pd.DataFrame({name: rng.integers(0, size, rows) for name, size in columns.items()})
    y = (frame["age"] + 10 * frame["sex"] + rng.normal(0, 5, rows) > 25).astype(np.int64).to_numpy()
    features = tuple(Feature(name, "integer", range=(0, size - 1)) for name, size in columns.items())
    return graphs.Table("people", frame, y, features)


@pytest.mark.parametrize("name", ["resnet", "embeddings"])
def test_all_repair_inputs_are_proven_and_none_is_unequal_in_pytorch(name):
    shape = {"width": 6, "inner": 8, "blocks": 2} if name == "resnet" else {}
    task = graphs.make_task(name, people(), 2, **shape)
    before = {key: value.clone() for key, value in task.module.state_dict().items()}
    row, fine = graphs.run(task, "protected", "auto")
    assert fine, row
    assert all(torch.equal(value, before[key]) for key, value in task.module.state_dict().items())


def test_unequal_treatment_by_enumeration_is_what_the_audit_finds():
    task = graphs.make_task("resnet", people(), 1, width=4, inner=4, blocks=1)
    X = task.parts["held out"][0][:40]
    for spec in task.specs.values():
        found = graphs.unequal(task.module, spec, X)
        assert np.array_equal(found, find_unequal(load_network(task.module), spec, X).rows)
