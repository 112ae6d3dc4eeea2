"""Processes of the tests, forked from ones that have imported what they need, instead of started each time.

What runs in a process of its own still does; only the start of Python and its imports, up to 2 seconds of a processor,
are shared by all tests. `tests/network/formats/keras/test_hdf5.py` and `tests/workers/test_local.py` start them as
users do.
"""

import json
import multiprocessing.forkserver
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from fairmend.network.formats.keras import hdf5, hdf5_process

SERVER = """
import gc, json, os, sys
from importlib import util
sys.path[:] = json.loads(sys.argv[1])
import h5py, numpy
spec = util.spec_from_file_location("program", sys.argv[2])
program = util.module_from_spec(spec)
spec.loader.exec_module(program)
gc.freeze()
for line in sys.stdin:
    request, folder = json.loads(line)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for number, name in enumerate(("in", "out", "err")):
                flags = os.O_RDONLY if name == "in" else os.O_WRONLY | os.O_CREAT
                os.dup2(os.open(os.path.join(folder, name), flags, 0o600), number)
            sys.argv[1:] = [request]
            program.main()
            sys.stdout.flush()
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), folder, flush=True)
"""


PRELOADED = ["fairmend.workflows.audit", "fairmend.auditing.run", "fairmend.prove.certify", "fairmend.searching.run"]


def forked_context(kind: str):
    """Return the context of a pool of processes whose modules are imported once, instead of that in which each is new.

    Its server starts with the first pool.
    """
    assert kind == "spawn"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if isinstance(path, str))
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    return context


class Hdf5Forks:
    """The process from which those that decode an HDF5 file are forked; it starts with the first file."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        # What stands for the module `subprocess` where HDF5 files are read.
        self.subprocess = SimpleNamespace(**{**vars(subprocess), "run": self.run})

    def run(self, command, **options):
        """Run the program of the command on the input, as `subprocess.run` does."""
        request = command[-1]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "in").write_bytes(options["input"])
            server = self.start()
            server.stdin.write(json.dumps([request, folder]) + "\n")
            server.stdin.flush()
            for line in server.stdout:  # before it may come what a process that was killed did not wait for
                code, _, where = line.strip().partition(" ")
                if where == folder:
                    break
            out, err = (Path(folder, name).read_bytes() for name in ("out", "err"))
        return subprocess.CompletedProcess(command, int(code), out, err)

    def end(self) -> None:
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()

    def start(self) -> "subprocess.Popen[str]":
        """Start the process if it does not run yet, and return it."""
        if self._server is None:
            paths = [entry for entry in sys.path if isinstance(entry, str)]
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-c", SERVER, json.dumps(paths), hdf5_process.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | hdf5._ENVIRONMENT,
            )
        return self._server
