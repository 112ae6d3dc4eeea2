"""`fairmend spec init` and `from-sklearn` write a spec that fits the data, with what to review."""

import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fairmend.base.errors import FairmendError
from fairmend.cli.spec import split_names
from fairmend.network import load_network
from fairmend.spec import Claim, Spec
from fairmend.spec.draft.draft import require_columns
from fairmend.workflows.spec import _refuse_overwriting as refuse_overwriting
from support.cli_case import refused, refused_in_one_line, run, succeeded
from support.drafting_cases import ROWS, model, people
from support.examples import examples
from support.price_case import price_people
from support.strategies import random_network


def init(*more, data="people.csv", protected="sex,race", label="approved"):
    return run("spec", "init", data, "--protected", protected, "--label", label, *more)


def test_what_init_writes_encodes_the_data_and_says_what_comes_next(folder):
    result = succeeded(init())
    spec = Spec.load("spec.toml")
    assert spec.encode(people()).shape == (ROWS, 7)
    assert [f.name for f in spec.protected] == ["sex", "race"]
    assert (spec.label.column, spec.label.positive) == ("approved", "yes")
    for words in ('Left out: "customer_id"', 'Left out: "name"', "encoding:", "fairmend audit", "fairmend repair"):
        assert words in result.output
    text = (folder / "spec.toml").read_text()
    for words in (
        "# range: the lowest and highest value in the data",
        "# categorical: Asian",
        "# left out",
        "# integer: all values are whole",
    ):
        assert words in text


def test_it_does_not_overwrite_unless_told_to(folder):
    (folder / "spec.toml").write_text("precious")
    result = init()
    assert result.exit_code == 2
    assert "--force" in result.output
    assert (folder / "spec.toml").read_text() == "precious"
    assert init("--force").exit_code == 0
    result = run("spec", "init", "people.csv", "--protected", "sex", "--out", "people.csv", "--force")
    assert result.exit_code == 2
    assert "one of the inputs" in result.output


def test_missing_values_are_filled_in_and_said(folder):
    frame = people().astype({"age": float, "race": object})
    frame.loc[:10, "age"] = np.nan
    frame.loc[5:9, "race"] = None
    frame.to_csv("people.csv", index=False)
    result = init()
    spec = Spec.load("spec.toml")
    age, race = (f for f in spec.features if f.name in ("age", "race"))
    assert (age.kind, age.missing) == ("integer", round(frame["age"].median()))
    assert (race.categories[-1], race.missing) == ("(missing)", "(missing)")
    assert 'feature "age": missing is' in result.output
    assert spec.encode(frame)[5:10, spec.columns("race")][:, -1].tolist() == [1] * 5
    assert run("spec", "check", "spec.toml", "--data", "people.csv").exit_code == 0


@pytest.mark.parametrize(
    ("inputs", "encodings", "said"),
    [
        (7, {"ordinal": 2, "one-hot": 1}, "the only common encoding"),
        (9, {"one-hot": 3}, "the only common encoding"),
        (5, {"ordinal": 3}, "the only common encoding"),
        (6, {"ordinal": 2, "one-hot": 1}, "without the first"),
    ],
)
def test_the_width_of_the_model_tells_the_encoding(folder, inputs, encodings, said):
    result = succeeded(init("--model", model(inputs)))
    assert said in result.output
    spec = Spec.load("spec.toml")
    found = [f.encoding for f in spec.features if f.categories]
    assert {kind: found.count(kind) for kind in set(found)} == encodings
    assert spec.width == inputs
    succeeded(run("spec", "check", "spec.toml", "--data", "people.csv", "--model", "model.onnx"))


def test_where_no_encoding_fits_the_model_it_says_so(folder):
    result = init("--model", model(30))
    assert result.exit_code == 1
    assert "does not fit model.onnx, which reads 30 columns" in result.output
    assert "7 with two categories as ordinal codes, more as one-hot" in result.output
    assert "DOES NOT FIT THE MODEL" in (folder / "spec.toml").read_text()
    assert run("spec", "check", "spec.toml", "--model", "model.onnx").exit_code == 2


@pytest.mark.parametrize("scale", ["standard", "min-max"])
def test_scales_are_taken_from_the_data(folder, scale):
    init("--scale", scale)
    X = Spec.load("spec.toml").encode(people(), np.float64)[:, 0]
    found = (X.mean(), X.std()) if scale == "standard" else (X.min(), X.max())
    np.testing.assert_allclose(found, (0, 1), atol=1e-12)


