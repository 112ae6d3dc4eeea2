"""A price-like target, people and a regression network, in files for the command line."""

from pathlib import Path

import numpy as np
import pandas as pd

from fairmend.network import Activation, Affine, Network
from fairmend.spec import Claim, Feature, Label, Spec


def price_people(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 60, rows),
            "sex": rng.choice(["f", "m"], rows),
            "rooms": rng.integers(1, 9, rows),
        }
    )
    noise = rng.normal(size=rows)
    return frame.assign(price=(1000.0 * frame["rooms"] + 40 * (frame["sex"] == "m") + noise).round(2))


def price_spec(delta=50.0, **rest):
    features = [
        Feature("age", "integer", range=(20, 60), scale={"min": 20, "max": 60}),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("rooms", "integer", range=(1, 8), scale={"min": 0, "max": 8}),
    ]
    return Spec(features, Label("price"), Claim("score", delta, "output"), **rest)


def price_network(gap=40.0):
    """Return a network that adds `gap` to the price of every "m"."""
    first = Affine(np.array([[0, 0, 8000], [0, gap, 0]], np.float32), np.zeros(2, np.float32))
    return Network([first, Affine(np.ones((1, 2), np.float32), np.zeros(1, np.float32))], [Activation("relu")])


class PriceCase:
    """A folder with model.onnx, spec.toml and people.csv."""

    def __init__(self, folder: Path, delta=50.0, gap=40.0) -> None:
        self.folder = folder
        self.model, self.spec, self.data = folder / "model.onnx", folder / "spec.toml", folder / "people.csv"
        price_network(gap).save(self.model)
        price_spec(delta).save(self.spec)
        price_people().to_csv(self.data, index=False)
