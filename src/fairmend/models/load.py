"""`fairmend.load_model`: a Network if the model can be read, else a model that is only run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, listed
from fairmend.models.ports import unscaled
from fairmend.models.run_model import RunModel, Runner, in_words_of, order_of_classes
from fairmend.network import Activation, Network, NetworkSource, load_network
from fairmend.network.formats.mlflow import model_file
from fairmend.network.formats.sklearn import steps_before
from fairmend.network.model import scores_of
from fairmend.spec import Spec
from fairmend.spec.draft.steps import encode_as_spec

if TYPE_CHECKING:
    import pandas as pd

ModelSource: TypeAlias = NetworkSource | RunModel | Callable[[Any], Any]
"""What `load_model` takes: what `load_network` reads, any ONNX file, module or fitted estimator, and functions."""

_logger = logging.getLogger(__name__)
_COMPARED = 64  # people for whom the scores of a pipeline and of the network at its end are compared
_KERAS = ("keras", "tf_keras", "tensorflow")


def load_model(
    source: ModelSource,
    activation: str | Activation | None = None,
    *,
    outputs: str | None = None,
    output: str | None = None,
    takes: str | None = None,
    spec: Spec | None = None,
) -> Network | RunModel:
    """Return the model in a file or object: a `Network` if it can be read node by node, else a `RunModel`.

    What `load_network` reads is a network, about which everything can be asked. Every other ONNX file (with the extra
    `onnxruntime`), PyTorch module, Keras model in memory, fitted estimator or pipeline with predict_proba,
    decision_function or predict, and function is a model that is only run: audited and certified by enumeration.
    `why_only_run` says why.

    Parameters
    ----------
    source : the file or object
    activation : as for `load_network`
    outputs : what the model gives, if that is not what fairmend takes it for: "logit", "probability" or "number"
    output : the name of the output with the scores, of an ONNX file with several
    takes : of a function, "encoded" for rows as the spec encodes them, or "people" for a data frame of users' values
    spec : if it is given, a model that is only run is bound to it. A pipeline with a network at its end is run as a
        whole, unless the spec encodes people as its other steps do: then it is that network
    """
    return load_with_data(source, activation, outputs=outputs, output=output, takes=takes, spec=spec)


def load_with_data(
    source: ModelSource,
    activation: str | Activation | None = None,
    *,
    outputs: str | None = None,
    output: str | None = None,
    takes: str | None = None,
    spec: Spec | None = None,
    frames: Sequence[pd.DataFrame] = (),
) -> Network | RunModel:
    """Return the same; a model that is run on the user's own values gets them as they are in data frames."""
    if isinstance(source, Network | RunModel):
        model: Network | RunModel = source
        asked = [name for name, value in (("outputs", outputs), ("output", output), ("takes", takes)) if value]
        if asked:
            raise FairmendError(f"{asked[0]}= is for a model that is not loaded yet; {source!r} is")
    else:
        source = model_file(source) if isinstance(source, str | PathLike) else source
        model = _load(source, activation, outputs, output, takes, spec)
    if spec is not None and isinstance(model, Network):
        require_order_of_classes(source, spec)
    return _of_spec(model, spec, frames) if spec is not None and isinstance(model, RunModel) else model


def require_network(
    source: ModelSource,
    what: str,
    instead: str = "audit and certify run it, and count who is treated unequally",
    activation: str | Activation | None = None,
) -> Network:
    """Return a network; refuse a model that is only run, because `what` needs its graph, and say what is possible."""
    if isinstance(source, RunModel):
        raise FairmendError(
            f"{what} needs a network that fairmend reads, but {source.runner.name} is only run "
            f"({source.why_only_run}); {instead}"
        )
    if _is_function(source):
        raise FairmendError(f"{what} needs a network that fairmend reads, not a function; {instead}")
    source = model_file(source) if isinstance(source, str | PathLike) else source
    try:
        return load_network(source, activation)
    except FairmendError as error:
        if not _can_run(source):
            raise
        raise FairmendError(f"{error}; {what} needs a network that fairmend reads; {instead}") from error


def _load(
    source: Any,
    activation: str | Activation | None,
    outputs: str | None,
    output: str | None,
    takes: str | None,
    spec: Spec | None,
) -> Network | RunModel:
    from fairmend.models.estimator import has_steps

    why, inside = _asked_to_run(outputs, output, takes), None
    if not why and not _is_function(source):
        try:
            example = _example(source, spec) if spec is not None and _is_module(source) else None
            network = load_network(source, activation, example=example)
        except FairmendError as error:
            if _is_keras_file(source) and "fairmend supports" in str(error):
                raise FairmendError(
                    f"{error}. To run it, open it with Keras and give the model: "
                    "load_model(keras.models.load_model(path)), or export it to ONNX"
                ) from error
            if not _can_run(source):
                raise
            why = str(error)
        else:
            rescaled = network.rescaling is not None and spec is not None and spec.regression
            if rescaled and _can_run(source):
                why = "its scores are a rescaled probability, and the label of the spec is a number to predict"
            elif not has_steps(source):
                return network
            else:
                inside, why = network, "a pipeline is run as a whole"
    try:
        runner = _runner(source, output, takes)
    except FairmendError as error:
        raise FairmendError(f"{why}; it cannot be run either: {error}" if why else str(error)) from error
    why = why.partition("; give the path of a file")[0]  # what to give instead is for those whom this does not help
    model = RunModel(runner, why or "a Python function has no graph", outputs, inside)
    _logger.info("%r: %s", model, model.why_only_run)
    return model


