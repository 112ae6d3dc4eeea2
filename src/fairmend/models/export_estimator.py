"""Export a fitted estimator or pipeline to ONNX, by skl2onnx and what other libraries add to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.base.text import as_text, first_line
from fairmend.models.estimator import columns_of, last_step
from fairmend.models.known_values import DataValues, Known, has_whole_categories
from fairmend.models.people_runner import people_of
from fairmend.network.formats.sklearn import is_net
from fairmend.spec import Spec
from fairmend.spec.features import Feature

if TYPE_CHECKING:
    from torch import nn

_OPSET = 19  # the first one that compares text
_STEPS = "steps in float64"
_GRADIENT_BOOSTING = {
    "xgboost": ("onnxmltools.convert.xgboost.operator_converters.XGBoost", "convert_xgboost", "XGBoost"),
    "lightgbm": ("onnxmltools.convert.lightgbm.operator_converters.LightGbm", "convert_lightgbm", "LightGbm"),
}


def export_estimator(estimator: Any, spec: Spec, known: Known | None, precision: str, path: Path) -> None:
    """Write an estimator to an ONNX file that reads the matrix of the spec, or a column for each feature of people.

    `known` has the values that an estimator which reads people was fitted on; it is None if it reads the matrix.
    `precision` is one of `precisions`. Trees of scikit-learn read float32, whatever gives the numbers; a scaler that
    computes in float32 as well would give others, and people whose number is a threshold would go another way.
    """
    if hasattr(estimator, "save_model") and type(estimator).__module__.startswith("catboost"):
        try:
            estimator.save_model(str(path), format="onnx")
        except Exception as error:  # CatBoost has its own class of errors
            raise FairmendError(f"CatBoost cannot write this model as ONNX ({first_line(error)})") from error
        return
    try:
        convert = import_module("skl2onnx")
    except ImportError as error:
        raise FairmendError(
            "a certificate is about a file, and scikit-learn models become ONNX files by skl2onnx: pip install skl2onnx"
        ) from error
    _register_gradient_boosting(estimator, convert)
    types = import_module("skl2onnx.common.data_types")
    numbers = types.FloatTensorType if precision == "float32" else types.DoubleTensorType
    if precision == _STEPS:
        estimator = _cast_before_the_model(estimator)
    package = _package(estimator)
    if known is not None:
        given = [(feature.name, _column_type(feature, known, types, numbers)([None, 1])) for feature in spec.features]
        if not _is_pipeline(estimator):
            estimator = _behind_columns(estimator, spec)
    else:
        given = [("X", numbers([None, spec.width]))]
    try:
        with _plain_attributes(round_down=package == "lightgbm" and known is None):
            model = convert.convert_sklearn(
                estimator, initial_types=given, options=_options(estimator), target_opset={"": _OPSET, "ai.onnx.ml": 3}
            )
    except Exception as error:  # a converter fails in its own ways
        raise FairmendError(
            f"skl2onnx cannot convert {type(estimator).__name__} ({first_line(error)}). Export it to ONNX yourself, "
            "and repair that file"
        ) from error
    path.write_bytes(model.SerializeToString())


def precisions(estimator: Any) -> tuple[str, ...]:
    """Return the precisions in which an estimator can be written."""
    return ("float32", "float64", _STEPS) if _is_pipeline(estimator) else ("float32", "float64")


def _is_pipeline(estimator: Any) -> bool:
    return isinstance(getattr(estimator, "steps", None), list)


def _behind_columns(estimator: Any, spec: Spec) -> Any:
    """Return a pipeline that makes one matrix of the columns of people, with codes in place of categories of pandas.

    Converters of single models take one input, and no text. LightGBM keeps the categories that it was fitted on, in
    order. An estimator around pipelines may read columns by their names, so it stays as it is if there is text.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OrdinalEncoder

    features = columns_of(estimator, spec)
    texts = [feature.name for feature in features if feature.categories and not has_whole_categories(feature)]
    known = list(getattr(getattr(estimator, "booster_", None), "pandas_categorical", None) or [])
    if len(known) != len(texts):
        return estimator
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": np.nan, "dtype": np.float64}
    codes = {name: OrdinalEncoder(categories=[held], **unknown) for name, held in zip(texts, known, strict=True)}
    matrix = ColumnTransformer(
        [(f.name, codes.get(f.name, "passthrough"), [f.name]) for f in features], sparse_threshold=0
    )
    matrix.fit(people_of(spec, spec.sample_inputs(2, np.random.default_rng(0), np.float64), {}, DataValues()))
    return Pipeline([("columns", matrix), ("model", _without_names(estimator))])


