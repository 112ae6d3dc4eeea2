"""Regions in blocks, for certificates of many inputs: "In blocks" of docs/certificate.md.

The file has a line for each block, which is checked before the next one is read. The arrays of a block are compressed;
their sizes follow from its number of regions and the model, and nothing larger is ever decompressed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fairmend_check.errors import CheckError
from fairmend_check.json_reader import only_keys, packed_array, parse_json, take
from fairmend_check.model import Model
from fairmend_check.region_lists import Regions

MAX_REGIONS = 10**7  # of a certificate
MAX_NUMBERS = 2**21  # in the inputs of a block


def read_blocks(lines: Iterator[bytes], count: int, model: Model, scores: bool) -> Iterator[Regions]:
    """Return the regions of each block; raise CheckError unless the file ends with all ``count`` of them.

    ``lines`` are all lines of the file, each with its line feed.
    """
    digest = hashlib.sha256(next(lines))
    done = 0
    for number, line in enumerate(lines):
        where = f"certificate, line {number + 2}"
        data = parse_json(line, where)
        if "sha256" in data:
            _check_end(data, where, done, count, digest.hexdigest())
            if next(lines, None) is not None:
                raise CheckError(f"{where}: this is the closing line, but more lines follow")
            return
        digest.update(line)
        regions = _block(data, where, number, done, model, scores)
        done += len(regions.x)
        if done > count:
            raise CheckError(f"{where}: there are more regions than the {count:,} of the first line")
        yield regions
    raise CheckError(
        f"certificate: the closing line is missing after {done:,} of {count:,} regions; the file is cut off"
    )


def _check_end(data: Any, where: str, done: int, count: int, digest: str) -> None:
    only_keys(data, ("regions", "sha256"), where)
    if take(data, "regions", int, where) != count or done != count:
        raise CheckError(f"{where}: the file ends after {done:,} of {count:,} regions")
    if take(data, "sha256", str, where) != digest:
        raise CheckError(f"{where}: sha256 is not that of the lines before it; the file is damaged")


def _block(data: Any, where: str, number: int, first: int, model: Model, scores: bool) -> Regions:
    if take(data, "block", int, where) != number:
        raise CheckError(f"{where}.block is {data['block']}; it must be {number}, because blocks are in order")
    only_keys(data, ("block", "regions", "proof", "inputs", *(() if scores else ("classes",))), where)
    count, proof = take(data, "regions", int, where), take(data, "proof", str, where)
    if not 1 <= count <= MAX_NUMBERS // model.inputs:
        raise CheckError(f"{where}.regions is {count}; it must be 1 to {MAX_NUMBERS // model.inputs:,}")
    if proof not in ("linear", "points"):
        raise CheckError(f"{where}.proof is {proof[:40]!r}; it must be linear or points")
    kind = {"float32": "<f4", "float64": "<f8"}[model.dtype]
    x = packed_array(data, "inputs", (model.inputs, count), kind, where).T.astype(np.float64)
    if not np.isfinite(x).all():
        raise CheckError(f"{where}.inputs contains a number that is not finite")
    classes = (
        np.empty(0, np.int64) if scores else packed_array(data, "classes", (count,), "<u4", where).astype(np.int64)
    )
    if (classes >= max(2, model.outputs)).any():
        raise CheckError(f"{where}.classes contains {classes.max()}; the model has no such class")
    return Regions(first, x, np.full(count, proof == "points"), None, classes.astype(np.int64), None, None)
