"""The result of a repair says what is proven."""

from support.prof_cases import SPECS, case, repair


def test_the_repr_says_what_was_proven():
    network, spec, X, X_cal, y_cal = case(SPECS["ordinal"], seed=9)
    result = repair(network, spec, X, X_cal, y_cal, steps=2)
    assert repr(result).startswith("RepairResult(prof: 10 neighbourhoods proven")
    assert "inference" in repr(result)
    assert len(repr(result)) < 250
    assert "array" not in repr(result)
