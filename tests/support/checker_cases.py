"""Small repaired networks with their certificates, and an independent test of what these claim."""

import base64
import json
import zlib
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import fairmend
from fairmend.network import Activation, Affine, Network
from fairmend.prove.certificate import Certificate, certificate_of_fair, identify
from fairmend.spec import Feature, Spec
from fairmend.spec.products import encode_column
from support.strategies import random_network

SUFFIXES = ("onnx", "pth", "pt", "safetensors", "h5", "hdf5", "keras", "nnet")  # of every file that can be checked

AGE = Feature("age", "integer", range=(18, 60), scale={"min": 18, "max": 60}, protected=True)
SEX = Feature("sex", "categorical", categories=("f", "m"), protected=True)
ETHNICITY = Feature(
    "race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True, dropped="b", missing="c"
)
RACE = Feature("race", "categorical", categories=("a", "b", "c"), encoding="one-hot", protected=True)
INCOME = Feature("income", "continuous", range=(0, 100), scale={"mean": 50.3, "std": 25.7})
CREDITS = Feature("credits", "integer", range=(0, 5))

SPECS = {
    "ordinal": Spec([SEX, AGE, INCOME, CREDITS]),
    "one-hot": Spec([INCOME, RACE, CREDITS, SEX]),
    "dropped": Spec([INCOME, ETHNICITY, CREDITS, SEX]),
    "tolerance": Spec(
        [
            SEX,
            Feature("income", "continuous", range=(0, 100), scale={"mean": 50.3, "std": 25.7}, tolerance=2.5),
            Feature("credits", "integer", range=(0, 5), scale={"mean": 2, "std": 1.7}, tolerance=1.9),
        ]
    ),
    "continuous": Spec([Feature("wealth", "continuous", range=(-1, 1.5), protected=True), RACE, CREDITS]),
}


@dataclass(frozen=True)
class Case:
    """A network, its spec, and the certificate from the repair."""

    network: Network
    spec: Spec
    certificate: Certificate

    @property
    def content(self) -> dict:
        """Return a copy that a test may change."""
        return content_of(self.certificate)

    def save(self, folder: Path, suffix: str = "onnx", bind: bool = False) -> tuple[Path, Path]:
        model, certificate = folder / f"model.{suffix}", folder / "certificate.json"
        self.network.save(model)
        if bind:
            self.certificate.save(certificate, model=model)
        else:
            write(folder, self.content)
        return certificate, model


@cache
def case(spec="ordinal", outputs=1, activation="relu", dtype="float32", features=None, hidden=(6, 5), rows=4) -> Case:
    """Repair an untrained network."""
    people, rng = SPECS[spec], np.random.default_rng(5)
    net = random_network(rng, people.width, hidden, outputs, activation, dtype)
    X = people.sample_inputs(rows + 40, rng, dtype)
    y = rng.integers(0, max(2, outputs), 40)
    result = fairmend.repair(
        net,
        people,
        X[:rows],
        X[rows:],
        y,
        method="prof",
        training=fairmend.TrainingOptions(steps=2),
        head=fairmend.HeadOptions(features=features),
    )
    return Case(result.network, people, result.certificate)


def content_of(certificate: Certificate) -> dict:
    """Return all that a certificate says, for a test to change: its keys, and the inputs as an array."""
    return deepcopy({**certificate.content, "inputs": certificate.inputs})


def read(path: Path) -> dict:
    """Return the same for a file."""
    content = json.loads(path.read_bytes())
    kind, width = {"float32": "<f4", "float64": "<f8"}[content["model"]["dtype"]], content["model"]["inputs"]
    blocks = [unpack(block["columns"], kind).reshape(width, -1).T for block in content["inputs"]]
    return {**content, "inputs": np.concatenate([np.empty((0, width), kind), *blocks])}


def lines_of(content: dict, block: int = 4096) -> list[bytes]:
    """Return the lines of a file, with so many inputs in a block."""
    X = content["inputs"]
    header = json.dumps({key: value for key, value in content.items() if key != "inputs"})
    blocks = [{"count": len(X[at : at + block]), "columns": pack(X[at : at + block])} for at in range(0, len(X), block)]
    listed = ",\n".join(map(json.dumps, blocks)).splitlines(keepends=True)
    text = [f'{header[:-1]}, "inputs": [\n', *listed[:-1], *(f"{last}\n" for last in listed[-1:]), "]}\n"]
    return [line.encode() for line in text]


def write(folder: Path, content: dict, name: str = "certificate.json", *, sign: bool = True) -> Path:
    """Write a file; with ``sign`` its count fits the inputs, as a forger would see to it."""
    signed = {**content, "count": len(content["inputs"])} if sign else content
    (folder / name).write_bytes(b"".join(lines_of(signed)))
    return folder / name


def pack(inputs: np.ndarray) -> str:
    """Return inputs (inputs, width) as they are in a block."""
    columns = np.ascontiguousarray(inputs.astype(inputs.dtype.newbyteorder("<")).T)
    return base64.b64encode(zlib.compress(columns.tobytes())).decode()


