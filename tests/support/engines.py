"""Engines that send everything as processes or a cluster need it, and finish tasks in another order."""

import pickle
from contextlib import contextmanager

from fairmend.workers.engine import Engine
from fairmend.workers.local import call_for_data, call_remotely, pack, read_answer


class PickledEngine(Engine):
    """Runs tasks in this process, the last of those under way first; `dies_after` finished tasks the client dies."""

    slots, window, on_this_machine = 3, 5, True

    def __init__(self, dies_after=None):
        self.dies_after = dies_after
        self.sent, self.most_waiting = [], 0

    @contextmanager
    def open(self, function, shared, classes=()):
        self._part, self._waiting = pickle.dumps(pack(function, shared, classes)), []
        yield self

    def submit(self, number, task):
        self._waiting.append((number, pickle.dumps(task)))
        self.sent.append(number)
        self.most_waiting = max(self.most_waiting, len(self._waiting))

    def next_finished(self):
        if self.dies_after == 0:
            raise KeyboardInterrupt
        self.dies_after = None if self.dies_after is None else self.dies_after - 1
        number, task = self._waiting.pop()
        return number, self._answer(pickle.loads(self._part), pickle.loads(task))

    def _answer(self, part, task):
        return pickle.loads(pickle.dumps(call_remotely(part, task)))


class ClusterEngine(PickledEngine):
    """The same without a common disk; results come back as plain data."""

    on_this_machine = False

    def _answer(self, part, task):
        return read_answer(part, call_for_data(part, task), "tcp://here")
