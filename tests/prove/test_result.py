"""A result reads well."""

import numpy as np

from fairmend.prove.certify import certify
from support.certify_cases import CONTINUOUS, sliver


def test_a_report_reads_well():
    X = CONTINUOUS.sample_inputs(4, np.random.default_rng(0))
    report = certify(sliver(0.3, 0.01), CONTINUOUS, X)
    assert repr(report).startswith(
        "CertifyResult(4 inputs: 0 FAIR, 4 UNFAIR, 0 UNKNOWN; unfair rate 100\N{NO-BREAK SPACE}%, engine"
    )
    assert len(report) == 4
    assert report.as_dict(CONTINUOUS)["counts"] == {"fair": 0, "unfair": 4, "unknown": 0}
