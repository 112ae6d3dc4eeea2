"""Puts an entry in front of an ONNX model: from the data of docs/classes.md and a model to a model.

It is written from that page alone, and shares nothing with the checker, which generates the same nodes to compare.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PREFIX = "fairmend_entry"
DTYPES = {"float32": "<f4", "float64": "<f8", "int64": "<i8", "int32": "<i4", "bool": "?"}
EMPTY: dict[str, Any] = {"string": "", "bool": False}


def with_entry(model: onnx.ModelProto, entry: dict[str, Any]) -> onnx.ModelProto:
    """Return the model behind an entry; what read an input reads the result of the entry."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def add(kind: str, inputs: list[str], output: str, **attributes: int) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(name: str, values: Any, kind: str) -> str:
        if kind == "string":
            array = np.array(values, dtype=object)
            flat = [text.encode() for text in array.reshape(-1)]
            constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, flat))
        else:
            constants.append(numpy_helper.from_array(np.array(values, dtype=DTYPES[kind]), name))
        return name

    def of_port(items: list[dict[str, Any]], number: int) -> list[tuple[int, dict[str, Any]]]:
        return [(at, each) for at, each in enumerate(items) if each["port"] == number]

    matrices = []
    for number, port in enumerate(entry["ports"]):
        read = any(code["port"] == number for each in entry["lookups"] for code in each["codes"])
        matrix = port["name"]
        if port["rank"] == 1 and (read or of_port(entry["lookups"], number)):
            shape = constant(f"{PREFIX}/{number}/column", [-1, 1], "int64")
            matrix = add("Reshape", [port["name"], shape], f"{PREFIX}/{number}/matrix")
        matrices.append(matrix)
    results = {}
    for number, port in enumerate(entry["ports"]):
        here, value, width = f"{PREFIX}/{number}", matrices[number], port["width"]
        cuts = {each["column"]: each["value"] for _, each in of_port(entry["cuts"], number)}
        if cuts:
            mask: Any = [column in cuts for column in range(width)]
            reference: Any = [cuts.get(column, EMPTY.get(port["type"], 0)) for column in range(width)]
            if port["rank"] == 2 or value != port["name"]:
                mask, reference = [mask], [reference]
            names = constant(f"{here}/mask", mask, "bool"), constant(f"{here}/reference", reference, port["type"])
            value = add("Where", [*names, value], f"{here}/where")
        lookups = of_port(entry["lookups"], number)
        found = []
        for at, lookup in lookups:
            place, parts = f"{PREFIX}/lookup_{at}", []
            most = [code_most(code) for code in lookup["codes"]]
            for k, code in enumerate(lookup["codes"]):
                name = f"{place}/code_{k}"
                columns = constant(f"{name}/columns", code["columns"], "int64")
                part = add("Gather", [matrices[code["port"]], columns], f"{name}/read", axis=1)
                with_ = constant(f"{name}/with", [code["with"]], entry["ports"][code["port"]]["type"])
                kind = {">=": "GreaterOrEqual", "==": "Equal"}[code["compare"]]
                part = add(kind, [part, with_], f"{name}/compared")
                part = add("Cast", [part], f"{name}/counted", to=TensorProto.INT64)
                part = add("Mul", [part, constant(f"{name}/weights", [code["weights"]], "int64")], f"{name}/weighted")
                axes = constant(f"{name}/axes", [1], "int64")
                part = add("ReduceSum", [part, axes], f"{name}/sum", keepdims=0)
                part = add("Min", [part, constant(f"{name}/most", most[k], "int64")], f"{name}/code")
                if len(most) > 1:
                    stride = constant(f"{name}/stride", prod(each + 1 for each in most[k + 1 :]), "int64")
                    part = add("Mul", [part, stride], f"{name}/part")
                parts.append(part)
            index = parts[0]
            for k, part in enumerate(parts[1:], start=1):
                index = add("Add", [index, part], f"{place}/index_{k}")
            table = constant(f"{place}/table", lookup["table"], port["type"])
            found.append(add("Gather", [table, index], f"{place}/found", axis=0))
        if lookups:
            written = [column for _, each in lookups for column in each["columns"]]
            kept = [column for column in range(width) if column not in written]
            if kept:
                found.insert(0, add("Gather", [value, constant(f"{here}/kept", kept, "int64")], f"{here}/rest", axis=1))
            value = add("Concat", found, f"{here}/all", axis=1)
            order = constant(f"{here}/order", [(kept + written).index(column) for column in range(width)], "int64")
            value = add("Gather", [value, order], f"{here}/ordered", axis=1)
        if matrices[number] != port["name"] and (cuts or lookups):
            flat = constant(f"{here}/flat", [-1], "int64")
            value = add("Reshape", [value, flat], f"{here}/flattened")
        if value != matrices[number]:
            results[port["name"]] = value
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _redirect(made.graph, results)
    behind = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend([*nodes, *behind])
    made.graph.initializer.extend(constants)
    return made


def code_most(code: dict[str, Any]) -> int:
    """Return the largest code."""
    return len(code["weights"]) if set(code["weights"]) == {1} else max(code["weights"])


def _redirect(graph: onnx.GraphProto, results: dict[str, str]) -> None:
    """Let every node of a graph, and of its subgraphs, read the results of the entry instead of inputs."""
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = results.get(name, name)
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                _redirect(inner, results)
