"""`fairmend spec check`: explains a spec, and lists what does not fit."""

import json

import numpy as np
import pandas as pd

from fairmend.spec import Spec
from fairmend.spec.toml import parse_toml, toml_bytes
from support.cli_case import Case, run, succeeded


def test_check_explains_a_spec_in_sentences(tmp_path):
    case = Case(tmp_path)
    result = succeeded(run("spec", "check", case.spec, "--data", case.data, "--model", case.model))
    assert "Two people are similar if they differ only in age or gender." in result.output
    assert "Each neighbourhood has 116 people." in result.output
    assert "All 200 rows of people.csv fit the spec." in result.output
    assert "model.onnx reads 5 columns, as the spec describes." in result.output


def edited(case, name, **changes):
    plain = parse_toml(case.spec.read_text())
    next(table for table in plain["feature"] if table["name"] == name).update(changes)
    case.spec.write_bytes(toml_bytes(plain))


def test_neighbourhoods_that_differ_are_counted_over_the_data(tmp_path):
    case = Case(tmp_path)
    edited(case, "credits", tolerance=1)
    document = json.loads(run("spec", "check", case.spec, "--data", case.data, "--json").output)
    assert document["neighbourhood"] == {
        "finite": True,
        "words": "Each neighbourhood has up to 348 people, fewer near the ends of a range.",
        "least": 232,
        "median": 348,
        "most": 348,
    }
    edited(case, "income", tolerance=0.5)
    document = json.loads(run("spec", "check", case.spec, "--data", case.data, "--json").output)
    assert document["neighbourhood"]["finite"] is False
    assert document["neighbourhood"]["words"].startswith("Neighbourhoods are infinite: income can be any number")
    assert document["similar"].endswith("differ only in age, gender, income (by up to 0.5) or credits (by up to 1).")


def test_data_that_does_not_fit_is_listed_with_rows(tmp_path):
    case = Case(tmp_path)
    frame = pd.read_csv(case.data).astype({"income": object, "credits": object})
    frame.loc[[3, 8], "age"] = 99
    frame.loc[4, "gender"] = "x"
    frame.loc[5, "income"] = "lots"
    frame.loc[6, "income"] = None
    frame.loc[7, "credits"] = 1.5
    frame.loc[9, "good"] = None
    case.write(frame)
    result = run("spec", "check", case.spec, "--data", case.data)
    assert result.exit_code == 2
    for words in (
        '"age": 2 rows (5, 10), the first: 99 is above the range 18 to 75',
        '"gender": 1 row (6), the first: "x" is not one of its categories',
        '"income": 1 row (8), the first: the value is missing',
        '"income": 1 row (7), the first: "lots" is not a number',
        '"credits": 1 row (9), the first: 1.5 is not a whole number',
        '"good": 1 row (11), the first: the label is missing',
    ):
        assert words in result.output
    document = json.loads(run("spec", "check", case.spec, "--data", case.data, "--json").output)
    assert document["data"]["fits"] is False
    assert document["data"]["problems"][0] == {
        "column": "age",
        "rows": 2,
        "first_rows": [5, 10],
        "problem": "99 is above the range 18 to 75. Correct the value, widen `range` in the spec, or pass "
        "--out-of-range clip, skip or widen (in Python: spec.bring_into_range).",
    }


def test_missing_columns_and_labels(tmp_path):
    case = Case(tmp_path)
    frame = pd.read_csv(case.data)
    case.write(frame.drop(columns=["gender"]).assign(good="no"))
    result = run("spec", "check", case.spec, "--data", case.data)
    assert result.exit_code == 2
    assert 'no column "gender"' in result.output
    assert 'the label is never "yes"' in result.output
    case.write(frame.drop(columns=["good"]))
    assert 'no column "good"' in run("spec", "check", case.spec, "--data", case.data).output


def test_a_model_of_another_width_is_explained(tmp_path):
    case = Case(tmp_path)
    edited(case, "gender", encoding="ordinal")
    result = run("spec", "check", case.spec, "--model", case.model)
    assert result.exit_code == 2
    assert 'It would fit with "gender" in 2 columns instead of 1.' in result.output.replace("\n", " ")
    case.spec.write_text("[[feature]]\nname = 'x'\nkind = 'numbr'")
    result = run("spec", "check", case.spec)
    assert result.exit_code == 2
    assert "kind must be one of" in result.output


