"""Models of pytorch_tabular: each scores a table; some are taken out as modules and exported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.zoo.run_only.models import BOTH, CALLABLE, MODULE, Model, Rows, export_module, installed
from benchmarks.zoo.run_only.people import CODES, NUMBERS, RAW, load_frame, two_inputs

BOTH_INPUTS = two_inputs("continuous", "categorical")
CONFIGS: dict[str, dict[str, Any]] = {
    "CategoryEmbeddingModel": {"layers": "16-8"},
    "AutoInt": {"attn_embed_dim": 8, "num_heads": 2, "num_attn_blocks": 2, "embedding_dim": 8},
    "DANet": {"n_layers": 2, "abstlay_dim_1": 8, "k": 2},
    "FTTransformer": {"input_embed_dim": 16, "num_heads": 2, "num_attn_blocks": 2},
    "GANDALF": {"gflu_stages": 2},
    "GatedAdditiveTreeEnsemble": {"gflu_stages": 2, "num_trees": 3, "tree_depth": 2},
    "Node": {"num_layers": 1, "num_trees": 16, "depth": 3, "additional_tree_output_dim": 1},
    "TabNetModel": {"n_d": 4, "n_a": 4, "n_steps": 2},
    "TabTransformer": {"input_embed_dim": 16, "num_heads": 2, "num_attn_blocks": 2},
}
MODULES = ["CategoryEmbeddingModel", "FTTransformer", "GANDALF", "TabTransformer"]
EXPORTED = ["CategoryEmbeddingModel", "GANDALF"]


class TwoInputs(nn.Module):
    """A model of the library that takes two tensors instead of a dictionary, and returns the logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, continuous: torch.Tensor, categorical: torch.Tensor) -> torch.Tensor:
        return self.model({"continuous": continuous, "categorical": categorical + 1})["logits"]  # 0 is a new category


def cases() -> Iterator[Model]:
    """Yield the models if the package is installed."""
    if not installed("pytorch_tabular", "pytorch_tabular"):
        return
    for name in CONFIGS:
        yield Model(name, "pytorch_tabular", CALLABLE, RAW, "probability", _callable(name))
    for name in MODULES:
        for form in (MODULE, *BOTH) if name in EXPORTED else (MODULE,):
            yield Model(name, "pytorch_tabular", form, BOTH_INPUTS, "logits", _module(name, form))


def _train(name: str, frame: Any, y: np.ndarray, folder: Path) -> Any:
    os.environ["PT_LOGLEVEL"] = "ERROR"
    from pytorch_tabular import TabularModel, models
    from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig

    data = DataConfig(
        target=["accepted"], continuous_cols=list(NUMBERS), categorical_cols=list(CODES), num_workers=0,
        normalize_continuous_features=True,
    )  # fmt: skip
    trainer = TrainerConfig(
        max_epochs=5, batch_size=64, accelerator="cpu", checkpoints=None, load_best=False, early_stopping=None,
        progress_bar="none", seed=0, trainer_kwargs={"enable_model_summary": False, "default_root_dir": str(folder)},
    )  # fmt: skip
    config = getattr(models, f"{name}Config")(task="classification", learning_rate=0.01, seed=0, **CONFIGS[name])
    table = frame.assign(accepted=y)
    here = os.getcwd()
    os.chdir(folder)  # it writes files into the current folder
    try:
        model = TabularModel(
            data_config=data, model_config=config, optimizer_config=OptimizerConfig(), trainer_config=trainer,
            verbose=False,
        )  # fmt: skip
        model.fit(train=table, validation=table[:200], seed=0)
    finally:
        os.chdir(here)
    return model


def _callable(name: str) -> Callable[[Rows, np.ndarray, Path], Any]:
    def make(frame: Rows, y: np.ndarray, folder: Path) -> Any:
        model = _train(name, frame, y, folder)

        def score(rows: Rows) -> np.ndarray:
            answers = model.predict(rows.reset_index(drop=True), progress_bar=None)
            return answers["accepted_1_probability"].to_numpy()

        return score

    return make


def _module(name: str, form: str) -> Callable[[Rows, np.ndarray, Path], Any]:
    def make(X: np.ndarray, y: np.ndarray, folder: Path) -> Any:
        frame = load_frame()[0][: len(X)]
        module = TwoInputs(_train(name, frame, y, folder).model.eval()).eval()
        return module if form == MODULE else export_module(module, BOTH_INPUTS, X, folder / "model.onnx", form)

    return make
