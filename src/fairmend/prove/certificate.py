"""Certificates: what is proven about a saved network, with all the data needed to check it without trusting fairmend.

docs/certificate.md describes the format; certificate.schema.json, beside this file, is its schema. `fairmend_check`
reads certificates and imports nothing of fairmend. A certificate lists inputs alone: the checker finds the boxes
and lines of a proof itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fairmend._version import __version__
from fairmend.base.arrays import FloatArray
from fairmend.base.errors import FairmendError
from fairmend.base.files import write_atomically
from fairmend.base.progress import Progress
from fairmend.base.text import printable
from fairmend.network import Network, load_network
from fairmend.network.description import to_json
from fairmend.network.formats import without_folds
from fairmend.prove.kernel_bounds import kernel_model
from fairmend.prove.proof import Proof, kernel_errors, prove_inputs
from fairmend.spec import Spec
from fairmend_check.errors import CheckError
from fairmend_check.kernel.certificate import Certificate as Claimed
from fairmend_check.kernel.certificate import ClaimedShares, ClassCertificate
from fairmend_check.kernel.classes import why_not_constant
from fairmend_check.kernel.entry import read_entry
from fairmend_check.kernel.model import network_digest
from fairmend_check.kernel.model import weights_digest as kernel_digest
from fairmend_check.kernel.spec import read_spec
from fairmend_check.kernel.statement import describe_claim

_logger = logging.getLogger(__name__)

FORMAT, VERSION = "fairmend-certificate", 1

_TENSORS_ALONE = (".pth", ".pt", ".ckpt", ".safetensors", ".pt2")  # of files from which the checker reads no steps
_CONDITION = " Condition: the module computes the steps of model.network; fairmend check says them in words."

_BLOCK_INPUTS, _BLOCK_NUMBERS = 4096, 2**20  # in a block; the checker reads up to twice as many numbers
_MOST_BYTES = 2**20  # of the tensors that a certificate contains: a file that is sent by mail, and read in a moment


@dataclass(frozen=True, eq=False)
class Certificate:
    """A claim about one network, as plain data.

    `folded` is the digest of the network with all norms folded into its weights, as fairmend writes it to a file of
    another format than that of its own. Empty: there are none.

    `inputs` (inputs, width) are those that the claim is about, beside the one for everyone.
    """

    content: dict[str, Any]
    inputs: FloatArray = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    folded: str = field(default="", repr=False)

    @property
    def count(self) -> int:
        """How many inputs the claim is about, beside the one for everyone."""
        return len(self.inputs)

    @property
    def claim(self) -> str:
        """What is proven, in plain English."""
        return str(self.content["claim"])

    @property
    def real_only(self) -> bool:
        """Whether the claim is about exact real arithmetic only; `fairmend.check` then needs ``real=True``."""
        return bool(self.content["arithmetic"] == "real")

    def __repr__(self) -> str:
        """Return the claim."""
        return f"Certificate({printable(self.claim)})"

    def for_model(self, path: str | PathLike[str]) -> Certificate:
        """Return the same claim, bound to the bytes of a model file as well as to its weights.

        The steps and tensors of the network are those of the file, if that holds it: fairmend may have written it with
        norms folded into the layers, and a state dict (.pth, .pt, .safetensors) has names of its own. Without a model
        file the claim is about a state dict with the names of the network.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise FairmendError(f"{path}: cannot read the model: {error.strerror or error}") from error
        digest = hashlib.sha256(content).hexdigest()
        if self.content["entry"] is not None:
            return replace(self, content={**self.content, "model": {"file_sha256": digest}})
        condition = _CONDITION if Path(path).suffix.lower() in _TENSORS_ALONE else ""
        model = {**self.content["model"], "file_sha256": digest}
        if condition or self.folded:
            model |= self._as_saved(Path(path))
        claim = f"{self.claim.removesuffix(_CONDITION)}{condition}"
        return replace(self, content={**self.content, "claim": claim, "model": model})

    def _as_saved(self, path: Path) -> dict[str, Any]:
        """Return which network a file holds, if it is that of the claim; nothing otherwise, so that `check` says so."""
        try:
            saved = identify(load_network(path))
        except FairmendError:  # a state dict without a note: fairmend did not write it
            return {}
        same = saved["network"]["sha256"] in (self.content["model"]["network"]["sha256"], self.folded)
        return saved if same else {}

    def save(self, path: str | PathLike[str], model: str | PathLike[str] | None = None) -> None:
        """Write the certificate as JSON; pass ``model`` to bind it to the bytes of that model file."""
        bound = self if model is None else self.for_model(model)
        write_atomically(Path(path), bound.lines())

    def lines(self) -> Iterator[bytes]:
        """Return the lines of the file: all but the inputs, the inputs block by block, and the end."""
        first = json.dumps({**self.content, "inputs": []}, allow_nan=False)
        yield first.removesuffix("]}").encode("utf-8") + b"\n"
        step = max(1, min(_BLOCK_INPUTS, _BLOCK_NUMBERS // max(1, self.inputs.shape[1])))
        for start in range(0, self.count, step):
            X = self.inputs[start : start + step]
            # Column by column, because the values of a column repeat.
            columns = zlib.compress(np.ascontiguousarray(X.astype(X.dtype.newbyteorder("<")).T).tobytes(), 6)
            block = json.dumps({"count": len(X), "columns": base64.b64encode(columns).decode("ascii")})
            yield block.encode("ascii") + (b",\n" if start + step < self.count else b"\n")
        yield b"]}\n"


def certificate_of_inputs(
    network: Network,
    spec: Spec,
    X: FloatArray,
    proof: Proof,
    *,
    method: str,
    blind_columns: Sequence[int] = (),
) -> Certificate:
    """Return the claim about the whole neighbourhood of each row of X that ``proof`` proves: its class, or its scores.

    ``blind_columns`` adds the claim for everyone: the network does not depend on these columns.
    """
    arithmetic = network.dtype.name if proof.covers_inference.all() else "real"
    return _certificate(network, spec, method, arithmetic, blind_columns, X)


def certificate_of_fair(
    network: Network, spec: Spec, X: FloatArray, progress: Progress | None = None
) -> tuple[Certificate | None, np.ndarray]:
    """Return a certificate for as many rows of X as possible, and which rows it covers, bool ``(rows,)``.

    Rows that are proven in exact arithmetic only are left out, unless there are no others: they would take the claim
    about inference from all. The certificate is None if no row can be proven. ``progress`` is called with
    "certificate", the rows done and all rows.
    """
    try:
        proof = prove_inputs(network, spec, X, progress)
    except FairmendError as error:
        _logger.warning("there is no certificate: %s", error)
        return None, np.zeros(len(X), dtype=np.bool_)
    covered, arithmetic = proof.covers_inference, network.dtype.name
    if not covered.any():
        covered, arithmetic = proof.holds, "real"
    if not covered.any():
        return None, covered
    return _certificate(network, spec, "certify", arithmetic, [], X[covered]), covered


def certificate_of_blindness(network: Network, spec: Spec, columns: Sequence[int], *, method: str) -> Certificate:
    """Return the claim for everyone: the network's output does not depend on these columns, those of whole features."""
    return _certificate(network, spec, method, network.dtype.name, columns, np.empty((0, spec.width), network.dtype))


def weights_digest(network: Network) -> str:
    """Return a sha256 of the weights, and of a chain's activations, equal for all formats; see docs/certificate.md."""
    return kernel_digest(kernel_model(network))


def _certificate(
    network: Network,
    spec: Spec,
    method: str,
    arithmetic: str,
    blind_columns: Sequence[int],
    X: FloatArray,
) -> Certificate:
    everyone = {"columns": [int(column) for column in blind_columns]} if len(blind_columns) else None
    made = _with_claims(network, spec, method, arithmetic, {"global": everyone, "shares": None, "count": len(X)})
    return replace(made, inputs=np.asarray(X, dtype=network.dtype))


def certificate_of_shares(network: Network, spec: Spec, shares: dict[str, Any]) -> Certificate:
    """Return the claim about shares of all people, "Shares of all people" of docs/certificate.md."""
    claims = {"global": None, "shares": shares, "count": 0}
    return _with_claims(network, spec, "quantify", network.dtype.name, claims)


def certificate_of_classes(spec: Spec, entry: dict[str, Any], *, method: str) -> Certificate:
    """Return the claim that the output of a model depends on a row only through its class; docs/classes.md proves it.

    ``entry`` describes the first nodes of the model, "The entry" of docs/classes.md. Nothing behind them matters, but
    the claim is about one file: save the certificate with ``model``.
    """
    content = spec.with_about(None).to_dict()
    try:
        read = read_spec(content, "spec")
        claimed = ClassCertificate("", read, read_entry(entry, read, "entry"))
        reasons = why_not_constant(read, claimed.entry)
    except CheckError as error:
        raise FairmendError(f"the entry cannot be certified: {error}") from error
    if reasons:
        raise FairmendError(f"the entry tells similar people apart: {reasons[0]}")
    return Certificate(
        {
            "format": FORMAT,
            "version": VERSION,
            "fairmend": __version__,
            "method": method,
            "claim": describe_claim(claimed),
            "arithmetic": "any",
            "model": {"file_sha256": None},
            "spec": content,
            "global": None,
            "shares": None,
            "entry": entry,
            "count": 0,
        }
    )


def with_claim(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a certificate with the claim that the checker reads from the rest of it."""
    columns, shares, model = (content["global"] or {"columns": ()})["columns"], content["shares"], content["model"]
    with kernel_errors():
        spec = read_spec(content["spec"], "spec")
        claimed = Claimed(
            arithmetic=content["arithmetic"],
            weights_sha256="",
            file_sha256=None,
            inputs=model["inputs"],
            outputs=model["outputs"],
            dtype=model["dtype"],
            network={},
            network_sha256="",
            spec=spec,
            blind=tuple((feature, start) for feature, start in spec.columns() if start in columns),
            count=content["count"],
            path=Path(),
            shares=None if shares is None else ClaimedShares(shares["fair"], shares["unfair"], {}),
        )
        return {**content, "claim": describe_claim(claimed)}


def _with_claims(network: Network, spec: Spec, method: str, arithmetic: str, claims: dict[str, Any]) -> Certificate:
    """Return a certificate with these claims about a network and a spec."""
    content = {
        "format": FORMAT,
        "version": VERSION,
        "fairmend": __version__,
        "method": method,
        "claim": "",
        "arithmetic": arithmetic,
        "model": {
            **identify(network),
            "file_sha256": None,
            "inputs": network.inputs,
            "outputs": network.outputs,
            "dtype": network.dtype.name,
        },
        "spec": spec.with_about(None).to_dict(),  # the claim does not depend on what the model is called
        **claims,
        "entry": None,
    }
    has_folds = not network.is_chain and any(affine.fold is not None for affine in network.affines)
    folded = network_digest(kernel_model(without_folds(network))) if has_folds else ""
    return Certificate(with_claim(content), np.empty((0, network.inputs)), folded)


def identify(network: Network) -> dict[str, Any]:
    """Return which network a claim is about: its digests, and its steps, with tensors if these are not large."""
    model = kernel_model(network)
    return {
        "weights_sha256": kernel_digest(model),
        "network": {"sha256": network_digest(model), **to_json(network, _MOST_BYTES)},
    }
