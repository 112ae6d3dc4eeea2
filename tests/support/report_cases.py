"""Reports to test with: a small one of everything, and one whose every name is hostile."""

from functools import cache

import numpy as np

import fairmend
from fairmend.report import Report, audit_report, repair_report
from fairmend.spec import Feature, Label, Spec
from support.cli_case import small_network, small_people, small_spec
from support.strategies import random_network

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
END = "</script><svg onload=alert(3)>"
STYLE = "</style>{{ 7 * 7 }} &amp; ' `"
HOSTILE = (SCRIPT, IMAGE, END, STYLE)


def people():
    """Enough that more are treated unequally than one page of the table shows."""
    return small_people(600)


@cache
def repaired(method: str = "auto", outputs: int = 1, **age: object):
    """A result, its spec, the original and the data it was made with."""
    spec, frame = small_spec(**age), people()
    net = small_network(outputs)
    y = spec.labels(frame) if outputs <= 2 else np.arange(len(frame)) % outputs
    X = spec.encode(frame)
    options = {} if method == "auto" else {"training": fairmend.TrainingOptions(steps=10)}
    result = fairmend.repair(net, spec, X[:30], X[30:120], y[30:120], method=method, **options)
    return result, spec, net, frame, y


@cache
def repair_of(method: str = "auto", outputs: int = 1, **age: object) -> Report:
    result, spec, net, frame, y = repaired(method, outputs, **age)
    return repair_report(
        result,
        spec,
        net,
        frame[:30],
        frame,
        y,
        title="model.onnx",
        seed=0,
        command="fairmend repair model.onnx",
        check="fairmend check out/certificate.json out/model.onnx",
    )


@cache
def audit_of(outputs: int = 1, sampled: bool = False, **age: object) -> Report:
    spec, frame, net = small_spec(**age), people(), small_network(outputs)
    frame = frame if outputs <= 2 else frame.assign(good=np.arange(len(frame)) % outputs)
    found = fairmend.audit(net, spec, None if sampled else frame, samples=500)
    return audit_report(found, net, spec, None if sampled else frame, title="model.onnx", seed=0)


def hostile_spec() -> Spec:
    return Spec(
        [
            Feature(SCRIPT, "categorical", categories=(IMAGE, END), encoding="one-hot", protected=True),
            Feature(IMAGE, "integer", range=(0, 9), scale={"min": 0, "max": 9}, protected=True),
            Feature(END, "continuous", range=(-1, 1)),
            Feature(STYLE, "categorical", categories=(SCRIPT, STYLE, "w" * 400)),
        ],
        Label(f"label {SCRIPT}", END),
    )


@cache
def hostile() -> tuple[Report, Report]:
    """A repair and an audit in which every name and value would run if it were not escaped."""
    import pandas as pd

    spec, rng = hostile_spec(), np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            SCRIPT: rng.choice([IMAGE, END], 200),
            IMAGE: rng.integers(0, 10, 200),
            END: rng.uniform(-1, 1, 200).round(3),
            STYLE: rng.choice([SCRIPT, STYLE, "w" * 400], 200),
            f"label {SCRIPT}": rng.choice([IMAGE, END], 200),
        }
    )
    net = random_network(np.random.default_rng(3), spec.width, [8], 1, "relu")
    X, y = spec.encode(frame), spec.labels(frame)
    result = fairmend.repair(
        net, spec, X[:20], X[20:100], y[20:100], method="prof", training=fairmend.TrainingOptions(steps=5)
    )
    found = fairmend.audit(net, spec, frame)
    assert found.count > 5
    names = {"title": SCRIPT, "command": f"fairmend {END} {IMAGE}"}
    return (
        repair_report(result, spec, net, X[:20], frame, **names, check=f"fairmend check {SCRIPT}"),
        audit_report(found, net, spec, frame, **names),
    )