def unpack(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


def sign_network(content: dict, network: Network) -> dict:
    """Do what a forger of a network would do: make it the network of the certificate, with digests that fit."""
    content["model"] = {**content["model"], **identify(network)}
    return content


def outputs_of(network: Network, points: np.ndarray) -> np.ndarray:
    """Return the outputs in double precision, from a forward pass that no other code shares."""
    shapes = {
        "relu": lambda z, a: np.maximum(z, 0),
        "leaky_relu": lambda z, a: np.where(z > 0, z, a * z),
        "tanh": lambda z, a: np.tanh(z),
        "sigmoid": lambda z, a: 0.5 * (1 + np.tanh(z / 2)),
        "identity": lambda z, a: z,
    }
    h = np.asarray(points, dtype=np.float64)
    for layer, affine in enumerate(network.affines):
        h = h @ affine.weight.astype(np.float64).T + affine.bias.astype(np.float64)
        if layer < len(network.activations):
            activation = network.activations[layer]
            h = shapes[activation.name](h, float(activation.slope))
    return h


def margin_of(network: Network, points: np.ndarray, label: int) -> float:
    """Return the least margin of a class over points."""
    found = outputs_of(network, points)
    if network.outputs == 1:
        return float((found if label == 1 else -found).min())
    others = np.delete(found, label, axis=1)
    return float((found[:, label] - others.max(axis=1)).min())


def neighbours(spec: Spec, x: np.ndarray, dtype: str, rng: np.random.Generator, count: int = 400) -> np.ndarray:
    """Return points of the neighbourhood of x, with its corners and ends."""
    regions = spec.regions(np.asarray([x], dtype=dtype), dtype)
    share = rng.random((count, len(x)))
    share = np.where(rng.random(share.shape) < 0.4, share.round(), share)
    piece = rng.integers(0, len(regions.lower), count)
    lower, upper = regions.lower[piece].astype(np.float64), regions.upper[piece].astype(np.float64)
    points = np.clip(lower + share * (upper - lower), lower, upper)
    for feature in spec.varying:
        if feature.kind != "continuous" and not feature.one_hot:
            column = spec.columns(feature.name).start
            points[:, column] = encode_column(feature, feature.unscaled(points[:, column]).round(), np.dtype(dtype))
    if spec.finite and spec.neighbourhood_sizes(regions.lower[:1] * 0 + x)[0] <= 2000:
        points = np.concatenate([p for _, p in spec.points(np.asarray([x], dtype=dtype), dtype=dtype)]).astype(float)
    return points


def class_of(network: Network, x: np.ndarray) -> int:
    """Return the class of an input (width,)."""
    found = outputs_of(network, x[None])[0]
    return int(found[0] >= 0) if network.outputs == 1 else int(found.argmax())


def is_true(content: dict, network: Network, rng: np.random.Generator) -> bool:
    """Return whether no counterexample to a certificate is found among many neighbours of each input."""
    spec = Spec.from_dict(content["spec"])
    for x in content["inputs"]:
        points = neighbours(spec, x, network.dtype.name, rng)
        if margin_of(network, points, class_of(network, x)) < -1e-12:
            return False
    return True


def nearly_fair_network(rng: np.random.Generator, spec: Spec, outputs: int = 1, activation: str = "relu") -> Network:
    """Return a network that depends little on the protected features, so that much can be proven."""
    network = random_network(rng, spec.width, (6, 5), outputs, activation, np.float32)
    first = network.affines[0]
    weight = first.weight.copy()
    for feature in spec.protected:
        weight[:, spec.columns(feature.name)] *= np.float32(0.05)
    return network.with_affines([type(first)(weight, first.bias), *network.affines[1:]])


TWO_FEATURES = Spec(
    features=[
        Feature(name="g", kind="integer", range=(1, 2), protected=True),
        Feature(name="v", kind="continuous", range=(-1, 1)),
    ]
)


def affine(weight, bias):
    return Affine(np.array(weight, np.float32), np.array(bias, np.float32))


def rounding_case() -> Case:
    """A float32 network that is fair in real arithmetic by a margin of 3e-8, and unfair in float32.

    Its score is (g + c v) - g - 2^-24 with c = 3/4 · 2^-23. At v = 1 the sum g + c v rounds up to 1 + 2^-23 for g = 1,
    and down to 2 for g = 2.
    """
    unit = 2.0**-23
    first = affine([[1, 0.75 * unit], [1, 0]], [0, 0])
    network = Network([first, affine([[1, -1]], [-unit / 2])], [Activation("relu")])
    certificate, covered = certificate_of_fair(network, TWO_FEATURES, np.array([[1, 1]], np.float32))
    assert covered.all()
    return Case(network, TWO_FEATURES, certificate)


def answer(path, model):
    """Return the first reason why a certificate is not valid."""
    report = fairmend.check(path, model)
    assert not report.valid
    assert len(report.reasons) >= 1
    assert len("".join(report.reasons)) < 10_000
    return report.reasons[0]
