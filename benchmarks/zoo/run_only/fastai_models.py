"""Models of fastai: its tabular module, and learners that score a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.zoo.run_only.models import BOTH, CALLABLE, Model, Rows, installed, module_models
from benchmarks.zoo.run_only.people import CODES, NUMBERS, RAW, SIZES, two_inputs

BOTH_INPUTS = two_inputs("x_cont", "x_cat", codes_first=True)
MODULES: dict[str, tuple[int, dict[str, Any]]] = {
    "TabularModel": (2, {}),
    "TabularModel, one output": (1, {"use_bn": False}),
    "TabularModel, y_range": (1, {"y_range": (0.0, 1.0), "bn_final": True}),
}
LEARNERS: dict[str, dict[str, Any]] = {
    "tabular_learner": {},
    "tabular_learner, dropout": {"ps": [0.1, 0.1], "embed_p": 0.05},
}


def cases() -> Iterator[Model]:
    """Yield the models if the package is installed."""
    if not installed("fastai", "fastai"):
        return
    outputs = {"TabularModel": "logits", "TabularModel, one output": "logit", "TabularModel, y_range": "probability"}
    table: dict[str, Any] = {name: (BOTH_INPUTS, outputs[name], _maker(*kind)) for name, kind in MODULES.items()}
    yield from module_models("fastai", table, {"TabularModel": BOTH})
    for name, options in LEARNERS.items():
        yield Model(name, "fastai", CALLABLE, RAW, "probabilities", _learner(options))


def _maker(outputs: int, options: dict[str, Any]) -> Callable[[], Any]:
    def make() -> Any:
        from fastai.tabular.model import TabularModel

        return TabularModel([(size, 3) for size in SIZES], len(NUMBERS), outputs, [16, 8], **options)

    return make


def _learner(options: dict[str, Any]) -> Callable[[Rows, np.ndarray, Path], Any]:
    def make(frame: Rows, y: np.ndarray, folder: Path) -> Any:
        from fastai.tabular import all as fastai

        steps = [fastai.Categorify, fastai.FillMissing, fastai.Normalize]
        loaders = fastai.TabularDataLoaders.from_df(
            frame.assign(accepted=np.array(["no", "yes"])[y]), path=folder, procs=steps, cat_names=list(CODES),
            cont_names=list(NUMBERS), y_names="accepted", valid_idx=list(range(200)), bs=64, device=torch.device("cpu"),
            num_workers=0,
        )  # fmt: skip
        learner = fastai.tabular_learner(loaders, layers=[16, 8], config=fastai.tabular_config(**options))
        with learner.no_bar(), learner.no_logging():
            learner.fit(5, 0.01)

        def score(rows: Rows) -> np.ndarray:
            with learner.no_bar():
                return learner.get_preds(dl=learner.dls.test_dl(rows, bs=256))[0].numpy()

        return score

    return make
