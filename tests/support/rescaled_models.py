"""Networks that end in a rescaled sigmoid, in the formats that can write them, with a spec and people."""

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fairmend.spec import Feature, Label, Spec

FEATURES = [
    Feature("gender", "categorical", categories=("f", "m"), encoding="ordinal", protected=True),
    Feature("age", "integer", range=(18, 75), scale={"mean": 45, "std": 15}),
    Feature("income", "continuous", range=(0, 100), scale={"mean": 50, "std": 30}),
]
FORMS = {  # by name: what is made of the logit, and what the label of the spec says beside column and value
    "points": (lambda z: 300 + 550 * torch.sigmoid(z), {"score_range": (300, 850), "threshold": 600}),
    "centred": (lambda z: 575 + 550 * (torch.sigmoid(z) - 0.5), {"score_range": (300, 850), "threshold": 600}),
    "falling": (lambda z: 850 - 550 * torch.sigmoid(z), {"score_range": (300, 850), "threshold": 600}),
    "percent": (lambda z: 100 * torch.sigmoid(z), {"score_range": (0, 100), "threshold": 40}),
    "rest": (lambda z: 1 - torch.sigmoid(z), {"threshold": 0.4}),
    "pair": (lambda z: _pair(torch.sigmoid(z)), {}),
    "reversed": (lambda z: torch.cat([torch.sigmoid(z), 1 - torch.sigmoid(z)], dim=1), {"threshold": 0.4}),
    "stacked": (lambda z: _stacked(torch.sigmoid(z[:, 0])), {"threshold": 0.3}),
    "clipped": (lambda z: torch.clamp(torch.sigmoid(z), 1e-6, 1 - 1e-6), {"threshold": 0.3}),
    "clipped pair": (lambda z: _pair(torch.clamp(torch.sigmoid(z), 1e-6, 1 - 1e-6)), {}),
    "clipped points": (
        lambda z: torch.clamp(300 + 550 * torch.sigmoid(z), 350, 800),
        {"score_range": (300, 850), "threshold": 600},
    ),
    "row": (lambda z: (300 + 550 * torch.sigmoid(z)).squeeze(1), {"score_range": (300, 850), "threshold": 600}),
}


def _pair(p: torch.Tensor) -> torch.Tensor:
    return torch.cat([1 - p, p], dim=1)


def _stacked(p: torch.Tensor) -> torch.Tensor:
    return torch.stack([1 - p, p], dim=-1)


class Scorer(nn.Module):
    """One hidden layer, one logit, and what is made of it."""

    def __init__(self, close, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.hidden, self.last, self.close = nn.Linear(3, 6), nn.Linear(6, 1), close

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.close(self.last(torch.relu(self.hidden(x))))


def scorer(form: str) -> nn.Module:
    return Scorer(FORMS[form][0]).eval()


def spec_of(form: str, **label) -> Spec:
    return Spec(FEATURES, Label("granted", "yes", **{**FORMS[form][1], **label}))


def people(count: int = 200, seed: int = 0) -> np.ndarray:
    return spec_of("points").sample_inputs(count, np.random.default_rng(seed))


def outputs_of(module: nn.Module, X: np.ndarray) -> np.ndarray:
    """Return what a module gives, (rows, columns)."""
    with torch.no_grad():
        return module(torch.tensor(X)).numpy().reshape(len(X), -1)


def save_onnx(module: nn.Module, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter is deprecated
        torch.onnx.export(
            module,
            (torch.tensor(people(3)),),
            path,
            dynamo=False,
            input_names=["x"],
            output_names=["score"],
            dynamic_axes={"x": {0: "rows"}, "score": {0: "rows"}},
        )
    return path


def save_pt2(module: nn.Module, path: Path) -> Path:
    rows = torch.export.Dim("rows")
    torch.export.save(torch.export.export(module, (torch.tensor(people(3)),), dynamic_shapes=({0: rows},)), path)
    return path
