"""The settings of generalise.py: which networks are trained on which tables, and who counts as similar."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from benchmarks.common.tabular import load_table
from benchmarks.common.trained import Shape

KINDS = ("strict", "multiple", "tolerance")

PYRAMID = (64, 32, 16, 8, 4)
REAL = {
    "adult": (
        ("raw", Shape(PYRAMID)),
        ("scaled", Shape((100, 100))),
        ("raw", Shape((8,) * 10)),
        ("scaled", Shape((4,), "tanh")),
        ("raw", Shape((200,), "leaky_relu")),
    ),
    "bank": (
        ("raw", Shape(PYRAMID)),
        ("raw", Shape((150, 100, 50))),
        ("scaled", Shape((12,) * 6, "tanh")),
        ("raw", Shape((20, 10), "leaky_relu")),
        ("scaled", Shape((200,))),
    ),
    "german": (
        ("raw", Shape(PYRAMID)),
        ("scaled", Shape((50,))),
        ("raw", Shape((16,) * 4)),
        ("scaled", Shape((10,) * 10)),
        ("raw", Shape((100, 100))),
    ),
    "compas": (
        ("raw", Shape((16, 8))),
        ("scaled", Shape((200, 200))),
        ("raw", Shape((8,) * 8)),
        ("scaled", Shape((32, 16, 8), "tanh")),
        ("raw", Shape(PYRAMID)),
    ),
}
# For the first, second, … network of a data set: the protected features, and the tolerances of others.
REAL_SPECS: dict[str, tuple[tuple[tuple[str, dict[str, float]], ...], ...]] = {
    "adult": (
        (("sex", {}), ("race", {}), ("age", {})),
        (("sex+race", {}), ("sex+age", {}), ("race+age", {})),
        (("sex", {"hours-per-week": 1}), ("age", {"hours-per-week": 1}), ("race", {"hours-per-week": 1})),
        (("sex", {"education-num": 1, "hours-per-week": 2}), ("race", {"capital-gain": 1}), ("sex", {"age": 2})),
    ),
    "bank": (
        (("age", {}), ("marital", {})),
        (("age+marital", {}),),
        (("age", {"duration": 1}),),
        (("age", {"balance": 1}), ("marital", {"campaign": 1, "day": 1})),
    ),
    "german": (
        (("sex", {}), ("age", {})),
        (("sex+age", {}),),
        (("sex", {"credit_amount": 100}), ("age", {"credit_amount": 100})),
        (("sex", {"month": 3}), ("age", {"month": 1, "credit_amount": 50})),
    ),
    "compas": (
        (("Female", {}), ("Race", {})),
        (("Female+Race", {}), ("Race+Age", {})),
        (("Race", {"Number_of_Priors": 1}),),
        (("Female", {"Number_of_Priors": 1}), ("Age", {"Number_of_Priors": 1})),
    ),
}
PAPER_TOLERANCES = {"adult": (("hours-per-week", 1),), "bank": (("duration", 1),), "german": (("credit_amount", 100),)}
SYNTHETIC_SHAPES = (
    Shape(PYRAMID), Shape((16, 8)), Shape((8,) * 10), Shape((100, 50)), Shape((4,), "tanh"), Shape((200,)),
    Shape((24,) * 3, "leaky_relu"), Shape((10,) * 6), Shape((32, 16)), Shape((12, 12), "tanh"),
)  # fmt: skip
SYNTHETIC = 20


HELD_OUT_ROWS = 3000  # a difference of 10 % of the decisions then has a standard error of 0.6 points


@dataclass(frozen=True)
class Setting:
    """A network, what counts as similar when it is repaired, and the number of the draw of its rows."""

    data: str
    inputs: str
    shape: Shape
    protected: tuple[str, ...]
    tolerance: tuple[tuple[str, float], ...]
    draw: int = 0

    @property
    def kind(self) -> str:
        return "tolerance" if self.tolerance else "multiple" if len(self.protected) > 1 else "strict"

    @property
    def network_name(self) -> str:
        return f"{self.data} {self.shape} {self.inputs}"

    @property
    def name(self) -> str:
        near = "".join(f", {name} ±{by:g}" for name, by in self.tolerance)
        return f"{self.network_name}: {'+'.join(self.protected)}{near}{f', draw {self.draw}' if self.draw else ''}"

    @property
    def network_file(self) -> str:
        """The network's name in the cache."""
        return self.network_name.replace(" ", "-") + (f"-draw-{self.draw}" if self.draw else "")

    @property
    def has_tolerance_of_paper(self) -> bool:
        return PAPER_TOLERANCES.get(self.data) == self.tolerance

    @property
    def excepted(self) -> bool:
        """Whether COMPAS's age is protected: without it, nobody keeps the model's balanced accuracy."""
        return self.data == "compas" and "Age" in self.protected


def draws_of(data: str) -> int:
    """Return how often the rows are drawn anew, so that enough held-out rows judge a setting: 10 times for german."""
    return ceil(HELD_OUT_ROWS / len(load_table(data).split()["held out"]))


def real_settings() -> list[Setting]:
    found = []
    for data, networks in REAL.items():
        for place, (inputs, shape) in enumerate(networks):
            for specs in REAL_SPECS[data]:
                protected, tolerance = specs[place % len(specs)]
                found.append(Setting(data, inputs, shape, tuple(protected.split("+")), tuple(tolerance.items())))
    return found


def synthetic_settings() -> list[Setting]:
    found = []
    for seed in range(SYNTHETIC):
        table = load_table(f"synthetic-{seed}")
        shape, inputs = SYNTHETIC_SHAPES[seed % len(SYNTHETIC_SHAPES)], "scaled" if seed // 2 % 2 else "raw"
        numbers = [f for f in table.features if f.name != "age" and f.kind == "integer" and f.bounds[1] > 1]
        near = [(f.name, max(1.0, f.bounds[1] // 200)) for f in numbers[:2]][: 2 if numbers[0].bounds[1] < 200 else 1]
        specs: list[tuple[tuple[str, ...], tuple[tuple[str, float], ...]]]
        specs = [(("group",), ()), (("age",), ()), (("group", "age"), ())][seed % 2 :]
        specs += [(("group",), (("age", 1.0),)), (("group",), tuple(near))]
        found += [Setting(table.name, inputs, shape, protected, tolerance) for protected, tolerance in specs]
    return found