def test_json_is_one_document(folder):
    document = json.loads(init("--json", "--drop", "income").output)
    assert document["left_out"]["income"] == "dropped, as requested"
    assert document["fits"] is True
    assert Spec.from_dict(document["spec"]) == Spec.load("spec.toml")


def spoilt(**changes):
    return people().assign(**changes)


@pytest.mark.parametrize(
    ("frame", "arguments", "words"),
    [
        (people(), {"label": "aproved"}, ["label", '"aproved"', 'did you mean "approved"']),
        (people(), {"protected": "sx"}, ["protected", '"sx"', 'did you mean "sex"']),
        (people(), {"protected": " , "}, ["no protected column"]),
        (people(), {"protected": "approved"}, ["approved", "the label"]),
        (spoilt(age=np.nan), {}, ['"age"', "has no values", "--drop"]),
        (spoilt(sex="f"), {}, ['"sex" is f in every row']),
        (spoilt(approved="yes"), {}, ['"approved" is "yes" in every row']),
        (spoilt(approved=np.nan), {}, ['"approved" has no values']),
        (spoilt(approved=[f"v{i % 30}" for i in range(ROWS)]), {}, ["30 values", "--positive"]),
        (spoilt(age=["?" if i % 9 == 0 else i for i in range(ROWS)]), {}, ['"age" contains numbers', '"?"']),
        (spoilt(age=np.inf), {}, ['"age"', "not a finite number"]),
        (people().iloc[:0], {}, ["no rows"]),
    ],
)
def test_bad_input_is_said_clearly_and_nothing_is_written(folder, frame, arguments, words):
    frame.to_csv("bad.csv", index=False)
    result = init(data="bad.csv", **arguments)
    assert result.exit_code == 2
    for word in words:
        assert word in result.output
    assert "Traceback" not in result.output
    assert not (folder / "spec.toml").exists()


def test_columns_of_pandas_own_kinds(folder):
    frame = people().drop(columns=["customer_id", "name"])
    frame["sex"] = pd.Categorical(frame["sex"], categories=["f", "m", "never"])
    frame["region"] = pd.Categorical(frame.index % 3)
    frame["children"] = pd.array([None if i == 7 else i % 4 for i in range(ROWS)], dtype="Int64")
    frame["owner"] = pd.array([None if i == 9 else i % 2 == 0 for i in range(ROWS)], dtype="boolean")
    frame["since"] = pd.to_datetime("2020-01-01") + pd.to_timedelta(frame.index % 5, unit="D")
    frame["approved"] = frame["approved"].astype("category")
    frame.to_parquet("people.parquet")
    succeeded(init(data="people.parquet"))
    found = {f.name: f for f in Spec.load("spec.toml").features}
    assert found["sex"].categories == ("f", "m")
    assert found["region"].range == (0, 2)
    assert (found["children"].kind, found["children"].missing) == ("integer", 1)
    assert found["owner"].categories == ("False", "True", "(missing)")
    assert len(found["since"].categories) == 5
    assert run("spec", "check", "spec.toml", "--data", "people.parquet").exit_code == 0
    frame.assign(pictures=[[1, 2]] * ROWS).to_parquet("odd.parquet")
    result = init("--force", data="odd.parquet")
    assert result.exit_code == 2
    assert 'column "pictures" contains a ' in result.output


def test_bad_files_and_values(folder):
    (folder / "empty.csv").write_bytes(b"")
    assert "empty" in init(data="empty.csv").output
    assert "no such file" in init(data="absent.csv").output
    result = init("--positive", "yse")
    assert result.exit_code == 2
    assert 'did you mean "yes"' in result.output
    result = init("--drop", "sex")
    assert result.exit_code == 2
    assert '"sex" cannot be protected: it is dropped' in result.output
    assert init("--model", "people.csv").exit_code == 2