def test_check_says_what_links_do(tmp_path):
    case = Case(tmp_path)
    with case.spec.open("a") as file:
        file.write('\n[[link]]\nwhen = {gender = "f", age = [18, 20]}\nthen = {credits = {offset = [-2, -1]}}\n')
    result = succeeded(run("spec", "check", case.spec, "--data", case.data))
    assert "With age 18 to 20 and gender f: credits 1 to 2 less." in result.output
    assert "or credits (as a link says)" in " ".join(result.output.split())
    document = json.loads(run("spec", "check", case.spec, "--json").output)
    assert document["links"] == ["With age 18 to 20 and gender f: credits 1 to 2 less."]
    assert document["features"][-1]["similar_people"] == "the same value, or what a link says"


def with_scores(case, spec=None, **changes):
    """Write the scores that the model gave for people with these changes, and the matrix that it read."""
    from fairmend.network import load_network

    net, people = load_network(case.model), pd.read_csv(case.data)
    X = (spec or Spec.load(case.spec)).encode(people.assign(**changes))
    scores, matrix = case.folder / "scores.csv", case.folder / "X.npy"
    pd.DataFrame({"p": net.probabilities(X)}).to_csv(scores, index=False)
    np.save(matrix, X)
    return scores, matrix


def test_scores_and_the_encoded_matrix_verify_a_spec(tmp_path):
    case = Case(tmp_path)
    scores, matrix = with_scores(case)
    files = ("--data", case.data, "--model", case.model)
    assert "The encoding is unverified." in run("spec", "check", case.spec, *files).output.splitlines()[-1]
    result = succeeded(run("spec", "check", case.spec, *files, "--scores", scores, "--encoded", matrix))
    assert "verified: 200 rows, largest difference" in result.output
    assert "verified: 200 rows of 5 columns" in result.output
    document = json.loads(run("spec", "check", case.spec, *files, "--scores", scores, "--json").output)
    assert document["verified"] is True
    assert document["scores"]["form"] == "probability"
    assert run("spec", "check", case.spec, "--data", case.data, "--scores", scores).exit_code == 2


def test_two_exchanged_columns_are_caught_although_the_accuracy_is_plausible(tmp_path):
    """The spec reads income and credits in the wrong order; width, ranges and warnings show nothing."""
    case = Case(tmp_path)
    right = Spec.load(case.spec)
    scores, matrix = with_scores(case)
    age, gender, income, loans = right.features
    Spec([age, gender, loans, income], right.label).save(case.spec)
    files = ("--data", case.data, "--model", case.model)
    unnoticed = succeeded(run("spec", "check", case.spec, *files))
    assert "All 200 rows of people.csv fit the spec." in unnoticed.output
    caught = run("spec", "check", case.spec, *files, "--scores", scores)
    assert caught.exit_code == 2
    assert "not verified: " in caught.output
    assert "rows differ from the model's own scores" in caught.output
    assert 'It would be verified with "credits" and "income" exchanged.' in caught.output
    caught = run("spec", "check", case.spec, "--data", case.data, "--encoded", matrix)
    assert caught.exit_code == 2
    assert "2 of 5 columns differ" in caught.output
    assert "column 3 (credits)" in caught.output
    document = json.loads(run("spec", "check", case.spec, "--data", case.data, "--encoded", matrix, "--json").output)
    assert [found["name"] for found in document["encoded"]["differing_columns"]] == ["credits", "income"]


def test_rows_are_counted_as_in_the_file(tmp_path):
    case = Case(tmp_path)
    scores, matrix = with_scores(case)
    wrong = pd.read_csv(scores)
    wrong.loc[7, "p"] += 0.1
    wrong.to_csv(scores, index=False)
    X = np.load(matrix)
    X[7, 3] += 1
    np.save(matrix, X)
    files = ("--data", case.data, "--model", case.model, "--scores", scores, "--encoded", matrix)
    output = run("spec", "check", case.spec, *files).output
    assert "1 of 200 rows differ from the model's own scores, most in row 9" in output
    assert "column 3 (income): 1 row, most in row 9" in output
