"""Whether everything behind the entry of an .onnx file reads what the entry gives, and nothing else of the inputs.

Only the edges of the graph are read: which node reads which value, in subgraphs and functions too. What the nodes
compute does not matter, as long as they compute the same from the same values. So every name must have one meaning, and
every operator must be known to have neither state nor randomness. Weights do not matter, and may be in other files.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairmend_check import json_reader
from fairmend_check.errors import CheckError, NotConfirmedError
from fairmend_check.kernel.entry import Entry
from fairmend_check.readers import protobuf
from fairmend_check.readers.onnx_entry import PREFIX, find_entry, is_false
from fairmend_check.readers.onnx_memory import (
    FULL,
    Axes,
    Operator,
    Products,
    are_sizes,
    check_concat,
    check_memory,
    empty_axes,
    gives_sizes,
    has_entries,
    keeps_entries,
    rank,
    whole_numbers,
)
from fairmend_check.readers.onnx_operators import DETERMINISTIC, MICROSOFT, ML
from fairmend_check.readers.onnx_shapes import SOME, Sizes, list_of, sizes_of_outputs
from fairmend_check.readers.protobuf import Message

MAX_BYTES = 2**31
_OPSETS, _ML_OPSETS, _IR_VERSIONS = range(7, 29), range(1, 6), range(4, 15)
_SAME_DOMAIN = ("", "ai.onnx")
_SETTINGS = "ort_config"  # a note in a file from which ONNX Runtime may take its settings
_INLINED = "_inlfunc_"  # how names begin that ONNX Runtime gives to the values of a function


def check_structure(path: Path, entry: Entry) -> str:
    """Return the sha256 of an .onnx file, if all that its model reads of its inputs is what the entry gives."""
    content = json_reader.read_bytes(path, "model", MAX_BYTES)
    try:
        if path.suffix.lower() != ".onnx":
            raise CheckError("a claim about classes can be checked for .onnx files. Save the model as one")
        if content[4:8] == b"ORTM":
            raise CheckError("bytes 4 to 7 are ORTM, so ONNX Runtime could read the file in its own format")
        _check_model(protobuf.read_message("Model", content, whole=True), entry)
    except CheckError as error:
        raise type(error)(f"model {path.name}: {error}") from error
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError, struct.error) as error:
        raise CheckError(
            f"model {path.name}: the file is damaged ({type(error).__name__}: {str(error)[:100]})"
        ) from error
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Scope:
    """The values that a node can read by name, and which of them it must not; with those of the graphs around it.

    ``constants`` are those among them whose value the file gives, and ``full`` those and forms of them that have
    entries. ``empty`` says along which axes values may be empty although the batch is not, and ``sizes`` are whole
    numbers that are then not 0; ``ranks`` has the numbers of axes that are known, ``shapes`` the sizes, and ``lists``
    sizes that nodes compute. ``fixed`` are constants, and what a program may compute beforehand because it reads only
    these, and shapes. ``where`` is the place in words, for messages. In a function, ``later`` are those that nodes
    still to come compute: a program that puts the nodes of the function into the graph that calls it, one after the
    other, may take such a name for one of that graph.
    """

    where: str
    hidden: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    constants: Mapping[str, Message] = field(default_factory=dict)
    full: frozenset[str] = frozenset()
    empty: dict[str, Axes] = field(default_factory=dict)
    sizes: set[str] = field(default_factory=set)
    ranks: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Sizes | None] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    lists: dict[str, Sizes] = field(default_factory=dict)
    later: set[str] | None = None
    outer: Scope | None = None

    def around(self) -> Iterator[Scope]:
        """Return this scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def knows(self, name: str) -> bool:
        """Return whether a name has a meaning here."""
        return any(name in scope.names for scope in self.around())

    def constant(self, name: str) -> Message | None:
        """Return the constant of a name; None if it is not one."""
        return next((scope.constants[name] for scope in self.around() if name in scope.constants), None)

    def empty_axes(self, name: str) -> Axes:
        """Return along which axes a value may be empty; any if that is not known."""
        return next((scope.empty[name] for scope in self.around() if name in scope.empty), None)

    def numbers(self, name: str) -> list[int] | None:
        """Return the whole numbers of a constant of int64; None if it is none."""
        return whole_numbers(self.constant(name) or {})

    def is_size(self, name: str) -> bool:
        """Return whether a value is whole numbers other than 0."""
        return any(name in scope.sizes for scope in self.around()) or are_sizes(self.numbers(name))

    def rank(self, name: str) -> int | None:
        """Return how many axes a value has; None if that is not known."""
        return next((scope.ranks[name] for scope in self.around() if name in scope.ranks), None)

    def shape(self, name: str) -> Sizes | None:
        """Return the sizes of the axes of a value; None if their number is not known."""
        return next((scope.shapes[name] for scope in self.around() if name in scope.shapes), None)

    def list_of(self, name: str) -> Sizes | None:
        """Return the sizes that a value lists, and what is not negative of the numbers of a constant."""
        numbers = self.numbers(name)
        if numbers is not None:
            return tuple(number if number >= 0 else None for number in numbers)
        return next((scope.lists[name] for scope in self.around() if name in scope.lists), None)

    def is_fixed(self, name: str) -> bool:
        """Return whether a program may compute a value beforehand."""
        return any(name in scope.fixed for scope in self.around())

    def note(self, node: Message) -> None:
        """Keep what is known of the outputs of a node."""
        outputs, inputs = [name for name in node.get("output", []) if name], node.get("input", [])
        found = empty_axes(node, self.empty_axes, self.numbers, self.is_size, self.rank)
        self.empty.update(dict.fromkeys(outputs, found))
        self.note_rank(node)
        given = [self.shape(name) for name in inputs]
        shapes = sizes_of_outputs(node, given, self.numbers, self.list_of, full=found == FULL)
        if len(outputs) == 1 and (numbers := list_of(node, next(iter(given), None), self.list_of, self.numbers)):
            self.lists[outputs[0]] = numbers
        for name, sizes in zip(node.get("output", []), shapes, strict=True):
            if name and sizes is not None:
                self.shapes[name], self.ranks[name] = sizes, len(sizes)
                if found != FULL:
                    self.empty[name] = frozenset(axis for axis, size in enumerate(sizes) if not size)
        if gives_sizes(node, self.empty_axes, self.is_size):
            self.sizes.update(node.get("output", [])[:1])
        inner = any({"g", "graphs"} & set(each) for each in node.get("attribute", []))
        if not inner and (
            node.get("op_type") in ("Shape", "Size") or all(self.is_fixed(each) for each in inputs if each)
        ):
            self.fixed.update(outputs)

    def note_rank(self, node: Message) -> None:
        """Keep how many axes the outputs of a node have, if that is known."""
        found = rank(node, self.rank, self.numbers)
        if found is not None:
            self.ranks.update({name: found for name in node.get("output", []) if name})

    def is_full(self, name: str) -> bool:
        """Return whether a name is a constant with entries, in some form."""
        return any(name in scope.full for scope in self.around())


