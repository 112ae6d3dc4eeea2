"""Models of rtdl (revisiting models, numerical embeddings) and TabM, as their pages build them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from benchmarks.zoo.run_only.models import BOTH, DYNAMO, Model, installed, module_models
from benchmarks.zoo.run_only.people import CODED, CODES, NUMBERS, ONE_HOT, SIZES, load_frame, two_inputs

SMALL = {"n_blocks": 2, "d_block": 16, "dropout": 0.0}
COLUMNS = len(CODES) + len(NUMBERS)
ONE_HOT_COLUMNS = sum(SIZES) + len(NUMBERS)
EXPORTED_RTDL = dict.fromkeys(
    ["ResNet", "FT-Transformer", "FT-Transformer, linformer", "periodic embeddings", "piecewise-linear embeddings B",
     "embeddings of both kinds"], BOTH)  # fmt: skip
# TorchScript does not export TabM, and no exporter writes a valid file with its codes of whole numbers.
EXPORTED_TABM = dict.fromkeys(["TabM, one-hot", "TabM-mini, one-hot"], (DYNAMO,))
ONE_ROW = [*EXPORTED_TABM, "FT-Transformer", "FT-Transformer, linformer"]  # their code fixes the number of rows


class NumbersOnly(nn.Module):
    """A module that reads numbers and codes, used with numbers only."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, None)


