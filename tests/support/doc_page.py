"""A page of the documentation as things to do: files to lay, Python and shell to run, in the order they stand.

Blocks marked ``python`` share one namespace; blocks marked ``bash`` run in the same folder, in this process if they
call nothing but fairmend. A comment just above a block says more about it:

    <!-- file: spec.toml -->            the block is the content of that file
    <!-- exit: 1 -->                    the shell's exit code
    <!-- not run: the reason -->        skipped

and anywhere, ``<!-- setup: demo -->`` lays applicants.csv, spec.toml and model.onnx of the demo in the folder first.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml
from click.testing import CliRunner
from markdown_it import MarkdownIt

from fairmend.cli.main import main

_COMMENT = re.compile(r"<!--\s*(file|exit|not run|setup):\s*(.+?)\s*-->")
RUN = {"python", "bash"}
CHECKED = {"toml", "yaml", "json"}
SHOWN = {"text", "console"}
# What a shell keeps for the lines below, and a call of fairmend, whose patterns are in quotes.
_KEPT = re.compile(r"^(\s|(cd|export|for|if|while) |\w+=)", re.MULTILINE)
_CALL = re.compile(r"""fairmend ((?:[^"'*?|>]|"[^"]*"|'[^']*')*?)(?: > ([\w.-]+))?""")
_TERMINAL = {"TERM": "dumb", "COLUMNS": "120"}


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    notes: dict[str, str]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found, notes = [], {}
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "html_block":
            notes |= dict(_COMMENT.findall(token.content))
        elif token.type == "fence":
            found.append(Block(token.info.split()[0] if token.info else "", token.content, token.map[0] + 1, notes))
            notes = {}
        elif token.type == "paragraph_open":
            notes = {}
    return found


def needs_demo(page: Path) -> bool:
    return ("setup", "demo") in _COMMENT.findall(page.read_text())


def run(page: Path, folder: Path) -> None:
    """Do what the page says; the first thing that fails names its line."""
    namespace = {"__name__": "__page__"}
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        if "not run" in block.notes:
            continue
        if "file" in block.notes:
            (folder / block.notes["file"]).write_text(block.text)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), namespace)
        elif block.language == "bash":
            _shell(block, where, folder)
        elif block.language == "yaml":
            assert yaml.safe_load(block.text), where
        else:
            assert block.language in CHECKED | SHOWN, f"{where}: is {block.language!r} run, or shown (text)?"


def _shell(block: Block, where: str, folder: Path) -> None:
    alone = not set(block.text) & set("$`\\;&<") and not _KEPT.search(block.text)
    code, output = (_line_by_line if alone else _bash)(block.text, folder)
    expected = int(block.notes.get("exit", 0))
    assert code == expected, f"{where}: exit {code}\n{output}"


def _line_by_line(text: str, folder: Path) -> tuple[int, str]:
    """Run each line, fairmend in this process, which has PyTorch loaded; the first that fails is the last."""
    code, output = 0, ""
    for line in text.splitlines():
        if call := _CALL.fullmatch(line):
            done = CliRunner(env=_TERMINAL).invoke(main, shlex.split(call[1], comments=True), prog_name="fairmend")
            code, output = done.exit_code, done.output
            if call[2]:
                (folder / call[2]).write_text(done.stdout)
        elif line:
            code, output = _bash(line, folder)
        if code:
            break
    return code, output


def _bash(text: str, folder: Path) -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env={**os.environ, **_TERMINAL, "PATH": path},
        capture_output=True,
        text=True,
    )
    return done.returncode, f"{done.stdout}\n{done.stderr}"
