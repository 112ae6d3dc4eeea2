"""What a fitted scikit-learn pipeline does to each column, as far as a spec can express it.

Each step turns the columns so far into the next ones. A `TransformedColumn` records what the steps do to one raw
column: the value that replaces a missing one, then either categories or an affine scaling, then one-hot columns. A step
that a spec cannot express is an error that names the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text
from fairmend.spec.features import Feature
from fairmend.spec.spec import Spec

MISSING = "(missing)"  # the category of missing values
_MOST_LISTED = 2**16  # values of a feature that are compared one by one
_ROUNDED = 1e-6  # how far a scale in a spec may be rounded

SUPPORTED = (
    "Supported are ColumnTransformer, Pipeline, OneHotEncoder, OrdinalEncoder, StandardScaler, MinMaxScaler, "
    "MaxAbsScaler, RobustScaler, SimpleImputer, 'passthrough' and 'drop'."
)


@dataclass(frozen=True)
class TransformedColumn:
    """One raw column after the steps so far: (value or code - offset) / factor, or one column for each category.

    ``missing`` is the raw value or the category that replaces a missing one. ``extent`` is the range that a scaler was
    fitted on, and ``clipped`` says whether the scaler clips values to it. ``indicates`` is the raw column whose missing
    values it marks by 1, for a column that an imputer adds.
    """

    name: str
    offset: float = 0.0
    factor: float = 1.0
    missing: Any = None
    categories: tuple[str, ...] | None = None
    one_hot: bool = False
    dropped: str | None = None
    extent: tuple[float, float] | None = None
    clipped: bool = False
    notes: tuple[str, ...] = ()
    indicates: str | None = None

    @property
    def width(self) -> int:
        """The number of columns that it has become."""
        return len(self.categories or ()) - (self.dropped is not None) if self.one_hot else 1

    @property
    def raw(self) -> bool:
        """Whether no step has changed its values, except for filling in missing ones."""
        return self.categories is None and self.indicates is None and (self.offset, self.factor) == (0.0, 1.0)

    def scaled(self, offset: float, factor: float, step: str) -> TransformedColumn:
        """Return the column after the step x -> (x - offset) / factor."""
        if self.one_hot:
            raise FairmendError(
                f'{step} scales the one-hot columns of "{self.name}", which a spec cannot express. Scale only the '
                "numeric columns, in a ColumnTransformer beside the OneHotEncoder."
            )
        if not (math.isfinite(offset) and math.isfinite(factor) and factor > 0):
            raise FairmendError(
                f'{step} scales "{self.name}" by {factor:g} around {offset:g}. A spec needs a positive, finite factor.'
            )
        return replace(self, offset=self.offset + offset * self.factor, factor=self.factor * factor)


Step = Callable[[Any, Sequence[TransformedColumn]], list[TransformedColumn]]


def apply_scaler(scaler: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Apply a StandardScaler, MaxAbsScaler or RobustScaler."""
    name = type(scaler).__name__
    if getattr(scaler, "clip", False):
        raise FairmendError(f"{name} clips values to its range, which a spec cannot express. Use clip=False.")
    centre = {"StandardScaler": "mean_", "RobustScaler": "center_"}.get(name)
    offsets = getattr(scaler, centre) if centre else None
    factors = scaler.scale_
    if name == "StandardScaler" and not scaler.with_mean:
        offsets = None  # it stores the mean but does not use it
    return [
        column.scaled(
            0.0 if offsets is None else float(offsets[i]), 1.0 if factors is None else float(factors[i]), name
        )
        for i, column in enumerate(columns)
    ]


