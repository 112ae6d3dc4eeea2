"""fairmend.toml: found, checked in full, applied, and outdone by explicit options."""

import json
import os
from pathlib import Path

import click
import pytest

from fairmend.base.errors import FairmendError
from fairmend.cli.config import check_config, commands_of, find_config, key_of
from fairmend.cli.main import main
from fairmend.cli.options import DeviceName
from support.checker_cases import rounding_case
from support.cli_case import Case, refused, run, succeeded


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Case(tmp_path)


def write(case, text, name="fairmend.toml"):
    (case.folder / name).write_text(text)


EVERYTHING = 'model = "model.onnx"\nspec = "spec.toml"\ndata = "people.csv"\n'


def test_required_options_and_arguments_come_from_the_file(case):
    write(case, f"[defaults]\n{EVERYTHING}[certify]\nrows = 12\njson = true\n")
    result = run("certify")
    assert result.exit_code in (0, 1), result.stderr
    assert len(json.loads(result.stdout)["rows"]) == 12


def test_explicit_options_win(case):
    write(case, f"[defaults]\n{EVERYTHING}seed = 5\n[certify]\nrows = 12\n")
    shown = json.loads(run("certify", "--rows", 3, "--seed", 1, "--json").stdout)
    assert (len(shown["rows"]), shown["origin"]["seed"]) == (3, 1)
    assert json.loads(run("certify", "--rows", 3, "--json").stdout)["origin"]["seed"] == 5


def test_the_table_of_the_command_wins_over_defaults(case):
    write(case, f"[defaults]\n{EVERYTHING}seed = 5\n[certify]\nseed = 6\nrows = 2\n")
    assert json.loads(run("certify", "--json").stdout)["origin"]["seed"] == 6


def test_paths_are_relative_to_the_file(case, monkeypatch):
    write(case, f"[defaults]\n{EVERYTHING}[certify]\nrows = 2\n")
    deep = case.folder / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    result = run("certify")
    assert result.exit_code in (0, 1), result.stderr


def test_the_nearest_file_counts_and_none_above_home(tmp_path, monkeypatch):
    home, below = tmp_path / "home", tmp_path / "home" / "project" / "deep"
    below.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert find_config(below) is None or not find_config(below).is_relative_to(tmp_path)
    (tmp_path / "fairmend.toml").write_text("")
    assert find_config(below) is None
    (home / "fairmend.toml").write_text("")
    assert find_config(below) == home / "fairmend.toml"
    (home / "project" / "fairmend.toml").write_text("")
    assert find_config(below) == home / "project" / "fairmend.toml"


