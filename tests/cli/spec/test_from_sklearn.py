"""`fairmend spec from-sklearn`: a fitted pipeline gives its spec, and unsafe files are refused."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fairmend.spec import Claim, Spec
from support.cli_case import run
from support.drafting_cases import people
from support.strategies import random_network


def model(inputs, path="model.onnx"):
    random_network(np.random.default_rng(0), inputs, [6]).save(path)
    return path


def fitted(frame):
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["age", "income"]),
            ("texts", OneHotEncoder(drop="first"), ["sex", "race"]),
        ]
    ).fit(frame)


def from_sklearn(file, *more, protected="sex,race"):
    return run("spec", "from-sklearn", file, "--protected", protected, "--data", "people.csv", *more)


def test_a_pipeline_saved_with_skops_gives_its_spec(folder):
    from skops import io

    transformer = fitted(people())
    io.dump(transformer, "pipeline.skops")
    result = from_sklearn("pipeline.skops", "--label", "approved", "--model", model(5))
    assert result.exit_code == 0, result.output
    spec = Spec.load("spec.toml")
    np.testing.assert_array_equal(spec.encode(people()), transformer.transform(people()).astype(np.float32))
    assert spec.label.positive == "yes"
    assert "fairmend repair model.onnx" in result.output
    assert run("spec", "check", "spec.toml", "--data", "people.csv", "--model", "model.onnx").exit_code == 0


def test_a_pickle_is_not_opened_unless_it_is_trusted(folder):
    class Bomb:
        def __reduce__(self):
            return (open, (str(folder / "boom"), "w"))

    (folder / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    result = from_sklearn("bomb.pkl")
    assert result.exit_code == 2
    assert "--trust-pickle" in result.output
    assert "skops" in result.output
    assert not (folder / "boom").exists()
    joblib.dump(fitted(people()), "good.joblib")
    assert from_sklearn("good.joblib").exit_code == 2
    assert from_sklearn("good.joblib", "--trust-pickle").exit_code == 0


def a_function_of_mine(X):
    return X


def test_a_skops_file_with_other_types_is_not_loaded(folder):
    from skops import io

    io.dump(make_pipeline(FunctionTransformer(a_function_of_mine).fit(people())), "own.skops")
    result = from_sklearn("own.skops")
    assert result.exit_code == 2
    assert "a_function_of_mine" in result.output
    assert "not loaded" in result.output


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + bytes(18)])
@pytest.mark.parametrize("name", ["bad.skops", "bad.joblib", "bad.pkl"])
def test_a_damaged_file_is_refused(folder, name, content):
    (folder / name).write_bytes(content)
    result = from_sklearn(name, "--trust-pickle")
    assert result.exit_code == 2
    assert name in result.output
    assert "bug" not in result.output


def test_files_that_hold_no_pipeline(folder):
    from skops import io

    io.dump({"a": 1}, "dict.skops")
    assert "cannot read a spec from dict" in from_sklearn("dict.skops").output
    io.dump(MLPClassifier(), "mlp.skops")
    assert from_sklearn("mlp.skops").exit_code == 2
    assert "no such file" in from_sklearn("absent.skops").output
    assert ".skops" in from_sklearn("people.csv").output
    io.dump(fitted(people()), "pipeline.skops")
    assert 'did you mean "race"' in from_sklearn("pipeline.skops", protected="rac").output
    assert "which reads 9 columns" in from_sklearn("pipeline.skops", "--model", model(9)).output
    people().assign(race="Other").to_csv("people.csv", index=False)
    unknown = from_sklearn("pipeline.skops", "--force")
    assert unknown.exit_code == 2
    assert 'people.csv: feature "race", row 0: "Other" is not one of its categories' in unknown.output


def test_a_claim_about_scores_comes_from_the_options(folder):
    from skops import io

    frame = people()
    frame.assign(limit=np.linspace(100, 300, len(frame))).to_csv("people.csv", index=False)
    io.dump(fitted(frame), "pipeline.skops")
    assert from_sklearn("pipeline.skops", "--label", "approved", "--delta", 0.1).exit_code == 0
    assert Spec.load("spec.toml").claim == Claim("score", 0.1, "probability")
    result = from_sklearn("pipeline.skops", "--label", "limit", "--force")
    assert "delta is 1% of the range of limit" in " ".join(result.output.split())
    assert Spec.load("spec.toml").claim == Claim("score", 2, "output")
    assert from_sklearn("pipeline.skops", "--label", "limit", "--delta", 0, "--force").exit_code == 2
    assert Spec.load("spec.toml").claim.limit == 2


def with_gaps():
    frame = people()
    return frame.assign(income=frame["income"].where(np.arange(len(frame)) % 5 != 0))


def dumped_with_indicators(frame):
    """A pipeline that marks missing incomes, before a scaler; saved beside a model and its scores."""
    from skops import io

    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    transformer = ColumnTransformer(
        [("numbers", numbers, ["age", "income"]), ("texts", OneHotEncoder(), ["sex", "race"])]
    ).fit(frame)
    io.dump(transformer, "pipeline.skops")
    frame.to_csv("people.csv", index=False)
    X = transformer.transform(frame).astype(np.float32)
    net = random_network(np.random.default_rng(0), X.shape[1], [6])
    net.save("model.onnx")
    np.save("scores.npy", net.probabilities(X))
    return X


def test_columns_that_mark_missing_values_are_read_and_scores_verify_the_spec(folder):
    frame = with_gaps()
    X = dumped_with_indicators(frame)
    result = from_sklearn("pipeline.skops", "--model", "model.onnx", "--scores", "scores.npy", "--label", "approved")
    assert result.exit_code == 0, result.output
    assert "verified: " in " ".join(result.output.split())
    spec = Spec.load("spec.toml")
    assert [feature.indicates for feature in spec.features if feature.indicates] == ["income"]
    np.testing.assert_allclose(spec.encode(frame), X, atol=1e-6)


def test_scores_of_another_model_are_refused_and_nothing_is_written(folder):
    dumped_with_indicators(with_gaps())
    np.save("scores.npy", np.load("scores.npy")[::-1])
    result = from_sklearn("pipeline.skops", "--model", "model.onnx", "--scores", "scores.npy", "--label", "approved")
    assert result.exit_code == 2
    assert "nothing was written" in " ".join(result.output.split())
    assert not (folder / "spec.toml").exists()
    assert "--scores needs --model" in from_sklearn("pipeline.skops", "--scores", "scores.npy").output


def test_the_positive_value_is_what_the_classifier_calls_class_1(folder):
    from skops import io

    frame = people().assign(approved=lambda table: np.where(table["approved"] == "yes", "ja", "nein"))
    frame.to_csv("people.csv", index=False)
    pipeline = make_pipeline(fitted(frame), MLPClassifier((4,), solver="lbfgs", max_iter=2000, random_state=0))
    pipeline.fit(frame, frame["approved"])
    assert pipeline.classes_.tolist() == ["ja", "nein"]
    io.dump(pipeline, "pipeline.skops")
    assert from_sklearn("pipeline.skops", "--label", "approved").exit_code == 0
    assert Spec.load("spec.toml").label.positive == "nein"
    assert Spec.from_sklearn(pipeline, ["sex"], "approved", frame).label.positive == "nein"
    result = from_sklearn("pipeline.skops", "--label", "approved", "--positive", "ja", "--force")
    assert result.exit_code == 2
    assert 'calls "nein" class 1' in result.output
