"""Small people, their spec, and models of them that fairmend only runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

from fairmend import Feature, Label, Spec


def people(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Return people whose outcome depends on sex, age and hours."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, rows),
            "sex": rng.choice(["female", "male"], rows),
            "job": rng.choice(["a", "b", "c"], rows),
            "hours": rng.integers(1, 60, rows),
        }
    )
    score = frame.age / 70 + 0.3 * (frame.sex == "male") + frame.hours / 60 + rng.normal(0, 0.2, rows)
    return frame.assign(good=np.where(score > 1.15, "yes", "no"))


def people_spec(**changed: dict) -> Spec:
    """Return the spec of raw values, in which sex is protected; keywords change features."""
    features: dict[str, dict] = {
        "age": {"kind": "integer", "range": (18, 70)},
        "sex": {"kind": "categorical", "categories": ("female", "male"), "protected": True},
        "job": {"kind": "categorical", "categories": ("a", "b", "c")},
        "hours": {"kind": "integer", "range": (1, 60)},
    }
    return Spec(
        [Feature(name, **(values | changed.get(name, {}))) for name, values in features.items()],
        label=Label("good", positive="yes"),
    )


def tree_pipeline(frame: pd.DataFrame) -> object:
    """Return boosted trees after an encoder, fitted on raw columns."""
    encoder = make_column_transformer((OneHotEncoder(), ["sex", "job"]), (StandardScaler(), ["age", "hours"]))
    model = make_pipeline(encoder, GradientBoostingClassifier(n_estimators=10, random_state=0))
    return model.fit(frame[["age", "sex", "job", "hours"]], frame.good)


def save_tree_pipeline(pipeline: object, path: Path) -> Path:
    """Write the pipeline as ONNX with an input for each raw column, and a map of probabilities (ZipMap)."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    types = {"age": Int64TensorType, "sex": StringTensorType, "job": StringTensorType, "hours": Int64TensorType}
    model = to_onnx(pipeline, initial_types=[(name, kind([None, 1])) for name, kind in types.items()])
    path.write_bytes(model.SerializeToString())
    return path


class Attention(nn.Module):
    """Embeddings, attention and layer normalisation over three tokens, of which it takes the median: it is only run."""

    def __init__(self) -> None:
        super().__init__()
        self.sex, self.job, self.numbers = nn.Embedding(2, 8), nn.Embedding(3, 8), nn.Linear(2, 8)
        self.attention, self.norm = nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 1)

    def forward(self, x_num: torch.Tensor, x_cat: torch.Tensor) -> torch.Tensor:
        """Return the logit."""
        tokens = torch.stack([self.sex(x_cat[:, 0]), self.job(x_cat[:, 1]), self.numbers(x_num / 50)], dim=1)
        tokens = self.norm(tokens + self.attention(tokens, tokens, tokens)[0])
        return self.head(self.drop(tokens.median(dim=1).values))


def attention() -> Attention:
    """Return a module with fixed weights, in training mode."""
    torch.manual_seed(3)
    return Attention()


def attention_spec() -> Spec:
    """Return the spec of `Attention`: two inputs, numbers and codes."""
    return people_spec(age={"input": "x_num"}, hours={"input": "x_num"}, sex={"input": "x_cat"}, job={"input": "x_cat"})


def save_one_node(path: Path, kind: str = "Sigmoid", width: int = 4) -> Path:
    """Write LpNormalization, a product and a closing function, which is not read as a network."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(5)
    numbers = {
        "weight": rng.normal(size=(width, 1)),
        "scale": np.array([0.02, 1.0, 0.5, 0.02])[:width],
    }
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        helper.make_node("LpNormalization", ["scaled"], ["normal"]),
        helper.make_node("MatMul", ["normal", "weight"], ["score"]),
        helper.make_node(kind, ["score"], ["p"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", width])],
        [helper.make_tensor_value_info("p", TensorProto.FLOAT, ["rows", 1])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in numbers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
