"""What a model that is only run says about the columns that it reads: for the draft of a spec."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fairmend.models import RunModel
from fairmend.models.people_runner import PeopleRunner
from fairmend.models.ports import spelled_alike
from fairmend.network import Input, Network


@dataclass(frozen=True)
class ReadColumns:
    """The columns of the data that a model reads, in its order; none if it does not name columns of the data.

    `categorical` ones it reads as text, or encoders in it know their values; `integer` ones are whole numbers. `inputs`
    is the number of columns that it reads, None if it does not say.
    """

    order: tuple[str, ...]
    categorical: tuple[str, ...]
    integer: tuple[str, ...]
    inputs: int | None


def columns_of_model(model: RunModel, frame: pd.DataFrame) -> ReadColumns:
    """Return which columns of the data the model names: its inputs of one column, or what an estimator was fitted on.

    A name fits a column that is spelled alike, or alike where exporters write letters, digits and underscores only.
    """
    named = model.runner.named_columns
    names = spelled_alike([each.name for each in named], [str(name) for name in frame.columns])
    if not names:
        return ReadColumns((), (), (), model.runner.width)
    encoded = model.runner.fitted if isinstance(model.runner, PeopleRunner) else {}
    text = [n for n, each in zip(names, named, strict=True) if each.type == "string" or each.name in encoded]
    whole = [name for name, each in zip(names, named, strict=True) if each.type in ("int64", "int32")]
    numbers = [name for name in whole if pd.api.types.is_numeric_dtype(frame[name].dtype)]
    return ReadColumns(tuple(names), tuple(text), tuple(numbers), len(names))


def columns_of_network(net: Network, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns of the data that the inputs of a network are named after, in order; none if not all are."""
    source = net.nodes[0].operation
    assert isinstance(source, Input)
    return tuple(spelled_alike([name for name, _ in source.names], [str(name) for name in frame.columns]))
