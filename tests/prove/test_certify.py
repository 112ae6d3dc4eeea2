"""`certify`: which engine decides, what it refuses, and what it loads."""

import subprocess
import sys

import pytest

RUN = """
import sys
import numpy as np
import fairmend
from fairmend.network import Activation, Affine

rng = np.random.default_rng(0)
first = Affine(rng.normal(size=(4, 2)).astype(np.float32), np.zeros(4, np.float32))
last = Affine(rng.normal(size=(1, 4)).astype(np.float32), np.zeros(1, np.float32))
net = fairmend.Network([first, last], [Activation("relu")])
features = [
    fairmend.Feature("age", "integer", range=(0, 3), protected=True),
    fairmend.Feature("hours", "integer", range=(0, 9), tolerance=1),
]
spec = fairmend.Spec(features)
X = spec.sample_inputs(20, rng)
{call}
loaded = sorted({{"torch", "sklearn", "highspy"}} & set(sys.modules))
sys.exit(f"loaded: {{loaded}}" if loaded else 0)
"""


@pytest.mark.parametrize(
    "call",
    [
        "assert len(fairmend.certify(net, spec, X)) == 20",
        "assert len(fairmend.certify(net, spec, X, engine='enumerate')) == 20",
        "assert fairmend.audit(net, spec, X).total == 20",
        "assert fairmend.audit(net, spec, samples=50).total == 50",
    ],
)
def test_what_enumerates_does_not_load_pytorch(call):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN.format(call=call)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
