"""`fairmend certify`: counts, witnesses in words, and an exit code that scripts can rely on."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

import fairmend
from fairmend.auditing.neighbours import find_unequal
from fairmend.network import Activation, Affine, Network
from fairmend.prove.result import CertifyResult, Verdict, Witness
from fairmend.spec import Feature, Spec
from fairmend.tables import FIRST_ROW
from fairmend.workers.kept_results import dump, load
from support.cli_case import make_fair, refused, run, small_network, small_people, small_spec, succeeded
from support.price_case import PriceCase


def certify(case, *more):
    return run("certify", case.model, "--data", case.data, "--spec", case.spec, *more)


def test_unfair_people_are_counted_shown_in_words_and_exit_1(case):
    result = certify(case)
    assert result.exit_code == 1, result.stderr
    unequal = find_unequal(small_network(), small_spec(), small_people())
    assert 5 < unequal.count < 200
    words = " ".join(result.stdout.split())
    assert f"UNFAIR {unequal.count}" in words
    assert f"FAIR {200 - unequal.count}" in words
    assert f"Treated unequally (5 of {unequal.count}):" in words
    assert f"row {np.flatnonzero(unequal.rows)[0] + FIRST_ROW}: the same person, " in words
    assert "instead of" in words


def test_help_says_what_the_exit_codes_mean():
    shown = " ".join(run("certify", "--help").stdout.split())
    assert "Exits with 0 if all are FAIR, 1 if any is UNFAIR, else 2" in shown


def test_all_fair_exits_0(case):
    make_fair(case)
    result = succeeded(certify(case))
    assert "FAIR 200 100 %" in " ".join(result.stdout.split())
    assert "Treated unequally" not in result.stdout


def test_undecided_exits_2_and_says_why(case):
    # A logit of exactly 0 everywhere is positive everywhere, but no bound that was rounded can say so.
    spec = Spec([Feature("age", "continuous", range=(18, 75), protected=True), *small_spec().features[1:]])
    spec.save(case.spec)
    net = Network([Affine(np.zeros((1, spec.width), np.float32), np.zeros(1, np.float32))], [])
    net.save(case.model)
    result = certify(case, "--rows", 3)
    assert result.exit_code == 2
    assert "UNKNOWN for 3: no witness was found, but the margin is within rounding" in " ".join(result.stdout.split())


@pytest.mark.parametrize("engine", ["auto", "enumerate", "branch", "milp"])
def test_json_is_one_document_and_true_with_every_engine(case, engine):
    result = certify(case, "--rows", 20, "--engine", engine, "--json")
    assert result.exit_code == 1, result.stderr
    document = json.loads(result.stdout)
    rows = np.array(document["rows"]) - FIRST_ROW
    unequal = find_unequal(small_network(), small_spec(), small_people().iloc[rows])
    assert document["verdicts"] == ["unfair" if row else "fair" for row in unequal.rows]
    assert document["counts"] == {"fair": 20 - unequal.count, "unfair": unequal.count, "unknown": 0}
    assert document["unfair_rate"] == unequal.rate
    assert document["engine"] == ("enumerate" if engine == "auto" else engine)
    assert document["inputs"] == len(document["rows"]) == 20
    for row, witness, unfair in zip(rows, document["witnesses"], unequal.rows, strict=True):
        assert (witness is not None) == unfair
        if witness is not None:
            assert witness["values"]["gender"] == small_people()["gender"][row]
            assert witness["answers"][0] != witness["answers"][1]
            assert {n for n, v in witness["values"].items() if v != witness["other_values"][n]} <= {"age", "gender"}


def test_rows_are_drawn_by_seed(case):
    def drawn(seed):
        return json.loads(certify(case, "--rows", 10, "--seed", seed, "--json").stdout)["rows"]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(json.loads(certify(case, "--rows", 1000, "--json").stdout)["rows"]) == 200


def test_the_label_is_not_needed(case):
    case.write(small_people().drop(columns="good"))
    assert certify(case, "--rows", 5).exit_code in (0, 1)


def test_bad_input_exits_2_with_a_message(case):
    case.write(small_people().drop(columns="age"))
    refused(certify(case), "people.csv", "age")
    assert certify(case, "--engine", "guess").exit_code == 2
    assert run("certify", "none.onnx", "--data", case.data, "--spec", case.spec).exit_code == 2


def test_milp_refuses_tanh_and_names_the_engine_to_use(case):
    small_network(activation="tanh").save(case.model)
    refused(certify(case, "--engine", "milp"), "use engine branch")


def test_the_certificate_of_those_found_fair_is_valid(tmp_path):
    spec = Spec(
        features=[
            Feature(name="sex", kind="categorical", categories=("f", "m"), protected=True),
            Feature(name="score", kind="integer", range=(-20, 20)),
        ]
    )
    weight = np.array([[1.0, 1.0], [0.0, -1.0]], np.float32)
    head = Affine(np.array([[1.0, -1.0]], np.float32), np.array([-0.5], np.float32))
    network = Network([Affine(weight, np.zeros(2, np.float32)), head], [Activation("relu")])
    network.save(tmp_path / "model.onnx")
    spec.save(tmp_path / "spec.toml")
    people = spec.decode(np.array([[0, score] for score in range(-20, 21)], np.float32))
    people.to_csv(tmp_path / "people.csv", index=False)
    certificate = tmp_path / "certificate.json"
    files = ("--data", tmp_path / "people.csv", "--spec", tmp_path / "spec.toml", "--certificate", certificate)
    result = run("certify", tmp_path / "model.onnx", *files, "--json")
    assert result.exit_code == 1, result.output  # one input is unfair; the others are certified
    answer = json.loads(result.stdout)
    assert answer["counts"]["fair"] == answer["certificate"]["inputs"] > 30
    assert json.loads(certificate.read_text())["count"] == answer["certificate"]["inputs"]
    report = fairmend.check(certificate, tmp_path / "model.onnx", tmp_path / "spec.toml")
    assert report.valid, report.reasons


@pytest.mark.parametrize(("delta", "code", "verdict"), [(50, 0, "fair"), (30, 1, "unfair")])
def test_scores_are_certified(delta, code, verdict, tmp_path):
    case = PriceCase(tmp_path, delta=delta)
    common = ("certify", case.model, "--spec", case.spec, "--data", case.data, "--rows", 5)
    result = run(*common)
    assert result.exit_code == code
    assert f"the scores (output) of similar people differ by at most {delta}" in " ".join(result.stdout.split())
    assert ("score" in result.stdout.partition("engine")[2]) == (verdict == "unfair")
    document = json.loads(run(*common, "--json").stdout)
    assert document["counts"][verdict] == 5
    assert run(*common, "--engine", "milp").exit_code == 2


def test_a_certificate_for_wider_ranges_comes_with_its_spec(case):
    frame = small_people()
    frame.loc[4, "credits"] = 9
    case.write(frame)
    assert certify(case).exit_code == 2
    path = case.folder / "certificate.json"
    shown = json.loads(certify(case, "--out-of-range", "widen", "--certificate", path, "--json").stdout)
    assert (shown["out_of_range"]["rows"], shown["out_of_range"]["ranges"]) == (1, {"credits": [0, 9]})
    wide = case.folder / "certificate.spec.toml"
    assert shown["files"][wide.name] == str(wide)
    assert fairmend.check(path, case.model, spec=wide, real=True).valid
    assert not fairmend.check(path, case.model, spec=case.spec, real=True).valid
    skipped = json.loads(certify(case, "--out-of-range", "skip", "--json").stdout)
    assert skipped["rows"] == [row for row in range(2, 202) if row != 6]


def test_finished_parts_are_kept_and_give_the_same_document(case, tmp_path):
    def document(*more):
        return {**json.loads(certify(case, "--rows", 20, "--json", *more).stdout), "seconds": None, "origin": None}

    kept = ["--resume", tmp_path / "parts"]
    assert document() == document(*kept) == document(*kept)
    refused(
        certify(case, "--rows", 20, *kept, "--engine", "branch"),
        "parts: holds results for another set of options; choose another folder",
    )


def test_forged_parts_are_not_believed(case, tmp_path):
    """Whoever knows all but the user's key can write parts that call everyone FAIR."""
    parts = tmp_path / "parts"
    assert certify(case, "--rows", 20, "--resume", parts).exit_code == 1
    (file,) = parts.glob("part-*")
    classes = (CertifyResult, Verdict, Witness)
    digest, found = load(file.read_bytes()[32:], classes)
    forged = replace(found, verdicts=(Verdict.FAIR,) * 20, witnesses=(None,) * 20)
    content = dump((digest, forged), classes)
    file.write_bytes(hashlib.sha256(content).digest() + content)
    result = certify(case, "--rows", 20, "--resume", parts)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "not written by you on this computer, so it is not believed; delete it" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_address_that_is_not_one_is_a_line(case):
    done = certify(case, "--cluster", "nowhere")
    assert done.exit_code == 2
    assert done.stderr.startswith('Error: cluster "nowhere" is not known; give tcp://host:port (Dask)')
    assert "--jobs has no effect with --cluster" in certify(case, "--cluster", "nowhere", "--jobs", "2").stderr
