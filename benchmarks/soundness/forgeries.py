"""Certificates of graphs: written, run in frameworks, and forged in the ways that only a graph allows.

A forged certificate may be VALID only if what it says is true of the model that it is checked against. For a state dict
that is the model of the steps in the certificate; other files name their steps themselves. Whether it is true, the
oracle says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fairmend
from benchmarks.soundness.arithmetic import evaluate
from benchmarks.soundness.attacks import Certificates, check
from benchmarks.soundness.cases import Case
from benchmarks.soundness.frameworks import Run, fits_onnx, keras_model, run_file
from benchmarks.soundness.oracle import Oracle
from benchmarks.soundness.orders import run_in_one_go
from benchmarks.soundness.tally import Tally
from fairmend import Network
from fairmend.network import Activation, Affine, Columns, Concatenate, Lookup, Node, Normalise, Product, Softmax, Sum
from fairmend.network.decision import predicted_classes
from fairmend.network.description import stored_steps
from fairmend.prove.certificate import certificate_of_blindness, identify
from fairmend_check.errors import CheckError
from fairmend_check.kernel.description import described_model
from fairmend_check.kernel.model import network_digest

STATE_DICTS = (".pth", ".safetensors")
IN_CONTENT = ("unfair", "far", "global")
OTHER_MODELS = ("skip", "branches", "rows", "function", "parameters", "weight", "columns", "group")
OTHER_FUNCTIONS = [
    Activation("relu"), Activation("leaky_relu", 0.2), Activation("gelu"), Activation("silu"), Activation("tanh"),
    Activation("hardswish"), Activation("elu", parameters=(1.5,)), Activation("clip", parameters=(-0.5, 2.0)),
]  # fmt: skip


class GraphCertificates(Certificates):
    """Writes a certificate for a graph, runs what it is about in its frameworks, and forges others from it.

    ``run`` is the framework that the network came from.
    """

    def __init__(
        self, case: Case, oracle: Oracle, folder: Path, rng: np.random.Generator, tally: Tally, run: Run
    ) -> None:
        super().__init__(case, oracle, folder, rng, tally)
        self.model = folder / f"model{self._suffix()}"
        self.run = run

    def _suffix(self) -> str:
        network = self.case.network
        own = ".keras" in (network.form.suffixes if network.form is not None else ())
        if own and self.rng.random() < 0.7:
            return ".keras"
        return str(self.rng.choice([*([".onnx", ".onnx"] if fits_onnx(network) else []), ".pth", ".safetensors"]))

    def _make(self, *, repair: bool) -> Any:
        """Return a certificate; of a network that does not read a protected feature, one for everyone now and then."""
        blind = self._blind_columns()
        if blind and not repair and self.rng.random() < 0.5:
            return certificate_of_blindness(self.network, self.case.spec, blind, method="certify")
        return super()._make(repair=repair)

    def _blind_columns(self) -> list[int]:
        """Return the columns of all features that may differ between similar people, if none of them is read."""
        columns = self._varying_columns()
        return [] if self.network.read_columns[columns].any() else columns

    def _varying_columns(self) -> list[int]:
        spec = self.case.spec
        return sorted(column for f in spec.varying for column in range(spec.width)[spec.columns(f.name)])

    def write(self, *, repair: bool) -> bool:
        """Write and check a certificate, and compare it with the frameworks; return whether there is one."""
        if not super().write(repair=repair):
            return False
        content = self.made.content
        self.tally.add(f"certificates of {'inputs' if self.made.count else 'everyone'}")
        self.tally.add(f"certificates of {self.model.suffix} files")
        self._compare_runs(content)
        if content["global"]:
            self._compare_global(content["global"]["columns"])
        return True

    def _runs(self) -> dict[str, Run]:
        found: dict[str, Run] = {"NumPy": lambda X: self.network.logits(X).reshape(len(X), -1)}
        found["one accumulator"] = run_in_one_go(self.network)
        if self.network is self.case.network:
            found["the original framework"] = self.run
        if self.model.suffix not in STATE_DICTS:
            found[f"the framework of the {self.model.suffix} file"] = run_file(self.model)
        return found

    def _compare_runs(self, content: dict[str, Any]) -> None:
        """What holds for inference must hold in every framework, for every neighbour."""
        if content["arithmetic"] == "real" or not self.made.count:
            return
        rows = self._rows(self.made.inputs)
        points = self.oracle.points[rows].reshape(-1, self.network.inputs).astype(self.network.dtype)
        claimed = np.repeat(self.oracle.own_classes[rows], self.oracle.points.shape[1])
        for name, run in self._runs().items():
            classes = predicted_classes(np.asarray(run(points)), self.network.threshold)
            self.tally.add(f"neighbours of certified inputs run in {name}", len(points))
            wrong = np.flatnonzero(classes != claimed)
            if len(wrong):
                self.tally.fail(f"{name} gives neighbour {points[wrong[0]].tolist()} another class than is certified")

    def _compare_global(self, columns: list[int]) -> None:
        """Outputs must be equal, bit for bit, whatever the columns of the claim hold."""
        X = self.case.X
        others = X.copy()
        others[:, columns] = self.rng.permutation(X[:, columns])
        for name, run in self._runs().items():
            self.tally.add(f"people compared for a claim for everyone in {name}", len(X))
            if not np.array_equal(run(X), run(others)):
                self.tally.fail(f"{name} gives other outputs for other values in columns {columns}")

    # Forgeries

    def forge(self) -> bool:
        """Change the certificate or the model; what is VALID must be true. Return whether there was a way to do it."""
        content = copy.deepcopy(self.made.content)
        content["model"]["file_sha256"] = None
        kind = str(self.rng.choice([*IN_CONTENT, *OTHER_MODELS]))
        if kind in IN_CONTENT:
            return self._forge_content(content, kind)
        other = self._other_network(kind)
        if other is None:
            return False
        if self.model.suffix in STATE_DICTS and kind not in ("rows", "weight") and self.rng.random() < 0.5:
            return self._forge_steps(content, kind, other)
        return self._forge_model(content, kind, other)

    def _forge_content(self, content: dict[str, Any], kind: str) -> bool:
        """An input that is treated unfairly or is none, or a claim for everyone, with the right model."""
        if kind == "global":
            columns = self._varying_columns()
            if not self.network.read_columns[columns].any():
                return False
            content["global"] = {"columns": columns}
            return self._try(content, self.model, "a claim for everyone about a column that is read", None)
        if kind == "far":
            return self._try(
                content, self.model, "an input that cannot be one", None, self._with_far(self.made.inputs.copy())
            )
        unfair = self._unfair()
        if not len(unfair):
            return False
        inputs = np.concatenate([self.made.inputs, self.oracle.X[self.rng.choice(unfair)][None]])
        return self._try(content, self.model, "an unfair input", None, inputs)

    def _forge_steps(self, content: dict[str, Any], kind: str, other: Network) -> bool:
        """The steps of another network, with the tensors of this one, and digests that fit or the right ones."""
        theirs = identify(other)
        described = {**theirs["network"], "tensors": None}
        try:
            described["sha256"] = network_digest(described_model(described["steps"], stored_steps(self.network)[1])[0])
        except CheckError:  # the file has other tensors
            return False
        own = self.rng.random() < 0.7
        content["model"]["network"] |= described if own else {"steps": described["steps"], "tensors": None}
        content["model"] |= {"weights_sha256": theirs["weights_sha256"]} if own else {}
        whose = "a digest of their own" if own else "the right digest"
        return self._try(content, self.model, f"other steps for a state dict with {whose} ({kind})", other)

    def _forge_model(self, content: dict[str, Any], kind: str, other: Network) -> bool:
        """Another model in a file of any format, with the digest of its own weights, or with the right one."""
        suffix = str(self.rng.choice([".pth", ".safetensors", *([".onnx"] if fits_onnx(other) else [])]))
        in_keras = keras_model(other) if self.model.suffix == ".keras" else None
        suffix = suffix if in_keras is None else ".keras"
        path = self.folder / f"other{suffix}"
        if in_keras is None:
            other.save(path, keep_form=False)
        else:
            in_keras.save(path)
        other = fairmend.load_network(path).at_threshold(other.threshold)
        own = self.rng.random() < 0.7
        if own:
            content["model"] |= identify(other)
        else:  # its own steps, with the digests of the right network
            content["model"]["network"] |= {"steps": identify(other)["network"]["steps"], "tensors": None}
        whose = "digest and steps of its own" if own else "the digest of the right one"
        in_words = "another Keras model" if suffix == ".keras" else "another model"
        return self._try(content, path, f"{in_words} with {whose} ({kind})", other)

    def _try(
        self, content: dict[str, Any], model: Path, what: str, about: Network | None, inputs: np.ndarray | None = None
    ) -> bool:
        """Check a forged certificate. ``about`` is the network that it is about now; None: the claim is false."""
        path = self.save_forged(content, self.made.inputs if inputs is None else inputs)
        self.tally.add("forged certificates")
        if not check(path, model).valid:
            self.tally.add(f"forged: {what}, refused")
        elif about is None:
            self.tally.fail(f"a certificate with {what} is accepted")
        else:
            self.tally.add(f"forged: {what}, true of it")
            wrong = self._falsehood(content, about)
            if wrong:
                self.tally.fail(f"a certificate with {what} is accepted, but {wrong}")
        return True

    def _falsehood(self, content: dict[str, Any], network: Network) -> str:
        """Return what is false about a certificate, if it is about this network."""
        if content["global"]:
            columns, X = content["global"]["columns"], self.case.X
            others = X.copy()
            others[:, columns] = self.rng.permutation(X[:, columns])
            here, there = evaluate(network, X), evaluate(network, others)
            if (np.abs(here[0] - there[0]) > here[1] + there[1]).any():
                return f"the outputs depend on columns {columns}"
        if not self.made.count:
            return ""
        X = self.made.inputs
        oracle = Oracle(Case(network, self.case.spec, X), self.rng)
        oracle.resolve(np.arange(len(X)), self.rng)
        for row, label in enumerate(oracle.own_classes):
            point = oracle.contradiction(row, int(label))
            if point is not None:
                return f"{point.tolist()} has another class"
        points = oracle.points.reshape(-1, network.inputs).astype(network.dtype)
        predicted = network.predict(points).reshape(len(X), -1)
        if content["arithmetic"] != "real" and (predicted != oracle.own_classes[:, None]).any():
            return "inference gives another class"
        return ""

    def _other_network(self, kind: str) -> Network | None:
        """Return a network like this one, with one thing changed; None if it has no such thing."""
        places = [place for place, node in enumerate(self.network.nodes) if self._can(kind, place, node)]
        if not places:
            return None
        place = places[int(self.rng.integers(len(places)))]
        changes: dict[str, Callable[[int], Network | None]] = {
            "skip": self._without_skip,
            "branches": self._swapped,
            "columns": self._other_columns,
        }
        if kind in changes:
            return changes[kind](place)
        return self._with(place, self._other_operation(kind, self.network.nodes[place]))

    def _with(self, place: int, operation: Any) -> Network:
        """Return the network with another operation, no longer in the form that it was read from."""
        nodes = list(self.network.nodes)
        nodes[place] = replace(nodes[place], operation=operation)
        return Network.from_nodes(nodes, self.network.closing, self.network.threshold)

    def _can(self, kind: str, place: int, node: Node) -> bool:
        operation, widths = node.operation, self.network.widths
        if kind == "skip":
            return isinstance(operation, Sum) or operation == Product(widths[place])
        if kind == "branches":
            same = len({widths[source] for source in node.sources}) == 1
            turned = isinstance(operation, Product) and operation.rows > 1
            return (isinstance(operation, Concatenate) or turned) and same and len(set(node.sources)) > 1
        if kind == "group":
            return isinstance(operation, Normalise | Softmax) and operation.group > 1
        if kind == "rows":
            return isinstance(operation, Lookup) and (operation.table != operation.table[0]).any()
        if kind == "function":
            return isinstance(operation, Activation)
        if kind == "parameters":
            return isinstance(operation, Activation) and (operation.name == "leaky_relu" or bool(operation.parameters))
        if kind == "columns":
            return isinstance(operation, Columns) and not self._is_index(place)
        return isinstance(operation, Affine)

    def _is_index(self, place: int) -> bool:
        """Whether a look-up reads these columns."""
        readers = [node for node in self.network.nodes if place in node.sources]
        return any(isinstance(node.operation, Columns | Lookup) for node in readers)

    def _other_operation(self, kind: str, node: Node) -> Any:
        operation, rng = node.operation, self.rng
        if kind == "rows":
            return Lookup(np.roll(operation.table, 1, axis=0))
        if kind == "function":
            others = [each for each in OTHER_FUNCTIONS if each.name != operation.name]
            return others[rng.integers(len(others))]
        if kind == "group":
            if isinstance(operation, Softmax) or rng.random() < 0.3:
                return replace(operation, group=1)
            if rng.random() < 0.5:
                return replace(operation, centred=not operation.centred)
            return replace(operation, epsilon=min(1.0, 20 * operation.epsilon))
        if kind == "parameters":
            if operation.name == "leaky_relu":
                return Activation("leaky_relu", operation.slope / 2)
            if operation.name == "clip":
                return Activation("clip", parameters=(operation.parameters[0], operation.parameters[1] + 1.0))
            return Activation(operation.name, parameters=tuple(1.5 * number for number in operation.parameters))
        weight = operation.weight.copy()
        spot = tuple(rng.integers(0, size) for size in weight.shape)
        weight[spot] = -2 * weight[spot] + weight.dtype.type(0.5)
        return Affine(weight, operation.bias)

    def _without_skip(self, place: int) -> Network | None:
        """Let the readers of a sum or a product read one of its parts."""
        sources = self.network.nodes[place].sources
        return self._rewired({place: int(self.rng.choice(sources))})

    def _swapped(self, place: int) -> Network | None:
        nodes = list(self.network.nodes)
        nodes[place] = replace(nodes[place], sources=nodes[place].sources[::-1])
        return Network.from_nodes(nodes, self.network.closing, self.network.threshold)

    def _other_columns(self, place: int) -> Network | None:
        operation = self.network.nodes[place].operation
        width = self.network.widths[self.network.nodes[place].sources[0]]
        shifted = tuple((index + 1) % width for index in operation.indices)
        return None if width == 1 else self._with(place, Columns(shifted))

    def _rewired(self, instead: dict[int, int]) -> Network | None:
        """Return the network in which other nodes are read instead of some, without what nothing reads any more."""
        nodes = [
            replace(node, sources=tuple(instead.get(source, source) for source in node.sources))
            for node in self.network.nodes
        ]
        used = {len(nodes) - 1}
        for place in range(len(nodes) - 1, -1, -1):
            if place in used:
                used |= set(nodes[place].sources)
        if 0 not in used:
            return None
        order = sorted(used)
        number = {place: new for new, place in enumerate(order)}
        kept = [replace(nodes[place], sources=tuple(number[s] for s in nodes[place].sources)) for place in order]
        return Network.from_nodes(kept, self.network.closing, self.network.threshold)
