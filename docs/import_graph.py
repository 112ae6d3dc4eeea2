"""The import graph of the source: read without running it, and drawn for the architecture page.

``python docs/import_graph.py docs/images/imports.svg`` draws it; tests/test_floor_plan.py enforces it.
"""

from __future__ import annotations

import ast
import sys
from html import escape
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"

# The parts of fairmend from the bottom up. A module imports from its own part and from parts on lower floors. Parts on
# the same floor do not import each other.
FLOORS = (
    ("_version", "base"),
    ("workers",),
    ("tables",),
    ("network", "spec"),
    ("models", "bounds", "milp"),
    ("prove",),
    ("auditing",),
    ("searching", "repairing", "quantifying"),
    ("evaluate",),
    ("report",),
    ("workflows",),
    ("paper", "mlflow", "sklearn"),
    ("cli",),
)
FLOOR = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}
CHECKER = "fairmend_check"

_LOWEST_DRAWN = 2  # the floors below are what every part uses
_WIDTH, _HEIGHT, _ROW, _GAP, _EDGE, _SHIFT = 104, 30, 62, 60, 24, 58


def import_graph(src: Path = SRC) -> dict[str, set[str]]:
    """Return for each module below `src` the modules below `src` that it imports, wherever the import stands."""
    paths = {_module_name(path, src): path for path in sorted(src.rglob("*.py"))}
    roots = {name.partition(".")[0] for name in paths}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                if node.level or node.module is None:
                    raise ValueError(f"{name}, line {node.lineno}: relative import; write the full name")
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found.add(full if full in paths else node.module)
        graph[name] = {target for target in found if target.partition(".")[0] in roots} - {name}
    return graph


def part_of(module: str) -> str:
    """Return the part that a module belongs to: the first name below fairmend, or the checker."""
    names = module.split(".")
    if module == "fairmend.__main__":  # starts the command line
        return "cli"
    return CHECKER if names[0] == CHECKER else names[1] if len(names) > 1 else "fairmend"


def part_graph(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return which part imports which other part, without the modules at the bottom that all of them use."""
    drawn = {part for part, floor in FLOOR.items() if floor >= _LOWEST_DRAWN}
    parts: dict[str, set[str]] = {part: set() for part in drawn}
    for module, targets in graph.items():
        if part_of(module) in parts:
            parts[part_of(module)] |= {part_of(target) for target in targets} & drawn
    return {part: targets - {part} for part, targets in parts.items()}


def without_detours(parts: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph without the edges that follow from others, so that it can be read when drawn."""

    def reached(part: str) -> set[str]:
        below = set(parts[part])
        for target in parts[part]:
            below |= reached(target)
        return below

    return {
        part: {target for target in targets if not any(target in reached(other) for other in targets - {target})}
        for part, targets in parts.items()
    }


def draw(parts: dict[str, set[str]]) -> str:
    """Return the graph as SVG: the command line at the top, arrows from each part to what it imports."""
    floors = FLOORS[_LOWEST_DRAWN:]
    total = _EDGE * 2 + max(map(len, floors)) * (_WIDTH + _GAP)
    places: dict[str, tuple[float, float]] = {}
    for floor, names in enumerate(floors):
        width = len(names) * (_WIDTH + _GAP) - _GAP
        # Parts that have a floor to themselves stand left and right in turn, so that no arrow runs behind a box.
        shift = (_SHIFT if floor % 2 else -_SHIFT) if len(names) == 1 else 0
        for number, part in enumerate(names):
            x = (total - width) / 2 + shift + number * (_WIDTH + _GAP)
            places[part] = x, _EDGE + (len(floors) - 1 - floor) * _ROW
    below = ", ".join(part for names in reversed(FLOORS[:_LOWEST_DRAWN]) for part in names if part[0] != "_")
    height = _EDGE * 2 + len(floors) * _ROW + _HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:g} {height:g}" width="{total:g}" '
        f'font-family="sans-serif" font-size="13" role="img" aria-label="Which part imports which">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#888"/></marker></defs>',
        f'<rect width="{total:g}" height="{height:g}" fill="#fff"/>',
    ]
    for part, targets in sorted(without_detours(parts).items()):
        for target in sorted(targets):
            (x1, y1), (x2, y2) = places[part], places[target]
            lines.append(
                f'<line x1="{x1 + _WIDTH / 2:g}" y1="{y1 + _HEIGHT:g}" x2="{x2 + _WIDTH / 2:g}" y2="{y2 - 2:g}" '
                'stroke="#888" marker-end="url(#head)"/>'
            )
    for part, (x, y) in places.items():
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="#eef1fb" stroke="#3f51b5"/>'
            f'<text x="{x + _WIDTH / 2:g}" y="{y + _HEIGHT / 2 + 5:g}" text-anchor="middle" fill="#1a237e">'
            f"{escape(part)}</text>"
        )
    lines.append(
        f'<rect x="{_EDGE}" y="{height - _EDGE - _HEIGHT:g}" width="{total - 2 * _EDGE:g}" height="{_HEIGHT}" rx="5" '
        f'fill="#f5f5f5" stroke="#888"/><text x="{total / 2:g}" y="{height - _EDGE - _HEIGHT / 2 + 5:g}" '
        f'text-anchor="middle" fill="#333">used by all: {escape(below)}</text>'
    )
    return "\n".join([*lines, "</svg>", ""])


def _module_name(path: Path, src: Path) -> str:
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(part_graph(import_graph())), encoding="utf-8")
