"""A server that a test can stop, kill, freeze and restart: its process, its port and its folder."""

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from rig.bounds import BOUND_S
from rig.configuration import ROOT

HOST = "127.0.0.1"

INSTALL_BOUND_S = 300.0
"""How long the first run may take to fetch a program's packages."""

# Systems give outgoing connections ports from 32768 on. A lower port stays free while the server is stopped. With a
# higher one, a client that keeps trying could get the server's own port and connect to itself.
_LOWEST_PORT, _HIGHEST_PORT = 15_000, 30_000


def installed_program(script: str) -> Path:
    """Return the program that a script in ``tests`` finds or fetches. Raise RuntimeError with the reason."""
    command = [str(ROOT / "tests" / script)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_BOUND_S, check=False)
    if found.returncode:
        raise RuntimeError(found.stderr)
    return Path(found.stdout.strip())


class ServerProcess(ABC):
    """One server. Use it as a context manager: it answers when the block begins, and ends with the block."""

    _stop_signal = signal.SIGTERM

    def __init__(self, name: str, port: int | None = None) -> None:
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_frozen = False
        self._folder = TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True)
        self._log_path = Path(self._folder.name, f"{name}.log")
        self._user: dict[str, Any] = {}
        """Arguments of ``subprocess.Popen`` that switch the user."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command line that starts the server."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether the server serves clients."""

    def _prepare(self) -> None:  # noqa: B027
        """Do what comes before the first start."""

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self.start()
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._process:
            self.kill()
        self._folder.cleanup()

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not stopped, killed or frozen."""
        return self._process is not None and not self._is_frozen

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def log(self) -> str:
        """Return the last lines that the server wrote, since its first start."""
        return "\n".join(self._log_path.read_text("utf-8").splitlines()[-20:])

    def start(self) -> None:
        """Start the server on the same port and in the same folder. Return when it answers."""
        self.begin()
        try:
            self.wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def begin(self) -> None:
        """Start the server, and do not wait."""
        assert self._process is None, "it runs already"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._folder.name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **self._user,
            )

    def stop(self) -> None:
        """Ask the server to end, and wait for it. A frozen server is thawed first."""
        self._running.send_signal(self._stop_signal)
        self.thaw()
        try:
            code = self._running.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process, self._is_frozen = None, False
        assert code == 0, f"exit code {code} after {self._stop_signal.name}; its log:\n{self.log}"

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self._running.kill()
        self._running.wait(BOUND_S)
        self._process, self._is_frozen = None, False

    def freeze(self) -> None:
        """Freeze the server: connections stay open and new ones are accepted, but it answers nothing."""
        self._running.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it ended instead"
        self._is_frozen = True

    def thaw(self) -> None:
        """Continue the server. It answers what came in the meantime."""
        self._running.send_signal(signal.SIGCONT)
        self._is_frozen = False

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process, "it does not run"
        return self._process

    def wait_until_it_answers(self) -> None:
        def answers() -> bool:
            assert self._running.poll() is None, f"it ended before it answered; its log:\n{self.log}"
            return self._answers()

        self._wait_until(answers, "it never answered")

    def _wait_until(self, condition: Callable[[], object], problem: str) -> None:
        deadline = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < deadline, f"{problem}; its log:\n{self.log}"
            time.sleep(0.01)


def free_port() -> int:
    while True:
        port = random.randint(_LOWEST_PORT, _HIGHEST_PORT)
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((HOST, port))
            except OSError:
                continue
        return port


def free_ports(count: int) -> list[int]:
    """Return so many different ones."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)
