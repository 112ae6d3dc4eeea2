"""`fairmend completion` prints a script for each shell, and bash completes with it."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from fairmend.cli.main import main
from support.cli_case import run, succeeded


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell):
    result = succeeded(run("completion", shell))
    assert "_FAIRMEND_COMPLETE" in result.stdout


def test_another_shell_is_refused():
    assert run("completion", "cmd").exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fairmend", "cer"], ["certify"]),
        (["fairmend", "certify", "--engine", "b"], ["branch"]),
        (["fairmend", "certify", "--time"], ["--time-limit"]),
        (["fairmend", "spec", "f"], ["from-sklearn"]),
    ],
)
def test_bash_completes(tmp_path, words, expected):
    program = tmp_path / "bin" / "fairmend"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom fairmend.cli.main import main\nmain(prog_name='fairmend')\n")
    program.chmod(0o755)
    script = (
        "compopt() { :; }\n"  # only works while bash itself completes
        'eval "$(fairmend completion bash)"\n'
        f"COMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
        f"_fairmend_completion fairmend {words[-1]!r} {words[-2]!r}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.stdout.split() == expected, result.stderr


@pytest.mark.parametrize("words", ["certify mo", "certify model.onnx --data p", "certify model.onnx --log-file x"])
def test_files_are_left_to_the_shell(words):
    *before, last = words.split()
    items = ShellComplete(main, {}, "fairmend", "_FAIRMEND_COMPLETE").get_completions(before, last)
    assert [(item.type, item.value) for item in items] == [("file", last)]
