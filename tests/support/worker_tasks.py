"""Tasks for the tests of engines, in a module that processes elsewhere can import, however pytest was started."""

import importlib
import os
import signal

from fairmend.base.errors import FairmendError


def end_at(shared, task):
    """Return the process and the task; end the process at the task `shared`."""
    if task == shared:
        os._exit(1)  # as the system ends a process for lack of memory
    return os.getpid(), task


def square(shared, task):
    """Return the square; fail at the task "wrong", and kill the process once at the task 5: the file "killed" tells."""
    if task == shared.get("wrong"):
        raise FairmendError("a wrong task")
    if task == 5 and not os.path.exists(shared["killed"]):
        open(shared["killed"], "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task


def file_of_module(shared, task):
    """Return from which file a worker imports a module."""
    return importlib.import_module(task).__file__


class CreatesFile:
    """An object that creates a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def answer_with_code(part, task):
    """Return such an object in the place of an answer, as a worker may that someone else runs."""
    return CreatesFile(task)
