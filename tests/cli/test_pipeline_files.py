"""A command takes a fitted pipeline of scikit-learn as MODEL, and the repaired network goes back into the pipeline."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import fairmend
from fairmend.base.text import as_text
from fairmend.spec import Feature, Label, Spec
from fairmend.spec.draft.steps import is_missing
from support.cli_case import refused, run, small_people, succeeded

skops_io = pytest.importorskip("skops.io")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with pipeline.skops, pipeline.joblib, people.csv and the spec of the pipeline."""
    folder, people = tmp_path_factory.mktemp("pipeline"), small_people()
    columns = make_column_transformer(
        (MinMaxScaler(), ["age", "income", "credits"]), (OneHotEncoder(sparse_output=False), ["gender"])
    )
    model = make_pipeline(columns, MLPClassifier((6,), solver="lbfgs", max_iter=2000, random_state=0))
    model.fit(people.drop(columns=["good", "remark"]), people["good"])
    skops_io.dump(model, folder / "pipeline.skops")
    joblib.dump(model, folder / "pipeline.joblib")
    people.to_csv(folder / "people.csv", index=False)
    done = run(
        "spec", "from-sklearn", folder / "pipeline.skops", "--data", folder / "people.csv", "--protected", "age,gender",
        "--label", "good", "--positive", "yes", "--out", folder / "spec.toml",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def call(folder, command, model, *more):
    return run(command, folder / model, "--spec", folder / "spec.toml", "--data", folder / "people.csv", *more)


def test_an_audit_counts_what_the_pipeline_predicts(folder):
    done = call(folder, "audit", "pipeline.skops", "--json", "--no-report")
    document = json.loads(done.stdout)
    people = small_people()
    model = joblib.load(folder / "pipeline.joblib")
    rows = people[list(model.feature_names_in_)]
    own, unequal = model.predict(rows), np.zeros(len(rows), dtype=bool)
    for age in range(int(rows["age"].min()), int(rows["age"].max()) + 1):
        for gender in ("f", "m"):
            unequal |= model.predict(rows.assign(age=age, gender=gender)) != own
    assert document["count"] == unequal.sum()


def test_a_pickle_is_opened_only_if_it_is_trusted(folder):
    refused(call(folder, "audit", "pipeline.joblib", "--no-report"), "--trust-pickle")
    trusted = call(folder, "audit", "pipeline.joblib", "--no-report", "--json", "--trust-pickle")
    plain = call(folder, "audit", "pipeline.skops", "--no-report", "--json")
    assert json.loads(trusted.stdout)["count"] == json.loads(plain.stdout)["count"]


def test_the_repaired_network_is_in_the_pipeline_and_in_a_file_with_a_certificate(folder):
    out = folder / "repaired"
    succeeded(call(folder, "repair", "pipeline.skops", "--out", out, "--method", "blind", "--repair-rows", "20"))
    assert run("check", out / "certificate.json", out / "model.onnx").exit_code == 0
    file = out / "pipeline.skops"
    repaired = skops_io.load(file, trusted=skops_io.get_untrusted_types(file=file))
    people = small_people()[list(repaired.feature_names_in_)]
    network, spec = fairmend.load_network(out / "model.onnx"), fairmend.Spec.load(out / "spec.toml")
    expected = network.probabilities(spec.encode(people, network.dtype)).ravel()
    assert np.allclose(repaired.predict_proba(people)[:, 1], expected, atol=1e-5)
    other = repaired.predict(people.assign(gender="f", age=30))
    assert (repaired.predict(people.assign(gender="m", age=60)) == other).all()


def test_a_certificate_of_a_pipeline_file_is_refused_before_the_work(folder):
    refused(
        call(folder, "certify", "pipeline.skops", "--certificate", folder / "c.json"), "save the network as ONNX first"
    )
    assert not (folder / "c.json").exists()


def test_a_damaged_file_is_refused(folder):
    (folder / "bad.skops").write_bytes(b"PK\x03\x04 nothing")
    refused(call(folder, "audit", "bad.skops"), "not a readable .skops file")


def test_the_function_that_puts_it_back_is_public():
    import fairmend.sklearn

    assert "to_estimator" in fairmend.sklearn.__all__


def pipeline_without_encoders(folder, values, encoder):
    """Write data, spec and a pipeline of which nothing shows that it knows these values of gender."""
    people = small_people()[["gender", "age", "good"]]
    people["gender"] = people["gender"].map(dict(zip("fm", values, strict=True)))
    people.to_csv(folder / "people.csv", index=False)
    people = pd.read_csv(folder / "people.csv")
    encoded = make_column_transformer((encoder, ["gender"]), remainder="passthrough")
    copies = FunctionTransformer(pd.DataFrame.copy, feature_names_out="one-to-one")  # behind it nothing is looked at
    model = make_pipeline(copies, encoded, DecisionTreeClassifier(random_state=0))
    joblib.dump(model.fit(people[["gender", "age"]], people["good"]), folder / "pipeline.joblib")
    texts = ["(missing)" if is_missing(value) else as_text(value) for value in people["gender"].unique()]
    missing = {"missing": "(missing)"} if None in values else {}
    Spec(
        [
            Feature("gender", "categorical", categories=texts, encoding="ordinal", protected=True, **missing),
            Feature("age", "integer", range=(0, 120)),
        ],
        Label("good", "yes"),
    ).save(folder / "spec.toml")
    return model, people[["gender", "age"]]


@pytest.mark.parametrize("values", [("f ", "m "), (1.0, 2.0), ("f", None), (True, None), ("01", "02")])
@pytest.mark.parametrize("takes_text", [False, True])
def test_a_pipeline_gets_the_values_that_stand_in_the_file(values, takes_text, tmp_path):
    encoder = OneHotEncoder(handle_unknown="ignore")
    if takes_text:  # "1.0" and "1", or "nan" and "(missing)", are different texts
        encoder = make_pipeline(FunctionTransformer(texts_of, feature_names_out="one-to-one"), encoder)
    model, rows = pipeline_without_encoders(tmp_path, values, encoder)
    done = call(tmp_path, "audit", "pipeline.joblib", "--trust-pickle", "--json", "--no-report")
    read = rows.gender.unique()
    both = [rows.assign(gender=pd.Series([value] * len(rows)).astype(rows.gender.dtype)) for value in read]
    unequal = model.predict(both[0]) != model.predict(both[1])
    assert json.loads(done.stdout)["count"] == unequal.sum() > 0


@pytest.mark.parametrize("command", ["init", "from-sklearn"])
def test_the_draft_for_a_pipeline_that_is_run_has_what_its_steps_know(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = small_people()[["gender", "age", "good"]].assign(zone=[3, 7, 12, 7] * (len(small_people()) // 4))
    people.loc[::5, "age"] = np.nan
    people.to_csv("people.csv", index=False)
    steps = [(OneHotEncoder(), ["gender", "zone"]), (SimpleImputer(strategy="constant", fill_value=33.5), ["age"])]
    model = make_pipeline(make_column_transformer(*steps), DecisionTreeClassifier(random_state=0))
    joblib.dump(model.fit(people.drop(columns="good"), people["good"]), "pipeline.joblib")
    both = (
        ("people.csv", "--model", "pipeline.joblib")
        if command == "init"
        else ("pipeline.joblib", "--data", "people.csv")
    )
    succeeded(run("spec", command, *both, "--trust-pickle", "--protected", "gender", "--label", "good"))
    spec = Spec.load("spec.toml")
    assert spec.feature("zone").categories == ("3", "7", "12")
    assert spec.feature("age").missing == 33.5
    rows = people[["gender", "age", "zone"]]
    unequal = model.predict(rows.assign(gender="f")) != model.predict(rows.assign(gender="m"))
    done = call(tmp_path, "audit", "pipeline.joblib", "--trust-pickle", "--json", "--no-report")
    assert json.loads(done.stdout)["count"] == unequal.sum() > 0


def test_a_forest_in_a_skops_file_says_how_to_save_it(folder, tmp_path):
    people = small_people()[["age", "income"]]
    skops_io.dump(DecisionTreeClassifier().fit(people, small_people()["good"]), tmp_path / "pipeline.skops")
    done = run("audit", tmp_path / "pipeline.skops", "--spec", folder / "spec.toml", "--data", folder / "people.csv")
    refused(done, "skops does not take sklearn.tree._tree.Tree", "--trust-pickle")


def texts_of(people):
    return people.astype(object).map(str)


@pytest.mark.parametrize("command", ["audit", "certify", "search"])
def test_values_that_the_pipeline_may_have_read_in_two_ways_are_refused(command, tmp_path):
    pipeline_without_encoders(tmp_path, (" f", " m"), OneHotEncoder(handle_unknown="ignore"))
    done = call(tmp_path, command, "pipeline.joblib", "--trust-pickle", *(["--method", "grft"] * (command == "search")))
    refused(done, "have one text", "without spaces after separators")
