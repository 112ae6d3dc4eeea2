"""Models of deepctr-torch: each reads one matrix with codes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.zoo.run_only.models import BOTH, Model, installed, module_models
from benchmarks.zoo.run_only.people import CODED, CODES, NUMBERS, SIZES

# The options of each class, beside its columns.
CLASSES: dict[str, dict[str, Any]] = {
    "WDL": {"dnn_hidden_units": (16, 8)},
    "DeepFM": {"dnn_hidden_units": (16, 8)},
    "xDeepFM": {"dnn_hidden_units": (16, 8), "cin_layer_size": (8, 8)},
    "AFM": {"attention_factor": 4},
    "NFM": {"dnn_hidden_units": (16, 8)},
    "DCN": {"dnn_hidden_units": (16, 8), "cross_num": 2},
    "DCNMix": {"dnn_hidden_units": (16, 8), "cross_num": 2, "low_rank": 4, "num_experts": 2},
    "AutoInt": {"dnn_hidden_units": (16, 8), "att_layer_num": 2, "att_head_num": 2},
    "FiBiNET": {"dnn_hidden_units": (16, 8)},
    "PNN": {"dnn_hidden_units": (16, 8)},
    "ONN": {"dnn_hidden_units": (16, 8)},
    "CCPM": {"dnn_hidden_units": (16,), "conv_kernel_width": (3, 2), "conv_filters": (2, 2)},
    "IFM": {"dnn_hidden_units": (16, 8)},
    "DIFM": {"dnn_hidden_units": (16, 8), "att_head_num": 2},
    "AFN": {"ltl_hidden_size": 8, "afn_dnn_hidden_units": (16, 8)},
    "MLR": {"region_num": 3},
}
FAILS_ALONE = ["DCNMix"]  # it drops the dimension of the rows if there is one
EXPORTED = dict.fromkeys(["DeepFM", "DCN", "AutoInt", "FiBiNET"], BOTH)


def cases() -> Iterator[Model]:
    """Yield the models if the package is installed."""
    if installed("deepctr-torch", "deepctr_torch"):
        table: dict[str, Any] = {name: (CODED, "probability", _maker(name)) for name in CLASSES}
        yield from module_models("deepctr-torch", table, EXPORTED, fit=_fit, fails_alone=FAILS_ALONE)


def _maker(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import deepctr_torch.models
        from deepctr_torch.inputs import DenseFeat, SparseFeat

        columns = [SparseFeat(code, size, 4) for code, size in zip(CODES, SIZES, strict=True)]
        columns += [DenseFeat(number, 1) for number in NUMBERS]
        deep = columns[: len(CODES)] if name in ("AFM", "CCPM") else columns  # these take no numbers there
        given = [columns] if name in ("PNN", "MLR") else [columns, deep]
        return getattr(deepctr_torch.models, name)(*given, task="binary", init_std=0.1, **CLASSES[name])

    return make


def _fit(module: Any, arguments: list[np.ndarray], y: np.ndarray, output: str) -> Any:
    module.compile(torch.optim.Adam(module.parameters(), lr=0.01), "binary_crossentropy")
    (X,) = arguments
    module.fit([X[:, [column]] for column in range(X.shape[1])], y, batch_size=64, epochs=8, verbose=0)
    return module.eval()
