"""The reference of the spec, and the checker's reader, know every key."""

from dataclasses import fields
from pathlib import Path

from fairmend.spec import Feature
from fairmend.spec.claim import Claim
from fairmend.spec.label import About, Label
from fairmend_check.kernel import features as checked

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "spec.md"


def test_the_reference_lists_every_key():
    text = PAGE.read_text(encoding="utf-8")
    keys = [key.name for part in (Feature, Label, Claim, About) for key in fields(part)]
    assert [name for name in (*keys, "when", "then", "id", "ranges") if f"`{name}`" not in text] == []


def test_the_checker_knows_every_key_of_a_feature():
    assert set(checked._KEYS) == {key.name for key in fields(Feature)}