names = st.text(min_size=1, max_size=8).filter(lambda text: text.strip() and "\x00" not in text)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(names, min_size=3, max_size=6, unique_by=str.casefold),
    st.integers(2, 30),
    st.integers(0, 2**16),
    st.data(),
)
def test_whatever_the_data_holds_the_spec_that_is_written_encodes_it(tmp_path, columns, rows, seed, data):
    """Through Parquet, which keeps any name: names and texts with quotes, brackets, newlines and comments."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({columns[0]: ["x", "y"] * (rows // 2) + ["x"] * (rows % 2)})
    for name in columns[1:]:
        kind = data.draw(st.sampled_from(["int", "float", "text", "bool", "gaps"]))
        texts = np.array(data.draw(st.lists(names, min_size=1, max_size=4, unique_by=str.strip)), dtype=object)
        frame[name] = {
            "int": rng.integers(-5, 5, rows),
            "float": rng.normal(size=rows),
            "text": rng.choice(texts, rows),
            "bool": rng.random(rows) < 0.5,
            "gaps": np.where(np.arange(rows) == 1, np.nan, rng.normal(size=rows)),
        }[kind]
    file, out = tmp_path / "any.parquet", tmp_path / "any.toml"
    frame.to_parquet(file)
    result = run("spec", "init", file, f"--protected={columns[0]}", "--out", out, "--force")
    if result.exit_code:  # it may refuse a name or a text, but it says which
        assert result.exit_code == 2
        assert result.output.startswith("Error: ")
        assert "bug" not in result.output
        return
    spec = Spec.load(out)
    assert len(spec.encode(frame)) == rows
    assert [f.name for f in spec.features] == [name for name in columns if name in {f.name for f in spec.features}]


def test_from_data_file_to_a_checked_repair_without_the_source(folder):
    """What a stranger does: init, two edits, check, audit, repair, check."""
    from fairmend.network import Affine, Network

    net = random_network(np.random.default_rng(0), 7, [6])
    first = net.affines[0]
    Network([Affine(first.weight * np.float32(0.1), first.bias), *net.affines[1:]], net.activations).save("model.onnx")
    assert init("--model", "model.onnx", "--scale", "standard").exit_code == 0
    text = (folder / "spec.toml").read_text()
    age = next(line for line in text.splitlines() if line.startswith("range = ["))
    (folder / "spec.toml").write_text(text.replace(age, "range = [18, 99]", 1).replace('"yes"', '"no"'))
    checked = succeeded(run("spec", "check", "spec.toml", "--data", "people.csv", "--model", "model.onnx"))
    assert "All 120 rows of people.csv fit the spec." in checked.output
    assert run("audit", "model.onnx", "--data", "people.csv", "--spec", "spec.toml").exit_code in (0, 1)
    options = ("--repair-rows", 10, "--calibration-rows", 50, "--method", "blind", "--steps", 5)
    succeeded(run("repair", "model.onnx", "--data", "people.csv", "--spec", "spec.toml", "--out", "out", *options))
    assert run("check", "out/certificate.json", "out/model.onnx", "--spec", "spec.toml").exit_code == 0


def test_a_number_to_predict_gets_a_claim_about_the_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    price_people().to_csv("people.csv", index=False)
    result = succeeded(run("spec", "init", "people.csv", "--protected", "sex", "--label", "price"))
    assert "Label: price, a number to predict" in result.stdout
    assert "claim: delta is 1% of the range of price" in " ".join(result.stdout.split())
    spec = Spec.load("spec.toml")
    assert spec.regression
    assert spec.label.positive is None
    succeeded(run("spec", "init", "people.csv", "--protected", "sex", "--label", "price", "--delta", 25, "--force"))
    assert Spec.load("spec.toml").claim.limit == 25


@pytest.mark.parametrize(
    "options", [("--delta", 0), ("--delta", -1), ("--delta", "nan"), ("--on", "logit"), ("--on", "probability")]
)
def test_a_wrong_claim_is_refused_and_nothing_is_written(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    price_people().to_csv("people.csv", index=False)
    refused_in_one_line(run("spec", "init", "people.csv", "--protected", "sex", "--label", "price", *options))
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def stranger(folder, name="categories first", suffix=".onnx"):
    """Write people, a model that reads them with a common pipeline, its scores and its matrix."""
    from support.encoding_cases import column_transformers, matrix_of, network_for, scores_for, strangers

    frame = strangers()
    X = matrix_of(column_transformers()[name], frame)
    net = network_for(X)
    net.save(f"model{suffix}")
    frame.to_csv("people.csv", index=False)
    pd.DataFrame({"p": scores_for(net, X)[:, 0]}).to_csv("scores.csv", index=False)
    np.save("X.npy", X)
    return frame, X


def init_stranger(*more, suffix=".onnx"):
    files = ("--model", f"model{suffix}", "--label", "Ausfall", "--protected", "Geschlecht,Alter", "--force")
    return run("spec", "init", "people.csv", *files, *more)


def test_with_missing_values_no_encoding_is_the_only_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stranger(tmp_path)
    result = init_stranger()
    assert result.exit_code == 1
    assert "the only common encoding" not in result.output
    assert "fills in for a missing Alter is a guess too" in result.output
    last = result.output.splitlines()[-2:]
    assert last[0].startswith("The encoding is unverified. Only the model's own outputs can verify it: pass --scores")
    assert last[1] == "Several encodings fit: see above."
    document = json.loads(init_stranger("--json").stdout)
    assert (document["verified"], document["several_fit"]) == (False, True)


@pytest.mark.parametrize("suffix", [".onnx", ".keras", ".pth"])
@pytest.mark.parametrize("given", ["scores", "encoded"])
def test_the_models_own_outputs_find_and_verify_the_encoding(tmp_path, monkeypatch, suffix, given):
    monkeypatch.chdir(tmp_path)
    frame, X = stranger(tmp_path, suffix=suffix)
    option = ("--scores", "scores.csv") if given == "scores" else ("--encoded", "X.npy")
    result = succeeded(init_stranger(*option, suffix=suffix))
    assert "verified: 240 rows" in result.output.splitlines()[-1]
    next_check = next(line for line in result.output.splitlines() if "fairmend spec check" in line)
    assert next_check.endswith("--scores scores.csv") == (given == "scores")  # or it would say "unverified"
    np.testing.assert_allclose(Spec.load("spec.toml").encode(frame, np.float64), X, atol=1e-5)
    succeeded(run("spec", "check", "spec.toml", "--data", "people.csv", "--model", f"model{suffix}", *option))


def test_scores_that_nothing_reproduces_are_refused_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stranger(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame({"p": rng.random(240)}).to_csv("scores.csv", index=False)
    order = "Geschlecht,Größe,Alter,Guthaben,Stufe"
    refused_in_one_line(init_stranger("--scores", "scores.csv", "--order", order), "encodings reproduces the scores")
    assert not (tmp_path / "spec.toml").exists()
    np.save("X.npy", np.load("X.npy") ** 2)
    refused(init_stranger("--encoded", "X.npy"), "of X.npy is no column of the data")
    assert init_stranger("--encoded", "X.npy", "--scores", "scores.csv").exit_code == 2
    assert run("spec", "init", "people.csv", "--protected", "Geschlecht", "--scores", "scores.csv").exit_code == 2
    assert not (tmp_path / "spec.toml").exists()


def test_a_column_of_scores_is_kept_in_the_spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, _ = stranger(tmp_path)
    frame.assign(p=pd.read_csv("scores.csv").p).to_csv("people.csv", index=False)
    result = succeeded(init_stranger("--score-column", "p", "--json"))
    document = json.loads(result.stdout)
    assert document["verified"] is True
    assert document["scores"]["form"] == "probability"
    assert Spec.load("spec.toml").label.score == "p"
    audit = ("audit", "model.onnx", "--data", "people.csv", "--spec", "spec.toml", "--no-report")
    assert run(*audit).exit_code in (0, 1)
    frame.assign(p=1 - pd.read_csv("scores.csv").p).to_csv("people.csv", index=False)
    refused(run(*audit), "the probabilities of the other class")


def test_kinds_order_and_scales_may_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stranger(tmp_path)
    (tmp_path / "scaler.json").write_text(json.dumps({"Alter": {"mean": 40, "std": 10}}))
    order = "Stufe,Guthaben,Geschlecht,Alter"
    named = ("--categorical", "Stufe", "--integer", "Guthaben", "--order", order, "--scaler", "scaler.json")
    result = succeeded(run("spec", "init", "people.csv", "--protected", "Geschlecht", *named))
    codes, money, _, age = Spec.load("spec.toml").features
    assert codes.categories == ("1", "2", "3", "4")
    assert (money.kind, money.scale) == ("integer", None)
    assert age.scale == {"mean": 40, "std": 10}
    assert 'Left out: "Größe": not in --order' in result.output
    for wrong, words in {
        ("--categorical", "Guthaben", "--integer", "Guthaben"): "both categorical and integer",
        ("--integer", "Größe"): "holds text",
        ("--order", "Alter"): '"Geschlecht" is protected but not in --order',
        ("--order", "Alter,Geschlecht,Nichts"): 'order: there is no column "Nichts"',
        ("--score-column", "Alter"): "Name the label too",
        ("--scaler", "people.csv"): "not a scaler file",
    }.items():
        refused(run("spec", "init", "people.csv", "--protected", "Geschlecht", "--force", *wrong), words)
    (tmp_path / "scaler.json").write_text(json.dumps({"age": {"mean": 40, "std": 10}}))
    answer = run("spec", "init", "people.csv", "--protected", "Geschlecht", "--force", "--scaler", "scaler.json")
    assert 'scales "age", which is not a column of the data' in answer.stderr


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
    result = succeeded(from_sklearn("pipeline.skops", "--label", "approved", "--model", model(5)))
    spec = Spec.load("spec.toml")
    np.testing.assert_array_equal(spec.encode(people()), transformer.transform(people()).astype(np.float32))
    assert spec.label.positive == "yes"
    assert "fairmend repair model.onnx" in result.output
    assert run("spec", "check", "spec.toml", "--data", "people.csv", "--model", "model.onnx").exit_code == 0


def test_a_pipeline_that_a_spec_cannot_describe_is_run_as_a_whole(folder):
    """One-hot columns of a protected feature behind a scaler: the way out that is named leads to a verified spec."""
    from skops import io

    frame, read = people(), ["age", "sex", "race"]
    encode = ColumnTransformer(
        [("texts", OneHotEncoder(sparse_output=False), ["sex", "race"])], remainder="passthrough"
    )
    net = MLPClassifier((4,), max_iter=500, solver="lbfgs", alpha=1, random_state=0)
    pipeline = make_pipeline(encode, StandardScaler(), net).fit(frame[read], frame["approved"])
    io.dump(pipeline, "pipeline.skops")
    np.save("scores.npy", pipeline.predict_proba(frame[read])[:, 1])
    given = ("--label", "approved", "--protected", "sex,race")
    refused = run("spec", "from-sklearn", "pipeline.skops", "--data", "people.csv", "--data-out", "out.csv", *given)
    assert refused.exit_code == 2
    assert "fairmend spec init DATA --model pipeline.skops" in " ".join(refused.output.split())
    whole = ("spec", "init", "people.csv", "--model", "pipeline.skops", "--scores", "scores.npy", *given)
    assert "Encoding verified" in succeeded(run(*whole)).output
    spec = Spec.load("spec.toml")
    assert [feature.name for feature in spec.features] == read
    assert all(feature.encoding == "ordinal" for feature in spec.features if feature.categories)


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
    result = succeeded(
        from_sklearn("pipeline.skops", "--model", "model.onnx", "--scores", "scores.npy", "--label", "approved")
    )
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


def test_names_are_separated_by_commas_and_stripped():
    assert split_names("sex, race,,age ") == ["sex", "race", "age"]
    assert split_names("") == []


def test_a_name_with_a_comma_is_in_double_quotes():
    assert split_names('sex, "job, branch",age') == ["sex", "job, branch", "age"]
    with pytest.raises(FairmendError, match=r"""Put a name with a comma in double quotes: '"job, branch"'"""):
        require_columns(split_names("job, branch"), ["sex", "job, branch"], "protected")


@pytest.mark.parametrize(
    ("text", "names"),
    [('"a ""b"", c"', ['a "b", c']), ('"', ['"']), ('"a"b,c', ['"a"b', "c"]), ("\r0,a\nb", ["0", "a\nb"])],
    ids=repr,
)
def test_names_may_hold_quotes_and_line_breaks(text, names):
    assert split_names(text) == names


def test_the_next_commands_can_be_copied_whatever_the_files_are_called(folder):
    data = folder / "our people.csv"
    data.write_bytes((folder / "people.csv").read_bytes())
    result = run("spec", "init", data.name, "--protected", "sex", "--label", "approved", "--json")
    document = json.loads(result.stdout)
    assert all("--data 'our people.csv'" in step for step in document["next"])
    assert not any("--scores" in step for step in document["next"])
    assert document["warnings"] == []


def test_a_network_that_ranks_against_the_label_is_reported_with_the_draft(folder):
    """As those of scikit-learn do, if the word for yes comes first in the alphabet."""
    frame = people().assign(approved=lambda table: np.where(table["income"] > table["income"].median(), "yes", "no"))
    frame.to_csv("people.csv", index=False)
    layer = torch.nn.Linear(7, 1)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 1] = -1  # of the income
    load_network(torch.nn.Sequential(layer)).save("model.onnx")
    typed = ("spec", "init", "people.csv", "--protected", "sex", "--label", "approved", "--model", "model.onnx")
    result = succeeded(run(*typed))
    assert "ranks people against their labels (AUC 0.000)" in result.output
    assert "positive value" in json.loads(run(*typed, "--force", "--json").stdout)["warnings"][-1]


def test_an_existing_file_is_replaced_only_with_force_and_an_input_never(tmp_path):
    out = tmp_path / "spec.toml"
    refuse_overwriting(out, False, [None])
    out.write_text("precious")
    with pytest.raises(FairmendError, match=r"already exists.*--force"):
        refuse_overwriting(out, False, [None])
    refuse_overwriting(out, True, [tmp_path / "data.csv"])
    with pytest.raises(FairmendError, match="one of the inputs"):
        refuse_overwriting(out, True, [tmp_path / "a" / ".." / "spec.toml"])
