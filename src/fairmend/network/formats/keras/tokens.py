"""Keras layers over tokens, and those that multiply values: attention, normalisation, dot products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmend.network.formats.axes import ROWS, shown
from fairmend.network.formats.keras.call import LayerCall, Tensor
from fairmend.network.formats.keras.weights import parts_of, split_parts

Bools = npt.NDArray[np.bool_]
_ARRAYS = ("__numpy__", "__tensor__")  # how Keras writes a constant


def softmax(call: LayerCall, tensor: Tensor, axis: int) -> Tensor:
    """Add a softmax over an axis, counted from the last, -1."""
    x = call.numbers(tensor)
    if not x.row:
        raise call.refuse("reads rows of one number without an axis")
    return call.softmax(x, axis % len(x.dims))


def _normalised(call: LayerCall) -> Tensor:
    """Add (x - mean) / sqrt(variance + epsilon) over the last axes, or the same by the root mean square."""
    tensor, centred = call.numbers(call.one()), call.layer.kind == "LayerNormalization"
    axes = _last_axes(call, len(tensor.row))
    if call.get("rms_scaling"):
        raise call.refuse("has rms_scaling, which divides by the deviation without subtracting the mean")
    parts = [call.get(part, True) for part in ("scale", "center")] if centred else [True, False]
    found = list(call.arrays(sum(map(bool, parts))))
    shape = tensor.row[-axes:]
    if any(array.shape != shape for array in found):
        raise call.damaged(f"has numbers of shape {found[0].shape} for the axes {shape}")
    epsilon = call.number("epsilon", 1e-3 if centred else 1e-6)
    return _learned(call, call.normalised(tensor, -axes, epsilon, centred=centred), parts, found)


def _learned(call: LayerCall, x: Tensor, parts: Sequence[Any], found: list[npt.NDArray[Any]]) -> Tensor:
    """Add the gain and the shift of a normalisation, as far as it has these parts."""
    learned = {
        name: np.broadcast_to(found.pop(0), x.row).reshape(-1).astype(np.float64)
        for name, part in zip(("gain", "shift"), parts, strict=True)
        if part
    }
    return call.scaled(x, **learned) if learned else x


def _normalised_groups(call: LayerCall) -> Tensor:
    """Add a normalisation of each group of channels, the last axis, over all tokens."""
    tensor, groups = call.numbers(call.one()), call.get("groups", 32)
    rank, channels = len(tensor.row), tensor.row[-1] if tensor.row else 1
    groups = channels if groups == -1 else groups
    if call.get("axis", -1) not in (-1, rank) or type(groups) is not int or groups < 1 or channels % groups:
        raise call.refuse(f"has {str(groups)[:80]} groups along axis {str(call.get('axis'))[:80]} of {tensor.shape()}")
    parts = [call.get(part, True) for part in ("scale", "center")]
    found = list(call.arrays(sum(map(bool, parts))))
    if any(array.shape != (channels,) for array in found):
        raise call.damaged(f"has numbers of shape {found[0].shape} for {channels} channels")
    order = [0, rank, *range(1, rank), rank + 1]  # groups first
    split = call.transposed(call.view(tensor, (ROWS, *tensor.row[:-1], groups, channels // groups)), order)
    made = call.transposed(call.normalised(split, 2, call.number("epsilon", 1e-3)), np.argsort(order).tolist())
    return _learned(call, call.view(made, tensor.dims), parts, found)


def _last_axes(call: LayerCall, rank: int) -> int:
    """Return how many of the last axes a layer is over."""
    given = call.get("axis", -1)
    axes = given if isinstance(given, list) else [given]
    count = len(axes)
    if rank and axes in (list(range(-count, 0)), list(range(rank + 1 - count, rank + 1))) and 0 < count <= rank:
        return count
    raise call.refuse(f"is over the axes {str(given)[:80]}, which are not the last ones of a row")


def _dot(call: LayerCall) -> Tensor:
    """Add the products of two values, added up over an axis of each."""
    if len(call.inputs) != 2:
        raise call.refuse(f"reads the outputs of {len(call.inputs)} layers instead of two")
    first, second = call.several()
    if call.get("normalize"):
        raise call.refuse("divides by norms that may be 0 (normalize)")
    given = call.get("axes")
    axes = given if isinstance(given, list) else [given, given]
    named = []
    for axis, tensor, letters in zip(axes, (first, second), ("abcdef", "uvwxyz"), strict=True):
        rank = len(tensor.row)
        if type(axis) is not int or not (-rank <= axis < 0 or 0 < axis <= rank) or rank > len(letters):
            raise call.refuse(
                f"is over the axes {str(given)[:80]} of rows of shapes {shown(first.row)} and {shown(second.row)}"
            )
        along = axis % rank if axis < 0 else axis - 1
        named.append(letters[:along] + "s" + letters[along + 1 : rank])
    rest = "".join(named).replace("s", "")
    made = call.named_product(first, second, f"{named[0]},{named[1]}->{rest}")
    return made if made.row else call.view(made, (ROWS, 1))


def _permute(call: LayerCall) -> Tensor:
    tensor, dims = call.one(), call.get("dims")
    order = [dim - 1 for dim in dims if type(dim) is int] if isinstance(dims, list) else []
    if sorted(order) != list(range(len(tensor.row))):
        raise call.refuse(f"has the dims {str(dims)[:80]} for rows of shape {shown(tensor.row)}")
    return call.transposed(tensor, [0, *(axis + 1 for axis in order)])


def _repeat(call: LayerCall) -> Tensor:
    tensor, times = call.one(), call.get("n")
    if type(times) is not int or not 0 < times <= 2**16 or len(tensor.row) != 1:
        raise call.refuse(f"repeats rows of shape {shown(tensor.row)} {str(times)[:80]} times")
    return call.moved(tensor, lambda rows: np.tile(rows[:, None], (1, times, 1)))


def _pooled(call: LayerCall) -> Tensor:
    """Add the mean over the tokens."""
    tensor = call.numbers(call.one())
    if len(tensor.row) != 2 or call.get("data_format") not in (None, "channels_last"):
        raise call.refuse(f"reads rows of shape {shown(tensor.row)}, or has its channels first")
    return call.total(tensor, [1], mean=True, keep=bool(call.get("keepdims")))


def einsum_axes(call: LayerCall, kernel: npt.NDArray[Any]) -> tuple[int, int]:
    """Return over how many of its last axes an EinsumDense multiplies, and how many it gives instead."""
    equation = str(call.get("equation")).replace(" ", "")
    named, _, out = equation.partition("->")
    reads, _, weights = named.partition(",")
    both = sum(name in reads for name in weights)
    bound, new = weights[:both], weights[both:]
    free = reads[: len(reads) - both]
    plain = free.replace("...", "")
    names = f"{plain}{weights}"
    fits = free + bound == reads and free + new == out and len(weights) == kernel.ndim
    letters = names.isalpha() and len(set(names)) == len(names)
    if not fits or not letters or not bound or not new or (plain and "..." in free) or not free:
        raise call.refuse(f"has the equation {equation[:80]!r}, which is not a matrix for the last axes of each token")
    if call.get("bias_axes") not in (None, new):
        raise call.refuse(f"has a bias over the axes {str(call.get('bias_axes'))[:80]!r}, not over all that it adds")
    rank = len(call.one().row)
    if "..." not in free and len(free) + both != rank + 1:
        raise call.refuse(f"has the equation {equation[:80]!r} for rows of shape {shown(call.one().row)}")
    return both, len(new)


def attention_mask(call: LayerCall, rows: int, columns: int) -> Bools:
    """Return which tokens (rows) attend to which (columns)."""
    options = {name: each for name, each in call.options.items() if name != "read"}
    found = np.ones((rows, columns), np.bool_)
    places = np.arange(rows)[:, None], np.arange(columns)
    causal, mask = options.pop("use_causal_mask", False), options.pop("attention_mask", None)
    if options or type(causal) is not bool:
        raise call.refuse(f"is called with options ({', '.join(map(str, options or ['use_causal_mask']))[:80]})")
    if causal:
        found &= places[0] >= places[1]
    window = call.get("sliding_window")
    if window is not None:
        if type(window) is not int or window < 1:
            raise call.refuse(f"has the sliding_window {str(window)[:80]}")
        found &= np.abs(places[0] - places[1]) < window
    if mask is not None:
        config = mask.get("config") if isinstance(mask, dict) and mask.get("class_name") in _ARRAYS else None
        value = config.get("value") if isinstance(config, dict) and config.get("dtype") == "bool" else None
        try:
            given = np.asarray(value)
        except ValueError:
            given = np.zeros(0)
        given = given[0] if given.ndim == 3 and len(given) == 1 else given
        if given.dtype != np.bool_ or given.shape != found.shape:
            raise call.refuse(f"has an attention_mask that is not a constant of {rows} by {columns} booleans")
        found &= given
    if not found.any(axis=1).all():
        token = int(np.argmin(found.any(axis=1)))
        raise call.refuse(f"masks everything that token {token} attends to; leave that token out")
    return found


def _attention(call: LayerCall) -> Tensor:
    """Add attention of several heads: softmax(q kᵀ / sqrt(key_dim)) v, perhaps times a gate, and the layer after it."""
    read = call.options["read"]
    query, value, key = (call.numbers(call.inputs[read.get(name, read["value"])]) for name in ("query", "value", "key"))
    if any(len(tensor.row) != 2 for tensor in (query, value, key)) or key.row[0] != value.row[0]:
        shapes = ", ".join(shown(tensor.row) for tensor in (query, value, key))
        raise call.refuse(f"reads rows of shapes {shapes}, not (tokens, width) with as many keys as values")
    if call.get("attention_axes") not in (None, [1], 1) or call.get("flash_attention"):
        raise call.refuse("is over other axes than the tokens (attention_axes), or has flash_attention")
    heads, size = call.get("num_heads"), call.get("key_dim")
    parts = split_parts(call.layer, call.arrays(len(parts_of(call.layer)) * (1 + bool(call.get("use_bias", True)))))
    depth = call.get("value_dim") or size
    mask = attention_mask(call, query.row[0], value.row[0])
    q, k, v = (
        _projected(call, tensor, name, parts[name], (tensor.row[1],), (heads, width))
        for tensor, name, width in ((query, "query", size), (key, "key", size), (value, "value", depth))
    )
    scores = call.named_product(call.scaled(q, gain=1 / math.sqrt(size)), k, "thd,shd->hts")
    found = _weighed(call, scores, v, mask)
    if "gate" in parts:
        gate = _projected(call, query, "gate", parts["gate"], (query.row[1],), (heads, depth))
        found = call.times(found, call.function(gate, "sigmoid"))
    out = call.get("output_shape") or [query.row[1]]
    out = out if isinstance(out, list) else [out]
    return _projected(call, found, "attention_output", parts["attention_output"], (heads, depth), tuple(out))


def _projected(
    call: LayerCall, tensor: Tensor, name: str, arrays: Sequence[Any], inside: tuple[Any, ...], out: tuple[Any, ...]
) -> Tensor:
    kernel, bias = arrays[0], arrays[1] if len(arrays) == 2 else None
    if kernel.shape != inside + out or (bias is not None and bias.shape != out):
        raise call.damaged(f"has a kernel of shape {kernel.shape} in {name!r} instead of {inside + out}")
    weight = kernel.reshape(math.prod(inside), -1).T
    flat = None if bias is None else bias.reshape(-1)
    return call.affine(tensor, weight, flat, f"{call.name}/{name}", len(inside), out)


def _weighed(call: LayerCall, scores: Tensor, values: Tensor, mask: Bools) -> Tensor:
    """Return the values (s, h, e) with the softmax of scores (h, t, s) as their weights, as (t, h, e).

    What is masked has the weight 0: tokens that attend to the same others are read together, without the rest.
    """
    found, order = [], []
    firsts = [token for token in range(len(mask)) if not (mask[:token] == mask[token]).all(axis=1).any()]
    for first in firsts:
        rows, columns = np.flatnonzero((mask == mask[first]).all(axis=1)), np.flatnonzero(mask[first])
        chosen = call.moved(scores, lambda n, r=rows, c=columns: n[:, :, r][..., c])  # type: ignore[misc]
        weights = softmax(call, chosen, -1)
        own = call.moved(values, lambda n, c=columns: n[:, c])  # type: ignore[misc]
        found.append(call.named_product(weights, own, "hts,she->the"))
        order.append(rows)
    back = np.argsort(np.concatenate(order))
    return call.moved(call.joined(found, 1), lambda rows: rows[:, back])


TOKEN_LAYERS: dict[str, Callable[[LayerCall], Tensor]] = {
    "LayerNormalization": _normalised,
    "RMSNormalization": _normalised,
    "GroupNormalization": _normalised_groups,
    "MultiHeadAttention": _attention,
    "Dot": _dot,
    "Permute": _permute,
    "RepeatVector": _repeat,
    "GlobalAveragePooling1D": _pooled,
}
