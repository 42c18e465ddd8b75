"""Workers that a supervisor forks from itself, which saves a second of CPU each.

The product starts a worker as ``python -m addon.serve.worker``, in a new interpreter. ``ForkingPopen`` is a Popen that
makes a copy of the supervisor instead, and runs the same module in it. Everything else is that of a new process: its
arguments, environment, descriptors, signals, process group and end.
"""

import atexit
import gc
import logging
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MODULE = "addon.serve.worker"
_PYTHON = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
"""The usual variables that an interpreter reads at its start."""
_CODE = subprocess.Popen._execute_child.__code__  # type: ignore[attr-defined]
_ARGUMENTS = _CODE.co_varnames[2 : _CODE.co_argcount]
"""The names of its arguments after ``args``."""


class ForkingPopen(subprocess.Popen[bytes]):
    """A Popen that forks for a worker. For any other program, it is an ordinary one."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        named = dict(zip(_ARGUMENTS, rest, strict=True))
        if not _is_forkable(args, named["env"]):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        with warnings.catch_warnings():
            # Python warns of locks that other threads may hold. Those of a supervisor hold none that a worker takes.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _run_worker(args, named)
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(named[end] for end in ends))  # type: ignore[attr-defined]


def _is_forkable(args: Any, environment: Mapping[str, str]) -> bool:
    """Return whether it is a worker, whose interpreter would be no other than this one.

    SQLite's state of its open files must not be copied, so a supervisor that reads the ledger forks no worker.
    """
    is_worker = isinstance(args, Sequence) and list(args[:3]) == [sys.executable, "-m", MODULE]
    return (
        is_worker
        and {name: value for name, value in environment.items() if name.startswith("PYTHON")} == _PYTHON
        and not any(".db" in file for file in _open_files())
    )


def _open_files() -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(link))
        except OSError:  # The descriptor of this listing.
            continue
    return found


def _run_worker(args: Sequence[str], given: Mapping[str, Any]) -> None:
    """Become the worker, and end with it. No object of the supervisor may be released: it would close descriptors."""
    gc.freeze()
    code = 1
    try:
        _become(given)
        sys.argv = list(args[2:])
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  (the end of an interpreter)
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code)


def _become(given: Mapping[str, Any]) -> None:
    for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setpgid(0, given["process_group"])
    for number, end in enumerate((given["p2cread"], given["c2pwrite"], given["errwrite"])):
        if end not in (-1, number):
            os.dup2(end, number)
    kept = {0, 1, 2, *given["pass_fds"]}
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd")]:
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:  # The descriptor of this listing.
                continue
    logging.root.handlers.clear()  # They may have lines that the supervisor writes soon.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  (it is open until the end of the process)
    os.environ.clear()
    os.environ.update(given["env"])
