"""`fairmend export-vnnlib` writes the problems of the rows that certify decides."""

import json

from support.cli_case import Case, run


def test_the_command_writes_the_same_rows_as_certify_decides(tmp_path):
    case = Case(tmp_path)
    arguments = [case.model, "--spec", case.spec, "--data", case.data, "--rows", 7, "--seed", 3, "--json"]
    result = run("export-vnnlib", *arguments, "--out", case.out, "--timeout", 60)
    assert result.exit_code == 0, result.stderr
    shown = json.loads(result.stdout)
    certified = json.loads(run("certify", *arguments).stdout)
    assert [problem["row"] for problem in shown["problems"]] == certified["rows"]
    lines = (case.out / "instances.csv").read_text().splitlines()
    assert lines == [f"model.onnx,{problem['file']},60" for problem in shown["problems"]]
    assert sorted(p.name for p in case.out.iterdir()) == sorted(
        ["model.onnx", "instances.csv", "manifest.json", *(problem["file"] for problem in shown["problems"])]
    )
    text = run("export-vnnlib", *arguments[:-1], "--out", case.out, "--most-boxes", 4)
    assert text.exit_code == 0
    assert "7 problems in " in text.stdout
    assert "relaxed (age)" in text.stdout


def test_the_command_does_not_overwrite_its_own_input(tmp_path):
    case = Case(tmp_path)
    before = case.listing()
    result = run("export-vnnlib", case.model, "--spec", case.spec, "--data", case.data, "--out", case.folder)
    assert result.exit_code == 2
    assert "would overwrite an input file" in result.stderr
    assert case.listing() == before
