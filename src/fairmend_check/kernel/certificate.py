"""The certificate as typed data, checked against the format in docs/certificate.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.json_reader import only_keys, or_null, packed_array, parse_json, read_lines, take
from fairmend_check.kernel.claim import HALF
from fairmend_check.kernel.entry import Entry, read_entry
from fairmend_check.kernel.features import Feature
from fairmend_check.kernel.model import Model
from fairmend_check.kernel.spec import Spec, read_spec

_KEYS = (
    "format", "version", "fairmend", "method", "claim", "arithmetic", "model", "spec", "global", "shares", "entry",
    "count", "inputs",
)  # fmt: skip
_MODEL_KEYS = ("weights_sha256", "file_sha256", "inputs", "outputs", "dtype", "network")
_LAST_KEY, _END = b'"inputs": [\n', b"]}\n"  # the blocks of inputs are lines between these
MAX_COUNT = 10**7  # inputs of a certificate
MAX_NUMBERS = 2**21  # in the inputs of a block


@dataclass(frozen=True, eq=False)
class ClaimedShares:
    """At least ``fair`` of all people are treated equally, and at least ``unfair`` unequally.

    The ``proof`` is plain data, which `shares` reads.
    """

    fair: float
    unfair: float
    proof: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Certificate:
    """The content of a certificate, with the features that it says the model does not depend on, and their columns.

    ``shares`` is a claim about all people; a certificate with one lists no inputs and has no global claim. The inputs,
    ``count`` of them, are not read yet, because that needs the widths of the model: `read_inputs` does. ``network`` is
    plain data, which `description` reads: the steps of the model, their tensors or None where these are large, and the
    tensors that a state dict has beside them. ``network_sha256`` is its digest.
    """

    arithmetic: str
    weights_sha256: str
    file_sha256: str | None
    inputs: int
    outputs: int
    dtype: str
    network: dict[str, Any]
    network_sha256: str
    spec: Spec
    blind: tuple[tuple[Feature, int], ...]
    count: int
    path: Path
    shares: ClaimedShares | None = None

    def read_inputs(self, model: Model) -> Iterator[NDArray[np.float64]]:
        """Return the inputs (inputs, width), block by block; refuse what does not fit, and a file that is cut off.

        This opens the file once more. Whoever changes it while it is checked could as well change it afterwards.
        """
        lines = read_lines(self.path, "certificate")
        next(lines)
        done, more = 0, self.count > 0
        for number, line in enumerate(lines, start=2):
            where = f"certificate, line {number}"
            if line == _END:
                if more or done != self.count:
                    raise CheckError(f"{where}: the list ends after {done:,} of {self.count:,} inputs")
                if next(lines, None) is not None:
                    raise CheckError(f"{where}: there is something after the last line")
                return
            if not more:
                raise CheckError(f"{where}: the list of inputs must end here")
            more = line.endswith(b",\n")
            block = _block(parse_json(line[:-2] if more else line, where), model, where)
            done += len(block)
            if done > self.count:
                raise CheckError(f"{where}: there are more inputs than the {self.count:,} of the first line")
            yield block
        raise CheckError(f"certificate: the list of inputs does not end; the file is cut off after {done:,} of them")


@dataclass(frozen=True, eq=False)
class ClassCertificate:
    """The claim that the output of a model depends on a row only through its class, by the entry of the model.

    It is about the bytes of one file, of which nothing but the entry and the edges is read.
    """

    file_sha256: str
    spec: Spec
    entry: Entry


def _block(data: Any, model: Model, where: str) -> NDArray[np.float64]:
    """Return the inputs of a block, which are stored column by column."""
    only_keys(data, ("count", "columns"), where)
    count = take(data, "count", int, where)
    if not 1 <= count <= MAX_NUMBERS // model.inputs:
        raise CheckError(f"{where}.count is {count}; it must be 1 to {MAX_NUMBERS // model.inputs:,}")
    kind = {"float32": "<f4", "float64": "<f8"}[model.dtype]
    x = packed_array(data, "columns", (model.inputs, count), kind, where).T.astype(np.float64)
    if not np.isfinite(x).all():
        raise CheckError(f"{where}.columns contains a number that is not finite")
    return x


def read_certificate(path: Path) -> Certificate | ClassCertificate:
    """Return the certificate in a file; inputs that it lists are not read yet."""
    where = "certificate"
    first = next(read_lines(path, where), b"")
    if not first.endswith(_LAST_KEY):
        raise CheckError("certificate: the first line does not end with the list of inputs, as fairmend writes it")
    data = parse_json(first + b"]}", where)
    only_keys(data, _KEYS, where)
    if take(data, "format", str, where) != "fairmend-certificate" or take(data, "version", int, where) != 1:
        raise CheckError("certificate: not a fairmend certificate of version 1")
    count = take(data, "count", int, where)
    if not 0 <= count <= MAX_COUNT:
        raise CheckError(f"certificate.count is {count}; it must be 0 to {MAX_COUNT:,}")
    for key in ("fairmend", "method", "claim"):
        take(data, key, str, where)
    entry = or_null(data, "entry", dict, where)
    if entry is not None:
        return _of_classes(data, entry, count, path)
    arithmetic = take(data, "arithmetic", str, where)
    if arithmetic not in ("real", "float32", "float64"):
        raise CheckError(f"certificate.arithmetic is {arithmetic[:40]!r}; it must be real, float32 or float64")
    shares = or_null(data, "shares", dict, where)
    if shares is not None and (arithmetic == "real" or count or data.get("global") is not None):
        raise CheckError("certificate.shares: such a claim is about inference, and stands alone")
    model = take(data, "model", dict, where)
    only_keys(model, _MODEL_KEYS, "certificate.model")
    dtype = take(model, "dtype", str, "certificate.model")
    if dtype not in ("float32", "float64"):
        raise CheckError(f"certificate.model.dtype is {dtype[:40]!r}; it must be float32 or float64")
    network = take(model, "network", dict, "certificate.model")
    only_keys(network, ("sha256", "steps", "tensors", "unused"), "certificate.model.network")
    for key in ("steps", "unused"):
        take(network, key, list, "certificate.model.network")
    or_null(network, "tensors", dict, "certificate.model.network")
    file_sha256 = or_null(model, "file_sha256", str, "certificate.model")
    people = read_spec(take(data, "spec", dict, where), "certificate.spec")
    found = Certificate(
        arithmetic=arithmetic,
        weights_sha256=_sha256(model, "weights_sha256", "certificate.model"),
        file_sha256=None if file_sha256 is None else _sha256(model, "file_sha256", "certificate.model"),
        inputs=take(model, "inputs", int, "certificate.model"),
        outputs=take(model, "outputs", int, "certificate.model"),
        dtype=dtype,
        network=network,
        network_sha256=_sha256(network, "sha256", "certificate.model.network"),
        spec=people,
        blind=_blind(data, people),
        count=count,
        path=path,
        shares=None if shares is None else _shares(shares),
    )
    if found.spec.width != found.inputs:
        raise NotConfirmedError(
            f"certificate.spec describes {found.spec.width} columns, but the model has {found.inputs} inputs"
        )
    if found.spec.threshold != HALF and found.outputs > 2:
        raise NotConfirmedError(
            f"certificate.spec has a threshold, but the model has {found.outputs} outputs, not 1 or 2"
        )
    if people.label is not None and people.label.classes and len(people.label.classes) != found.outputs:
        raise NotConfirmedError(
            f"certificate.spec names {len(people.label.classes)} classes, but the model has {found.outputs} outputs"
        )
    if not found.count and not found.blind and not found.shares:
        raise NotConfirmedError("certificate: it lists no inputs and has no global claim, so it claims nothing")
    return found


def _of_classes(data: dict[str, Any], entry: dict[str, Any], count: int, path: Path) -> ClassCertificate:
    """Return a claim about classes, which stands alone: it does not depend on arithmetic, weights or inputs."""
    model = take(data, "model", dict, "certificate")
    only_keys(model, ("file_sha256",), "certificate.model")
    alone = count == 0 and "global" in data and data["global"] is None and "shares" in data and data["shares"] is None
    if not alone or take(data, "arithmetic", str, "certificate") != "any":
        raise CheckError('certificate.entry: such a claim is about "any" arithmetic, and stands alone')
    if [*read_lines(path, "certificate")][1:] != [_END]:
        raise CheckError("certificate: a claim about classes lists no inputs, and ends after its first line")
    spec = read_spec(take(data, "spec", dict, "certificate"), "certificate.spec")
    if model.get("file_sha256", "") is None:
        raise CheckError("certificate.model.file_sha256 is null; a claim about classes must name its model file")
    return ClassCertificate(_sha256(model, "file_sha256", "certificate.model"), spec, read_entry(entry, spec))


def _blind(data: dict[str, Any], spec: Spec) -> tuple[tuple[Feature, int], ...]:
    """Return the features that the model does not depend on, with their first columns; none without such a claim."""
    claim = or_null(data, "global", dict, "certificate")
    if claim is None:
        return ()
    only_keys(claim, ("columns",), "certificate.global")
    columns = take(claim, "columns", list, "certificate.global")
    if not columns or not all(type(column) is int and column >= 0 for column in columns):
        raise CheckError("certificate.global.columns must be a list of column numbers")
    listed = set(columns)
    varying = {feature.name for feature in spec.varying}
    blind = tuple(
        (feature, start)
        for feature, start in spec.columns()
        if feature.protected or (feature.name in varying and start in listed)
    )
    whole = [column for feature, start in blind for column in range(start, start + feature.width)]
    if sorted(columns) != whole:
        raise NotConfirmedError(
            f"certificate.global.columns is {sorted(columns)[:20]}; it must hold all columns of the protected features "
            f"and of others that vary, each once: here {whole[:20]}"
        )
    return blind


def _shares(data: dict[str, Any]) -> ClaimedShares:
    fair, unfair = (take(data, key, float, "certificate.shares") for key in ("fair", "unfair"))
    if not (0 <= fair <= 1 and 0 <= unfair <= 1 and fair + unfair > 0):
        raise CheckError("certificate.shares: fair and unfair must be shares from 0 to 1, not both 0")
    return ClaimedShares(fair, unfair, data)


def _sha256(data: dict[str, Any], key: str, where: str) -> str:
    digest = take(data, key, str, where)
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckError(f"{where}.{key} is not a sha256 in lower-case hexadecimal")
    return digest
