"""The certificate as typed data, checked against the format in docs/certificate.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.functions import ACTIVATIONS, Activation
from fairmend_check.json_reader import only_keys, parse_json, read_bytes, read_lines, starts_with, take
from fairmend_check.model import Layer, Model
from fairmend_check.named_graph import NamedGraph, epsilon_of, layer_name, read_activation, read_named_graph
from fairmend_check.region_blocks import MAX_REGIONS, read_blocks
from fairmend_check.region_lists import Regions, read_listed
from fairmend_check.shares_claim import SharesClaim, read_shares
from fairmend_check.spec import Feature, Spec, read_spec
from fairmend_check.spec_toml import spec_digest
from fairmend_check.threshold import HALF

_BLOCKS = b'{"format": "fairmend-certificate-blocks", '  # how a certificate in blocks begins
_SHARES = "fairmend-certificate-shares"
_KEYS = ("format", "version", "fairmend", "method", "claim", "arithmetic", "model", "spec", "global", "regions")
_SHARES_KEYS = ("format", "version", "fairmend", "method", "claim", "arithmetic", "model", "spec", "shares")
_MODEL_KEYS = ("weights_sha256", "file_sha256", "inputs", "outputs", "dtype")
_LAYER_KEYS = ("name", "activation", "slope", "epsilon", "parameters")  # the fourth since version 4, the last since 5
_FIRST_ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "identity")  # those before version 5
_NONE = Activation("none")


@dataclass(frozen=True, eq=False)
class Certificate:
    """The content of a certificate, with the features that it says the model does not depend on, and their columns.

    ``shares`` is a claim about all people; a certificate with one has no regions and no global claim.

    Its regions are not read yet, because that needs the widths of the model: `read_regions` does. They are plain data
    in ``listed``, or the lines of the file in ``blocks``.
    """

    arithmetic: str
    weights_sha256: str
    file_sha256: str | None
    inputs: int
    outputs: int
    dtype: str
    version: int
    layers: tuple[Layer, ...] | None
    graph: NamedGraph | None
    spec: Spec
    spec_sha256: str
    blind: tuple[tuple[Feature, int], ...]
    count: int
    listed: list[Any]
    blocks: Iterator[bytes] | None
    shares: SharesClaim | None = None

    def read_regions(self, model: Model) -> Iterator[Regions]:
        """Return the regions, some at a time; refuse what does not fit the model, and a file that is not complete."""
        scores = self.spec.claim is not None
        if self.blocks is not None:
            return read_blocks(self.blocks, self.count, model, scores)
        return iter([read_listed(self.listed, model, scores, self.version)] if self.listed else [])


def read_certificate(path: Path) -> Certificate:
    """Return the certificate in a file; its regions are not read yet."""
    blocks: Iterator[bytes] | None = None
    if starts_with(path, "certificate", _BLOCKS):
        blocks = read_lines(path, "certificate")
        content = next(blocks)
        blocks = chain([content], blocks)
    else:
        content = read_bytes(path, "certificate")
    data = parse_json(content, "certificate")
    where = "certificate"
    of_shares = data.get("format") == _SHARES and blocks is None
    only_keys(data, _SHARES_KEYS if of_shares else _KEYS, where)
    form, version = take(data, "format", str, where), take(data, "version", int, where)
    known = (5,) if of_shares else (4, 5) if blocks else (1, 2, 3, 4, 5)
    if (not of_shares and form != f"fairmend-certificate{'-blocks' if blocks else ''}") or version not in known:
        raise CheckError("certificate: not a fairmend certificate of version 1 to 5")
    listed = [] if blocks or of_shares else take(data, "regions", list, where)
    count = take(data, "regions", int, where) if blocks else len(listed)
    if blocks and not 1 <= count <= MAX_REGIONS:
        raise CheckError(f"certificate.regions is {count}; it must be 1 to {MAX_REGIONS:,}")
    for key in ("fairmend", "method", "claim"):
        take(data, key, str, where)
    arithmetic = take(data, "arithmetic", str, where)
    if arithmetic not in ("real", "float32", "float64"):
        raise CheckError(f"certificate.arithmetic is {arithmetic[:40]!r}; it must be real, float32 or float64")
    if of_shares and arithmetic == "real":
        raise CheckError(
            "certificate.arithmetic is real, but shares are about inference: it must be float32 or float64"
        )
    model, spec = take(data, "model", dict, where), take(data, "spec", dict, where)
    architecture = () if version == 1 else ("layers",) if version < 5 else ("layers", "graph")
    only_keys(model, (*_MODEL_KEYS, *architecture), "certificate.model")
    only_keys(spec, ("sha256", "content"), "certificate.spec")
    dtype = take(model, "dtype", str, "certificate.model")
    if dtype not in ("float32", "float64"):
        raise CheckError(f"certificate.model.dtype is {dtype[:40]!r}; it must be float32 or float64")
    if "file_sha256" not in model:
        raise CheckError('certificate.model has no "file_sha256"')
    people = read_spec(take(spec, "content", dict, "certificate.spec"), "certificate.spec.content", version)
    found = Certificate(
        arithmetic=arithmetic,
        weights_sha256=_sha256(model, "weights_sha256", "certificate.model"),
        file_sha256=None if model["file_sha256"] is None else _sha256(model, "file_sha256", "certificate.model"),
        inputs=take(model, "inputs", int, "certificate.model"),
        outputs=take(model, "outputs", int, "certificate.model"),
        dtype=dtype,
        version=version,
        layers=None if version == 1 else _layers(model, version),
        graph=None if version < 5 else _graph(model),
        spec=people,
        spec_sha256=_sha256(spec, "sha256", "certificate.spec"),
        blind=() if of_shares else _blind(data, people, version),
        count=count,
        listed=listed,
        blocks=blocks,
        shares=read_shares(take(data, "shares", dict, where), people) if of_shares else None,
    )
    if spec_digest(found.spec) != found.spec_sha256:
        raise NotConfirmedError("certificate.spec: content and sha256 do not belong together; one of them was changed")
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
        raise NotConfirmedError("certificate: it has neither regions nor a global claim, so it claims nothing")
    return found


def _layers(model: dict[str, Any], version: int) -> tuple[Layer, ...] | None:
    """Return the layers of the module that a state dict belongs to, in the order in which it computes them."""
    if "layers" not in model:
        raise CheckError('certificate.model has no "layers"')
    if model["layers"] is None:
        return None
    found = []
    entries = take(model, "layers", list, "certificate.model")
    for number, entry in enumerate(entries):
        where = f"certificate.model.layers[{number}]"
        name = layer_name(entry, where)
        only_keys(entry, _LAYER_KEYS[: 3 if version < 4 else 4 if version < 5 else 5], where)
        activation = read_activation(entry, "activation", where)
        known = ("none",) if number == len(entries) - 1 else ACTIVATIONS if version >= 5 else _FIRST_ACTIVATIONS
        if activation.name not in known:
            raise CheckError(f"{where}.activation is {activation.name!r}, which is not allowed there")
        epsilon = epsilon_of(entry, where) if "epsilon" in entry else None
        found.append(Layer(name, activation, epsilon))
    if len({layer.name for layer in found}) != len(found) or (found and found[-1].activation != _NONE):
        raise CheckError("certificate.model.layers names a layer twice, or gives a slope for the last one")
    return tuple(found)


def _graph(model: dict[str, Any]) -> NamedGraph | None:
    """Return the steps of the module that a state dict belongs to, if they are not layers in a row."""
    if "graph" not in model:
        raise CheckError('certificate.model has no "graph"')
    if model["graph"] is None:
        return None
    if model["layers"] is not None:
        raise CheckError("certificate.model has both layers and a graph")
    return read_named_graph(take(model, "graph", list, "certificate.model"), "certificate.model.graph")


def _blind(data: dict[str, Any], spec: Spec, version: int) -> tuple[tuple[Feature, int], ...]:
    """Return the features that the model does not depend on, with their first columns; none without such a claim."""
    if "global" not in data:
        raise CheckError('certificate has no "global"')
    if data["global"] is None:
        return ()
    claim = take(data, "global", dict, "certificate")
    only_keys(claim, ("columns",), "certificate.global")
    columns = take(claim, "columns", list, "certificate.global")
    if not columns or not all(type(column) is int and column >= 0 for column in columns):
        raise CheckError("certificate.global.columns must be a list of column numbers")
    listed = set(columns)
    varying = {feature.name for feature in spec.varying}
    blind = tuple(
        (feature, start)
        for feature, start in spec.columns()
        if feature.protected or (version >= 3 and feature.name in varying and start in listed)
    )
    whole = [column for feature, start in blind for column in range(start, start + feature.width)]
    if sorted(columns) != whole:
        others = "the protected features" if version < 3 else "the protected features and of others that vary"
        raise NotConfirmedError(
            f"certificate.global.columns is {sorted(columns)[:20]}; it must hold all columns of {others}, each once: "
            f"here {whole[:20]}"
        )
    return blind


def _sha256(data: dict[str, Any], key: str, where: str) -> str:
    digest = take(data, key, str, where)
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckError(f"{where}.{key} is not a sha256 in lower-case hexadecimal")
    return digest
