"""Read the input files of a command: a spec and a network that fit together, and people who fit the spec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.evaluate.score_match import require_scores
from fairmend.network import Network, load_network
from fairmend.spec import Spec
from fairmend.tables import read_table

__all__ = ["load_model", "load_people", "without_scores"]


def load_model(model: Path, spec_file: Path, activation: str, ignore_scores: bool = False) -> tuple[Spec, Network]:
    """Read the spec and the network; refuse them if their numbers of columns differ.

    With `ignore_scores`, the spec names no column of scores, so that nothing compares the network with them.
    """
    spec, net = Spec.load(spec_file), load_network(model, activation)
    spec.require_inputs(net.inputs, f"{model}: the network", str(spec_file))
    return without_scores(spec) if ignore_scores else spec, net


def without_scores(spec: Spec) -> Spec:
    """Return the spec without the name of the column with scores: those of one network say nothing about another."""
    if spec.label is None or spec.label.score is None:
        return spec
    plain = spec.to_dict()
    return Spec.from_dict({**plain, "label": {key: plain["label"][key] for key in plain["label"] if key != "score"}})


def load_people(
    data: Path, spec: Spec, net: Network, rows: int | None = None, seed: int = 0
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return the row numbers and the inputs of all people in the file, or of `rows` people drawn at random.

    Scores in the data that spec and network do not reproduce are refused.
    """
    frame = read_table(data)
    chosen = np.arange(len(frame), dtype=np.int64)
    if rows is not None and rows < len(frame):
        chosen = np.sort(np.random.default_rng(seed).permutation(len(frame))[:rows]).astype(np.int64)
    people = frame.iloc[chosen]
    try:
        X = spec.as_inputs(people, net.dtype)
    except FairmendError as error:
        raise FairmendError(f"{data}: {error}") from error
    require_scores(spec, net, people, X, data)
    return chosen, X
