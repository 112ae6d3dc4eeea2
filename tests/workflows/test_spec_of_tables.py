"""`spec init` with networks that look up tables or name their inputs: what it writes fits them, or it says why not."""

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from fairmend.network import Affine, Network
from fairmend.network.graph import Node
from fairmend.network.operations import Columns, Concatenate, Input, Lookup
from fairmend.prove.fit import require_fit
from fairmend.spec import Spec
from fairmend.workflows import check_spec_file, draft_pipeline_spec, draft_spec_file
from support.spec_cases import refused

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"age": RNG.integers(20, 70, 60), "sex": RNG.choice(["f", "m"], 60)})


def network(rows, names=()):
    table = Lookup(RNG.normal(size=(rows, 2)).astype(np.float32))
    last = Affine(RNG.normal(size=(1, 3)).astype(np.float32), np.zeros(1, np.float32))
    nodes = [
        Node(Input(2, names), (), "x"), Node(Columns((0,)), (0,), "a"), Node(table, (1,), "t"),
        Node(Columns((1,)), (0,), "b"), Node(Concatenate(), (2, 3), "both"), Node(last, (4,), "last"),
    ]  # fmt: skip
    return Network.from_nodes(nodes)


def drafted(tmp_path, net, **options):
    PEOPLE.to_csv(tmp_path / "p.csv", index=False)
    return draft_spec_file(tmp_path / "p.csv", ["sex"], tmp_path / "spec.toml", model=net, **options)


def test_the_names_of_inputs_say_the_order(tmp_path):
    found = drafted(tmp_path, network(2, (("sex", 1), ("age", 1))))
    assert [f.name for f in found.draft.spec.features] == ["sex", "age"]
    assert found.fits


def test_a_matrix_says_which_rows_of_a_table_are_used(tmp_path):
    codes = PEOPLE["sex"].astype("category").cat.codes.to_numpy()
    for start in (0, 1):
        np.save(tmp_path / "X.npy", np.column_stack([codes + start, PEOPLE["age"]]))
        net = network(3)
        found = drafted(tmp_path, net, encoded=tmp_path / "X.npy", force=True)
        require_fit(net, Spec.load(tmp_path / "spec.toml"))
        assert found.fits
        assert found.match.verified


def test_a_plain_draft_says_that_rows_and_categories_differ(tmp_path):
    found = drafted(tmp_path, network(3), order=["sex", "age"])
    assert not found.fits
    assert "table of 3 rows" in found.misfit


def test_a_pipeline_that_a_spec_cannot_describe_is_passed_on_in_a_new_table(tmp_path):
    PEOPLE.to_csv(tmp_path / "p.csv", index=False)
    logarithm = FunctionTransformer(np.log, feature_names_out="one-to-one")
    pipeline = ColumnTransformer([("log", logarithm, ["age"]), ("sex", OneHotEncoder(), ["sex"])]).fit(PEOPLE)
    joblib.dump(pipeline, tmp_path / "p.joblib")
    files = {"data": tmp_path / "p.csv", "out": tmp_path / "spec.toml", "trust_pickle": True}
    with refused("FunctionTransformer", "--data-out"):
        draft_pipeline_spec(tmp_path / "p.joblib", ["sex"], **files)
    assert not (tmp_path / "spec.toml").exists()
    made = draft_pipeline_spec(tmp_path / "p.joblib", ["sex"], **files, data_out=tmp_path / "new.csv")
    assert dict(made.draft.left_out)["age"] == "read in log__age, as it is"
    assert "MODEL" in made.next_steps[1]  # these are no steps of a model
    with refused('no column "log__age", which the model reads as it is', "the one that --data-out wrote"):
        Spec.load(tmp_path / "spec.toml").encode(PEOPLE)
    spec, new = Spec.load(tmp_path / "spec.toml"), pd.read_csv(tmp_path / "new.csv")
    assert [f.kind for f in spec.features] == ["as-is", "categorical"]
    np.testing.assert_allclose(spec.encode(new, np.float64), pipeline.transform(PEOPLE))


def test_a_pipeline_with_its_model_is_the_model_of_the_next_commands(tmp_path):
    data, file = tmp_path / "p.csv", tmp_path / "p.joblib"
    PEOPLE.assign(y=np.where(PEOPLE["age"] > PEOPLE["age"].median(), "yes", "no")).to_csv(data, index=False)
    frame = pd.read_csv(data)
    steps = ColumnTransformer([("age", StandardScaler(), ["age"]), ("sex", OneHotEncoder(), ["sex"])])
    model = make_pipeline(steps, MLPClassifier((4,), max_iter=20, solver="lbfgs", random_state=0))
    joblib.dump(model.fit(frame[["age", "sex"]], frame["y"]), file)
    with refused(str(file), f"fairmend spec from-sklearn {file} --trust-pickle --data {data} --protected sex"):
        draft_spec_file(data, ["sex"], tmp_path / "spec.toml", model=file)
    options = {"data": data, "label": "y", "positive": "yes", "trust_pickle": True}
    made = draft_pipeline_spec(file, ["sex"], tmp_path / "spec.toml", **options)
    assert all(f"{file} --trust-pickle" in step for step in made.next_steps)
    with refused("can run any code"):
        check_spec_file(tmp_path / "spec.toml", data, file)
    checked = check_spec_file(tmp_path / "spec.toml", data, file, trust_pickle=True)
    assert checked.check.fits
    assert checked.check.inputs == 3


def test_a_pipeline_that_is_run_as_a_whole_gets_a_spec_of_the_columns_of_the_data(tmp_path):
    data, file = tmp_path / "p.csv", tmp_path / "p.joblib"
    frame = PEOPLE.assign(y=np.where(PEOPLE["age"] > PEOPLE["age"].median(), "yes", "no"))
    frame.to_csv(data, index=False)
    frame = pd.read_csv(data)
    steps = ColumnTransformer([("age", StandardScaler(), ["age"]), ("sex", OneHotEncoder(), ["sex"])])
    joblib.dump(make_pipeline(steps, RandomForestClassifier(3)).fit(frame[["age", "sex"]], frame["y"]), file)
    options = {"label": "y", "trust_pickle": True}
    with refused("run as a whole", "--data"):
        draft_pipeline_spec(file, ["sex"], tmp_path / "spec.toml", **options)
    made = draft_pipeline_spec(file, ["sex"], tmp_path / "spec.toml", data=data, **options)
    assert made.fits
    assert [(f.name, f.encoding, f.scale) for f in made.draft.spec.features] == [
        ("age", "ordinal", None), ("sex", "ordinal", None),
    ]  # fmt: skip
    assert check_spec_file(tmp_path / "spec.toml", data, file, trust_pickle=True).check.fits
