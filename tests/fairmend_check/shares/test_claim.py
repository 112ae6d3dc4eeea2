"""Claims about shares: what is damaged, too large or about something else is refused."""

import base64
import zlib

import numpy as np
import pytest

from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.certificate import _shares
from fairmend_check.shares.claim import read_shares
from fairmend_check.shares.people import count_axes
from support.quantify_cases import SMALL
from support.share_cases import checked_spec


def packed(numbers, kind):
    return base64.b64encode(zlib.compress(np.array(numbers, kind).tobytes())).decode()


def claim(**changes):
    shares = {
        "fair": 0.5,
        "unfair": 0.25,
        "cells": 2**16,
        "pieces": [1],
        "leaves": 2,
        "nodes": packed([2, 1, 1], "<u2"),
        "cuts": packed([3], "<u4"),
    }
    return {key: value for key, value in {**shares, **changes}.items() if value is not None}


def test_a_claim_is_read():
    claimed = _shares(claim())
    found = read_shares(claimed.proof, checked_spec(SMALL))
    assert (claimed.fair, claimed.unfair, found.cells, found.pieces, found.leaves) == (0.5, 0.25, 65536, [1], 2)
    assert (found.nodes.tolist(), found.cuts.tolist()) == ([2, 1, 1], [3])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fair": 1.5}, "shares from 0 to 1"),
        ({"unfair": -0.1}, "shares from 0 to 1"),
        ({"fair": 0, "unfair": 0}, "not both 0"),
        ({"fair": float("nan")}, "not finite"),
        ({"fair": None}, 'no "fair"'),
        ({"fair": "0.5"}, "must be a number"),
        ({"cells": 1000}, "power of 2"),
        ({"cells": 2**33}, "power of 2"),
        ({"cells": 0}, "power of 2"),
        ({"pieces": [1.5]}, "whole numbers from 1"),
        ({"pieces": [0]}, "whole numbers from 1"),
        ({"pieces": [True]}, "whole numbers from 1"),
        ({"leaves": 0}, "must be 1 to"),
        ({"leaves": 2**40}, "must be 1 to"),
        ({"leaves": 3}, "does not hold exactly 10 bytes"),
        ({"nodes": packed([0] * 10**7, "<u2")}, "does not hold exactly 6 bytes"),
        ({"nodes": "!"}, "cannot be decoded"),
        ({"cuts": packed([1, 2], "<u4")}, "does not hold exactly 4 bytes"),
        ({"boxes": []}, 'unknown key "boxes"'),
    ],
)
def test_what_is_no_claim_is_refused(changes, reason):
    with pytest.raises(CheckError, match=reason):
        read_shares(_shares(claim(**changes)).proof, checked_spec(SMALL))


def test_own_values_on_which_links_depend_are_axes():
    linked = Spec(SMALL.features, links=[{"when": {"age": 20}, "then": {"hours": {"offset": 1}}}])
    assert [count_axes(checked_spec(spec)) for spec in (SMALL, linked)] == [3, 4]
    assert read_shares(claim(), checked_spec(linked)).leaves == 2
