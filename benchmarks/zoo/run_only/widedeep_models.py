"""Models of pytorch-widedeep: modules of one matrix, and models that score a table with its preprocessor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.zoo.run_only.models import BOTH, CALLABLE, OTHER_ROWS, Model, Rows, installed, module_models
from benchmarks.zoo.run_only.people import CODED, CODES, NUMBERS, RAW, SIZES

ATTENTION = {"input_dim": 16, "n_heads": 2, "n_blocks": 2}
PARTS: dict[str, dict[str, Any]] = {
    "TabMlp": {"mlp_hidden_dims": [16, 8]},
    "TabResnet": {"blocks_dims": [16, 8]},
    "TabNet": {"n_steps": 2, "ghost_bn": False},
    "TabTransformer": {**ATTENTION, "embed_continuous": True, "embed_continuous_method": "standard"},
    "FTTransformer": ATTENTION,
    "SAINT": ATTENTION,
    "TabFastFormer": ATTENTION,
    "TabPerceiver": {"input_dim": 16, "n_latents": 4, "latent_dim": 16, "n_latent_blocks": 1, "n_perceiver_blocks": 1},
    "ContextAttentionMLP": {"input_dim": 16, "n_blocks": 2},
    "SelfAttentionMLP": ATTENTION,
}
VARIANTS = {
    "TabMlp, periodic": ("TabMlp", {**PARTS["TabMlp"], "embed_continuous": True, "cont_embed_dim": 4, "sigma": 0.5,
                                    "embed_continuous_method": "periodic", "n_frequencies": 4,
                                    "share_last_layer": True, "cont_embed_activation": "relu"}),
    "TabMlp, LayerNorm": ("TabMlp", {**PARTS["TabMlp"], "cont_norm_layer": "layernorm", "mlp_activation": "gelu"}),
    "FTTransformer, GEGLU": ("FTTransformer", {**ATTENTION, "transformer_activation": "geglu"}),
}  # fmt: skip
WIDE = "Wide and TabMlp"
EXPORTED = dict.fromkeys(["TabResnet", "TabTransformer", "ContextAttentionMLP", WIDE], BOTH)
TRAINED = ["TabMlp", "TabTransformer", "TabFastFormer"]  # also with the library's preprocessor and trainer
REFUSED = {"SAINT": OTHER_ROWS}  # it attends to the other rows of a batch


class OneMatrix(nn.Module):
    """A model of the library that takes the matrix itself instead of a dictionary with it."""

    def __init__(self, model: nn.Module, wide: bool) -> None:
        super().__init__()
        self.model, self.wide = model, wide
        self.register_buffer("first", torch.tensor([1, *(np.cumsum(SIZES)[:-1] + 1)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = {"deeptabular": x}
        if self.wide:
            parts["wide"] = x[:, : len(SIZES)].long() + self.first
        scores = self.model(parts)
        return scores[0] if isinstance(scores, tuple) else scores  # TabNet returns the loss of its masks too


def cases() -> Iterator[Model]:
    """Yield the models if the package is installed."""
    if not installed("pytorch-widedeep", "pytorch_widedeep"):
        return
    kinds = {name: (name, options) for name, options in PARTS.items()} | VARIANTS
    table: dict[str, Any] = {name: (CODED, "logit", _maker(*kind)) for name, kind in kinds.items()}
    table[WIDE] = (CODED, "logit", _maker("TabMlp", PARTS["TabMlp"], wide=True))
    yield from module_models("pytorch-widedeep", table, EXPORTED, refused=REFUSED)
    for name in TRAINED:
        yield Model(name, "pytorch-widedeep", CALLABLE, RAW, "probabilities", _trained(name))


def _part(name: str, column_idx: dict[str, int], sizes: list[Any], options: dict[str, Any]) -> Any:
    from pytorch_widedeep import models

    options = {key: value for key, value in options.items() if key != "n_heads" or "Context" not in name}
    return getattr(models, name)(column_idx, cat_embed_input=sizes, continuous_cols=list(NUMBERS), **options)


def _maker(name: str, options: dict[str, Any], wide: bool = False) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from pytorch_widedeep.models import Wide, WideDeep

        with_width = name in ("TabMlp", "TabResnet", "TabNet")
        sizes = [(code, size, 4) if with_width else (code, size) for code, size in zip(CODES, SIZES, strict=True)]
        columns = {column: place for place, column in enumerate((*CODES, *NUMBERS))}
        linear = Wide(sum(SIZES)) if wide else None
        return OneMatrix(WideDeep(wide=linear, deeptabular=_part(name, columns, sizes, options)), wide)

    return make


def _trained(name: str) -> Callable[[Rows, np.ndarray, Path], Any]:
    def make(frame: Rows, y: np.ndarray, folder: Path) -> Any:
        from pytorch_widedeep import Trainer
        from pytorch_widedeep.models import WideDeep
        from pytorch_widedeep.preprocessing import TabPreprocessor

        preprocessor = TabPreprocessor(
            cat_embed_cols=list(CODES), continuous_cols=list(NUMBERS), with_attention=name != "TabMlp"
        )
        X = preprocessor.fit_transform(frame)
        part = _part(name, preprocessor.column_idx, preprocessor.cat_embed_input, PARTS[name])
        trainer = Trainer(WideDeep(deeptabular=part), objective="binary", verbose=0, num_workers=0)
        trainer.fit(X_tab=X, target=y, n_epochs=10, batch_size=128)
        return lambda rows: trainer.predict_proba(X_tab=preprocessor.transform(rows))

    return make
