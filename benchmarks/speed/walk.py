"""Follow commands through the code: the modules that ran, networks and rows that were run, rows validated, files read.

python benchmarks/speed/walk.py [COMMAND ...] [--rows 5000] [--against PATH]

The commands are repair, audit, quantify and check, on the demo's network and applicants. A repeat is a run of the same
network on the same rows as a run before it. `--against` follows the commands through another checkout as well. Exits
with 1 if a command of this checkout has more repeats than `MOST_REPEATS`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("repair", "audit", "quantify", "check")
FIGURES = ("modules", "networks run", "rows run", "repeats", "row sets validated", "rows validated", "files read")
# Repeats that are no waste, or not yet avoided: recipes of auto that end in the same network, and parts of quantify.
MOST_REPEATS = {"repair": 2, "quantify": 12}


class Walk:
    """What was seen of a command; `figures` counts, `modules` names the modules whose functions ran."""

    def __init__(self) -> None:
        self.figures: Counter[str] = Counter()
        self.modules: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self._networks: dict[int, tuple[Any, str]] = {}
        self._inside = False
        self.repeated: list[str] = []

    def watch(self) -> None:
        """Count what networks, specs and readers of tables do from now on, and note where functions are called."""
        from fairmend.network import Network
        from fairmend.spec import Spec
        from fairmend.tables import csv_files, parquet_files

        self._wrap(Network, "_run", self._network_runs)
        self._wrap(Spec, "as_inputs", self._rows_are_validated)
        self._wrap(csv_files, "_parsing", lambda *_: self.figures.update({"files read": 1}))
        self._wrap(parquet_files, "_opened", lambda *_: self.figures.update({"files read": 1}))
        source = str(Path(sys.modules["fairmend"].__file__ or "").parents[1])

        def note(frame: Any, event: str, _: Any) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(source) and code.co_name != "<module>":
                self.modules.add(code.co_filename)

        threading.setprofile(note)
        sys.setprofile(note)

    def _wrap(self, owner: Any, name: str, count: Callable[..., None]) -> None:
        original = getattr(owner, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            count(*arguments)
            return original(*arguments, **options)

        setattr(owner, name, wrapped)

    def _network_runs(self, network: Any, X: Any, *_: Any) -> None:
        import numpy as np

        rows = np.ascontiguousarray(X)
        run = self._digest(network), hashlib.sha256(f"{rows.shape}".encode() + rows.tobytes()).hexdigest()
        again = run in self._seen
        self._seen.add(run)
        self.figures.update({"networks run": 1, "rows run": len(rows), "repeats": int(again)})
        if again:
            frame, way = sys._getframe(3), []
            while frame is not None and len(way) < 5:
                way.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
                frame = frame.f_back  # type: ignore[assignment]
            self.repeated.append(f"{len(rows)} rows: {' < '.join(way)}")

    def _digest(self, network: Any) -> str:
        if id(network) not in self._networks:
            digest = hashlib.sha256()
            for affine in network.affines:
                digest.update(affine.weight.tobytes() + affine.bias.tobytes())
            self._networks[id(network)] = network, digest.hexdigest()  # kept, so that its number stays its own
        return self._networks[id(network)][1]

    def _rows_are_validated(self, _: Any, X: Any, *__: Any) -> None:
        self.figures.update({"row sets validated": 1, "rows validated": len(X)})


def follow(arguments: list[str]) -> None:
    """Run a command in this process, and print what was seen."""
    from fairmend.cli.main import main as run

    walk = Walk()
    walk.watch()
    with suppress(SystemExit):
        run(arguments, prog_name="fairmend", standalone_mode=True)
    sys.setprofile(None)
    walk.figures["modules"] = len(walk.modules)
    sys.stderr.write(f"\nWALK{json.dumps({**walk.figures, 'repeated': walk.repeated})}\n")


def walk(command: str, folder: Path, checkout: Path) -> dict[str, Any]:
    """Return what a command does in a checkout."""
    out = folder / f"out-{checkout.name}"
    model, spec = str(folder / "model.onnx"), ["--spec", str(folder / "spec.toml")]
    data = ["--data", str(folder / "applicants.csv")]
    arguments = {
        "repair": [model, *data, *spec, "--out", str(out)],
        "audit": [model, *data, *spec],
        "quantify": [model, *spec, "--seconds", "5"],
        "check": [str(out / "certificate.json"), str(out / "model.onnx")],
    }[command]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        [sys.executable, __file__, "--follow", command, *arguments], capture_output=True, text=True, env=environment
    )
    found = [line for line in done.stderr.splitlines() if line.startswith("WALK")]
    if not found:
        raise RuntimeError(done.stderr)
    seen: dict[str, Any] = json.loads(found[0].removeprefix("WALK"))
    return seen


def main() -> int:
    if sys.argv[1:2] == ["--follow"]:
        follow(sys.argv[2:])
        return 0
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", default=COMMANDS, metavar="COMMAND")
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout of fairmend")
    parser.add_argument("--repeats", action="store_true", help="show where networks run again")
    chosen = parser.parse_args()
    checkouts = [ROOT] if chosen.against is None else [chosen.against.resolve(), ROOT]
    console, wrong = Console(), False
    with TemporaryDirectory() as name:
        folder = Path(name)
        _make_case(folder, chosen.rows)
        for command in chosen.commands:
            needs = command == "check" and not (folder / f"out-{ROOT.name}").exists()
            if needs:
                for checkout in checkouts:
                    walk("repair", folder, checkout)
            seen = [walk(command, folder, checkout) for checkout in checkouts]
            table = Table(title=f"fairmend {command}")
            for heading in ("", *(checkout.name for checkout in checkouts)):
                table.add_column(heading, justify="right" if heading else "left")
            for figure in FIGURES:
                table.add_row(figure, *(f"{each.get(figure, 0):,}" for each in seen))
            console.print(table)
            if chosen.repeats:
                for line, times in Counter(seen[-1]["repeated"]).items():
                    console.print(f"{times} x {line}", soft_wrap=True)
            wrong |= seen[-1].get("repeats", 0) > MOST_REPEATS.get(command, 0)
    return 1 if wrong else 0


def _make_case(folder: Path, rows: int) -> None:
    """Write the demo's network, applicants and spec."""
    code = f"from pathlib import Path; from fairmend.cli.demo import run_demo; run_demo(Path('{folder}'), rows={rows})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    raise SystemExit(main())
