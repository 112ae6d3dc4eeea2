"""Whether what is deployed gives members of a class the same answers, as a certificate about classes claims.

No output of such a model has bounds that an answer could be compared with. But everyone has members of their class, who
must get the same answer in the same place of the same batch, bit for bit, whatever the model computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.base.errors import FairmendError
from fairmend.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

    from fairmend_check.kernel.certificate import ClassCertificate

Ask = Callable[[Any, int, int], NDArray[Any]]
"""Asks what is deployed for people from one number to another; returns (people, columns)."""


def compare_members(
    ask: Ask,
    claimed: ClassCertificate,
    spec: Spec,
    variants: Sequence[Sequence[NDArray[Any]]],
    takes: str,
    batch_sizes: Sequence[int],
) -> tuple[list[NDArray[Any]], NDArray[np.int64], pd.DataFrame]:
    """Return the answers to people and to members of their classes in their places, each (answers, columns).

    `variants` have for each port what it holds: for people, for members of their classes, and in the second half for
    members with columns that no person has. Returns as well the number of the person of each answer, and the people.
    """
    valid = variants[: len(variants) // 2]
    variants = valid if takes == "people" else variants
    people = [spec.decode(_matrix(spec, claimed, held)) for held in valid]
    kept = np.arange(len(people[0])) if takes == "encoded" else _encoded_alike(spec, claimed, people, variants)
    if not len(kept):
        raise FairmendError("nobody is encoded as the certificate says, so that nothing can be compared")
    given: list[Any] = [frame.iloc[kept].reset_index(drop=True) for frame in people]
    if takes == "encoded":
        given = [_inputs(claimed, held) for held in variants]
    found: list[list[NDArray[Any]]] = [[] for _ in given]
    numbers = []
    for size in batch_sizes:
        for start in range(0, len(kept) if size == batch_sizes[-1] else min(len(kept), 8 * size), size):
            end = min(start + size, len(kept))
            for answers, each in zip(found, given, strict=True):
                answers.append(ask(each, start, end))
            numbers.append(np.arange(start, end))
    return [np.concatenate(answers) for answers in found], np.concatenate(numbers), people[0].iloc[kept]


def _inputs(claimed: ClassCertificate, held: Sequence[NDArray[Any]]) -> Any:
    """Return what the file reads: an array, or with several inputs one by the name of each."""
    if len(held) == 1:
        return held[0]
    return {port.name: values for port, values in zip(claimed.entry.ports, held, strict=True)}


def _matrix(spec: Spec, claimed: ClassCertificate, held: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return what the ports hold as rows of the spec."""
    X = np.zeros((len(held[0]), spec.width))
    for port, values in zip(claimed.entry.ports, held, strict=True):
        columns = values.reshape(len(values), -1)
        for feature, start in zip(port.features, port.starts, strict=True):
            part = columns[:, start : start + feature.width]
            if port.type == "string":
                codes = {name: code for code, name in enumerate(feature.categories or ())}
                part = np.array([[codes[text]] for text in part[:, 0].tolist()])
            X[:, spec.columns(feature.name)] = part
    return X


def _encoded_alike(
    spec: Spec,
    claimed: ClassCertificate,
    people: Sequence[pd.DataFrame],
    variants: Sequence[Sequence[NDArray[Any]]],
) -> NDArray[np.int64]:
    """Return the people whom encoding their values again gives the numbers of the class, in all variants."""
    single = any(port.type == "float32" for port in claimed.entry.ports)
    kind = np.float32 if single else np.float64
    same = [
        (spec.encode(frame, kind) == _matrix(spec, claimed, held).astype(kind)).all(axis=1)
        for frame, held in zip(people, variants, strict=True)
    ]
    return np.flatnonzero(np.all(same, axis=0))
