"""What the layers of a functional Keras model read, and the order in which Keras lists the layers.

Keras assigns the weights of a file to layers by their order, which it finds by a walk from the output: layers farther
from it come first. A file whose layers are listed in another order could give a layer the weights of another.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fairmend_check import json_reader
from fairmend_check.errors import CheckError

Call = tuple[str, int]  # a layer by its name, and which of its uses


@dataclass(frozen=True)
class Calls:
    """The inputs of a model, its output, what each call reads, each after those, and the layers in Keras's order."""

    inputs: tuple[str, ...]
    output: Call
    reads: dict[Call, tuple[Call, ...]]
    order: tuple[str, ...]


def read_calls(
    content: dict[str, Any],
    entries: list[Any],
    inputs: list[str],
    nested: list[str],
    weighted: list[str],
    operations: Collection[str] = (),
) -> Calls:
    """Return the calls of a functional model with these input layers, models in it, and layers with weights.

    ``operations`` on tensors have constants among their arguments, which are not read here.
    """
    nodes = {}
    for entry in entries:
        name = json_reader.take(entry, "name", str, "a layer of the model")
        nodes[name] = json_reader.take(entry, "inbound_nodes", list, f'layer "{name[:40]}"')
        if bool(nodes[name]) == (name in inputs):
            raise CheckError(f'layer "{name[:40]}" reads nothing, or is an input that reads something')
        if (name in weighted or name in operations) and len(nodes[name]) != 1:
            raise CheckError(f'layer "{name[:40]}" is used twice, so that two places share its weights')
    given = [name for name, _ in _ends(content, "input_layers")]
    outputs = _ends(content, "output_layers")
    if sorted(given) != sorted(inputs) or len(outputs) != 1:
        raise CheckError("the model's input_layers are not its inputs, or it has several outputs")
    walk = _Walk(nodes, nested, operations)
    output = walk.visit(outputs[0])
    order = walk.order(output)
    unread = [name for name in nodes if name not in order]
    if any(name not in inputs for name in unread):
        raise CheckError(f'layer "{unread[0][:40]}" is not a part of what the model computes')
    if [name for name in nodes if name in weighted] != [name for name in order if name in weighted]:
        raise CheckError("the layers are not listed in the order in which Keras assigns their weights")
    reads = {(name, 0): () for name in given} | {call: walk.reads[call] for call in walk.finished}
    return Calls(tuple(given), output, reads, (*unread, *order))


def _ends(content: dict[str, Any], key: str) -> list[Call]:
    """Return inputs or outputs: ["dense", 0, 0], a list of these, or an object whose values they are."""
    ends = content.get(key)
    if type(ends) is dict:
        if key == "input_layers" and any(type(end) is not list or end[:1] != [name] for name, end in ends.items()):
            raise CheckError(f"the model's {key} have other names than their layers, so that callers may mix them up")
        ends = list(ends.values())
    if type(ends) is not list:
        raise CheckError(f"the model has no {key}")
    single = len(ends) == 3 and type(ends[0]) is str
    return [_call(end, f"the model's {key}") for end in ([ends] if single else ends)]


def _call(history: Any, where: str) -> Call:
    if type(history) is not list or [type(part) for part in history] != [str, int, int]:
        raise CheckError(f"{where} name something else than the output of a layer")
    name, node, tensor = history
    if node < 0 or tensor != 0:
        raise CheckError(f"{where} name an output that its layer does not have")
    return name, node


