"""The JSON schema: it is shipped as generated, every report fits it, and a changed one does not."""

import json
from importlib.resources import files

import jsonschema
import pytest

from fairmend.report.schema import SCHEMA_NAME, document_schema
from support.report_cases import audit_of, hostile, repair_of

SHIPPED = json.loads((files("fairmend.report") / SCHEMA_NAME).read_text(encoding="utf-8"))
REPORTS = {
    "repair": repair_of,
    "three classes": lambda: repair_of("prof", 3),
    "audit": audit_of,
    "samples": lambda: audit_of(sampled=True),
    "hostile": lambda: hostile()[0],
}


def saved(report, folder):
    report.save_data(folder / "report.json")
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_the_file_is_generated_from_the_classes():
    assert document_schema() == SHIPPED, "run python -m fairmend.report.schema src/fairmend/report/report.schema.json"
    jsonschema.Draft202012Validator.check_schema(SHIPPED)


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_fits(name, tmp_path):
    jsonschema.Draft202012Validator(SHIPPED).validate(saved(REPORTS[name](), tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.update(evil=1),
        lambda plain: plain.pop("origin"),
        lambda plain: plain.update(version=1),
        lambda plain: plain["about"].update(owner=7),
        lambda plain: plain["outcomes"]["tables"][0]["groups"][0]["before"].update(rate="high"),
    ],
)
def test_a_report_that_is_not_one_does_not(change, tmp_path):
    plain = saved(repair_of(), tmp_path)
    change(plain)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SHIPPED).validate(plain)
