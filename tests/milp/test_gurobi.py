"""Gurobi: every status is known, and the limit of the free licence is explained."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.milp import MilpBuilder, get_solver
from fairmend.milp.gurobi import Gurobi


def test_gurobis_size_limit_is_explained():
    pytest.importorskip("gurobipy")
    builder = MilpBuilder()
    x = builder.add_variables(2500, upper=1, cost=-1.0, integer=True)
    builder.add_row(x, np.ones(2500), upper=3)
    try:
        solution = get_solver("gurobi").solve(builder.build())
    except FairmendError as error:
        assert "2,000" in str(error) or "licence" in str(error)  # noqa: PT017 - a full licence raises nothing
    else:
        assert solution.objective == pytest.approx(-3)


def test_every_status_of_gurobi_is_mapped():
    gurobipy = pytest.importorskip("gurobipy")
    words = {word for word in dir(gurobipy.GRB.Status) if word.isupper()}
    assert set(Gurobi.STATUS_MAP) >= words  # newer releases have more words


def test_options_in_the_current_folder_are_refused(tmp_path, monkeypatch):
    """It may be someone else's: gurobi.env can name a server for the problem, or a log file anywhere."""
    pytest.importorskip("gurobipy")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gurobi.env").write_text(f"LogFile {tmp_path / 'log'}\n")
    builder = MilpBuilder()
    builder.add_variables(1, upper=1, cost=-1.0, integer=True)
    with pytest.raises(FairmendError, match=r"it would take options from gurobi\.env in the current folder"):
        get_solver("gurobi").solve(builder.build())
    assert not (tmp_path / "log").exists()
