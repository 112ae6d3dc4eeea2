"""Certificates in blocks: small ones, and how a forger changes their lines."""

import base64
import hashlib
import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from fairmend.network import Network
from fairmend.prove import certificate
from fairmend.prove.certificate import Certificate, certificate_of_fair
from fairmend.spec import Spec
from support.strategies import random_network


def certificate_in_blocks(network: Network, spec: Spec, X: np.ndarray) -> tuple[Certificate | None, np.ndarray]:
    """Do as `certificate_of_fair` does, but write blocks however few inputs there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificate, "_MOST_LISTED", 0)
        return certificate_of_fair(network, spec, X)


def nearly_fair_network(rng: np.random.Generator, spec: Spec, outputs: int = 1, activation: str = "relu") -> Network:
    """Return a network that depends little on the protected features, so that much can be proven."""
    network = random_network(rng, spec.width, (6, 5), outputs, activation, np.float32)
    first = network.affines[0]
    weight = first.weight.copy()
    for feature in spec.protected:
        weight[:, spec.columns(feature.name)] *= np.float32(0.05)
    return network.with_affines([type(first)(weight, first.bias), *network.affines[1:]])


def read_blocks_of(path: Path) -> list[dict]:
    """Return the lines of a certificate in blocks as plain data, with arrays in place of compressed texts."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    width = lines[0]["model"]["inputs"]
    for block in lines[1:-1]:
        block["inputs"] = unpack(block["inputs"], "<f4").reshape(width, -1).T
        if "classes" in block:
            block["classes"] = unpack(block["classes"], "<u4")
    return lines


def write_blocks(path: Path, lines: list[dict], *, sign: bool = True) -> Path:
    """Write the lines again; with ``sign`` the closing line fits them, as a forger would see to it."""
    written = [_line(lines[0])]
    for block in lines[1:-1]:
        packed = dict(block)
        for key, kind in (("inputs", "<f4"), ("classes", "<u4")):
            if isinstance(packed.get(key), np.ndarray):
                packed[key] = pack(packed[key].T, kind)
        written.append(_line(packed))
    end = dict(lines[-1])
    if sign:
        end["sha256"] = hashlib.sha256(b"".join(written)).hexdigest()
    path.write_bytes(b"".join([*written, _line(end)]))
    return path


def pack(array: np.ndarray, kind: str) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array, dtype=kind).tobytes())).decode()


def unpack(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


def _line(data: dict) -> bytes:
    return json.dumps(data).encode() + b"\n"
