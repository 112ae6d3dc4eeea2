"""Which module imports which, read from the source without running it."""

import ast
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"


def module_name(path: Path, src: Path = SRC) -> str:
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(src: Path = SRC) -> dict[str, set[str]]:
    """For each module below `src`, the modules below `src` that it names in an import, wherever that stands."""
    paths = {module_name(path, src): path for path in sorted(src.rglob("*.py"))}
    roots = {name.partition(".")[0] for name in paths}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: relative import; write the full name"
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found.add(full if full in paths else str(node.module))
        graph[name] = {target for target in found if target.partition(".")[0] in roots} - {name}
    return graph
