"""Mixed-integer linear programs: one sparse form as data (`model`), and one file for each solver.

Other parts build a `Milp` with `MilpBuilder` and pass it to the solver that `get_solver` returns. `LinearProgram` is
for many small linear programs that differ in a few rows. A new solver is a subclass of `Solver`; see docs/extending.md.
"""

from fairmend.base.errors import FairmendError
from fairmend.milp.gurobi import Gurobi
from fairmend.milp.highs import Highs, LinearProgram
from fairmend.milp.model import Milp, MilpBuilder, Solution, Status, violation
from fairmend.milp.scip import Scip
from fairmend.milp.solver import Solver

__all__ = [
    "LinearProgram",
    "Milp",
    "MilpBuilder",
    "Solution",
    "Solver",
    "Status",
    "available_solvers",
    "get_solver",
    "violation",
]

_SOLVERS: dict[str, type[Solver]] = {solver.NAME: solver for solver in (Highs, Scip, Gurobi)}


def available_solvers() -> list[str]:
    """Return the names of the installed solvers, the default first."""
    return [name for name, solver in _SOLVERS.items() if solver.available()]


def get_solver(name: str = "highs") -> Solver:
    """Return the solver of that name, ready to `solve`."""
    if name not in _SOLVERS:
        raise FairmendError(f"unknown solver {name!r}; use {', '.join(_SOLVERS)}")
    solver = _SOLVERS[name]
    if not solver.available():
        what = f"fairmend[{solver.EXTRA}]" if solver.EXTRA else solver.REQUIRED_MODULE
        raise FairmendError(f"solver {name!r} needs the module {solver.REQUIRED_MODULE!r}: pip install {what}")
    return solver()
