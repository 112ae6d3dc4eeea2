"""What a module must compute with the tensors of a state dict, in words: the condition of every claim about one.

A state dict stores weights by name. In which order they are applied, and with which functions between them, is written
in the code of a module, which nobody can read from the file. The steps (`description`) say it, and so do these words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend_check.kernel.operations import KINDS

_ROUNDED = {"float32": "", "float64": " A module in float32 would round the weights, which the claim does not cover."}
_NORM_PARTS = {"mean": "running_mean", "variance": "running_var", "gain": "weight", "shift": "bias"}
Entry = Mapping[str, Any]


def state_dict_condition(
    steps: Sequence[Entry], tensors: Mapping[str, NDArray[Any]], unused: Sequence[str], dtype: str, outputs: int
) -> str:
    """Return the condition of steps that were read (`described_model`), in a module that computes in this type."""
    beginning = f"the file stores weights only. The claim is about a module that computes in {dtype}, "
    layers = "computes W x + b, as torch.nn.Linear does with W = weight (out, in) and b = bias"
    closing = "sigmoid" if outputs == 1 else "softmax"
    evaluation = "must be in evaluation mode." if any(step["kind"] == "batch_norm" for step in steps) else ""
    in_order = None if unused else _in_order(steps, tensors, dtype)
    if in_order is not None:
        norms = f" The module {evaluation}" if evaluation else ""
        return (
            f"{beginning}in this order: {', '.join(in_order)}. Each layer {layers}.{norms} Nothing else may come "
            f"before or between them, and only a {closing} after them.{_ROUNDED[dtype]}"
        )
    words = ["x", *(f"v{number}" for number in range(1, len(steps)))]
    sentences = [
        f"{word} = {_described(step, [words[source] for source in step['sources']], dtype)}"
        for word, step in zip(words[1:], steps[1:], strict=True)
    ]
    norms = f" It {evaluation}" if evaluation else ""
    listed = ", ".join(f'"{key}"' for key in unused)
    norms += f" It does not use {listed} beyond the numbers above." if listed else ""
    return (
        f"{beginning}from a row x of {steps[0]['columns']} inputs with columns from 0: {'; '.join(sentences)}. Its "
        f"output is {words[-1]}, and only a {closing} may come after it. A layer {layers}; functions are those of "
        f"docs/certificate.md.{norms}{_ROUNDED[dtype]}"
    )


def _in_order(steps: Sequence[Entry], tensors: Mapping[str, NDArray[Any]], dtype: str) -> list[str] | None:
    """Return the words for layers, norms and functions that follow each other; None for any other steps."""
    found: list[str] = []
    for number, step in enumerate(steps[1:]):
        name, kind = _layer(step), step["kind"]
        if list(step["sources"]) != [number]:
            return None
        if kind == "function" and not isinstance(step.get("parameters"), str):
            found.append(_function(step, dtype))
        elif kind == "affine" and name is not None:
            outputs, inputs = tensors[step["weight"]].shape
            bias = ", without a bias" if step["bias"] is None else ""
            found.append(f'"{name}" ({inputs} to {outputs}{bias})')
        elif kind == "batch_norm" and name is not None:
            found.append(f'"{name}" ({_norm_words(step)})')
        else:
            return None
    return found


def _layer(step: Entry) -> str | None:
    """Return the name of the layer of PyTorch whose tensors a step names; None if it has other tensors."""
    if step["kind"] == "affine":
        name = (
            None
            if step["weight"] is None or "blocks" in step or "tokens" in step
            else _prefix(step["weight"], "weight")
        )
        plain = name is not None and step["bias"] in (None, _key(name, "bias")) and not step.get("transposed")
        return name if plain else None
    if step["kind"] != "batch_norm":
        return None
    name = _prefix(step["mean"], "running_mean")
    if name is None or (step["gain"] is None) != (step["shift"] is None):
        return None
    parts = _NORM_PARTS if step["gain"] is not None else ("mean", "variance")
    return name if all(step[part] == _key(name, _NORM_PARTS[part]) for part in parts) else None


def _key(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def _prefix(key: str, part: str) -> str | None:
    """Return "fc1" for "fc1.weight", and "" for "weight"; None for any other key."""
    if key == part:
        return ""
    return key.removesuffix(f".{part}") if key.endswith(f".{part}") and key != f".{part}" else None


def _norm_words(step: Entry) -> str:
    affine = "" if step["gain"] is not None else " and affine = False"
    return f"torch.nn.BatchNorm1d with eps = {float(step['epsilon'])!r}{affine}"


def _function(step: Entry, dtype: str) -> str:
    """Return the name of a function and its numbers, as a program in this type has them."""
    numbers = step.get("parameters") or ([step.get("slope", 0.0)] if step["name"] == "leaky_relu" else [])
    shown = ", ".join(str(np.dtype(dtype).type(number)) for number in numbers)  # a slope of 0 is not the usual one
    return f"{step['name']}({shown})" if shown else str(step["name"])


def _repeated(step: Entry, first: str) -> str:
    """Return the words for a layer that has the same weights for several groups of columns, or blocks of weights."""
    blocks, tokens = step.get("blocks", 1), step.get("tokens", 1)
    axes = "(blocks, in, out)" if step.get("transposed") else "(blocks, out, in)"
    weight = f'"{step["weight"]}"' + (
        f" as {axes}" if "blocks" in step else " transposed" * (not step.get("transposed"))
    )
    bias = "" if step["bias"] is None else f', plus "{step["bias"]}"'
    return (
        f"{first} in {blocks} blocks of {tokens} groups of columns each, every group times its block of {weight}{bias}"
    )


def _described(step: Entry, words: Sequence[str], dtype: str) -> str:
    """Return what a step computes, in words."""
    kind, first, name = step["kind"], words[0], _layer(step)
    if kind == "affine" and name is not None:
        return f'"{name}" of {first}' + (", without a bias" if step["bias"] is None else "")
    if kind == "affine" and step["weight"] is None:
        return f'"{step["bias"]}" for every row'
    if kind == "affine" and ("blocks" in step or "tokens" in step):
        return _repeated(step, first)
    if kind == "affine":
        product = f'{first} "{step["weight"]}"' + ("" if step.get("transposed") else " transposed")
        return product if step["bias"] is None else f'{product} + "{step["bias"]}"'
    if kind == "batch_norm" and name is not None:
        return f'"{name}" of {first} ({_norm_words(step)})'
    if kind == "batch_norm":
        gain, shift = (
            f'"{step[part]}"' if step[part] is not None else none for part, none in (("gain", "1"), ("shift", "0"))
        )
        spread = f'sqrt("{step["variance"]}" + {float(step["epsilon"])!r})'
        return f'({first} - "{step["mean"]}") / {spread} {gain} + {shift}, in evaluation mode of torch.nn.BatchNorm1d'
    if kind == "scale":
        parts = {"mean": 0.0, "gain": 1.0, "shift": 0.0}
        mean, gain, shift = (", ".join(repr(float(n)) for n in step.get(part, [none])) for part, none in parts.items())
        return f"({first} - [{mean}]) [{gain}] + [{shift}]"
    if kind == "function" and isinstance(step.get("parameters"), str):
        module = _prefix(step["parameters"], "weight") if step["name"] == "prelu" else None
        if module is not None:
            return f'"{module}" of {first} (torch.nn.PReLU)'
        return f'{step["name"]} of {first} with the numbers "{step["parameters"]}"'
    if kind == "function":
        return f"{_function(step, dtype)} of {first}"
    if kind == "columns":
        return f"columns {', '.join(map(str, step['indices']))} of {first}"
    if kind == "lookup":
        coded = f"the one-hot code of {first} among {step.get('classes')} classes"
        return f'row {first} of "{step["table"]}"' if "table" in step else coded
    if kind in KINDS:
        return str(KINDS[kind](**{key: step[key] for key in step if key not in ("kind", "sources")}).words(words))
    return " + ".join(words) if kind == "sum" else f"{', '.join(words)} side by side"
