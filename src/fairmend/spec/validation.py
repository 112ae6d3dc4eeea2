"""Validation: raise an error for a feature, a label, a claim or a list of features that does not make sense.

Every check runs when a `Feature`, a `Label`, a `Claim` or a `Spec` is created, so that the rest of fairmend can rely
on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, suggest

if TYPE_CHECKING:
    from fairmend.spec.claim import Claim
    from fairmend.spec.features import Feature, Label


MOST_FEATURES = 10_000
"""A spec that describes more is refused before the work, which would take minutes for each pass over the features."""

_KINDS = ("continuous", "integer", "categorical")
_ENCODINGS = ("ordinal", "one-hot")
_SCALES = (("mean", "std"), ("min", "max"))
_CLAIMS = ("class", "score")
_SCORES = ("probability", "logit", "output")
_EXACT = 2.0**53  # whole numbers up to here are exact in float64


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs for the second time, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def scale_parameters(scale: Mapping[str, float] | None) -> tuple[float, float]:
    """Return the offset and the factor of a scale: encoded = (value - offset) / factor."""
    if scale is None:
        return 0.0, 1.0
    return (scale["mean"], scale["std"]) if "mean" in scale else (scale["min"], scale["max"] - scale["min"])


def require_few(features: Sequence[object]) -> None:
    """Raise an error for more features than a spec describes, before the first is validated."""
    if len(features) > MOST_FEATURES:
        raise FairmendError(f"the spec has {len(features):,} features. A spec describes at most {MOST_FEATURES:,}.")


def validate_feature(f: Feature) -> dict[str, Any]:
    """Return the fields of a feature in their canonical form; raise an error for a wrong one."""
    if not isinstance(f.name, str) or not f.name.strip():
        raise FairmendError(f"a feature needs a name, got {f.name!r}. Set it to the name of its column.")
    where = f'feature "{f.name}"'
    for key, allowed in (("kind", _KINDS), ("encoding", _ENCODINGS)):
        _require_one_of(getattr(f, key), allowed, f"{where}: {key}")
    if not isinstance(f.protected, bool | np.bool_):
        raise FairmendError(f"{where}: protected must be true or false, got {f.protected!r}")
    tolerance = as_number(f.tolerance, f"{where}: tolerance")
    if tolerance < 0:
        raise FairmendError(f"{where}: tolerance must not be negative, got {tolerance:g}")
    if tolerance > 0 and f.protected:
        raise FairmendError(f"{where}: a protected feature takes all its values. Remove its tolerance.")
    checked: dict[str, Any] = {"protected": bool(f.protected), "tolerance": tolerance}
    if f.kind == "categorical":
        if tolerance > 0:
            raise FairmendError(f"{where}: categories have no distance. Remove its tolerance, or make it protected.")
        if f.range is not None:
            raise FairmendError(f"{where}: a categorical feature has categories, not a range. Remove its range.")
        checked["categories"] = _categories(f, where)
    else:
        if f.categories is not None or f.encoding == "one-hot":
            what = "categories needs" if f.categories is not None else 'encoding "one-hot" needs'
            raise FairmendError(f'{where}: {what} kind = "categorical". Remove it, or change the kind.')
        checked["range"] = _range(f, where)
    if f.scale is not None:
        checked["scale"] = _scale(f, where)
    if f.dropped is not None:
        checked["dropped"] = _dropped(f, checked.get("categories", ()), where)
    if f.missing is not None:
        checked["missing"] = _missing(f, checked, where)
    if f.indicates is not None:
        _require_indicator(f, checked, where)
    if f.input is not None and (not isinstance(f.input, str) or not f.input):
        raise FairmendError(f"{where}: input must be the name of one of the model's inputs, got {f.input!r}")
    if f.names is not None:
        checked["names"] = _names(f, checked, where)
    offset, factor = scale_parameters(checked.get("scale"))
    with np.errstate(all="ignore"):
        lo, hi = checked.get("range") or (0, len(checked["categories"]))
        ends = np.array([(lo - offset) / factor, (hi - offset) / factor, hi - lo, factor])
        if not np.isfinite(ends.astype(np.float32)).all():
            raise FairmendError(f"{where}: its encoded values do not fit in float32. Check its range and scale.")
    return checked


def validate_label(label: Label) -> str | None:
    """Return the positive value of a label as text, if it has one; raise an error for a wrong column or value."""
    if not isinstance(label.column, str) or not label.column:
        raise FairmendError(f"[label]: column must be the name of a column, got {label.column!r}")
    if label.score is not None and (not isinstance(label.score, str) or label.score in ("", label.column)):
        raise FairmendError(f"[label]: score must be the name of a column other than the label, got {label.score!r}")
    return None if label.positive is None else as_value_text(label.positive, "[label]: positive")


def validate_classes(label: Label) -> tuple[str, ...]:
    """Return the classes of a label as text; raise an error for wrong ones."""
    given = as_list(label.classes)
    if given is None:
        raise FairmendError(f"[label]: classes must be a list of label values, got {label.classes!r}")
    texts = tuple(as_value_text(value, "[label]: a class") for value in given)
    if not texts:
        return ()
    twice = first_repeated(texts)
    if twice is not None:
        raise FairmendError(f'[label]: class "{twice}" is listed twice. Remove one.')
    if len(texts) < 3:
        raise FairmendError(
            "[label]: classes is for three or more classes. Of two, set the positive one: positive = ..."
        )
    if label.positive is not None:
        raise FairmendError("[label]: positive is for two classes, and classes for more. Remove one of them.")
    return texts


def validate_threshold(label: Label) -> float:
    """Return the threshold of a label as a float; raise an error for a wrong one."""
    threshold = as_number(label.threshold, "[label]: threshold")
    if not 0 < threshold < 1:
        raise FairmendError(f"[label]: threshold must be a probability above 0 and below 1, got {threshold:g}")
    if threshold != 0.5 and label.positive is None:
        lacks = (
            f"has {len(label.classes)} classes. Remove" if label.classes else "has no positive value. Add it, or remove"
        )
        raise FairmendError(
            f'[label]: a threshold decides between two classes, but "{label.column}" {lacks} the threshold.'
        )
    return threshold


def validate_claim(claim: Claim) -> float | None:
    """Return delta as a float, None for a claim about classes; raise an error for a wrong field."""
    _require_one_of(claim.kind, _CLAIMS, "[claim]: kind")
    if claim.kind == "class":
        if claim.delta is not None or claim.on is not None:
            raise FairmendError('[claim]: delta and on need kind = "score". Change the kind, or remove them.')
        return None
    if claim.delta is None:
        raise FairmendError("[claim]: a claim about scores needs delta, the largest difference. Add delta = ...")
    if claim.on is None:
        raise FairmendError(f"[claim]: a claim about scores needs on. Set it to one of {', '.join(_SCORES)}.")
    _require_one_of(claim.on, _SCORES, "[claim]: on")
    delta = as_number(claim.delta, "[claim]: delta")
    if delta <= 0:
        raise FairmendError(f"[claim]: delta must be above 0, got {delta:g}")
    if claim.on == "probability" and delta >= 1:
        raise FairmendError(f"[claim]: delta must be below 1, as probabilities differ by no more, got {delta:g}")
    return delta


def validate_claim_for_label(claim: Claim, label: Label | None) -> None:
    """Raise an error for a claim about classes where the label is a number to predict, or the other way round."""
    if label is None:
        return
    if label.classes and claim.on == "output":
        raise FairmendError(
            f'[claim]: on = "output" is for a number to predict, but "{label.column}" has classes. Set on = "logit".'
        )
    if label.is_number and claim.on != "output":
        raise FairmendError(
            f'[label] has no positive value, so "{label.column}" is a number to predict. Add positive = ..., classes = '
            "[...] for more than two classes, or a "
            '[claim] with kind = "score", delta = ... and on = "output".'
        )
    if label.positive is not None and claim.on == "output":
        raise FairmendError(
            f'[claim]: on = "output" is for a number to predict, but "{label.column}" has a positive value. '
            'Set on = "logit", or remove positive from [label].'
        )


def _require_one_of(value: object, allowed: Sequence[str], what: str) -> None:
    if value not in allowed:
        raise FairmendError(f'{what} must be one of {", ".join(allowed)}, got "{value}"{suggest(str(value), allowed)}')


def validate_features_together(features: Sequence[Feature], label: Label | None) -> None:
    """Raise an error if the features and the label do not make a spec."""
    if not features:
        raise FairmendError("the spec has no features. Add one [[feature]] table for each input feature.")
    names = [f.name for f in features]
    twice = first_repeated(names)
    if twice is not None:
        raise FairmendError(f'feature "{twice}" is listed twice. Rename or remove one.')
    if not any(f.protected for f in features):
        raise FairmendError("no feature is protected. Set protected = true for at least one, such as gender or age.")
    if label is not None and label.column in names:
        raise FairmendError(f'"{label.column}" is both a feature and the label. Remove one of the two.')
    if label is not None and label.score in names:
        raise FairmendError(f'"{label.score}" is both a feature and the score of [label]. Remove one of the two.')


def validate_id_column(name: str | None, features: Sequence[Feature], label: Label | None) -> str | None:
    """Return the column of ids; raise an error for one that has another meaning already."""
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise FairmendError(f"[table]: id must be the name of a column, got {name!r}")
    if name in [f.name for f in features] or (label is not None and name == label.column):
        raise FairmendError(f'[table]: id is "{name}", which is a feature or the label. Name the column of the ids.')
    return name


def _range(f: Feature, where: str) -> tuple[float, float]:
    """Return the range of a numeric feature."""
    ends = as_list(f.range)
    if ends is None or len(ends) != 2:
        raise FairmendError(f"{where}: a numeric feature needs range = [lowest, highest], got {f.range!r}")
    lo, hi = (as_number(end, f"{where}: range") for end in ends)
    if lo > hi or (lo == hi and f.protected):
        need = "lowest < highest" if f.protected else "lowest <= highest"
        raise FairmendError(f"{where}: range needs {need}, got [{lo:g}, {hi:g}]")
    if f.kind == "continuous":
        return lo, hi
    if not (lo.is_integer() and hi.is_integer()) or max(-lo, hi) > _EXACT:
        raise FairmendError(f"{where}: the range of an integer feature needs whole numbers, got [{lo:g}, {hi:g}]")
    return int(lo), int(hi)


def _categories(f: Feature, where: str) -> tuple[str, ...]:
    """Return the categories as distinct text."""
    categories = as_list(f.categories)
    if not categories:
        raise FairmendError(f"{where}: a categorical feature needs categories = [...], got {f.categories!r}")
    texts = tuple(as_value_text(category, f"{where}: a category") for category in categories)
    twice = first_repeated(texts)
    if twice is not None:
        raise FairmendError(f'{where}: category "{twice}" is listed twice. Remove one.')
    if f.protected and len(texts) < 2:
        raise FairmendError(f"{where}: a protected feature needs at least two categories")
    return texts


def _scale(f: Feature, where: str) -> dict[str, float]:
    """Return the scale as plain floats."""
    if f.one_hot:
        raise FairmendError(f"{where}: one-hot columns are 0 or 1 and have no scale. Remove it.")
    if not isinstance(f.scale, Mapping) or set(f.scale) not in map(set, _SCALES):
        raise FairmendError(f"{where}: scale must be {{mean, std}} or {{min, max}}, got {f.scale!r}")
    keys = next(keys for keys in _SCALES if keys[0] in f.scale)
    scale = {key: as_number(f.scale[key], f"{where}: scale {key}") for key in keys}
    if not scale_parameters(scale)[1] > 0:
        raise FairmendError(f"{where}: scale needs {'std > 0' if 'std' in scale else 'max > min'}, got {scale}")
    return scale


def _dropped(f: Feature, categories: tuple[str, ...], where: str) -> str:
    """Return the dropped category; it must be one of at least two."""
    if not f.one_hot:
        raise FairmendError(f'{where}: dropped needs encoding = "one-hot". Remove it, or change the encoding.')
    dropped = as_value_text(f.dropped, f"{where}: dropped")
    if dropped not in categories:
        hint = suggest(dropped, categories)
        raise FairmendError(f'{where}: dropped is "{dropped}", which is not one of its categories{hint}')
    if len(categories) < 2:
        raise FairmendError(f"{where}: its only category is dropped, which leaves no column. Remove `dropped`.")
    return dropped


def _missing(f: Feature, checked: Mapping[str, Any], where: str) -> float | str:
    """Return the value that replaces a missing one; it must be a possible value of the feature."""
    if f.kind == "categorical":
        text = as_value_text(f.missing, f"{where}: missing")
        if text not in checked["categories"]:
            hint = suggest(text, checked["categories"])
            raise FairmendError(f'{where}: missing is "{text}", which is not one of its categories{hint}')
        return text
    value, (lo, hi) = as_number(f.missing, f"{where}: missing"), checked["range"]
    if not lo <= value <= hi:
        raise FairmendError(
            f"{where}: missing = {value:g} is outside the range {lo:g} to {hi:g}. Use one in the range."
        )
    if f.kind == "continuous":
        return value
    if not value.is_integer():
        raise FairmendError(f"{where}: missing must be a whole number, as the feature is an integer, got {value:g}")
    return int(value)


def _names(f: Feature, checked: Mapping[str, Any], where: str) -> dict[str, str] | None:
    """Return the names of values, by the text of the value; each must be a value of the feature."""
    if not isinstance(f.names, Mapping):
        raise FairmendError(f'{where}: names must be a table such as {{1 = "male", 2 = "female"}}, got {f.names!r}')
    if f.kind == "continuous":
        raise FairmendError(f"{where}: names are for codes and categories, but it is continuous. Remove them.")
    names = {
        as_value_text(value, f"{where}: a value in names"): as_value_text(name, f"{where}: a name")
        for value, name in f.names.items()
    }
    for value in names:
        if not _is_value(value, checked):
            hint = suggest(value, checked["categories"]) if "categories" in checked else ""
            raise FairmendError(f'{where}: names has "{value}", which is not one of its values{hint}')
    twice = first_repeated(names.values())
    if twice is not None:
        raise FairmendError(f'{where}: names calls two values "{twice}". Rename one.')
    return names or None


def _is_value(text: str, checked: Mapping[str, Any]) -> bool:
    """Return whether a text is a category, or a whole number in the range."""
    if "categories" in checked:
        return text in checked["categories"]
    low, high = checked["range"]
    return text.removeprefix("-").isdecimal() and low <= int(text) <= high


def _require_indicator(f: Feature, checked: Mapping[str, Any], where: str) -> None:
    """Raise an error for a feature that marks the missing values of a column but is not 0 or 1."""
    if not isinstance(f.indicates, str) or f.indicates in ("", f.name):
        raise FairmendError(f"{where}: indicates must be the name of another column, got {f.indicates!r}")
    if checked.get("range") != (0, 1) or f.kind != "integer" or f.missing is not None:
        raise FairmendError(
            f'{where}: it marks missing values by 1 and 0. Set kind = "integer" and range = [0, 1], and remove missing.'
        )


def as_number(value: object, what: str) -> float:
    """Return a finite number; raise an error for anything else."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise FairmendError(f"{what} must be a finite number, got {value!r}")


def as_value_text(value: object, what: str) -> str:
    """Return the text by which a value is compared; raise an error if it has none."""
    text = as_text(value) if isinstance(value, str | int | float | np.generic) else ""
    if not text or text == "nan":
        raise FairmendError(f"{what} must be text, a number or true/false, got {value!r}")
    return text


def as_list(value: object) -> list[Any] | None:
    """Return the entries of a list, tuple or array; None for anything else, including text."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else None
