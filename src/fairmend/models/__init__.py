"""Models that are only run, and whose scores count: ONNX files, modules, Keras models, estimators and functions.

`load_model` gives a `Network` for what can be read node by node, and a `RunModel` for everything else. A `RunModel`
turns rows of a spec into what the model reads through its `ports`, and its outputs into scores.
"""

from fairmend.models.load import ModelSource, load_model, require_network
from fairmend.models.ports import InputSignature, Port, ports_of
from fairmend.models.run_model import RunModel

__all__ = [
    "InputSignature",
    "ModelSource",
    "Port",
    "RunModel",
    "load_model",
    "ports_of",
    "require_network",
]