@dataclass(frozen=True)
class File:
    """The functions of a file, by domain and name, and what is known of its products so far."""

    local: frozenset[Operator]
    products: Products


def _check_model(model: Message, entry: Entry) -> None:
    functions = model.get("functions", [])
    for each in model.get("metadata_props", []):
        if each.get("key", "") == _SETTINGS:
            raise CheckError(f'the file has a note "{_SETTINGS}", which can change how ONNX Runtime runs it')
    if model.get("ir_version", 0) not in _IR_VERSIONS:
        raise CheckError(
            f"version {model.get('ir_version', 0)} of ONNX's format is not one of {_IR_VERSIONS[0]} to "
            f"{_IR_VERSIONS[-1]}; before these, callers could replace constants"
        )
    opset = _check_imports(model.get("opset_import", []), "the model")
    local = [(each.get("domain", ""), each.get("name", "")) for each in functions]
    for (domain, name), times in Counter(local).items():
        if domain in DETERMINISTIC or domain in _SAME_DOMAIN or times > 1:
            raise CheckError(f'the function "{name[:40]}" replaces an operator, or another function')
    file = File(frozenset(local), Products())
    graph = model.get("graph", {})
    found = find_entry(graph, entry, opset)
    _check_no_prefix(graph, {*found.constants, *(name for node in found.nodes for name in node["output"])})
    overridable = {each.get("name", "") for each in graph.get("input", [])} & _names_of(graph, "initializer")
    if overridable:
        raise NotConfirmedError(f'callers can replace the constant "{min(overridable)[:40]}": it is an input too')
    if any(name.startswith(_INLINED) for name in found.hidden):
        raise CheckError(f'an input of the model has a name that begins with "{_INLINED}", as those of functions may')
    scope = Scope("", hidden=frozenset(found.hidden))
    _check_graph(graph, scope, file, skipped=len(found.nodes))
    for each in functions:
        where = f'of the function "{each.get("name", "")[:40]}" '
        _check_imports(each.get("opset_import", []), f"the function {each.get('name', '')[:40]!r}")
        for attribute in each.get("attribute_proto", []):
            if {"g", "graphs"} & set(attribute):
                raise CheckError(f"an attribute {where}has a graph as its default, which cannot be checked")
            _check_tensors(attribute, where)
        outputs = each.get("output", [])
        body: Message = {"node": each.get("node", []), "output": [{"name": name} for name in outputs]}
        body["input"] = [{"name": name} for name in each.get("input", [])]
        _check_no_prefix(body, set())
        _check_graph(body, Scope(where, later=set()), file)
    file.products.check()