class _Walk:
    """The walk of Keras through a model, from its output."""

    def __init__(self, nodes: dict[str, list[Any]], nested: list[str], operations: Collection[str]) -> None:
        self._nodes, self._nested, self._operations = nodes, nested, operations
        self.reads: dict[Call, tuple[Call, ...]] = {}
        self.finished: list[Call] = []
        self._seen: dict[str, int] = {}

    def visit(self, last: Call) -> Call:
        """Visit a call and all that it depends on, and return it."""
        last = self._known(last, "the model's output")
        todo, active, done = [(last, False)], set(), set()
        while todo:
            call, left = todo.pop()
            if left:
                active.discard(call)
                done.add(call)
                self.finished.append(call)
            elif call in active:
                raise CheckError(f'layer "{call[0][:40]}" reads what depends on itself')
            elif call not in done:
                active.add(call)
                self._seen.setdefault(call[0], len(self._seen))
                self.reads[call] = self._sources(call)
                todo += [(call, True), *((source, False) for source in reversed(self.reads[call]))]
        return last

    def order(self, output: Call) -> list[str]:
        """Return the layers by their distance from the output, the farthest first, and then as they were seen."""
        calls, layers = {output: 0}, dict[str, int]()
        for call in reversed(self.finished):
            calls[call] = layers[call[0]] = max(calls[call], layers.get(call[0], 0))
            for source in self.reads[call]:
                calls[source] = max(calls.get(source, 0), calls[call] + 1)
        return sorted(layers, key=lambda name: (-layers[name], self._seen[name]))

    def _known(self, call: Call, where: str) -> Call:
        name, node = call
        if name not in self._nodes:
            raise CheckError(f'{where} reads the layer "{name[:40]}", which the model does not have')
        if name in self._nested and node == 1:
            return name, 0  # some versions of Keras count the model itself as a use
        if node >= max(1, len(self._nodes[name])):
            raise CheckError(f'{where} reads a use of layer "{name[:40]}" that there is not')
        return call

    def _sources(self, call: Call) -> tuple[Call, ...]:
        """Return what a call reads; an input reads nothing."""
        nodes, where = self._nodes[call[0]], f'layer "{call[0][:40]}"'
        if not nodes:
            return ()
        found = _read_by(nodes[call[1]], where, call[0] in self._operations)
        return tuple(self._known(source, where) for source in found)


def is_tensor(given: Any) -> bool:
    """Return whether an argument of a call in Keras 3 is what another layer gives."""
    return type(given) is dict and given.get("class_name") == "__keras_tensor__"


def _read_by(node: Any, where: str, operation: bool) -> list[Call]:
    """Return what a node reads; refuse options that could change what its layer computes."""
    if type(node) is dict:  # Keras 3
        json_reader.only_keys(node, ("args", "kwargs"), where)
        arguments, options = json_reader.take(node, "args", list, where), json_reader.take(node, "kwargs", dict, where)
        tensors = arguments[0] if len(arguments) == 1 and type(arguments[0]) is list else arguments
        if operation and tensors is arguments:
            tensors = [given for given in arguments if is_tensor(given)]
        elif tensors is arguments and len(arguments) != 1:
            raise CheckError(f"{where} does not read one value, or a list of values")
        histories = [_history(tensor, where) for tensor in tensors]
        given = [options]
    else:
        if type(node) is not list or not all(type(tensor) is list and len(tensor) in (3, 4) for tensor in node):
            raise CheckError(f"{where} does not read a list of values")
        histories, given = [tensor[:3] for tensor in node], [(*tensor[3:], {})[0] for tensor in node]
    for options in given:
        if type(options) is not dict or any(value is not None and value is not False for value in options.values()):
            raise CheckError(f"{where} is called with options that cannot be checked")
        json_reader.only_keys(options, ("training", "mask"), where)
    if not histories:
        raise CheckError(f"{where} reads nothing")
    return [_call(history, where) for history in histories]


def _history(tensor: Any, where: str) -> Any:
    """Return the layer, its use and its output that a tensor of Keras 3 comes from."""
    if not is_tensor(tensor):
        raise CheckError(f"{where} does not read one value, or a list of values")
    json_reader.only_keys(tensor, ("class_name", "config"), where)
    described = json_reader.take(tensor, "config", dict, where)
    json_reader.only_keys(described, ("shape", "dtype", "keras_history"), where)
    shape = described.get("shape")
    if shape is not None and (type(shape) is not list or len(shape) > 3):
        raise CheckError(f"{where} does not read rows of numbers")
    if described.get("dtype") not in (None, "float32", "int32", "int64"):
        raise CheckError(f"{where} reads values of {str(described.get('dtype'))[:40]}")
    return described.get("keras_history")