def _without_names(estimator: Any) -> Any:
    """Return a model of XGBoost without the names of its columns, for which its converter has no place."""
    if _package(estimator) == "xgboost":
        estimator = copy.deepcopy(estimator)
        estimator.get_booster().feature_names = None
    return estimator


def _cast_before_the_model(estimator: Any) -> Any:
    """Return a pipeline whose steps compute in float64, and whose model reads what they give in float32."""
    cast = import_module("skl2onnx.sklapi").CastTransformer(dtype=np.float32)
    return type(estimator)([*estimator.steps[:-1], ("fairmend_float32", cast), estimator.steps[-1]])


@contextmanager
def _plain_attributes(round_down: bool) -> Iterator[None]:
    """Let ONNX take the attributes of boosted trees as skl2onnx gives them.

    Lists may hold whole numbers of NumPy. LightGBM compares with thresholds in float64 (x <= t), the file with float32:
    if the model reads numbers in float32, the largest one that is not above t decides alike for each x; the nearest
    one, which the converter takes, does not. (Numbers in float64 are rounded as the thresholds are.)
    """
    from onnx import helper

    make = helper.make_attribute

    def make_plain(key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, list) and any(isinstance(each, np.integer) for each in value):
            value = [int(each) for each in value]
        elif key == "nodes_values" and round_down:
            value = _rounded_down(np.asarray(value, dtype=np.float64)).tolist()
        return make(key, value, *args, **kwargs)

    helper.make_attribute = make_plain
    try:
        yield
    finally:
        helper.make_attribute = make


def _rounded_down(values: np.ndarray) -> np.ndarray:
    nearest = values.astype(np.float32)
    return np.where(nearest > values, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def module_of(estimator: Any) -> nn.Module | None:
    """Return a module that computes predict_proba of a net of skorch or of a TabNet; None for another estimator."""
    if is_net(estimator):
        module, closing = estimator.module_, estimator._get_predict_nonlinearity()
    elif type(estimator).__name__ == "TabNetClassifier":
        module, closing = estimator.network, _softmax
    else:
        return None
    from fairmend.models.export_module import Closed

    return Closed(module, closing)


def _softmax(scores: Any) -> Any:
    return scores.softmax(dim=1)


def _column_type(feature: Feature, known: Known, types: Any, numbers: Callable[..., Any]) -> Callable[..., Any]:
    """Return the type of the input of a feature: categories are text, unless their codes are what the model knows."""
    if not feature.categories:
        return numbers
    encoded = known.get(feature.name, ())
    is_whole, is_text = has_whole_categories(feature), any(each.dtype.kind == "O" for each in encoded)
    if is_whole and not is_text and feature.categories == tuple(map(str, range(len(feature.categories)))):
        return types.Int64TensorType  # type: ignore[no-any-return]
    if is_whole and not encoded:
        raise FairmendError(
            f'the model reads the numbers of the categories of "{feature.name}", and a file would get their codes, '
            'from 0 on. Make it kind = "integer" in the spec'
        )
    if any(str(value) != as_text(value) for each in encoded if each.dtype.kind == "f" for value in each.tolist()):
        raise FairmendError(
            f'an encoder knows the categories of "{feature.name}" as numbers such as 1.0, and a file reads them as '
            'text, "1". Fit it on whole numbers or on text'
        )
    return types.StringTensorType  # type: ignore[no-any-return]


def _options(estimator: Any) -> dict[int, dict[str, bool]]:
    """Let a classifier give a matrix of probabilities."""
    last = last_step(estimator)
    return {id(last): {"zipmap": False}} if hasattr(last, "classes_") else {}


def _register_gradient_boosting(estimator: Any, convert: Any) -> None:
    """Let skl2onnx know the models of XGBoost and LightGBM that an estimator may contain."""
    last = last_step(estimator)
    package = _package(last)
    if package not in _GRADIENT_BOOSTING:
        return
    module, name, operator = _GRADIENT_BOOSTING[package]
    try:
        converter = getattr(import_module(module), name)
    except ImportError as error:
        raise FairmendError(f"models of {package} become ONNX files by onnxmltools: pip install onnxmltools") from error
    shapes = import_module("skl2onnx.common.shape_calculator")
    classifier = hasattr(last, "classes_")
    shape = (
        shapes.calculate_linear_classifier_output_shapes
        if classifier
        else shapes.calculate_linear_regressor_output_shapes
    )
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]} if classifier else {}
    convert.update_registered_converter(
        type(last), f"{operator}{type(last).__name__}", shape, converter, options=options
    )


def _package(estimator: Any) -> str:
    return type(estimator).__module__.partition(".")[0]
