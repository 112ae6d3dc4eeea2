"""The JSON schema: it is shipped as generated, every report fits it, and a changed one does not."""

import json
from dataclasses import asdict, dataclass, field
from importlib.resources import files

import jsonschema
import pytest

from fairmend.base.errors import FairmendError
from fairmend.evaluate.document import RepairDocument
from fairmend.report.schema import SCHEMA_NAME, document_schema, from_plain
from support.report_cases import audit_of, hostile, repair_of


def test_every_field_of_a_report_is_checked():
    def shortened(value):
        """Return the value with one entry of each list, which says what the others say."""
        if isinstance(value, dict):
            return {key: shortened(entry) for key, entry in value.items()}
        return [shortened(entry) for entry in value[:1]] if isinstance(value, list) else value

    plain = shortened(json.loads(json.dumps(asdict(repair_of().document))))
    assert isinstance(from_plain(RepairDocument, plain), RepairDocument)

    def places(value, path=()):
        yield path
        entries = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
        for key, entry in entries:
            yield from places(entry, (*path, key))

    free = ("page", "what_if", "before", "steps"), ("page", "what_if", "after", "steps")  # any values, as in a network
    paths = [path for path in places(plain) if path and path[:4] not in free]
    assert len(paths) > 100

    def broken(value, path):
        if not path:
            return [{"no": "such thing"}]
        copy = value.copy()
        copy[path[0]] = broken(value[path[0]], path[1:])
        return copy

    for path in paths:
        with pytest.raises(FairmendError, match=r": unknown field|: the field is missing| is not (a|true)"):
            from_plain(RepairDocument, broken(plain, path))


@dataclass(frozen=True)
class Inner:
    rate: float
    name: str = ""


@dataclass(frozen=True)
class Outer:
    count: int
    inner: Inner
    many: list[Inner]
    named: dict[str, float]
    maybe: list[int] | None = None
    notes: list[str] = field(default_factory=list)


GOOD = {
    "count": 1,
    "inner": {"rate": 1, "name": ""},
    "many": [{"rate": 0.5, "name": "x"}],
    "named": {"a": 2},
    "maybe": None,
    "notes": [],
}


def test_good_data_becomes_the_dataclass():
    assert from_plain(Outer, GOOD) == Outer(1, Inner(1.0), [Inner(0.5, "x")], {"a": 2.0})
    assert isinstance(from_plain(Outer, GOOD).inner.rate, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "extra: unknown field"),
        ({"inner": {"name": ""}}, "inner.rate: the field is missing"),
        ({"inner": {"rate": 1, "name": "", "more": 2}}, "inner.more: unknown field"),
        ({"inner": [1]}, "inner: [1] is not an object"),
        ({"many": [{"rate": 1, "name": ""}, {"rate": "1", "name": ""}]}, "many[1].rate: '1' is not a finite number"),
        ({"many": "abc"}, "many: 'abc' is not a list"),
        ({"many": {"rate": 1}}, "many: {'rate': 1} is not a list"),
        ({"named": {"b": float("nan")}}, "named.b: nan is not a finite number"),
        ({"named": {"b": float("-inf")}}, "named.b: -inf is not a finite number"),
        ({"named": {"b": True}}, "named.b: True is not a finite number"),
        ({"count": True}, "count: True is not a whole number"),
        ({"count": 1.0}, "count: 1.0 is not a whole number"),
        ({"count": "1"}, "count: '1' is not a whole number"),
        ({"maybe": [None]}, "maybe[0]: None is not a whole number"),
        ({"notes": [7]}, "notes[0]: 7 is not a text"),
    ],
)
def test_an_error_names_the_path_of_its_field(change, message):
    with pytest.raises(FairmendError) as error:
        from_plain(Outer, GOOD | change)
    assert str(error.value) == message


def test_a_whole_number_beyond_the_largest_float_is_refused():
    with pytest.raises(FairmendError, match=r"^inner\.rate: 1000+ is not a finite number$"):
        from_plain(Outer, GOOD | {"inner": {"rate": 10**400, "name": ""}})


def test_what_is_not_an_object_is_no_document():
    with pytest.raises(FairmendError, match=r"^the document: \[\] is not an object$"):
        from_plain(Outer, [])


SHIPPED = json.loads((files("fairmend.report") / SCHEMA_NAME).read_text(encoding="utf-8"))
REPORTS = {
    "repair": repair_of,
    "three classes": lambda: repair_of("prof", 3),
    "audit": audit_of,
    "samples": lambda: audit_of(sampled=True),
    "hostile": lambda: hostile()[0],
}


def saved(report, folder):
    report.save_data(folder / "result.json")
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


def test_the_file_is_generated_from_the_classes():
    assert document_schema() == SHIPPED, "run python -m fairmend.report.schema src/fairmend/report/result.schema.json"
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
