"""Errors of a command are one line with the way out, never a traceback."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading

import click
import pytest

from fairmend.cli.group import Command, echo_line, sigterm_as_ctrl_c, start_logging, typed_command
from fairmend.cli.main import main
from support.cli_case import Case, refused, run


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_sigterm_ends_a_command_like_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    command = Command("wait", callback=lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        command.invoke(click.Context(command))
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_command_in_another_thread_leaves_signals_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def run():
        with sigterm_as_ctrl_c():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_line_is_one_line(capsys):
    echo_line("a\nVALID\x1b[2J", err=True)
    assert capsys.readouterr().err == "a\\nVALID\\x1b[2J\n"


COMMAND = [sys.executable, "-c", "from fairmend.cli.main import main; main(prog_name='fairmend')"]


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Case(tmp_path)


def certify(case, *more):
    return run("certify", case.model, "--data", case.data, "--spec", case.spec, "--rows", 5, *more)


def test_nothing_is_logged_unless_asked(case):
    assert certify(case).stderr == ""


def test_v_says_what_is_done_and_vv_says_more(case):
    once, twice = case.repair("-v"), case.repair("-vv")
    for words in ("read Network(", "read Spec(", "rows of 6 columns", "step 1: 10 steps", "step 2: 20 regions",
                  "proof, attempt 1", "wrote ", "ended after"):  # fmt: skip
        assert words in once.stderr, words
    assert " DEBUG " not in once.stderr
    assert " DEBUG " in twice.stderr


def test_engines_and_candidates_are_logged(case):
    assert "engine enumerate: {'fair'" in certify(case, "-v").stderr
    shown = case.repair("-v", method="auto").stderr
    assert "candidate blind" in shown
    assert "auto selects blind" in shown


def test_solver_statuses_are_logged_in_detail(case):
    shown = certify(case, "-vv", "--engine", "milp").stderr
    assert "highs: " in shown
    assert "optimal" in shown


@pytest.mark.parametrize("where", ["before", "after", "both"])
def test_v_counts_wherever_it_stands(case, where):
    first = [] if where == "after" else ["-v"]
    last = [] if where == "before" else ["-v"]
    shown = run(*first, "certify", case.model, "--data", case.data, "--spec", case.spec, *last).stderr
    assert " INFO " in shown
    assert (" DEBUG " in shown) == (where == "both")


def test_json_stays_one_document(case):
    result = certify(case, "-vv", "--json")
    assert json.loads(result.stdout)["rows"]
    assert " DEBUG " in result.stderr


def test_a_log_file_gets_everything_and_is_appended_to(case):
    log = case.folder / "run.log"
    assert certify(case, "--log-file", log).stderr == ""
    first = log.read_text()
    assert " DEBUG " in first
    assert "engine enumerate" in first
    certify(case, "--log-file", log, "-v")
    assert log.read_text().startswith(first)
    assert log.read_text().count("fairmend certify ended") == 2


def test_a_log_file_holds_the_traceback_of_a_bug(case, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("fairmend.workflows.repair.repair_files", broken)
    refused(case.repair("--log-file", case.folder / "run.log"))
    assert "Traceback" in (case.folder / "run.log").read_text()


@pytest.mark.parametrize("name", ["model.onnx", "people.csv", "spec.toml", "nowhere/run.log", "."])
def test_a_log_file_that_cannot_be_is_refused_and_harms_nothing(case, name):
    before = case.listing()
    refused(certify(case, "--log-file", case.folder / name), "Invalid value for '--log-file'")
    assert case.listing() == before
    refused(run("--log-file", case.folder / name, "doctor"))


def test_logging_ends_with_the_command(case):
    logger = logging.getLogger("fairmend")
    before = logger.level, logger.handlers[:]
    certify(case, "-vv", "--log-file", case.folder / "run.log")
    assert (logger.level, logger.handlers[:]) == before
    assert certify(case).stderr == ""


def test_the_library_is_silent_by_default():
    code = "import fairmend, logging; logging.getLogger('fairmend.x').warning('heard')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr == ""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal to pretend")
def test_log_lines_stay_whole_beside_progress_bars(case):
    terminal, its_end = os.openpty()
    environment = {**os.environ, "COLUMNS": "250", "TERM": "xterm"}
    process = subprocess.Popen(
        [*COMMAND, *case.arguments("-v")], stderr=its_end, stdout=subprocess.PIPE, env=environment
    )
    os.close(its_end)
    seen = b""
    try:
        while chunk := os.read(terminal, 65536):
            seen += chunk
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(terminal)
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"Step 1" in seen  # there were bars
    assert b" INFO " not in stdout
    lines = [line for line in seen.decode().replace("\r", "\n").split("\n") if " INFO " in line]
    assert len(lines) > 5
    for line in lines:
        assert "━" not in line  # no bar and log line share a line


def test_a_message_is_one_line_and_a_traceback_is_indented(tmp_path):
    stop = start_logging(0, tmp_path / "run.log")
    try:
        logging.getLogger("fairmend").info("a %s", "name\nVALID\x1b[2J")
        try:
            raise ValueError("bad\nVALID\x1b[2J")
        except ValueError:
            logging.getLogger("fairmend").debug("failed", exc_info=True)
    finally:
        stop()
    text = (tmp_path / "run.log").read_text()
    assert text.replace("\n", "").isprintable()
    assert not [line for line in text.splitlines() if line.startswith("VALID")]


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({modules!r}))
from fairmend.cli.main import main
main({arguments!r}, prog_name="fairmend")
"""


def without(modules, *arguments):
    """Run a command in an environment where these modules cannot be imported."""
    code = WITHOUT.format(modules=modules, arguments=[str(argument) for argument in arguments])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["rich", "pandas"])
def test_a_missing_requirement_is_one_line_that_says_how_to_install_it(tmp_path, module):
    case = Case(tmp_path)
    done = without([module], "audit", case.model, "--spec", case.spec, "--data", case.data)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(
        f'Error: fairmend audit needs the package "{module}", which is not installed. Run pip install'
    )
    assert "bug" not in line


def test_a_missing_extra_is_one_line_that_names_it(tmp_path):
    done = without(["joblib"], "bench", "table1", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.endswith("Run pip install 'fairmend[bench]'")
    assert "bug" not in line


def test_the_checker_works_without_rich_and_pandas(tmp_path):
    case = Case(tmp_path)
    assert case.repair(method="blind", steps=1).exit_code == 0
    certificate = case.out / "certificate.json"
    done = without(["rich", "pandas", "torch"], "check", certificate, case.out / "model.onnx", "-v")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("VALID")


def test_a_module_that_fairmend_itself_lacks_is_reported_as_a_bug(monkeypatch):
    def broken(*_):
        raise ModuleNotFoundError("No module named 'fairmend.nonsense'", name="fairmend.nonsense")

    monkeypatch.setattr(main.get_command(click.Context(main), "doctor"), "callback", broken)
    refused(run("doctor"), "This is a bug in fairmend")


def test_the_command_is_remembered_as_typed():
    seen = []

    @click.command()
    @click.pass_context
    def inner(ctx):
        seen.append(typed_command(ctx))

    group = type(main)("root", modules="nowhere.", summaries={"inner": "Do something."})
    group.add_command(inner, "inner")
    group.main(["inner"], standalone_mode=False)
    assert seen == ["fairmend inner"]