@pytest.mark.parametrize("before", [True, False])
def test_config_names_another_file_and_no_config_ignores_all(case, before):
    def certify(*options):
        return run(*options, "certify", "--json") if before else run("certify", "--json", *options)

    write(case, "[certify]\nrows = 0\n")  # which is an error
    write(case, f"[defaults]\n{EVERYTHING}[certify]\nrows = 4\n", "other.toml")
    assert certify().exit_code == 2
    assert len(json.loads(certify("--config", "other.toml").stdout)["rows"]) == 4
    refused(certify("--no-config"), "Missing argument")
    assert certify("--config", "nowhere.toml").exit_code == 2
    assert "exclude each other" in certify("--config", "other.toml", "--no-config").stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[reapir]\n", 'there is no command "reapir" (did you mean "repair"?)'),
        ("[repair]\nmehtod = 'prof'\n", '[repair] has an unknown key "mehtod" (did you mean "method"?)'),
        ("[defaults]\nspce = 'a'\n", '[defaults] has an unknown key "spce" (did you mean "spec"?)'),
        ("[repair]\nrepair_rows = 3\n", 'did you mean "repair-rows"?'),
        ("[repair]\nsteps = '200'\n", "[repair] steps: must be a whole number, got '200'"),
        ("[repair]\nsteps = true\n", "[repair] steps: must be a whole number, got true"),
        ("[repair]\nsteps = -1\n", "[repair] steps: "),
        ("[repair]\nmargin = 'small'\n", "[repair] margin: must be a number"),
        ("[repair]\nmethod = 'magic'\n", "[repair] method: "),
        ("[repair]\nmethod = 3\n", "[repair] method: must be text"),
        ("[repair]\njson = 1\n", "[repair] json: must be true or false, got 1"),
        ("[repair]\nspec = ['a']\n", "[repair] spec: must be text"),
        ("[defaults]\nseed = 'x'\n", "[defaults] seed: must be a whole number"),
        ("[repair]\nconfig = 'x'\n", 'unknown key "config"'),
        ("repair = 3\n", "repair must be a table"),
        ("defaults = 3\n", "defaults must be a table"),
        ("[repair\n", "line 1: not valid TOML"),
        ("[repair]\nsteps = 1\nsteps = 2\n", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_and_exits_2(case, text, words):
    write(case, text)
    result = refused(case.repair(), words)
    assert str(case.folder / "fairmend.toml") in result.stderr
    assert "Traceback" not in result.output
    assert not case.out.exists()


# Every key that a file can set. A new option is refused until it is added here and in config.py, with a reason.
SETTABLE = {
    *("model", "spec", "data", "repair-data", "test-data", "about"),
    *("out", "report", "certificate"),
    *("seed", "threshold", "method", "engine", "bounds", "margin", "gap", "steps", "learning-rate", "prefer", "keep"),
    *("guarantee", "rows", "repair-rows", "calibration-rows", "samples", "seeds", "local-steps"),
    *("share", "boxes", "seconds", "time-limit", "timeout", "most-boxes", "json", "format", "no-report", "no-what-if"),
}
WITHOUT_FILE = ("check", "doctor", "completion")


def example(parameter):
    if isinstance(parameter, click.Option) and parameter.is_flag:
        value = "true"
    elif isinstance(parameter.type, click.types.IntParamType):
        value = "3"
    elif isinstance(parameter.type, click.types.FloatParamType):
        value = "0.5"
    elif isinstance(parameter.type, click.Choice):
        value = json.dumps(parameter.type.choices[0])
    elif isinstance(parameter.type, DeviceName):
        value = '"cpu"'
    else:
        value = '"text"'
    return f"[{value}]" if parameter.multiple else value


def parameters():
    for path, command in commands_of(main):
        for parameter in command.params:
            if key_of(parameter) not in ("help", "config", "no-config"):
                yield ".".join(path), key_of(parameter), example(parameter)


def problems(text):
    """What `fairmend doctor` says about the file, without its checks of everything else."""
    Path("fairmend.toml").write_text(text)
    try:
        check_config(Path("fairmend.toml"), main)
    except FairmendError as error:
        return [str(error)]
    return []


def test_every_option_of_every_command_is_settable_or_refused_by_name(tmp_path, monkeypatch):
    """Also as a dotted key, as an inline table and in [defaults]."""
    monkeypatch.chdir(tmp_path)
    seen = set()
    for path, key, value in parameters():
        dotted = [] if key in seen else [f"{path}.{key} = {value}\n"]
        for text in (f"[{path}]\n{key} = {value}\n", *dotted):
            found = problems(text)
            if path in WITHOUT_FILE:
                assert f"[{path}] cannot be set in a file" in found[0]
            elif key in SETTABLE:
                assert found == []
            else:
                assert f"[{path}] {key} cannot be set in a file" in found[0]
                assert "on the command line" in found[0]
        if key not in SETTABLE and key not in seen:
            assert f"[defaults] {key} cannot be set in a file" in problems(f"defaults = {{{key} = {value}}}\n")[0]
        seen.add(key)
    assert seen >= SETTABLE
    said = problems("[audit]\njobs = 2\n")[0].removeprefix("fairmend.toml: ")
    assert [said in each for each in json.loads(run("doctor", "--json").stdout)["problems"]].count(True) == 1


@pytest.mark.parametrize(
    "line",
    [
        'cluster = "tcp://127.0.0.1:1"',
        'log-file = "../.profile"',
        'resume = "parts"',
        'device = "cuda"',
        'solver = "gurobi"',
        "jobs = 2",
        "ignore-scores = true",
        "keep-going = true",
        'out-of-range = "clip"',
        "trust-pickle = true",
        "force = true",
        "real = true",
    ],
)
@pytest.mark.parametrize("form", ["[defaults]\n{}\n", "defaults = {{ {} }}\n", "defaults.{}\n"])
def test_what_a_folder_must_not_decide_exits_2_and_does_nothing(case, line, form):
    write(case, form.format(line))
    before = case.listing()
    result = run("certify", case.model, "--data", case.data, "--spec", case.spec)
    key = line.partition(" ")[0]
    refused(result, f"[defaults] {key} cannot be set in a file", f"type --{key} on the command line")
    assert case.listing() == before


@pytest.mark.parametrize("key", ["Cluster", "cluster ", "clus", "--cluster", "log_file", "LOG-FILE", "spec_file", "-v"])
def test_other_spellings_of_a_key_set_nothing(case, key):
    write(case, f"[defaults]\n{json.dumps(key)} = 'x'\n")
    refused(run("certify", case.model, "--data", case.data, "--spec", case.spec), "[defaults] has an unknown key")


def test_check_reads_no_file(tmp_path, monkeypatch):
    """[check] real = true once turned INVALID into VALID, and log-file wrote where the file said."""
    monkeypatch.chdir(tmp_path)
    rounding_case().save(tmp_path)
    check = ("check", "certificate.json", "model.onnx")
    typed = run(*check)
    assert typed.exit_code == 1
    assert run(*check, "--real").exit_code == 0
    for text in ("[check]\nreal = true\n", "[defaults]\nreal = true\n", "check.log-file = 'log'\n", "not TOML"):
        Path("fairmend.toml").write_text(text)
        result = run(*check)
        assert (result.exit_code, result.stdout.splitlines()[:-1]) == (1, typed.stdout.splitlines()[:-1])
        assert "Defaults" not in result.stderr
        assert not Path("log").exists()
    refused(run(*check, "--config", "fairmend.toml"), "reads no file of defaults; leave out --config")
    Path("fairmend.toml").write_text("[check]\nreal = true\n")
    assert "[check] cannot be set in a file" in run("certify").stderr


OUTSIDE = [
    "/etc/x.csv",
    "../x.csv",
    "a/../../x.csv",
    "..\\x.csv",
    "a\\..\\..\\x.csv",
    "C:\\x.csv",
    "C:x.csv",
    "\\\\server\\share\\x.csv",
    "\\x.csv",
    "//server/share/x.csv",
    ".. /x.csv",
    "~/x.csv",
    "s3://bucket/x.csv",
    "file:///etc/x.csv",
    "http://127.0.0.1/x.csv",
    "simplecache::s3://bucket/x.csv",
    "a\0b.csv",
    "",
]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("key", ["data", "spec", "model", "out", "report"])
def test_files_outside_of_the_folder_cannot_be_named(case, key, name):
    write(case, f"[audit]\n{key} = {json.dumps(name)}\n")
    before = case.listing()
    refused(run("audit", case.model, "--data", case.data, "--spec", case.spec), f"[audit] {key}: ")
    assert case.listing() == before


@pytest.mark.parametrize("name", [".bashrc", ".git/hooks/x.csv", "a/.ssh/x.csv", "a\\.ssh\\x.csv"])
def test_hidden_files_cannot_be_written(case, name):
    write(case, f"[audit]\nout = {json.dumps(name)}\n")
    assert "is hidden" in run("audit", case.model, "--data", case.data, "--spec", case.spec).stderr


@pytest.mark.parametrize("key", ["data", "out", "report"])
def test_links_out_of_the_folder_are_not_followed(case, tmp_path_factory, key):
    outside = tmp_path_factory.mktemp("outside")
    case.data.rename(outside / "people.csv")
    Path("link").symlink_to(outside)
    Path("people").mkdir()
    Path("people/one.csv").symlink_to(outside / "people.csv")
    Path("dangling.csv").symlink_to(outside / "new.csv")
    for name in ("link", "link/people.csv", "people", "people/*.csv", "*/people.csv", "**/*.csv", "dangling.csv"):
        if key != "data" and "*" in name:
            continue
        write(case, f"[audit]\n{key} = {json.dumps(name)}\n")
        refused(
            run("audit", case.model, "--spec", case.spec, *(["--samples", 10] if key != "data" else [])),
            f"[audit] {key}: ",
            "by a symbolic link",
        )
    assert [path.name for path in outside.iterdir()] == ["people.csv"]


def test_a_link_inside_of_the_folder_is_followed(case):
    Path("link.csv").symlink_to(case.data)
    write(case, f"[defaults]\n{EVERYTHING.replace('people.csv', 'link.csv')}[certify]\nrows = 2\n")
    assert run("certify").exit_code in (0, 1)


def test_a_folder_of_results_by_default_is_not_a_link_out(case, tmp_path_factory):
    """No file of settings is needed for this: the folder holds the link."""
    outside = tmp_path_factory.mktemp("outside")
    Path("fairmend-audit").symlink_to(outside)
    audit = ("audit", case.model, "--data", case.data, "--spec", case.spec)
    refused(run(*audit), "fairmend-audit would be written outside of")
    assert run(*audit, "--no-report").exit_code < 2
    case.spec.rename("other.toml")
    case.spec.symlink_to(outside / "profile")  # which does not exist yet
    result = run("spec", "init", case.data, "--protected", "age", "--label", "good")
    assert "spec.toml would be written outside of" in result.stderr
    assert list(outside.iterdir()) == []
    assert (
        run("audit", case.model, "--data", case.data, "--spec", "other.toml", "--report", "fairmend-audit").exit_code
        < 2
    )
    assert list(outside.iterdir()) != []  # typed, so it is meant


def test_the_file_of_another_user_in_a_parent_folder_is_refused(case, monkeypatch):
    """Anyone can put a file into /tmp, which is a parent of many folders."""
    write(case, "[certify]\nrows = 2\n")
    below = case.folder / "below"
    below.mkdir()
    original = Path.lstat

    def lstat(path):
        found = original(path)
        return os.stat_result((*found[:4], 4711, *found[5:])) if path.name == "fairmend.toml" else found

    monkeypatch.setattr(Path, "lstat", lstat)
    with pytest.raises(FairmendError, match=r"fairmend\.toml: belongs to another user; name it with --config"):
        find_config(below)


def test_settings_in_use_are_shown_with_their_values(case):
    write(case, f"[defaults]\n{EVERYTHING}seed = 5\n[certify]\nrows = 2\n")
    shown = run("certify", "--seed", 1).stderr
    assert f'Defaults from {case.folder / "fairmend.toml"}: model = "model.onnx", spec = "spec.toml", ' in shown
    assert 'data = "people.csv"' in shown
    assert "rows = 2" in shown
    assert "seed" not in shown.splitlines()[0]


def test_commands_of_a_group_have_tables_too(case):
    write(case, '[defaults]\nspec = "spec.toml"\n[spec.check]\njson = true\n')
    result = succeeded(run("spec", "check"))
    assert json.loads(result.stdout)["spec"] == "spec.toml"
    write(case, "[spec.chekc]\n")
    assert 'there is no command "chekc" of [spec] (did you mean "check"?)' in run("spec", "check").stderr


def test_a_mistake_in_the_table_of_another_command_is_not_overlooked(case):
    write(case, "[audit]\nsamples = 'many'\n")
    assert "[audit] samples" in case.repair().stderr


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"\x00", b"#" * (4 * 2**20 + 1), b"a." * 60 + b"b = 1", b'"' + b'\\"' * 2_000_000]
)
def test_what_is_no_text_or_too_much_of_it(case, content):
    (case.folder / "fairmend.toml").write_bytes(content)
    assert case.repair().exit_code == 2


def test_help_works_beside_a_file_and_says_where_defaults_come_from(case):
    write(case, f"[defaults]\n{EVERYTHING}")
    assert "fairmend.toml" in run("--help").stdout
    assert run("repair", "--help").exit_code == 0
    write(case, "[reapir]\n")
    assert run("repair", "--help").exit_code == 0
    assert run("repair").exit_code == 2
