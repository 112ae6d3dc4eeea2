"""`fairmend export-vnnlib`: what it writes, and what it refuses. tests/prove/test_vnnlib.py checks the properties."""

import json

from support.cli_case import refused, run, succeeded


def export(case, *more):
    return run("export-vnnlib", case.model, "--spec", case.spec, "--data", case.data, "--out", case.out, *more)


def test_there_is_a_property_for_each_row(case):
    result = succeeded(export(case, "--rows", 3, "--timeout", 60))
    assert "3 properties in " in result.stdout
    assert "unsat: every similar person gets the same prediction, proven." in result.stdout
    lines = (case.out / "instances.csv").read_text().split()
    assert len(lines) == 3
    for line in lines:
        model, file, seconds = line.split(",")
        assert (case.out / model).is_file()
        assert (case.out / file).is_file()
        assert seconds == "60"
    assert json.loads((case.out / "manifest.json").read_text())


def test_an_out_that_is_a_file_is_refused(case):
    case.out.write_text("mine")
    refused(export(case), "this is a file; choose a folder for --out")
    assert case.out.read_text() == "mine"
