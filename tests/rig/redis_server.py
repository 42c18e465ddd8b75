"""A real Redis server with its own process, port and folder. A test can stop, kill, freeze and restart it."""

import os
import random
import signal
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import redis
import redis.utils
from redis.backoff import NoBackoff
from redis.retry import Retry

from rig.bounds import BOUND_S
from rig.configuration import ROOT

# Each new connection sends the client's version, and redis-py reads it from a file each time: 7 ms of CPU.
redis.utils.get_lib_version = cache(redis.utils.get_lib_version)

HOST = "127.0.0.1"
NO_RETRY = Retry(NoBackoff(), 0)
"""The retry setting of a client that must fail at once."""

INSTALL_BOUND_S = 300.0
"""How long the first run may take to fetch the server's packages."""

# Systems give outgoing connections ports from 32768 on. A lower port stays free while the server is stopped. With a
# higher one, a client that keeps trying could get the server's own port and connect to itself.
_LOWEST_PORT, _HIGHEST_PORT = 15_000, 30_000


def redis_program() -> Path:
    """Return the path of a Redis server, and fetch one when there is none. Raise RuntimeError with the reason."""
    script = [str(ROOT / "tests" / "install_redis.sh")]
    found = subprocess.run(script, capture_output=True, text=True, timeout=INSTALL_BOUND_S, check=False)
    if found.returncode:
        raise RuntimeError(f"{found.stderr}TOLLGATE_WITHOUT_REDIS=1 skips the tests that need it.")
    return Path(found.stdout.strip())


class RedisServer:
    """One server. Use it as a context manager: it answers when the block begins, and ends with the block.

    Nothing outlives a restart unless it is ``appendonly``. ``maxmemory`` is what Redis takes, such as "8mb"; a full
    server refuses writes. ``password`` is part of ``url``.
    """

    def __init__(
        self, program: Path, *, appendonly: bool = False, maxmemory: str = "0", password: str = ""
    ) -> None:
        self.port = free_port()
        self.url = f"redis://{f':{password}@' if password else ''}{HOST}:{self.port}/0"
        self._options = {
            "bind": HOST,
            "port": str(self.port),
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            "maxmemory": maxmemory,
            "maxmemory-policy": "noeviction",
            "requirepass": password,
        }
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = TemporaryDirectory(prefix="redis-", ignore_cleanup_errors=True)
        self._log_path = Path(self._folder.name, "redis.log")

    def __enter__(self) -> Self:
        try:
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
    def pid(self) -> int:
        return self._running.pid

    @property
    def log(self) -> str:
        """Return the last lines that the server wrote, since its first start."""
        return "\n".join(self._log_path.read_text("utf-8").splitlines()[-20:])

    def start(self) -> None:
        """Start the server on the same port and in the same folder. Return when it answers."""
        assert self._process is None, "it runs already"
        words = [word for name, value in self._options.items() for word in (f"--{name}", value)]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), *words],
                cwd=self._folder.name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Send SIGTERM and wait for the end. A frozen server is thawed first."""
        self._running.send_signal(signal.SIGTERM)
        self._running.send_signal(signal.SIGCONT)
        try:
            code = self._running.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None
        assert code == 0, f"exit code {code} after SIGTERM; its log:\n{self.log}"

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self._running.kill()
        self._running.wait(BOUND_S)
        self._process = None

    def freeze(self) -> None:
        """Freeze the server: connections stay open and new ones are accepted, but it answers nothing."""
        self._running.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it ended instead"

    def thaw(self) -> None:
        """Continue the server. It answers the commands that came in the meantime."""
        self._running.send_signal(signal.SIGCONT)

    def command(self, *words: str | bytes | int | float) -> Any:
        """Run one command and return the answer, text as ``str``."""
        with self._client() as client:
            return client.execute_command(*words)

    def flush(self) -> None:
        """Delete everything, in every database."""
        self.command("FLUSHALL")

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process, "it does not run"
        return self._process

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=BOUND_S, retry=NO_RETRY)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + BOUND_S
        while not self._answers():
            assert self._running.poll() is None, f"it ended before it answered; its log:\n{self.log}"
            assert time.monotonic() < deadline, f"it never answered; its log:\n{self.log}"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            self.command("PING")
        except redis.ConnectionError:  # Refused, or still loading its data.
            return False
        return True


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