def _names_of(graph: Message, key: str) -> set[str]:
    return {each.get("name", "") for each in graph.get(key, [])}


def _check_imports(imports: Sequence[Message], where: str) -> int:
    """Return the version of ONNX's operators that is imported; refuse one that is not known, and two of them."""
    versions = Counter(each.get("domain", "") for each in imports)
    if any(number > 1 for number in versions.values()) or sum(versions[each] for each in _SAME_DOMAIN) != 1:
        raise CheckError(f"{where} must import one version of ONNX's operators")
    found = {each.get("domain", ""): each.get("version", 0) for each in imports}
    opset: int = found["ai.onnx"] if "ai.onnx" in found else found[""]
    for what, version, known in (("operators", opset, _OPSETS), (ML, found.get(ML, 1), _ML_OPSETS)):
        if version not in known:
            raise CheckError(
                f"{where} imports version {version} of {what}, which is not one of {known[0]} to {known[-1]}"
            )
    return opset


def _check_no_prefix(graph: Message, allowed: set[str]) -> None:
    """Refuse names like those of an entry that are not its own; in subgraphs, `_check_graph` sees the names."""
    names = [name for node in graph.get("node", []) for name in (*node.get("output", []), node.get("name", ""))]
    names += [name for key in ("input", "initializer", "value_info") for name in _names_of(graph, key)]
    declared = _names_of(graph, "value_info")
    for name in names:
        if name.startswith(PREFIX) and (name not in allowed or name in declared):
            raise NotConfirmedError(f'"{name[:60]}" is named like a part of the entry, and is none')


def _check_graph(graph: Message, outer: Scope, file: File, skipped: int = 0) -> None:
    """Refuse a graph in which a name has two meanings, or that reads what it must not; its first nodes may be known."""
    nodes = graph.get("node", [])
    names = [each.get("name", "") for key in ("input", "initializer") for each in graph.get(key, [])]
    computed = [name for node in nodes for name in node.get("output", []) if name]
    for name, times in Counter(names + computed).items():
        if times > 1 or not name or outer.knows(name):
            raise NotConfirmedError(f'two values {outer.where}have the name "{name[:40]}", or one has none')
        if name.startswith(PREFIX) and not skipped:
            raise NotConfirmedError(f'the value "{name[:60]}" {outer.where}is named like a part of the entry')
    constants = {each.get("name", ""): each for each in graph.get("initializer", [])}
    constants |= {node["output"][0]: _value_of(node) for node in nodes if _is_constant(node)}
    later = None if outer.later is None else set(computed)
    full = _with_entries(nodes, constants, outer)
    empty: dict[str, Axes] = {name: FULL for name in constants if name in full}
    if skipped:  # the graph of the model, whose inputs have the rows of the batch
        empty |= {each.get("name", ""): FULL for each in graph.get("input", [])}
        empty |= {name: FULL for node in nodes[:skipped] for name in node["output"]}
    values = frozenset([*names, *computed])
    ranks = {name: len(tensor.get("dims", [])) for name, tensor in constants.items() if tensor}
    if skipped:
        ranks |= _declared_ranks(graph)
    shapes: dict[str, Sizes | None] = {name: tuple(each.get("dims", [])) for name, each in constants.items() if each}
    if skipped:
        shapes |= _declared_sizes(graph)
    scope = Scope(
        outer.where, outer.hidden, values, constants, full, empty, set(), ranks, shapes, set(constants), {}, later
    )
    scope = replace(scope, outer=outer)
    for node in nodes[:skipped]:
        scope.note(node)
    for each in graph.get("initializer", []):
        _check_location(each, scope.where)
    for number, node in enumerate(nodes[skipped:], start=skipped):
        _check_node(node, number, scope, file)
        if _operator(node) not in file.local:
            scope.note(node)
        if later is not None:
            later.difference_update(node.get("output", []))
    for each in graph.get("output", []):
        _check_read(each.get("name", ""), f"an output {scope.where}is", scope)


def _declared_ranks(graph: Message) -> dict[str, int]:
    """Return how many axes the inputs of a model have; ONNX Runtime takes no others."""
    found: dict[str, int] = {}
    for each in graph.get("input", []):
        kind = protobuf.read_message("Type", each.get("type", b"")).get("tensor_type", {})
        if "shape" in kind:
            found[each.get("name", "")] = len(kind["shape"].get("dim", []))
    return found


