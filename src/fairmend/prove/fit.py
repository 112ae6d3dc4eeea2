"""Whether a spec fits a network: as many columns, the right inputs, codes that tables have, and one threshold.

`model_condition` says what must be true of the program that runs a model, where the file leaves that open. A state dict
holds weights, and the code of a module decides what is computed with them. A verdict on such a file holds on the
condition that the module computes what fairmend took it for. The kernel words it, as for `fairmend check`.

Digests of networks and specs tell whether kept results are of the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import printable
from fairmend.models import ModelSource, RunModel
from fairmend.models.load import load_with_data
from fairmend.network import DEFAULT_THRESHOLD, Input, Lookup, Model, Network
from fairmend.network.description import stored_steps, unused_tensors
from fairmend.network.formats.nnet import NnetForm
from fairmend.network.formats.torch.pt2 import Pt2Form
from fairmend.network.formats.torch.state_dict import StateDictForm
from fairmend.network.input_columns import passed_columns
from fairmend.network.rescaling import PROBABILITY, Rescaling, require_range, rescaling_of_range
from fairmend.spec import Spec
from fairmend.spec.features import Feature
from fairmend.spec.read_values import is_frame
from fairmend.workers.kept_results import KeptResults
from fairmend_check.kernel.condition import state_dict_condition

# Agree on the threshold: the spec says from which probability on a prediction is positive, and the network decides.


def network_of_spec(network: Network, spec: Spec) -> Network:
    """Return the network that decides at the threshold of the spec; refuse one that has another threshold itself."""
    if network.rescaling is not None and spec.regression:
        raise FairmendError(
            "the scores of the network are a rescaled probability, and the label of the spec is a number to predict. "
            "Name a positive value in [label], or give an .onnx file or a module, which is then only run"
        )
    require_range(network.rescaling, network.closing, network.outputs, spec.score_range)
    if network.rescaling is None and spec.score_range != PROBABILITY:
        network = network.with_rescaling(rescaling_of_range(spec.score_range))
    if network.rescaling is not None and spec.claim.kind == "class":
        _require_open_decision(network.rescaling, spec)
    if network.threshold == spec.threshold:
        return network
    if network.threshold != DEFAULT_THRESHOLD:
        raise FairmendError(
            f"the network decides at the threshold {network.threshold:g}, but the spec at {spec.threshold:g}. "
            f"Set threshold = {network.threshold:g} in [label], or use the network's at_threshold({spec.threshold:g})."
        )
    return network.at_threshold(spec.threshold)


def _require_open_decision(rescaling: Rescaling, spec: Spec) -> None:
    """Refuse a threshold outside of the scores that a clip leaves: everyone gets one answer there."""
    least, most = rescaling.limits
    at = spec.score_range[0] + (spec.score_range[1] - spec.score_range[0]) * spec.threshold
    if not least < at < most:
        raise FairmendError(
            f"the network clips its scores to {least:g} to {most:g}, so that everyone gets one answer at the threshold "
            f"{at:g}. Set a threshold between the two in [label]."
        )


def model_of_spec(source: ModelSource, spec: Spec, *data: Any) -> Network | RunModel:
    """Return a model that decides at the threshold of the spec and fits it; one that is only run is bound to it.

    If it gets people in the user's own values, these are what stands in the data frames among `data`.
    """
    model = load_with_data(source, spec=spec, frames=[each for each in data if is_frame(each)])
    if isinstance(model, RunModel):
        return model
    network = network_of_spec(model, spec)
    require_fit(network, spec)
    return network


def require_stable(net: Model) -> None:
    """Refuse a model that is only run if it now gives other scores than before."""
    if isinstance(net, RunModel):
        net.require_stable()


def require_fit(net: Model, spec: Spec, network: str = "the network", spec_name: str = "the spec") -> None:
    """Raise an error if the spec does not describe the columns that a network reads."""
    spec.require_inputs(net.inputs, network, spec_name)
    if not isinstance(net, Network):
        return  # binding it to the spec has settled what each of its inputs reads
    _require_named_inputs(net, spec, network, spec_name)
    _require_codes(net, spec, network, spec_name)


def _require_named_inputs(net: Network, spec: Spec, network: str, spec_name: str) -> None:
    """Refuse features that name another input than the one that reads their columns."""
    source = net.nodes[0].operation
    assert isinstance(source, Input)
    readers = [name for name, width in source.names for _ in range(width)]
    for feature in spec.features:
        if feature.input is None:
            continue
        columns = range(*spec.columns(feature.name).indices(spec.width))
        found = {readers[column] for column in columns} if readers else set()
        if found != {feature.input}:
            names = ", ".join(f"{name} ({width} columns)" for name, width in source.names)
            raise FairmendError(
                f"{spec_name}: feature {feature.name!r} has input = {feature.input!r}, but {network} reads it elsewhere"
                f". Its inputs are, in order: {names or 'one input without a name'}. List the features in that order"
            )


def why_no_codes(net: Model, spec: Spec) -> str:
    """Return why a network cannot look up the values of the spec in its tables; empty if it can, or has none."""
    if not isinstance(net, Network) or net.inputs != spec.width:
        return ""
    try:
        _require_codes(net, spec, "the model", "the spec")
    except FairmendError as error:
        return str(error)
    return ""


def _require_codes(net: Network, spec: Spec, network: str, spec_name: str) -> None:
    """Refuse features whose values are not rows of the table that the network looks them up in."""
    passed = passed_columns(net)
    for node in net.nodes:
        operation = node.operation
        if not isinstance(operation, Lookup):
            continue
        column = int(passed[node.sources[0]][0])
        if column < 0:
            raise FairmendError(f"{network} looks up the table {node.name!r} by a number that it computes itself")
        feature = next(f for f in spec.features if column in range(*spec.columns(f.name).indices(spec.width)))
        rows = len(operation.table)
        where = f"{network} looks up feature {feature.name!r} in a table of {rows} rows"
        if not feature.numbers_rows(rows):
            raise FairmendError(
                f"{where}, so {spec_name} must give it as whole numbers from 0 to {rows - 1}; it has "
                f"{_words(feature)}. A scale may only shift them: {_SHIFT} adds 1"
            )
        count = len(feature.categories or ())
        if count and not feature.one_hot and feature.scale is None and count != rows:
            raise FairmendError(
                f"{where}, but {spec_name} gives it {count} categories, whose codes are 0 to {count - 1}: which rows "
                f"are theirs? If row 0 is for unknown values (as in fastai and in Keras' StringLookup), write {_SHIFT} "
                "into the feature, or list the unknown value as its first category if people may have it. If the last "
                f"rows are not used, write {_SHIFT.replace('-1', '0')}"
            )


_SHIFT = "scale = { mean = -1, std = 1 }"


def _words(feature: Feature) -> str:
    low, high = (np.format_float_positional(end, trim="-") for end in feature.encoded_bounds)
    scaled = ", scaled" if feature.scale is not None else ""
    return f"{feature.kind} values from {low} to {high}{scaled}"


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
    steps, tensors = stored_steps(network)
    unused = unused_tensors(steps, tensors)
    found = printable(state_dict_condition(steps, tensors, unused, network.dtype.name, network.outputs))
    return found if form.part is None else f'the module loads the part "{form.part}" of the checkpoint. T{found[1:]}'


def digest_network(net: Model) -> str:
    """Return a text that changes with what the model computes."""
    if isinstance(net, RunModel):
        return net.digest()
    assert isinstance(net, Network)
    digest = hashlib.sha256()
    _add(
        digest, (tuple((node.operation, node.sources) for node in net.nodes), net.closing, net.rescaling, net.threshold)
    )
    return digest.hexdigest()


def digest_spec(spec: Spec) -> str:
    """Return a text that changes with the spec, but for its [about]."""
    content = {**spec.to_dict(), "about": None}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def open_kept_results(
    folder: str | PathLike[str],
    net: Model,
    spec: Spec,
    options: Mapping[str, Any],
    classes: Iterable[type],
    data: str | None = None,
) -> KeptResults:
    """Open a folder of finished parts, or refuse it by name if they are of another model, spec, data or options."""
    about = {"model": digest_network(net), "spec": digest_spec(spec), "options": json.dumps(options)}
    return KeptResults(Path(folder), about if data is None else {**about, "data": data}, classes)


def _add(digest: Any, value: object) -> None:
    """Add a value that consists of data classes, tuples, arrays, and what `repr` tells apart."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, tuple | list):
        digest.update(f"({len(value)}".encode())
        for each in value:
            _add(digest, each)
    elif is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for field in fields(value):
            _add(digest, getattr(value, field.name))
    else:
        digest.update(f"{value!r};".encode())
