"""What an audit keeps of every row is enough to tell its groups."""

import numpy as np

from fairmend.auditing.audited_rows import RowCollector
from fairmend.auditing.neighbours import ExhaustiveScan
from fairmend.evaluate.groups import values_of_rows
from support.audit_cases import SPEC, network, people


def test_the_protected_values_of_all_rows_are_those_of_the_user():
    net, X = network(), people(90)
    collector = RowCollector()
    for part in np.split(X, 3):
        collector.add(SPEC, part, ExhaustiveScan(net, SPEC).scan(part))
    rows = collector.rows()
    decoded = SPEC.decode(X)
    for name, values in values_of_rows(SPEC, rows).items():
        assert values.distinct[values.codes].tolist() == decoded[name].tolist()
    assert rows.logits.shape == rows.unequal.shape == (90,)
