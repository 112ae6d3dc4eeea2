"""What the commands do, from Python: nothing is printed, the data is read once, and the document is that of --json."""

import json
import sys

import pytest

from fairmend import workflows
from fairmend.base.errors import FairmendError
from fairmend.base.files import to_json
from fairmend.base.paths import data_source
from fairmend.workflows import repair as repair_workflow
from support.cli_case import Case, run


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("workflows"))


@pytest.fixture(scope="module")
def names(case):
    return [str(case.model), str(case.spec), str(case.data)]


def without_seconds(document):
    if isinstance(document, dict):
        left_out = ("seconds", "exact_seconds", "created", "command")
        return {key: without_seconds(value) for key, value in document.items() if key not in left_out}
    return [without_seconds(value) for value in document] if isinstance(document, list) else document


@pytest.mark.parametrize(
    ("workflow", "options"),
    [
        ("audit", {}),
        ("certify", {"rows": 5}),
        ("search", {"seeds": 3, "local_steps": 2}),
        ("quantify", {"seconds": 5.0, "share": 0.9, "samples": 100}),
    ],
)
def test_the_document_is_what_the_command_prints(workflow, options, case, names, capsys):
    done = getattr(workflows, f"{workflow}_files")(*names, **options)
    assert capsys.readouterr() == ("", "")
    model, spec, data = names
    typed = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    report = ["--no-report"] if workflow in ("audit", "quantify") else []
    shown = run(workflow, model, "--spec", spec, "--data", data, "--json", *typed, *report).stdout
    assert without_seconds(json.loads(to_json(done.document.printed()))) == without_seconds(json.loads(shown))
    assert not any(done.files.values())


def test_a_repair_reads_each_table_once_and_writes_its_folder(names, tmp_path, monkeypatch):
    read, real = [], repair_workflow.read_table
    monkeypatch.setattr(repair_workflow, "read_table", lambda source: read.append(source) or real(source))
    made = workflows.repair_files(
        *names, str(tmp_path / "out"), method="blind", repair_rows=10, calibration_rows=40, options={"steps": 2}
    )
    assert read == [data_source(names[2])]
    assert made.result is made.comparison.result
    assert made.check.valid
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(made.contents)
    assert all(path.is_file() for path in made.files.values())


def test_a_spec_is_drafted_and_checked(names, tmp_path):
    drafted = workflows.draft_spec_file(names[2], ["gender"], tmp_path / "spec.toml", label="good")
    assert drafted.file.is_file()
    assert drafted.match is None
    checked = workflows.check_spec_file(names[1], names[2], names[0])
    assert checked.check.fits
    assert checked.document["data"]["fits"]


def test_options_of_data_need_data(names):
    for function in (workflows.audit_files, workflows.quantify_files):
        with pytest.raises(FairmendError, match="--out-of-range needs --data"):
            function(*names[:2], inputs=workflows.InputOptions(out_of_range="clip"))
        with pytest.raises(FairmendError, match="--keep-going needs --data"):
            function(*names[:2], inputs=workflows.InputOptions(keep_going=True))


def test_commands_that_do_not_say_which_files_they_left_out_leave_out_none(names, tmp_path):
    for function in (workflows.repair_files, workflows.export_files):
        with pytest.raises(FairmendError, match="leaves out no files of the data"):
            function(*names, tmp_path / "out", inputs=workflows.InputOptions(keep_going=True))
    assert not (tmp_path / "out").exists()


def test_a_name_is_imported_on_first_use():
    assert set(dir(workflows)) == set(workflows.__all__)
    assert workflows.audit_files is sys.modules["fairmend.workflows.audit"].audit_files
    with pytest.raises(AttributeError, match="no attribute 'mend_files'"):
        _ = workflows.mend_files