class EmbeddedColumns(nn.Module):
    """Embeddings of numbers and of codes, and a network that reads both."""

    def __init__(self, numbers: nn.Module, codes: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.numbers, self.codes, self.network = numbers, codes, network

    def forward(self, x_cont: torch.Tensor, x_cat: torch.Tensor) -> torch.Tensor:
        return self.network(torch.cat([self.numbers(x_cont), self.codes(x_cat)], dim=1).flatten(1))


class MeanOfHeads(nn.Module):
    """The mean of the probabilities of TabM's heads."""

    def __init__(self, tabm: nn.Module) -> None:
        super().__init__()
        self.tabm = tabm

    def forward(self, x_num: torch.Tensor, x_cat: torch.Tensor | None = None) -> torch.Tensor:
        return torch.sigmoid(self.tabm(x_num, x_cat)).mean(dim=1)


def cases() -> Iterator[Model]:
    """Yield the models of the packages that are installed."""
    if installed("rtdl", "rtdl_revisiting_models", "rtdl_num_embeddings"):
        yield from module_models("rtdl", _rtdl(), EXPORTED_RTDL, one_row=ONE_ROW)
    if installed("TabM", "tabm"):
        yield from module_models("TabM", _tabm(), EXPORTED_TABM, one_row=ONE_ROW)


def _rtdl() -> dict[str, Any]:
    import rtdl_num_embeddings as embeddings
    import rtdl_revisiting_models as rtdl

    both = two_inputs("x_cont", "x_cat")

    def transformer(numbers: int = len(NUMBERS), codes: Any = SIZES, **options: Any) -> nn.Module:
        default = rtdl.FTTransformer.get_default_kwargs(1)
        small = {"d_block": 16, "attention_n_heads": 4, "ffn_d_hidden_multiplier": 2, "residual_dropout": 0.0}
        given = {**default, **small, "_is_default": False, **options}
        return rtdl.FTTransformer(n_cont_features=numbers, cat_cardinalities=list(codes), d_out=1, **given)

    def embedded(make: Callable[[], nn.Module], width: int) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(make(), nn.Flatten(), rtdl.MLP(d_in=COLUMNS * width, d_out=1, **SMALL))

    def mixed() -> nn.Module:
        parts = embeddings.LinearReLUEmbeddings(len(NUMBERS), 8), rtdl.CategoricalEmbeddings(list(SIZES), 8)
        return EmbeddedColumns(*parts, rtdl.MLP(d_in=COLUMNS * 8, d_out=1, **SMALL))

    resnet = {"n_blocks": 2, "d_block": 16, "d_hidden_multiplier": 2.0, "dropout1": 0.0, "dropout2": 0.0}
    compressed = {"linformer_kv_compression_ratio": 0.5, "linformer_kv_compression_sharing": "headwise"}
    return {
        "MLP": (ONE_HOT, "logit", lambda: rtdl.MLP(d_in=ONE_HOT_COLUMNS, d_out=1, **SMALL)),
        "ResNet": (ONE_HOT, "logit", lambda: rtdl.ResNet(d_in=ONE_HOT_COLUMNS, d_out=1, d_hidden=None, **resnet)),
        "FT-Transformer": (both, "logit", transformer),
        "FT-Transformer, ReLU": (both, "logit", lambda: transformer(ffn_activation="ReLU")),
        "FT-Transformer, linformer": (both, "logit", lambda: transformer(**compressed)),
        "FT-Transformer, numbers": (CODED, "logit", lambda: NumbersOnly(transformer(COLUMNS, ()))),
        "linear embeddings": (CODED, "logit", embedded(lambda: embeddings.LinearEmbeddings(COLUMNS, 8), 8)),
        "linear ReLU embeddings": (CODED, "logit", embedded(lambda: embeddings.LinearReLUEmbeddings(COLUMNS, 8), 8)),
        "periodic embeddings": (CODED, "logit", embedded(
            lambda: embeddings.PeriodicEmbeddings(COLUMNS, 8, n_frequencies=6, lite=False), 8)),
        "periodic embeddings, lite": (CODED, "logit", embedded(
            lambda: embeddings.PeriodicEmbeddings(COLUMNS, 8, n_frequencies=6, lite=True), 8)),
        "piecewise-linear encoding": (CODED, "logit", lambda: nn.Sequential(
            embeddings.PiecewiseLinearEncoding(_bins(CODED)),
            rtdl.MLP(d_in=sum(len(edges) - 1 for edges in _bins(CODED)), d_out=1, **SMALL))),
        "piecewise-linear embeddings A": (CODED, "logit", embedded(
            lambda: embeddings.PiecewiseLinearEmbeddings(_bins(CODED), 8, activation=True, version="A"), 8)),
        "piecewise-linear embeddings B": (CODED, "logit", embedded(
            lambda: embeddings.PiecewiseLinearEmbeddings(_bins(CODED), 8, activation=False, version="B"), 8)),
        "embeddings of both kinds": (both, "logit", mixed),
    }  # fmt: skip


def _tabm() -> dict[str, Any]:
    import rtdl_num_embeddings as embeddings
    import tabm

    both = two_inputs("x_num", "x_cat")

    def make(
        kind: str, numbers: Callable[[], nn.Module] | None = None, columns: int = len(NUMBERS), codes: Any = SIZES
    ) -> Callable[[], nn.Module]:
        return lambda: MeanOfHeads(tabm.TabM.make(
            n_num_features=columns, cat_cardinalities=list(codes), d_out=1, k=8, n_blocks=2, d_block=16,
            arch_type=kind, num_embeddings=numbers and numbers(), dropout=0.0))  # fmt: skip

    def pieces() -> nn.Module:
        return embeddings.PiecewiseLinearEmbeddings(_bins(both)[: len(NUMBERS)], 4, activation=False, version="B")

    def waves() -> nn.Module:
        return embeddings.PeriodicEmbeddings(len(NUMBERS), 4, n_frequencies=6, lite=True)

    kinds = {"TabM": make("tabm"), "TabM-mini": make("tabm-mini"), "TabM-packed": make("tabm-packed"),
             "TabM, piecewise-linear": make("tabm", pieces),
             "TabM-mini, periodic": make("tabm-mini", waves)}  # fmt: skip
    one_hot = {f"{name}, one-hot": make(kind, None, ONE_HOT_COLUMNS, ())
               for name, kind in (("TabM", "tabm"), ("TabM-mini", "tabm-mini"))}  # fmt: skip
    return {name: (both, "probability", how) for name, how in kinds.items()} | {
        name: (ONE_HOT, "probability", how) for name, how in one_hot.items()
    }


def _bins(reading: Any) -> list[torch.Tensor]:
    import rtdl_num_embeddings as embeddings

    return embeddings.compute_bins(torch.from_numpy(reading.rows(load_frame()[0])), n_bins=8)
