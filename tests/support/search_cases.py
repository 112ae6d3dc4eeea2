"""Networks whose unfairness is known, and specs of every kind, for the tests of the testers."""

import numpy as np

from fairmend.network import Activation, Affine, Network
from fairmend.searching.oracle import Oracle
from fairmend.searching.result import DiscoveredInstances
from fairmend.spec import Feature, Spec

METHODS = ("adf", "eidig", "neuronfair", "grft")


def spec(*, protected=("sex",), tolerance=0, one_hot=True, age="integer"):
    """Six features in eight columns, or in six: scaled, one-hot or ordinal, protected as asked."""
    return Spec(
        [
            Feature("age", age, range=(18, 60), scale={"min": 18, "max": 60}, protected="age" in protected),
            Feature("sex", "categorical", categories=("f", "m"), protected="sex" in protected),
            Feature(
                "job",
                "categorical",
                categories=("a", "b", "c"),
                encoding="one-hot" if one_hot else "ordinal",
                protected="job" in protected,
            ),
            Feature("hours", "integer", range=(0, 40), scale={"mean": 20, "std": 10}, tolerance=tolerance),
            Feature("wealth", "continuous", range=(0, 1)),
            Feature("fixed", "integer", range=(3, 3)),
        ]
    )


def biased(spec, outputs=1, seed=0, bias=1.0):
    """A random network that reads protected columns with weights of its own size, `bias`."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(12, spec.width)) / np.sqrt(spec.width)
    for feature in spec.protected:
        first[:, spec.columns(feature.name)] = bias * rng.normal(size=(12, feature.width))
    layers = [(first, rng.normal(size=12) * 0.1), (rng.normal(size=(8, 12)) / 3, rng.normal(size=8) * 0.1)]
    layers.append((rng.normal(size=(outputs, 8)), np.zeros(outputs)))
    affines = [Affine(weight.astype(np.float32), shift.astype(np.float32)) for weight, shift in layers]
    net = Network(affines, [Activation("relu"), Activation("tanh")])
    if outputs > 1:
        return net
    # The middle of what is usual becomes the decision, so that there is one.
    middle = np.median(net.logits(people(spec)))
    head = Affine(net.head.weight, (net.head.bias - middle).astype(np.float32))
    return net.with_affines([*net.affines[:-1], head])


def blind(spec, outputs=1):
    """The same network, but for protected columns and those with a tolerance, which it does not read."""
    net = biased(spec, outputs, bias=0.0)
    weight = net.affines[0].weight.copy()
    for feature in spec.features:
        if feature.varies:
            weight[:, spec.columns(feature.name)] = 0
    return net.with_affines([Affine(weight, net.affines[0].bias), *net.affines[1:]])


def people(spec, rows=150, seed=1):
    return spec.sample_inputs(rows, np.random.default_rng(seed))


SPECS = {
    "one-hot": spec(),
    "several in order": spec(protected=("age", "sex"), one_hot=False),
    "several": spec(protected=("sex", "job")),
    "tolerance": spec(protected=("age",), tolerance=2),
}


def check_starts(find_starts):
    """Check that more steps of a global phase reach more IDIs, and that every start is one."""
    case = spec(one_hot=False)
    reached = []
    for steps in (0, 10):
        rng = np.random.default_rng(0)
        oracle = Oracle(biased(case, bias=0.05), case, rng)
        seeds = oracle.space.values(people(case))
        starts, partners = find_starts(oracle, seeds, steps, DiscoveredInstances(oracle), rng, None)
        assert (oracle.predict(starts) != oracle.predict(oracle.neighbours(starts, partners))).all()
        reached.append(len(starts))
    assert reached[0] < reached[1]