def apply_min_max(scaler: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Apply a MinMaxScaler with any feature_range."""
    made = []
    low, _ = scaler.feature_range
    for i, column in enumerate(columns):
        ends = float(scaler.data_min_[i]), float(scaler.data_max_[i])
        factor = 1.0 / float(scaler.scale_[i])
        extent = tuple(end * column.factor + column.offset for end in ends)
        after = column.scaled(ends[0] - low * factor, factor, "MinMaxScaler")
        if column.categories is None:
            after = replace(after, extent=(extent[0], extent[1]), clipped=scaler.clip)
        elif scaler.clip and not extent[0] <= 0 <= len(column.categories) - 1 <= extent[1]:
            raise FairmendError(
                f'MinMaxScaler(clip=True) clips codes of "{column.name}" that were not in the data that it was fitted '
                "on, which a spec cannot express. Use clip=False."
            )
        made.append(after)
    return made


def apply_imputer(imputer: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Apply a SimpleImputer: the value that it fills in replaces a missing one, and columns that mark it follow."""
    marker = imputer.missing_values
    if not is_missing(marker):
        raise FairmendError(
            f"SimpleImputer treats {marker!r} as missing, but a spec treats it as a value. Replace it by an empty "
            "value in the data, and fit SimpleImputer with its default missing_values."
        )
    made: list[TransformedColumn] = []
    for column, value in zip(columns, imputer.statistics_, strict=True):
        if is_missing(value):
            raise FairmendError(f'SimpleImputer has no value to fill in for "{column.name}". Drop the column.')
        if column.categories is not None:
            raise FairmendError(f'SimpleImputer comes after the encoder of "{column.name}". Put it before the encoder.')
        if column.missing is None and column.indicates is None:
            raw = value if column.raw else float(value) * column.factor + column.offset
            column = replace(column, missing=raw, notes=(*column.notes, f"missing: SimpleImputer fills in {raw}"))
        made.append(column)
    marked = imputer.indicator_.features_.tolist() if imputer.add_indicator else []
    return made + [_indicator_of(columns[place]) for place in marked]


def _indicator_of(column: TransformedColumn) -> TransformedColumn:
    """Return the column that an imputer adds to mark the missing values of a raw one."""
    note = "marks missing values: 1 where the column is missing, 0 elsewhere (SimpleImputer)"
    return TransformedColumn(f"{column.name} is missing", indicates=column.name, notes=(note,))


def apply_one_hot(encoder: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Apply a OneHotEncoder, with its dropped categories."""
    _require_no_infrequent(encoder)
    made = []
    for i, column in enumerate(columns):
        _require_raw(column, "OneHotEncoder")
        categories, missing, notes = _categories(encoder.categories_[i], column, "OneHotEncoder")
        place = None if encoder.drop_idx_ is None else encoder.drop_idx_[i]
        dropped = None if place is None else categories[int(place)]
        if encoder.handle_unknown != "error":
            notes += (
                f"OneHotEncoder(handle_unknown={encoder.handle_unknown!r}): in a spec, unknown categories are an error",
            )
        base = replace(column, missing=missing, notes=(*column.notes, *notes))
        if dropped is not None and len(categories) == 2:
            # The remaining column is 0 for the dropped category and 1 for the other: an ordinal code.
            made.append(replace(base, categories=(dropped, next(c for c in categories if c != dropped))))
        elif dropped is not None and len(categories) == 1:
            continue  # its only category is dropped, which leaves no column
        else:
            made.append(replace(base, categories=categories, one_hot=True, dropped=dropped))
    return made


def apply_ordinal(encoder: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Apply an OrdinalEncoder; a code for missing values must be next to the other codes."""
    _require_no_infrequent(encoder)
    made = []
    for i, column in enumerate(columns):
        _require_raw(column, "OrdinalEncoder")
        categories, missing, notes = _categories(encoder.categories_[i], column, "OrdinalEncoder")
        first = 0
        if encoder.handle_unknown != "error":
            notes += ("OrdinalEncoder has a code for unknown categories: in a spec, they are an error",)
        if MISSING in categories and missing == MISSING:
            code, known = encoder.encoded_missing_value, tuple(c for c in categories if c != MISSING)
            if code == len(known):
                categories = (*known, MISSING)
            elif code == -1:
                categories, first = (MISSING, *known), -1
            elif is_missing(code):  # the model cannot read NaN, so missing values stay an error
                categories, missing = known, None
            else:
                raise FairmendError(
                    f'OrdinalEncoder gives a missing "{column.name}" the code {code}. A spec can only express -1 or '
                    f"{len(known)}, the codes next to the others. Set encoded_missing_value to one of them."
                )
        codes = np.arange(first, first + len(categories))
        if (codes.astype(encoder.dtype).astype(np.float64) != codes).any():
            raise FairmendError(
                f'OrdinalEncoder writes the codes of "{column.name}" as {np.dtype(encoder.dtype)}, which does not hold '
                "them all. Use its default dtype."
            )
        notes = (*column.notes, *notes)
        made.append(replace(column, missing=missing, categories=categories, offset=float(-first), notes=notes))
    return made


def _require_raw(column: TransformedColumn, step: str) -> None:
    if not column.raw:
        raise FairmendError(f'{step} encodes "{column.name}" after another step has changed it. Encode the raw column.')


def _categories(values: Any, column: TransformedColumn, step: str) -> tuple[tuple[str, ...], Any, tuple[str, ...]]:
    """Return the categories as text, the category of a missing value, and notes."""
    absent = [value for value in values if is_missing(value)]
    if len(absent) > 1:
        raise FairmendError(
            f'{step} distinguishes two kinds of missing values in "{column.name}". Use only NaN or only None.'
        )
    if absent and MISSING in map(str, values):
        raise FairmendError(f'"{column.name}" has both missing values and a category "{MISSING}". Rename the category.')
    texts = tuple(MISSING if is_missing(value) else as_text(value) for value in values)
    if len(set(texts)) < len(texts):
        raise FairmendError(
            f'{step} has different categories of "{column.name}" with the same text: {", ".join(texts)}'
        )
    if column.missing is not None:
        text = as_text(column.missing)
        if text not in texts:
            raise FairmendError(f'a missing "{column.name}" is replaced by {text!r}, which is not a category of {step}')
        return texts, text, ()
    return (
        (texts, MISSING, (f'"{MISSING}" is the category of missing values in {step}',)) if absent else (texts, None, ())
    )


def _require_no_infrequent(encoder: Any) -> None:
    # The public attribute exists only if the encoder groups infrequent categories.
    grouped = getattr(encoder, "infrequent_categories_", None) if _may_group(encoder) else None
    for i, group in enumerate(grouped or ()):
        if group is not None:
            raise FairmendError(
                f"{type(encoder).__name__} groups {len(group)} infrequent categories of its column {i}, which a "
                "spec cannot express. Group them in the data, or fit it without min_frequency and max_categories."
            )


def _may_group(encoder: Any) -> bool:
    return encoder.min_frequency is not None or encoder.max_categories is not None


def is_missing(value: Any) -> bool:
    """Return whether a value is None or NaN."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, float | np.floating) and math.isnan(value)


_STEPS: dict[str, Step] = {
    "OneHotEncoder": apply_one_hot,
    "OrdinalEncoder": apply_ordinal,
    "StandardScaler": apply_scaler,
    "MaxAbsScaler": apply_scaler,
    "RobustScaler": apply_scaler,
    "MinMaxScaler": apply_min_max,
    "SimpleImputer": apply_imputer,
}


def apply_transformer(transformer: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Return the columns after a fitted transformer, in the order of its output."""
    if transformer is None or (isinstance(transformer, str) and transformer == "passthrough"):
        return list(columns)
    if isinstance(transformer, str) and transformer == "drop":
        return []
    name = _name(transformer)
    if name == "Pipeline":
        found = list(columns)
        for _, step in transformer.steps:
            found = apply_transformer(step, found)
        return found
    if name == "ColumnTransformer":
        return _apply_column_transformer(transformer, columns)
    if name == "FunctionTransformer" and transformer.func is None:
        return list(columns)
    if name not in _STEPS:
        raise FairmendError(
            f"the pipeline has a {type(transformer).__name__}, which a spec cannot express. {SUPPORTED}"
        )
    fitted_on = getattr(transformer, "n_features_in_", None)
    if fitted_on is None:
        raise FairmendError(f"the pipeline's {name} is not fitted. Fit the pipeline first.")
    width = sum(column.width for column in columns)
    if any(column.width != 1 for column in columns) and name in ("OneHotEncoder", "OrdinalEncoder", "SimpleImputer"):
        raise FairmendError(f"{name} comes after a OneHotEncoder, which a spec cannot express. Put it first.")
    if fitted_on != width:
        raise FairmendError(f"{name} was fitted on {fitted_on} columns but gets {width}. Fit the pipeline again.")
    if any(column.width != 1 for column in columns):
        # Only scalers remain here. The first one-hot group raises the error.
        next(column for column in columns if column.one_hot).scaled(0.0, 1.0, name)
    return _STEPS[name](transformer, columns)


def encode_as_spec(steps: Sequence[Any], names: Sequence[str], count: int | None, spec: Spec) -> bool:
    """Return whether fitted steps give the columns of a spec, in its order, of raw columns that it may know by name.

    ``count`` is the number of raw columns, which are the features or, where no step encodes a feature, its columns.
    """
    columns = [TransformedColumn(name) for name in names or [f"x{place}" for place in range(count or 0)]]
    try:
        for step in steps:
            columns = apply_transformer(step, columns)
    except FairmendError:  # a step that a spec cannot express
        return False
    found = [column.name for column in columns]
    if len(set(found)) < len(found):
        return False
    if [column.width for column in columns] == [feature.width for feature in spec.features]:
        named = not names or found == [feature.name for feature in spec.features]
        return named and all(map(_encodes, columns, spec.features))
    features = [feature for feature in spec.features for _ in range(feature.width)]
    if len(columns) != len(features):
        return False
    return all(
        column.raw if feature.one_hot else _encodes(column, feature)
        for column, feature in zip(columns, features, strict=True)
    )


def _encodes(column: TransformedColumn, feature: Feature) -> bool:
    """Return whether steps make of one raw column what a spec says of a feature."""
    if feature.indicates != column.indicates:
        return False
    if column.one_hot and feature.one_hot:
        return (column.categories, column.dropped) == (feature.categories, feature.dropped)
    low, high = feature.bounds
    listed = feature.whole and high - low < _MOST_LISTED
    own = np.arange(low, high + 1) if listed else np.array([low, high])
    texts = feature.categories or tuple(map(as_text, own.tolist()))
    values = own
    if column.categories is not None:
        if column.one_hot or not listed or not set(texts) <= set(column.categories):
            return False
        values = np.array([column.categories.index(text) for text in texts], dtype=np.float64)
    elif feature.categories is not None and feature.indicates is None:
        if not all(text.removeprefix("-").isdecimal() for text in texts):
            return False
        values = np.array([float(text) for text in texts])
    if column.clipped and not (column.extent and column.extent[0] <= values.min() <= values.max() <= column.extent[1]):
        return False
    encoded = (values - column.offset) / column.factor
    rows = feature.encode(own)
    return rows.shape[1] == 1 and bool(np.allclose(encoded, rows[:, 0], rtol=_ROUNDED, atol=_ROUNDED))


def strip_model(pipeline: Any) -> Any:
    """Return the steps before the model of a pipeline; return anything else unchanged."""
    if hasattr(pipeline, "best_estimator_"):
        raise FairmendError(f"cannot read a spec from {type(pipeline).__name__}. Pass its best_estimator_.")
    last = pipeline.steps[-1][1] if _name(pipeline) == "Pipeline" and pipeline.steps else None
    if hasattr(last, "predict") and not hasattr(last, "transform"):
        if len(pipeline.steps) == 1:
            raise FairmendError(
                "the pipeline contains only a model and nothing before it. Use Spec.from_data (fairmend spec init)."
            )
        return pipeline[:-1]
    return pipeline


def raw_column_names(transformer: Any, data_columns: Sequence[Any] | None) -> list[str]:
    """Return the names of the raw columns: from fitting, from the data, or x0, x1, ..."""
    count = _n_features(transformer)
    names = getattr(transformer, "feature_names_in_", None)
    if names is None and _name(transformer) == "Pipeline":
        names = getattr(transformer.steps[0][1], "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    if data_columns is not None and len(data_columns) == count:
        return [str(name) for name in data_columns]
    return [f"x{i}" for i in range(count)]


def _name(transformer: Any) -> str:
    """Return the class name of a scikit-learn object; other packages may use the same name, so theirs are qualified."""
    kind = type(transformer)
    own = kind.__module__.split(".")[0] == "sklearn"
    return kind.__name__ if own else f"{kind.__module__}.{kind.__name__}"


def _n_features(transformer: Any) -> int:
    try:
        count = transformer.n_features_in_
    except AttributeError as error:
        kind = type(transformer).__name__
        if not hasattr(transformer, "fit"):
            raise FairmendError(
                f"cannot read a spec from {kind}. Pass a fitted ColumnTransformer or Pipeline."
            ) from error
        raise FairmendError(f"the {kind} is not fitted. Fit it first.") from error
    return int(count)


def _apply_column_transformer(transformer: Any, columns: Sequence[TransformedColumn]) -> list[TransformedColumn]:
    """Return the columns after a ColumnTransformer, in the order of its transformers."""
    if not hasattr(transformer, "transformers_"):
        raise FairmendError("the ColumnTransformer is not fitted. Fit it first.")
    if any(column.width != 1 for column in columns):
        raise FairmendError(
            "a ColumnTransformer comes after a OneHotEncoder, which a spec cannot express. Use one ColumnTransformer."
        )
    if transformer.n_features_in_ != len(columns):
        raise FairmendError(
            f"the ColumnTransformer was fitted on {transformer.n_features_in_} columns but gets {len(columns)}. "
            "Fit the pipeline again."
        )
    weights = transformer.transformer_weights or {}
    names = [str(name) for name in getattr(transformer, "feature_names_in_", ())]
    found: list[TransformedColumn] = []
    for name, step, selected in transformer.transformers_:
        chosen = [columns[i] for i in positions(selected, names, len(columns), name)]
        if chosen:
            after = apply_transformer(step, chosen)
            weight = float(weights.get(name, 1.0))
            found += (
                after if weight == 1 else [column.scaled(0.0, 1 / weight, f"the weight of {name}") for column in after]
            )
    return found


def positions(columns: Any, names: Sequence[str], count: int, step: str) -> list[int]:
    """Return the positions of columns that a ColumnTransformer selects by name, position, slice or mask."""
    if isinstance(columns, str | int | np.integer) and not isinstance(columns, bool):
        columns = [columns]
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):  # by name, both ends included
            start = 0 if columns.start is None else names.index(columns.start)
            stop = count if columns.stop is None else names.index(columns.stop) + 1
            return list(range(count)[start : stop : columns.step])
        return list(range(count)[columns])
    listed = list(columns)
    if listed and all(isinstance(entry, bool | np.bool_) for entry in listed):
        return [int(place) for place in np.flatnonzero(listed)]
    if all(isinstance(entry, str) for entry in listed):
        unknown = [entry for entry in listed if entry not in names]
        if unknown:
            raise FairmendError(
                f'step {step} of the ColumnTransformer selects "{unknown[0]}", which it was not fitted on'
            )
        return [names.index(entry) for entry in listed]
    return [range(count)[int(entry)] for entry in listed]
