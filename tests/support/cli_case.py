"""A small case for tests of the command line: a network, a spec and people in a folder, and a runner."""

from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner, Result

from fairmend.cli.main import main
from fairmend.network import Affine, Network
from fairmend.spec import Feature, Label, Spec
from support.strategies import random_network

ROWS = 200


def small_spec(**age) -> Spec:
    return Spec(
        [
            Feature(
                **{
                    "name": "age",
                    "kind": "integer",
                    "range": (18, 75),
                    "scale": {"min": 18, "max": 75},
                    "protected": True,
                }
                | age
            ),
            Feature("gender", "categorical", categories=("f", "m"), encoding="one-hot", protected=True),
            Feature("income", "continuous", range=(0, 100), scale={"mean": 50, "std": 25}),
            Feature("credits", "integer", range=(0, 5)),
        ],
        Label("good", "yes"),
    )


def small_people(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 76, rows),
            "gender": rng.choice(["f", "m"], rows),
            "income": rng.uniform(0, 100, rows).round(1),
            "credits": rng.integers(0, 6, rows),
        }
    )
    good = frame["income"] / 25 - frame["credits"] / 2 + (frame["gender"] == "m") * 0.5 > 1
    return frame.assign(good=np.where(good, "yes", "no"), remark="none")


def small_network(outputs: int = 1, activation: str = "relu", seed: int = 3) -> Network:
    """Return an untrained network, which treats some of the people unequally."""
    return random_network(np.random.default_rng(seed), small_spec().width, [8, 6], outputs, activation)


class Case:
    """A folder with model.onnx, spec.toml and people.csv, and `fairmend repair` on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.model, self.spec, self.data = folder / "model.onnx", folder / "spec.toml", folder / "people.csv"
        small_network().save(self.model)
        small_spec().save(self.spec)
        self.write(small_people())

    def write(self, frame: pd.DataFrame) -> None:
        frame.to_csv(self.data, index=False)

    def arguments(self, *more: object, **replaced: object) -> list[str]:
        """Return the arguments of `fairmend repair`; the defaults make it fast."""
        options = {
            "--data": self.data,
            "--spec": self.spec,
            "--out": self.out,
            "--repair-rows": 20,
            "--calibration-rows": 60,
            "--method": "prof",
            "--steps": 10,
        } | {f"--{name.replace('_', '-')}": value for name, value in replaced.items() if name != "model"}
        if options["--method"] == "auto" and "steps" not in replaced:
            del options["--steps"]  # auto chooses its own, and refuses it
        if "repair_data" in replaced and "repair_rows" not in replaced:
            del options["--repair-rows"]  # the file says which rows
        flat = [str(part) for option in options.items() for part in option]
        return ["repair", str(replaced.get("model", self.model)), *flat, *map(str, more)]

    def repair(self, *more: object, **replaced: object) -> Result:
        return run(*self.arguments(*more, **replaced))

    def listing(self) -> dict[str, bytes | None]:
        """Return every path in the folder with its content."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.folder.rglob("*"))
        }


def run(*arguments: object) -> Result:
    """Run the command line in this process; errors that it does not catch reach the test."""
    return CliRunner(catch_exceptions=False).invoke(
        main, [str(argument) for argument in arguments], prog_name="fairmend"
    )


def succeeded(result: Result) -> Result:
    """Check that a command ended with 0; return its result."""
    assert result.exit_code == 0, result.output
    return result


def refused(result: Result, *words: str) -> Result:
    """Check that a command ended with 2, without a traceback, and that it said these words; return its result."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for each in words:
        assert each in result.stderr
    return result


def refused_in_one_line(result: Result, *words: str) -> Result:
    """Check the same of a command that writes one line to stderr."""
    assert len(refused(result, *words).stderr.splitlines()) == 1
    return result


def make_fair(case):
    """A network that reads income only."""
    weight = np.zeros((1, small_spec().width), np.float32)
    weight[0, small_spec().columns("income")] = 1
    Network([Affine(weight, np.array([0.1], np.float32))], []).save(case.model)


def spec_with_ids():
    """The small spec, with a column of ids."""
    spec = small_spec()
    return Spec(spec.features, spec.label, id_column="customer")
