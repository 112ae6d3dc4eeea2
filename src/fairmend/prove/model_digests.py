"""Digests of networks and specs: they tell whether kept results are of the same ones."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fairmend.models import RunModel
from fairmend.network import Model, Network
from fairmend.spec import Spec


def digest_network(net: Model) -> str:
    """Return a text that changes with what the model computes."""
    if isinstance(net, RunModel):
        return net.digest()
    assert isinstance(net, Network)
    digest = hashlib.sha256()
    _add(digest, (tuple((node.operation, node.sources) for node in net.nodes), net.closing, net.threshold))
    return digest.hexdigest()


def digest_spec(spec: Spec) -> str:
    """Return a text that changes with the spec, but for its [about]."""
    content = {**spec.to_dict(), "about": None}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _add(digest: Any, value: object) -> None:
    """Add a value that consists of data classes, tuples, arrays, and what `repr` tells apart."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple | list):
        digest.update(f"({len(value)}".encode())
        for each in value:
            _add(digest, each)
    elif is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for field in fields(value):
            _add(digest, getattr(value, field.name))
    else:
        digest.update(f"{value!r};".encode())
