"""Certificates: what is proven about a saved network, with all the data needed to check it without trusting fairmend.

docs/certificate.md describes the format; certificate.schema.json, beside this file, is its schema. `fairmend_check`
reads certificates and shares no code with this module.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fairmend._version import __version__
from fairmend.arrays import FloatArray
from fairmend.atomic import write_atomically
from fairmend.bounds.rigorous import Slopes
from fairmend.errors import FairmendError
from fairmend.network import Network
from fairmend.prove.claims import Guarantee
from fairmend.prove.proof import Proof, prove_points, prove_regions
from fairmend.spec import Spec
from fairmend.spec.neighbourhoods import Regions
from fairmend.spec.toml import toml_bytes
from fairmend.text import printable

__all__ = [
    "Certificate",
    "certificate_of_blindness",
    "certificate_of_fair",
    "certificate_of_regions",
    "weights_digest",
]

FORMAT = "fairmend-certificate"
VERSION = 1

# The certificate claims this share of the proven margin, because the checker's rigorous arithmetic rounds differently.
_CLAIMED_SHARE = 0.999


@dataclass(frozen=True)
class Certificate:
    """A claim about one network, as plain data."""

    content: dict[str, Any]

    @property
    def claim(self) -> str:
        """What is proven, in plain English."""
        return str(self.content["claim"])

    def __repr__(self) -> str:
        """Return the claim."""
        return f"Certificate({printable(self.claim)})"

    def for_model(self, path: str | PathLike[str]) -> Certificate:
        """Return the same claim, bound to the bytes of a model file as well as to its weights."""
        try:
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        except OSError as error:
            raise FairmendError(f"{path}: cannot read the model: {error.strerror or error}") from error
        return replace(self, content={**self.content, "model": {**self.content["model"], "file_sha256": digest}})

    def save(self, path: str | PathLike[str], model: str | PathLike[str] | None = None) -> None:
        """Write the certificate as JSON; pass ``model`` to bind it to the bytes of that model file."""
        bound = self if model is None else self.for_model(model)
        write_atomically(Path(path), json.dumps(bound.content, allow_nan=False).encode("utf-8") + b"\n")


def certificate_of_regions(
    network: Network,
    spec: Spec,
    X: FloatArray,
    proof: Proof,
    *,
    method: str,
    regions: Regions | None = None,
    blind_columns: Sequence[int] = (),
) -> Certificate:
    """Return the claim that the whole neighbourhood of each row of X gets the class that ``proof`` gives it.

    With ``regions`` the claim rests on linear bounds over their boxes, and the certificate records the slopes. Without
    ``regions`` it rests on every single point. ``blind_columns`` adds the claim for everyone: the network does not
    depend on these columns.
    """
    arithmetic = network.dtype.name if proof.covers_inference.all() else "real"
    entries = _entries(network, X, proof, regions)
    return Certificate(_content(network, spec, method, arithmetic, blind_columns, entries))


def certificate_of_fair(network: Network, spec: Spec, X: FloatArray) -> tuple[Certificate | None, np.ndarray]:
    """Return a certificate for as many rows of X as possible, and which rows it covers, bool ``(rows,)``.

    A row is proven over boxes if these bounds are tight enough, else point by point. The certificate is None if no row
    can be proven.
    """
    regions = spec.regions(X, network.dtype)
    proof = prove_regions(network, regions)
    by_boxes = proof.holds
    by_points = np.zeros(len(X), dtype=bool)
    entries: list[dict[str, Any]] = []
    covers = True
    if by_boxes.any():
        rows = np.flatnonzero(by_boxes)
        entries += _entries(network, X[rows], proof.subset(rows), regions.subset(rows))
        covers &= bool(proof.covers_inference[rows].all())
    if spec.finite and not by_boxes.all():
        rows = np.flatnonzero(~by_boxes)
        exact = prove_points(network, spec, X[rows])
        proven = np.flatnonzero(exact.holds)
        by_points[rows[proven]] = True
        entries += _entries(network, X[rows[proven]], exact.subset(proven), None)
        covers &= bool(exact.covers_inference[proven].all())
    covered = by_boxes | by_points
    if not entries:
        return None, covered
    arithmetic = network.dtype.name if covers else "real"
    return Certificate(_content(network, spec, "certify", arithmetic, [], entries)), covered


def certificate_of_blindness(network: Network, spec: Spec, columns: Sequence[int], *, method: str) -> Certificate:
    """Return the claim for everyone: the network's output does not depend on these columns."""
    return Certificate(_content(network, spec, method, network.dtype.name, columns, []))


def weights_digest(network: Network) -> str:
    """Return a sha256 of the weights and activations, equal for all file formats; see docs/certificate.md."""
    digest = hashlib.sha256(f"fairmend weights 1\n{network.dtype.name}\n".encode())
    for layer, affine in enumerate(network.affines):
        out, width = affine.weight.shape
        digest.update(f"{out} {width}\n".encode())
        digest.update(affine.weight.astype("<f8").tobytes(order="C"))
        digest.update(affine.bias.astype("<f8").tobytes())
        if layer < len(network.activations):
            activation = network.activations[layer]
            digest.update(f"{activation.name} {float(activation.slope).hex()}\n".encode())
    return digest.hexdigest()


def _content(
    network: Network,
    spec: Spec,
    method: str,
    arithmetic: str,
    blind_columns: Sequence[int],
    entries: list[dict[str, Any]],
) -> dict[str, Any]:
    count = len(entries)
    guarantee = Guarantee.for_spec(
        spec, everyone=len(blind_columns) > 0, proven=count, inputs=count, arithmetic=arithmetic
    )
    return {
        "format": FORMAT,
        "version": VERSION,
        "fairmend": __version__,
        "method": method,
        "claim": guarantee.certificate_claim(),
        "arithmetic": arithmetic,
        "model": {
            "weights_sha256": weights_digest(network),
            "file_sha256": None,
            "inputs": network.inputs,
            "outputs": network.outputs,
            "dtype": network.dtype.name,
        },
        "spec": {"sha256": hashlib.sha256(toml_bytes(spec.to_dict())).hexdigest(), "content": spec.to_dict()},
        "global": {"columns": [int(column) for column in blind_columns]} if len(blind_columns) else None,
        "regions": entries,
    }


def _entries(network: Network, X: FloatArray, proof: Proof, regions: Regions | None) -> list[dict[str, Any]]:
    """Return one region of the certificate for each row of X."""
    slopes: list[Slopes] = []
    if regions is not None:
        from fairmend.bounds.slopes import choose_slopes  # PyTorch comes with it

        slopes = choose_slopes(network, regions.lower, regions.upper)
    entries = []
    for row in range(len(X)):
        entry: dict[str, Any] = {
            "input": X[row].tolist(),
            "class": int(proof.classes[row]),
            "margin": float(proof.margin[row] * _CLAIMED_SHARE),
            "proof": "points" if regions is None else "linear",
        }
        if regions is not None:
            pieces = np.flatnonzero(regions.owner == row)
            entry["pieces"] = [_piece(regions, slopes, int(piece)) for piece in pieces]
        entries.append(entry)
    return entries


def _piece(regions: Regions, slopes: list[Slopes], piece: int) -> dict[str, Any]:
    return {
        "lower": regions.lower[piece].tolist(),
        "upper": regions.upper[piece].tolist(),
        "slopes": [{"lower": s.lower[piece].tolist(), "upper": s.upper[piece].tolist()} for s in slopes],
    }
