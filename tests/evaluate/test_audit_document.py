"""The report on an audit: its figures are those of the result and of brute force."""

import pytest

import fairmend
from fairmend.audit.neighbours import find_unequal
from fairmend.evaluate.claims import summarize
from support.cli_case import small_network, small_spec
from support.report_cases import audit_of, people


def test_an_audit_says_what_was_found():
    document = audit_of().document
    spec, frame, net = small_spec(), people(), small_network()
    found = fairmend.audit(net, spec, frame)
    unequal = find_unequal(net, spec, frame)
    assert (document.audit.count, document.audit.total) == (found.count, found.total) == (unequal.count, len(frame))
    assert document.pairs.total == found.count == len(document.pairs.rows) == document.flips.looked_at
    gender = next(f for f in document.groups if f.feature == "gender")
    for group in gender.groups:
        members = (frame["gender"] == group.name).to_numpy()
        assert group.rows == members.sum()
        assert group.unfair_rate == pytest.approx(unequal.rows[members].mean())
        assert group.positive_before == pytest.approx(net.predict(spec.encode(frame))[members].mean())
    verdict = summarize(document).headline
    assert verdict.startswith(f"{found.count} of 600 people (")
    assert verdict.endswith("would get a different prediction if only their age or gender were different.")
