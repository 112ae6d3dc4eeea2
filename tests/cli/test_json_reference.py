"""docs/reference/json.md lists the keys that the commands print, and those of the schema, all of them and no others.

A new command: add its section to the page, and a line to RUNS that prints its document.
"""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import fairmend.paper.run as bench
from fairmend.cli.config import commands_of
from fairmend.cli.demo import run_demo
from fairmend.cli.main import main
from fairmend.paper.run import Results
from fairmend.paper.tables import Entry, Table
from fairmend.report.schema import document_schema
from support.cli_case import Case, run, small_network, small_people, small_spec
from support.json_paths import documented, fits, paths, schema_paths
from support.price_case import PriceCase
from support.strategies import random_network

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
DOCUMENTED = documented(PAGE)
SCHEMA = document_schema()
KINDS = {
    "audit": "AuditDocument",
    "repair": "RepairDocument",
    "demo": "RepairDocument",
    "quantify": "QuantifyDocument",
    "certify": "CertifyDocument",
    "search": "SearchDocument",
    "check": "CheckDocument",
}


def printed(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code in (0, 1), result.stderr
    return json.loads(result.stdout)


def checked(case, _):
    case.repair()
    return printed("check", case.out / "certificate.json", case.out / "model.onnx")


def benched(case, patch):
    table = Table("table1", "A title", ("setting", "CUR"), {"adult-age": [Entry(1.0, 2.0)]})
    patch.setattr(bench, "run", lambda *_, **__: Results([table], []))
    case.out.mkdir()
    return printed("bench", "table1", "--out", case.out)


def demoed(case, patch):
    shown = []
    patch.setattr("fairmend.cli.console.show_json", shown.append)
    run_demo(case.out, json_output=True, rows=1000, epochs=8, repair_rows=20, calibration_rows=80)
    from fairmend.base.files import to_json

    return json.loads(to_json(shown[0]))


def on_files(*command):
    def document(case, _):
        name, *more = command
        more = [case.folder / word if word == "certificate.json" else word for word in more]
        return printed(name, case.model, "--spec", case.spec, "--data", case.data, *more)

    return document


def reported(case, _):
    case.repair()
    return printed("report", case.out)


def drafted(case, _):
    """Return the keys of a draft, and of those that scores and a matrix verify."""
    init = ("spec", "init", case.data, "--protected", "age", "--label", "good", "--drop", "remark", "--force")
    files = given_files(case)
    scores = printed(*init, "--model", case.model, "--scores", files[0])
    return {**printed(*init), "scores": scores["scores"], "encoded": printed(*init, "--encoded", files[1])["encoded"]}


def given_files(case):
    """Write the scores that the model gives for the people, and the matrix that it reads."""
    X = small_spec().encode(small_people())
    np.save(case.folder / "X.npy", X)
    np.save(case.folder / "scores.npy", small_network().probabilities(X))
    return case.folder / "scores.npy", case.folder / "X.npy"


def drafted_from_sklearn(case, _):
    io = pytest.importorskip("skops.io")
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    people = small_people().drop(columns=["good", "remark"])
    encode = ColumnTransformer([("gender", OneHotEncoder(), ["gender"])], remainder="passthrough").fit(people)
    io.dump(encode, "pipeline.skops")
    network = random_network(np.random.default_rng(0), encode.transform(people).shape[1], [4])
    network.save("model.onnx")
    np.save("scores.npy", network.probabilities(encode.transform(people)))
    given = ("--data", case.data, "--model", "model.onnx", "--scores", "scores.npy")
    return printed("spec", "from-sklearn", "pipeline.skops", *given, "--protected", "gender", "--force")


def spec_checked(case, _):
    case.write(small_people().assign(age=150))
    with case.spec.open("a") as file:
        file.write('\n[[link]]\nwhen = {gender = "f"}\nthen = {credits = {offset = 1}}\n')
    result = run("spec", "check", case.spec, "--data", case.data, "--model", case.model, "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    case.write(small_people())
    scores, matrix = given_files(case)
    files = ("--data", case.data, "--model", case.model, "--scores", scores)
    np.save(matrix, np.load(matrix) + 1)
    verified = json.loads(run("spec", "check", case.spec, *files, "--encoded", matrix, "--json").stdout)
    return {**document, **{key: verified[key] for key in ("neighbourhood", "scores", "encoded")}}


def audited(case, _):
    """Return the keys of an audit of classes and of one of scores."""
    document = on_files("audit")(case, None)
    price = PriceCase(case.folder)
    scores = printed("audit", price.model, "--spec", price.spec, "--data", price.data, "--no-report")
    return {**document, "scores": scores["scores"], "claim": scores["claim"]}


def doctored(_, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return printed("doctor")


RUNS = {
    "report": reported,
    "spec init": drafted,
    "spec from-sklearn": drafted_from_sklearn,
    "spec check": spec_checked,
    "repair": lambda case, _: json.loads(case.repair("--json", method="auto").stdout),
    "demo": demoed,
    "certify": on_files("certify", "--certificate", "certificate.json"),
    "audit": audited,
    "search": on_files("search", "--seeds", 20, "--local-steps", 5),
    "quantify": on_files("quantify", "--share", 0.3, "--certificate", "certificate.json"),
    "check": checked,
    "export-vnnlib": on_files("export-vnnlib", "--out", "vnnlib", "--rows", 2),
    "bench": benched,
    "doctor": doctored,
}


@pytest.mark.runs_models
@pytest.mark.parametrize("command", RUNS)
def test_the_documented_keys_are_the_real_ones(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    document = RUNS[command](Case(tmp_path), monkeypatch)
    real = set(paths(document))
    if command in KINDS:
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
    patterns = DOCUMENTED[command]
    assert [path for path in real if not any(fits(p, path) for p in patterns)] == []
    if command in KINDS:
        return  # below, the page is compared with the schema
    # What depends on the machine, or on the data, is not in every document.
    absent = [p for p in patterns if not any(fits(p, path) for path in real)]
    assert [p for p in absent if p[0] not in ("extras_missing", "left_out")] == []


@pytest.mark.parametrize("command", KINDS)
def test_the_documented_keys_are_those_of_the_schema(command):
    real, patterns = set(schema_paths(SCHEMA, SCHEMA["$defs"][KINDS[command]])), DOCUMENTED[command]
    assert [path for path in real if not any(fits(p, path) for p in patterns)] == []
    assert [p for p in patterns if not any(fits(p, path) for path in real)] == []


def test_every_command_that_prints_json_is_documented():
    with_json = {
        " ".join(path) for path, command in commands_of(main) if any("--json" in p.opts for p in command.params)
    }
    assert with_json <= set(DOCUMENTED)
    assert with_json <= set(RUNS)


def test_every_command_has_json_but_the_one_that_prints_a_script():
    without = {
        " ".join(path) for path, command in commands_of(main) if not any("--json" in p.opts for p in command.params)
    }
    assert without == {"completion"}
