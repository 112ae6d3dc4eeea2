"""fairmend.toml: found, checked in full, applied, and outdone by explicit options."""

import json
from pathlib import Path

import click
import pytest

from fairmend.cli.config import commands_of, find_config
from fairmend.cli.main import main
from fairmend.cli.options import DeviceName
from support.cli_case import Case, run


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
    assert (len(shown["rows"]), shown["seed"]) == (3, 1)
    assert json.loads(run("certify", "--rows", 3, "--json").stdout)["seed"] == 5


def test_the_table_of_the_command_wins_over_defaults(case):
    write(case, f"[defaults]\n{EVERYTHING}seed = 5\n[certify]\nseed = 6\nrows = 2\n")
    assert json.loads(run("certify", "--json").stdout)["seed"] == 6


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
    ignored = certify("--no-config")
    assert ignored.exit_code == 2
    assert "Missing argument" in ignored.stderr
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
    result = case.repair()
    assert result.exit_code == 2
    assert words in result.stderr
    assert str(case.folder / "fairmend.toml") in result.stderr
    assert "Traceback" not in result.output
    assert not case.out.exists()


@pytest.mark.parametrize("key", ["trust-pickle", "force"])
def test_what_endangers_must_be_typed(case, key):
    """The file of another project must not unpickle files or overwrite them."""
    for table in ("spec.from-sklearn", "defaults"):
        write(case, f"[{table}]\n{key} = true\n")
        result = run("spec", "from-sklearn", "x.pkl", "--protected", "age")
        assert result.exit_code == 2
        assert f'unknown key "{key}"' in result.stderr


def test_commands_of_a_group_have_tables_too(case):
    write(case, '[defaults]\nspec = "spec.toml"\n[spec.check]\njson = true\n')
    result = run("spec", "check")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["spec"] == "spec.toml"
    write(case, "[spec.chekc]\n")
    assert 'there is no command "chekc" of [spec] (did you mean "check"?)' in run("spec", "check").stderr


def test_a_mistake_in_the_table_of_another_command_is_not_overlooked(case):
    write(case, "[audit]\nsamples = 'many'\n")
    assert "[audit] samples" in case.repair().stderr


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00"])
def test_what_is_no_text(case, content):
    (case.folder / "fairmend.toml").write_bytes(content)
    assert case.repair().exit_code == 2


def test_every_option_of_every_command_can_be_named(tmp_path, monkeypatch):
    """The kinds of values that the file can hold are all that options take."""
    monkeypatch.chdir(tmp_path)
    for path, command in commands_of(main):
        lines = []
        for parameter in command.params:
            if not isinstance(parameter, click.Option) or parameter.name in (
                "help",
                "config",
                "no_config",
                "force",
                "trust_pickle",
            ):
                continue
            key = max(parameter.opts, key=len).lstrip("-")
            if parameter.is_flag:
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
            lines.append(f"{key} = {f'[{value}]' if parameter.multiple else value}")
        Path("fairmend.toml").write_text(f"[{'.'.join(path)}]\n" + "\n".join(lines))
        result = run("doctor", "--json")
        assert [p for p in json.loads(result.stdout)["problems"] if "fairmend.toml" in p] == []


def test_help_works_beside_a_file_and_says_where_defaults_come_from(case):
    write(case, f"[defaults]\n{EVERYTHING}")
    assert "fairmend.toml" in run("--help").stdout
    assert run("repair", "--help").exit_code == 0
    write(case, "[reapir]\n")
    assert run("repair", "--help").exit_code == 0
    assert run("repair").exit_code == 2
