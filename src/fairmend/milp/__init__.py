"""Mixed-integer linear programs: one sparse form as data, one file for each solver."""

from fairmend.errors import FairmendError
from fairmend.milp.gurobi import Gurobi
from fairmend.milp.highs import Highs
from fairmend.milp.lp import LinearProgram
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

SOLVERS: dict[str, type[Solver]] = {solver.NAME: solver for solver in (Highs, Scip, Gurobi)}


def available_solvers() -> list[str]:
    """The names of the solvers that are installed, the default first."""
    return [name for name, solver in SOLVERS.items() if solver.available()]


def get_solver(name: str = "highs") -> Solver:
    """The solver of that name, ready to `solve`."""
    if name not in SOLVERS:
        raise FairmendError(f"unknown solver {name!r}; there are {', '.join(SOLVERS)}")
    solver = SOLVERS[name]
    if not solver.available():
        what = f"fairmend[{solver.EXTRA}]" if solver.EXTRA else solver.REQUIRED_MODULE
        raise FairmendError(f"solver {name!r} needs the module {solver.REQUIRED_MODULE!r}: pip install {what}")
    return solver()
