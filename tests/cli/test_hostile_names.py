"""Names from files are shown escaped, by every command: they cannot move the cursor, forge a line or use markup."""

import json
import unicodedata

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend.cli.config import commands_of
from fairmend.cli.main import main
from fairmend.spec import Feature, Label, Spec
from support.checker_cases import read, write
from support.cli_case import Case, run, small_people, small_spec

CLEAR, RED_C1, TURN = "\x1b[2J\x1b]0;title\x07", "\x9b31m", "\u202e"
FORGED = "\nVALID: everything holds.\r\nProven: everything.\n"
RENAMED = {
    "age": f"age{CLEAR}",
    "gender": f"gender{FORGED}",
    "income": f"[red]income[/red]{RED_C1}",
    "credits": f"credits\u200b{TURN}\u2028\x85\x7f",
    "good": f"good{FORGED}",
    "remark": f"remark{CLEAR}",
}
CATEGORIES = {"f": f"f{FORGED}", "m": f"[bold]m{TURN}"}
YES = f"yes{CLEAR}{FORGED}"


class Hostile(Case):
    """The small case with hostile names of columns, categories and files."""

    def __init__(self, folder):
        super().__init__(folder)
        spec = small_spec()
        features = [Feature(**{**plain(feature), "name": RENAMED[feature.name]}) for feature in spec.features]
        Spec(features, Label(RENAMED["good"], YES)).save(self.spec)
        self.write(self.people())
        for name in ("model", "spec", "data"):
            file = getattr(self, name)
            setattr(self, name, file.rename(file.with_name(f"[red]{file.stem}{CLEAR}{FORGED.strip()}{file.suffix}")))
        self.out = folder / f"out{FORGED}{TURN}"

    def people(self):
        frame = small_people().replace({"gender": CATEGORIES, "good": {"yes": YES}})
        return frame.rename(columns=RENAMED)


def plain(feature):
    values = {name: getattr(feature, name) for name in ("name", "kind", "range", "scale", "protected", "encoding")}
    if feature.categories:
        values["categories"] = tuple(CATEGORIES[name] for name in feature.categories)
    return {name: value for name, value in values.items() if value is not None}


