"""Small runs of every command that workers share, with their workers killed in the middle."""

import json
import os
import signal

import numpy as np

import fairmend
import fairmend.prove.certify as certifying
from fairmend.quantifying import search as quantify_search
from fairmend.searching import run as search_run
from fairmend.spec import Feature, Spec
from support.certify_cases import AGE, GENDER, HOURS, INCOME, balanced_network
from support.search_cases import biased, people, spec
from support.strategies import random_network

COMMANDS = ("certify", "search", "quantify")


def small_parts(monkeypatch):
    """Cut the runs into many parts; how they are cut is decided by the client."""
    for module, name in (
        (certifying, "_FEWEST"),
        (certifying, "_FEW_INPUTS"),
        (search_run, "_FEWEST"),
        (search_run, "_MOST"),
    ):
        monkeypatch.setattr(module, name, 8)
    monkeypatch.setattr(quantify_search, "_MOST_BOXES", 8)


def content(command, cluster=None, progress=None):
    """Return all that a run gives, but for the time."""
    if command == "search":
        case = spec()
        found = fairmend.search(
            biased(case), case, people(case), seeds=96, local_steps=20, cluster=cluster, progress=progress
        )
        return {**found.as_dict(), "seconds": None}, found.idis.tobytes(), found.others.tobytes()
    if command == "quantify":
        features = [Feature(f"f{k}", "integer", range=(0, 30), scale={"mean": 15, "std": 10}) for k in range(6)]
        case = Spec([Feature("sex", "integer", range=(0, 1), protected=True), *features])
        net = random_network(np.random.default_rng(2), case.width, [12])
        shares = fairmend.quantify(net, case, share=0.4, seconds=600, samples=0, cluster=cluster, progress=progress)
        return json.dumps({**shares.as_dict(), "seconds": None}, default=str)
    case = Spec([AGE, GENDER, HOURS, INCOME])
    net = balanced_network(5, case, "relu")
    X = case.sample_inputs(160, np.random.default_rng(0))
    verdicts = fairmend.certify(net, case, X, "branch", cluster=cluster, progress=progress)
    return json.dumps({**verdicts.as_dict(case), "seconds": None}), [
        w and w.other.tobytes() for w in verdicts.witnesses
    ]


class KillAtProgress:
    """A progress callback that kills processes once, when workers are sure to have tasks."""

    def __init__(self, command, processes):
        """Kill what the function `processes` returns."""
        self._at = 12 if command == "quantify" else 2  # the first rounds of quantify are decided here
        self._processes, self._calls, self.killed = processes, 0, []

    def __call__(self, stage, done, total):
        self._calls += 1
        if self._calls == self._at:
            self.killed = self._processes()
            for process in self.killed:
                os.kill(process, signal.SIGKILL)
