"""What must be true of the program that runs a model, where the file leaves that open: the one place that words it.

A state dict holds weights, and the code of a module decides what is computed with them. A verdict on such a file holds
on the condition that the module computes what fairmend took it for. `fairmend check` prints the condition of a
certificate in words of its own, because it imports nothing of fairmend; they read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairmend.base.text import printable
from fairmend.models import RunModel
from fairmend.network import Model, Network
from fairmend.network.formats.nnet import NnetForm
from fairmend.network.formats.torch.pt2 import Pt2Form
from fairmend.network.formats.torch.state_dict import StateDictForm
from fairmend.prove.certificate_graph import layers_of, steps_of

_ROUNDED = " A module in float32 would round the weights, which the claim does not cover."


def model_condition(network: Model) -> str:
    """Return what a program must do with the file that a network was read from; "" if the file itself says it.

    Of a model that is only run, nothing is known but what it gave, so the condition names what ran it.

    A module in memory is traced, and the program in a .pt2 file is read here, so that neither needs a condition. The
    checker does not read such a program, and prints one.
    """
    if isinstance(network, RunModel):
        return (
            f"every score was computed by {network.runtime}, in batches. Another program or version, another precision "
            "or batch may round a score to the other side of the threshold."
        )
    assert isinstance(network, Network)
    form = network.form
    if isinstance(form, NnetForm):
        return form.condition
    if not isinstance(form, StateDictForm) or isinstance(form, Pt2Form) or form.module is not None:
        return ""
    steps = steps_of(network)
    found = printable(_graph(network, steps) if steps else _chain(network))
    return found if form.part is None else f'the module loads the part "{form.part}" of the checkpoint. T{found[1:]}'


def _closing(network: Network) -> str:
    return "sigmoid" if network.outputs == 1 else "softmax"


def _rounded(network: Network) -> str:
    return _ROUNDED if network.dtype == "float64" else ""


def _chain(network: Network) -> str:
    """Return the condition of a chain of layers."""
    layers = layers_of(network)
    stored = {layer.name: layer for layer in network.stored_layers}
    words: list[str] = []
    for number, layer in enumerate(layers):
        if "epsilon" in layer:
            words.append(f'"{layer["name"]}" (torch.nn.BatchNorm1d with eps = {layer["epsilon"]!r})')
        else:
            outputs, inputs = stored[layer["name"]].weight.shape
            words.append(f'"{layer["name"]}" ({inputs} to {outputs})')
        beside_norm = any("epsilon" in one for one in layers[number : number + 2])
        function = layer["activation"]
        if function != "none" and not (function == "identity" and beside_norm):
            numbers = ", ".join(map(repr, layer.get("parameters", ())))
            slope = f" with slope {network.dtype.type(layer['slope'])!s}"
            words.append(f"{function}{slope if function == 'leaky_relu' else f' with {numbers}' if numbers else ''}")
    unbiased = [f'"{name}"' for name, layer in stored.items() if layer.bias is None]
    bias = f" Without a bias: {', '.join(unbiased)}." if unbiased else ""
    norms = " The module must be in evaluation mode." if any("epsilon" in layer for layer in layers) else ""
    return (
        f"the file stores weights only. The claim is about a module that computes in {network.dtype}, in this order: "
        f"{', '.join(words)}. Each layer computes W x + b, as torch.nn.Linear does with W = weight (out, in) and "
        f"b = bias.{bias}{norms} Nothing else may come before or between them, and only a {_closing(network)} after "
        f"them.{_rounded(network)}"
    )


def _graph(network: Network, steps: Sequence[dict[str, Any]]) -> str:
    """Return the condition of any other graph, step by step."""
    words = ["x", *(f"v{number}" for number in range(1, len(steps)))]
    sentences = [
        f"{word} = {_described(step, [words[source] for source in step['sources']])}"
        for word, step in zip(words[1:], steps[1:], strict=True)
    ]
    norms = " It must be in evaluation mode." if any(step["kind"] == "batch_norm" for step in steps) else ""
    unused = ", ".join(f'"{key}"' for key in steps[0].get("unused", ()))
    norms += f" It does not use {unused} beyond the numbers above." if unused else ""
    return (
        f"the file stores weights only. The claim is about a module that computes in {network.dtype}, from a row x of "
        f"{network.inputs} inputs with columns from 0: {'; '.join(sentences)}. Its output is {words[-1]}, and only a "
        f"{_closing(network)} may come after it. A layer computes W x + b, as torch.nn.Linear does with W = weight "
        f"(out, in) and b = bias; functions are those of docs/certificate.md.{norms}{_rounded(network)}"
    )


def _described(step: dict[str, Any], words: list[str]) -> str:
    """Return what a step computes, in words."""
    kind, first = step["kind"], words[0]
    if kind == "affine":
        return f'"{step["name"]}" of {first}'
    if kind == "lookup":
        return f'row {first} of "{step["name"]}.weight"'
    if kind == "batch_norm":
        return f'"{step["name"]}" of {first} (torch.nn.BatchNorm1d with eps = {step["epsilon"]!r})'
    if kind == "one_hot":
        return f"the one-hot code of {first} among {step['classes']} classes"
    if kind == "matrix":
        product = f'{first} "{step["weight"]}"' + ("" if step["transposed"] else " transposed")
        return product + (f' + "{step["bias"]}"' if step["bias"] else "")
    if kind == "prelu":
        return f'"{step["name"]}" of {first} (torch.nn.PReLU)'
    if kind == "scale":
        mean, gain, shift = (", ".join(map(repr, step[part])) for part in ("mean", "gain", "shift"))
        return f"({first} - [{mean}]) [{gain}] + [{shift}]"
    if kind == "columns":
        return f"columns {', '.join(map(str, step['indices']))} of {first}"
    if kind == "function":
        listed = ", ".join(map(repr, step["parameters"]))
        sloped = f"({step['slope']!r})" if step["function"] == "leaky_relu" else ""
        return f"{step['function']}{f'({listed})' if listed else sloped} of {first}"
    return " + ".join(words) if kind == "sum" else f"{', '.join(words)} side by side"