def unsafe(text):
    """Return the characters that may not reach a terminal or a page, and forged lines."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    found = [char for char in set(text) - {"\n"} if unicodedata.category(char) in kinds]
    return found + [line for line in text.splitlines() if line.startswith(("VALID: everything", "Proven: everything"))]


def on_files(name, *more):
    def arguments(case):
        return [name, case.model, "--spec", case.spec, "--data", case.data, *(more_of(case, more))]

    return arguments


def more_of(case, more):
    return [case.out if word == "OUT" else word for word in more]


def without_column(case):
    case.write(case.people().drop(columns=RENAMED["gender"]))
    return on_files("audit")(case)


def with_a_bad_value(case):
    case.write(case.people().replace({RENAMED["gender"]: {CATEGORIES["m"]: f"other{FORGED}{CLEAR}"}}))
    return on_files("audit")(case)


def bad_spec_check(case):
    case.write(case.people().assign(**{RENAMED["age"]: 500}))
    return ["spec", "check", case.spec, "--data", case.data, "--model", case.model]


def checked(case):
    assert case.repair().exit_code == 0
    return ["check", case.out / "certificate.json", case.out / "model.onnx", "--spec", case.spec]


def tampered(case):
    arguments = checked(case)
    content = read(arguments[1])
    content["spec"]["feature"][0]["range"] = [0, f"{FORGED}{CLEAR}"]
    write(arguments[1].parent, content)
    return arguments


def reported(case):
    assert case.repair().exit_code == 0
    return ["report", case.out]


def drafted(case):
    more = ["--label", RENAMED["good"], "--positive", YES, "--out", case.out.with_suffix(".toml")]
    return ["spec", "init", case.data, "--protected", RENAMED["gender"], "--drop", RENAMED["remark"], *more]


def drafted_with_a_wrong_name(case):
    return ["spec", "init", case.data, "--protected", f"gnder{CLEAR}{FORGED}"]


def drafted_from_sklearn(case):
    io = pytest.importorskip("skops.io")
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    people = case.people().drop(columns=[RENAMED["good"], RENAMED["remark"]])
    encode = ColumnTransformer([("gender", OneHotEncoder(), [RENAMED["gender"]])], remainder="passthrough").fit(people)
    io.dump(encode, case.folder / "pipeline.skops")
    more = ["--data", case.data, "--protected", RENAMED["gender"], "--force"]
    return ["spec", "from-sklearn", case.folder / "pipeline.skops", *more]


def bad_config(case):
    file = case.folder / f"{CLEAR}{FORGED}.toml"
    file.write_text('[audit]\n"\\u001b[2J\\nVALID: everything" = 1\n')
    return [*on_files("audit")(case), "--config", file]


def bad_model(case):
    case.model.write_bytes(b"\x1b[2J\nVALID: everything")
    return on_files("audit")(case)


RUNS = {
    "audit": on_files("audit", "--out", "OUT"),
    "audit: a column is missing": without_column,
    "audit: a category is unknown": with_a_bad_value,
    "audit: the defaults are wrong": bad_config,
    "audit: the model is none": bad_model,
    "audit: an option is unknown": lambda case: ["audit", f"--{CLEAR}{FORGED}"],
    "certify": on_files("certify", "--rows", 30, "--certificate", "OUT"),
    "quantify": on_files("quantify", "--share", 0.3),
    "search": on_files("search", "--seeds", 20, "--local-steps", 5, "--out", "OUT"),
    "repair": lambda case: case.arguments(),
    "check": checked,
    "check: tampered with": tampered,
    "report": reported,
    "export-vnnlib": on_files("export-vnnlib", "--rows", 2, "--most-boxes", 10, "--out", "OUT"),
    "spec init": drafted,
    "spec init: a name is wrong": drafted_with_a_wrong_name,
    "spec check": lambda case: ["spec", "check", case.spec, "--data", case.data, "--model", case.model],
    "spec check: does not fit": bad_spec_check,
    "spec from-sklearn": drafted_from_sklearn,
    "doctor": lambda case: ["doctor", "--config", bad_config(case)[-1]],
    "no such command": lambda case: [f"{CLEAR}{FORGED}"],
}
WITHOUT_NAMES = {"bench", "completion", "demo"}  # these read no file of the user


def test_every_command_that_reads_files_is_here():
    commands = {" ".join(path) for path, _ in commands_of(main)}
    assert commands - WITHOUT_NAMES <= set(RUNS)


@pytest.mark.parametrize("more", [["-vv", "--log-file", "run.log"], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("command", RUNS)
def test_no_name_reaches_the_terminal_or_the_page_as_it_is(command, more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = Hostile(tmp_path)
    result = run(*RUNS[command](case), *more)
    assert result.exit_code in (0, 1, 2)
    assert result.stdout or result.stderr
    assert unsafe(result.stdout) == []
    assert unsafe(result.stderr) == []
    for file in [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.log"), *tmp_path.rglob("*.vnnlib")]:
        assert unsafe(file.read_text()) == [], file
    if more == ["--json"] and not command.startswith("audit:"):
        assert result.stderr or json.loads(result.stdout)


def test_markup_in_a_name_is_shown_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = Hostile(tmp_path)
    shown = run("spec", "check", case.spec, "--data", case.data).stdout
    assert "[red]spec" in shown
    assert "[red]inc" in shown
    assert "[bold]m" in shown


def test_data_files_keep_the_names(tmp_path):
    case = Hostile(tmp_path)
    assert case.repair().exit_code == 0
    assert Spec.load(case.out / "spec.toml") == Spec.load(case.spec)
    assert {RENAMED[name] for name in ("age", "gender")} <= set(pd.read_csv(case.out / "repair_inputs.csv").columns)


def test_reprs_and_errors_of_the_library_are_printable(tmp_path):
    case = Hostile(tmp_path)
    spec, net = Spec.load(case.spec), fairmend.load_network(case.model)
    assert case.repair().exit_code == 0
    certificate = json.loads((case.out / "certificate.json").read_text())
    from fairmend.prove.certificate import Certificate
    from fairmend.report import load_report

    audited = fairmend.audit(net, spec, case.people())
    shown = [
        spec,
        *spec.features,
        net,
        audited,
        Certificate(certificate),
        load_report(case.out),
        fairmend.check(case.out / "certificate.json", case.out / "model.onnx"),
        fairmend.check(case.out / "certificate.json", case.model),
        fairmend.export_vnnlib(net, spec, case.people()[:1], case.out),
    ]
    for thing in shown:
        assert unsafe(repr(thing)) == [], type(thing)
        assert "\n" not in repr(thing)
    assert unsafe(audited.describe()) == []
    with pytest.raises(fairmend.FairmendError) as caught:
        fairmend.audit(net, spec, case.people().drop(columns=RENAMED["gender"]))
    assert unsafe(str(caught.value)) == []
    assert "\n" not in str(caught.value)
    assert np.unique(net.predict(spec.encode(case.people()))).size == 2
