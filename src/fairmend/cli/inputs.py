"""Read the input files of a command: a spec and a network that fit together, and people who fit the spec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fairmend.arrays import FloatArray
from fairmend.errors import FairmendError
from fairmend.evaluate.score_match import require_scores
from fairmend.network import Network, load_network
from fairmend.prove.threshold import network_of_spec
from fairmend.spec import Spec
from fairmend.tables import read_table

__all__ = ["load_model", "load_people", "load_spec", "without_scores"]


def load_model(
    model: Path, spec_file: Path, activation: str, ignore_scores: bool = False, threshold: float | None = None
) -> tuple[Spec, Network]:
    """Read the spec and the network, which decides at the threshold; refuse them if their numbers of columns differ.

    With `ignore_scores`, the spec names no column of scores, so that nothing compares the network with them. A
    `threshold` replaces that of the spec.
    """
    spec, net = load_spec(spec_file, threshold), load_network(model, activation)
    spec.require_inputs(net.inputs, f"{model}: the network", str(spec_file))
    return without_scores(spec) if ignore_scores else spec, network_of_spec(net, spec)


def load_spec(spec_file: Path, threshold: float | None = None) -> Spec:
    """Read the spec; a threshold on the command line replaces its own."""
    spec = Spec.load(spec_file)
    if threshold is None:
        return spec
    try:
        return spec.at_threshold(threshold)
    except FairmendError as error:
        raise FairmendError(f"{spec_file}: {error}") from error


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
