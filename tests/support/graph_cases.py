"""A small network with every kind of step that is no chain, its spec, and a certificate of it."""

from functools import cache

import numpy as np

from fairmend.network import Activation, Affine, Columns, Concatenate, Input, Lookup, Network, Node, Scale, Sum
from fairmend.network.folding import Norm
from fairmend.prove.certificate import Certificate, certificate_of_fair
from fairmend.spec import Feature, Spec
from support.checker_cases import content_of

SPEC = Spec(
    [
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("job", "integer", range=(0, 3)),
        Feature("age", "integer", range=(18, 60), scale={"min": 18, "max": 60}, protected=True),
        Feature("income", "continuous", range=(0, 100), scale={"mean": 50, "std": 25}, tolerance=1.0),
    ]
)


def residual_network(rng: np.random.Generator, blind: bool = False) -> Network:
    """An embedding of the job beside the other columns, a residual block of GELU, and a skip to the head."""

    def affine(out: int, width: int) -> Affine:
        weight = rng.normal(size=(out, width)) / np.sqrt(width)
        return Affine(weight.astype(np.float32), rng.normal(size=out).astype(np.float32) / 2)

    first = affine(4, 5)
    if blind:  # to sex and age, in the first layer; the skip passes on the income alone
        weight = first.weight.copy()
        weight[:, [2, 3]] = 0
        first = Affine(weight, first.bias)
    norm = Norm("bn", *(rng.normal(size=4).astype(np.float32), np.full(4, 0.5, np.float32)), None, None, 1e-5, "bn")
    nodes = [
        Node(Input(4)),
        Node(Columns((1,)), (0,)),
        Node(Lookup(rng.normal(size=(4, 2)).astype(np.float32)), (1,), "jobs"),
        Node(Columns((0, 2, 3)), (0,)),
        Node(Concatenate(), (2, 3)),
        Node(first, (4,), "first"),
        Node(Scale((norm,), 4, np.dtype(np.float32)), (5,)),
        Node(Activation("gelu"), (6,)),
        Node(affine(4, 4), (7,), "second"),
        Node(Sum(), (5, 8)),
        Node(Activation("prelu", parameters=(0.25, -0.5, 0.125, 1.5)), (9,), "slopes"),
        Node(Columns((3,)) if blind else Columns((2, 3)), (0,)),
        Node(Concatenate(), (10, 11)),
        Node(affine(1, 5 if blind else 6), (12,), "head"),
    ]
    return Network.from_nodes(nodes)


@cache
def graph_case() -> tuple[Network, Certificate, np.ndarray]:
    """The network, a certificate for some rows, and these rows."""
    rng = np.random.default_rng(3)
    network = residual_network(rng)
    head = network.head
    blunt = Affine(head.weight * np.float32([1, 1, 1, 1, 0.1, 1]) / 8, head.bias + np.float32(0.3))  # some are fair
    network = network.with_operations({len(network.nodes) - 1: blunt})
    X = SPEC.sample_inputs(60, rng, np.float32)
    certificate, covered = certificate_of_fair(network, SPEC, X)
    return network, certificate, X[covered]


def graph_content() -> dict:
    """The certificate as plain data that a test may change."""
    return content_of(graph_case()[1])
