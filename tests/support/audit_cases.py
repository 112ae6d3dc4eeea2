"""A spec, networks and people for the tests of the audit."""

import numpy as np

from fairmend.spec import Feature, Spec
from support.strategies import random_network

AGE = Feature("age", "integer", range=(18, 75), scale={"min": 18, "max": 75}, protected=True)
GENDER = Feature("gender", "categorical", categories=("f", "m"), encoding="one-hot", protected=True)
HOURS = Feature("hours", "integer", range=(1, 60), scale={"mean": 40, "std": 12}, tolerance=2)
INCOME = Feature("income", "continuous", range=(0.0, 1.0))
SPEC = Spec([AGE, GENDER, HOURS, INCOME])


def network(outputs=1, seed=0, width=SPEC.width):
    return random_network(np.random.default_rng(seed), width, [8, 5], outputs)


def people(rows=400, seed=0, spec=SPEC):
    return spec.sample_inputs(rows, np.random.default_rng(seed))


def without_time(result):
    """The result as plain data, less the time it took."""
    return {key: value for key, value in result.as_dict().items() if key != "seconds"}