def _example(module: Any, spec: Spec) -> Any:
    """Return what forward() of a module takes for people of a spec; None if the spec does not say it."""
    from fairmend.models.module import ModuleRunner

    try:
        runner = ModuleRunner(module)
        ports = runner.ports(spec)
    except FairmendError:  # the module is read without an example
        return None
    X = spec.sample_inputs(2, np.random.default_rng(0), np.dtype(np.float32))
    return tuple(runner.tensors(spec, ports, X).values())


def require_order_of_classes(source: Any, spec: Spec) -> None:
    """Refuse an estimator or ONNX file that is read as a network, if it has the classes of the spec in another order.

    A network has no names of classes: its second one, or those of several outputs in turn, are taken for the spec's.
    """
    labels = _class_names(source)
    if order_of_classes(spec, labels, len(labels)) is None:
        return
    labels = in_words_of(spec, labels)
    if spec.classes:
        way_out = f"list classes in [label] as {listed(labels)}"
    else:
        way_out = f'set positive = "{labels[1]}" in [label], and favourable = "{labels[0]}" if that is the good one'
    name = Path(source).name if _is_file(source) else type(source).__name__
    raise FairmendError(f"{name} has the classes {listed(labels)}, in this order, and the spec has another: {way_out}")


def _class_names(source: Any) -> tuple[str, ...]:
    """Return what an ONNX file or an estimator calls its classes."""
    if _is_onnx(source):
        from fairmend.models.onnx_file import named_classes

        return named_classes(Path(source))
    classes = None if _is_file(source) else getattr(source, "classes_", None)
    return () if classes is None or np.ndim(classes) != 1 else tuple(map(as_text, np.asarray(classes).tolist()))


def _of_spec(model: RunModel, spec: Spec, frames: Sequence[pd.DataFrame]) -> Network | RunModel:
    """Return a model for rows of a spec: the network at the end of a pipeline, if that is the whole for these rows.

    Then the spec encodes people as the steps before it do, each of which is known, and it gives some people the scores
    of the whole. Otherwise the spec describes what the pipeline reads.
    """
    inside = model.inside
    if inside is None or inside.inputs != spec.width:
        return model.bind(spec, frames)
    from fairmend.models.estimator import EstimatorRunner

    assert isinstance(model.runner, EstimatorRunner)
    names, steps = [each.name for each in model.runner.named_columns], steps_before(model.runner.estimator)
    fits = encode_as_spec(steps, names, model.runner.width, spec)
    try:
        bound = model.bind(spec, frames)
    except FairmendError:
        if not fits:
            raise
        return inside  # its steps encode text in a matrix without names, which is not run
    X = spec.sample_inputs(_COMPARED, np.random.default_rng(0), inside.dtype)
    people = bound.runner.takes_people(spec)
    on = None if spec.regression else "probability"
    given = X if people else unscaled(spec, X)
    scores, whole = (scores_of(part, on)[:, -1] for part in (inside.logits(X), bound.logits(given)))
    if not np.allclose(scores, whole, rtol=1e-3, atol=1e-3):
        return bound
    if not fits and not people and any(feature.scale is not None for feature in spec.features):
        raise FairmendError(
            f"{model.runner.name}: the spec scales columns as the steps before the model seem to do, but not all of "
            "these are known to do only that. Describe what the pipeline reads: the values of your data, without scale"
        )
    return inside if fits else bound


def _asked_to_run(outputs: str | None, output: str | None, takes: str | None) -> str:
    """Return why a model is run that might be read: what only a model that is run takes was given."""
    given = [name for name, value in (("outputs", outputs), ("output", output), ("takes", takes)) if value is not None]
    return f"{given[0]}= was given" if given else ""


def _is_file(source: Any) -> bool:
    return isinstance(source, str | PathLike)


def _is_onnx(source: Any) -> bool:
    return _is_file(source) and Path(source).suffix.lower() == ".onnx" and Path(source).is_file()


def _is_module(source: Any) -> bool:
    torch = sys.modules.get("torch")  # a module can only exist once PyTorch is imported
    return torch is not None and isinstance(source, torch.nn.Module)


def _is_keras(source: Any) -> bool:
    return any(base.__module__.partition(".")[0] in _KERAS for base in type(source).__mro__)


def _is_keras_file(source: Any) -> bool:
    return _is_file(source) and Path(source).suffix.lower() in (".keras", ".h5")


def _is_function(source: Any) -> bool:
    from fairmend.models.estimator import is_estimator

    others = isinstance(source, type) or _is_module(source) or _is_keras(source) or is_estimator(source)
    return callable(source) and not others


def _can_run(source: Any) -> bool:
    from fairmend.models.estimator import is_estimator

    in_memory = _is_module(source) or _is_keras(source) or is_estimator(source)
    return _is_onnx(source) or (not _is_file(source) and in_memory)


def _runner(source: Any, output: str | None, takes: str | None) -> Runner:
    """Return what runs a model; each kind is imported when one turns up."""
    if takes is not None and not _is_function(source):
        raise FairmendError(f"takes= is for a function; {type(source).__name__} says itself what it takes")
    if output is not None and not _is_onnx(source):
        raise FairmendError("output= is for an ONNX file, whose outputs have names")
    if _is_onnx(source):
        from fairmend.models.onnx_file import OnnxRunner

        return OnnxRunner(Path(source), output)
    if _is_keras(source):  # before modules: with PyTorch, a Keras model is one too
        from fairmend.models.keras_model import KerasRunner

        return KerasRunner(source)
    if _is_module(source):
        from fairmend.models.module import ModuleRunner

        return ModuleRunner(source)
    if _is_function(source):
        from fairmend.models.function import FunctionRunner

        return FunctionRunner(source, takes)
    from fairmend.models.estimator import EstimatorRunner, is_estimator

    if is_estimator(source):
        return EstimatorRunner(source)
    raise FairmendError(
        f"{source!r} cannot be run: give an ONNX file, a module, a Keras model, a fitted estimator or a function"
    )