def _declared_sizes(graph: Message) -> dict[str, Sizes | None]:
    """Return the sizes of the inputs of a model: some rows, and as many columns as are declared."""
    found: dict[str, Sizes | None] = {}
    for each in graph.get("input", []):
        kind = protobuf.read_message("Type", each.get("type", b"")).get("tensor_type", {})
        if "shape" in kind:
            sizes = [dimension.get("dim_value", 0) or None for dimension in kind["shape"].get("dim", [])]
            found[each.get("name", "")] = (SOME, *sizes[1:])
    return found


def _with_entries(nodes: Sequence[Message], constants: Mapping[str, Message], outer: Scope) -> frozenset[str]:
    """Return the names of constants that have entries, and of what changes only the form of one."""
    full = {name for name, tensor in constants.items() if has_entries(tensor)}
    for node in nodes:
        source = next(iter(node.get("input", [])), "")
        if keeps_entries(_domain_of(node), node.get("op_type", "")) and (source in full or outer.is_full(source)):
            full.update(node.get("output", [])[:1])
    return frozenset(full)


def _domain_of(node: Message) -> str:
    domain: str = node.get("domain", "")
    return "" if domain in _SAME_DOMAIN else domain


def _operator(node: Message) -> Operator:
    return _domain_of(node), node.get("op_type", "")


def _check_node(node: Message, number: int, scope: Scope, file: File) -> None:
    kind, domain = node.get("op_type", ""), _domain_of(node)
    what = f'node {number} {scope.where}({kind[:40]} "{node.get("name", "")[:60]}")'
    if node.get("name", "").startswith(PREFIX):
        raise NotConfirmedError(f"{what} is named like a part of the entry")
    if (domain, kind) not in file.local and kind not in DETERMINISTIC.get(domain, ()):
        raise CheckError(
            f'{what} of the domain "{domain[:40]}" is not known to compute the same whenever it gets the same values'
        )
    for name in node.get("input", []):
        if name:
            _check_read(name, f"{what} reads", scope)
    if (domain, kind) == ("", "Dropout") and any(node.get("input", [])[2:]):
        switch = scope.constant(node["input"][2])
        if switch is None or not is_false(switch):
            raise CheckError(f"{what} is random unless its training mode is a constant that is false")
    if (domain, kind) in (("", "Concat"), (MICROSOFT, "QLinearConcat")):
        check_concat(node, what, scope.empty_axes, scope.rank)
    if (domain, kind) not in file.local:
        check_memory(node, (domain, kind), what, scope.is_full, scope.is_fixed, scope.empty_axes, file.products)
    for attribute in node.get("attribute", []):
        _check_tensors(attribute, what)
        inner = f"of {attribute.get('name', '')[:40]} of {what} "
        graphs = [*([attribute["g"]] if "g" in attribute else []), *attribute.get("graphs", [])]
        if graphs and (domain, kind) in file.local:
            raise CheckError(f"{what} gives a graph to a function, in which its names may have another meaning")
        for graph in graphs:
            _check_graph(graph, replace(scope, where=inner[:400]), file)


def _check_read(name: str, what: str, scope: Scope) -> None:
    if name in scope.hidden:
        raise NotConfirmedError(f'{what} "{name[:60]}", which only the entry may read')
    if not scope.knows(name) or any(name in (each.later or ()) for each in scope.around()):
        raise CheckError(f'{what} "{name[:60]}", which nothing computes before')


def _is_constant(node: Message) -> bool:
    return node.get("op_type") == "Constant" and not node.get("domain") and len(node.get("output", [])) == 1


def _value_of(node: Message) -> Message:
    """Return the tensor of a Constant node; an empty one if its value is something else, or given by a caller."""
    (attribute, *more) = node.get("attribute", []) or [{}]
    value: Message = {} if more or "ref_attr_name" in attribute else attribute.get("t", {})
    return value


def _check_tensors(attribute: Message, where: str) -> None:
    for tensor in [*([attribute["t"]] if "t" in attribute else []), *attribute.get("tensors", [])]:
        _check_location(tensor, where)


def _check_location(tensor: Message, where: str) -> None:
    """Refuse a constant whose data a program would look for outside the folder of the model."""
    for each in tensor.get("external_data", []):
        if each.get("key", "") == "location" and re.search(r"[/\\:]|^\.*$", each.get("value", "")):
            raise CheckError(
                f'the constant "{tensor.get("name", "")[:40]}" {where}is stored in {each.get("value", "")[:80]!r}; '
                "external data must be a file in the folder of the model, named without a path"
            )
