"""Specs: the features of an input, how they are encoded, and which people are similar."""

from fairmend.spec.claim import Claim
from fairmend.spec.features import Feature
from fairmend.spec.label import About, Label
from fairmend.spec.links import Link
from fairmend.spec.spec import Spec

__all__ = ["About", "Claim", "Feature", "Label", "Link", "Spec"]
