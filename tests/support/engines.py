"""An engine that sends everything through pickle, as workers need it, and finishes tasks in another order."""

import pickle
from contextlib import contextmanager

from fairmend.workers.remote_call import call_remotely, pack


class PickledEngine:
    """Runs tasks in this process, the last of those under way first; `dies_after` finished tasks the client dies."""

    slots, window, is_here, on_this_machine = 3, 5, False, True

    def __init__(self, dies_after=None):
        self.dies_after = dies_after
        self.sent, self.most_waiting = [], 0

    @contextmanager
    def open(self, function, shared):
        self._part, self._waiting = pickle.dumps(pack(function, shared)), []
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
        result = call_remotely(pickle.loads(self._part), pickle.loads(task))
        return number, pickle.loads(pickle.dumps(result))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass
