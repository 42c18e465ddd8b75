"""A real Redis server with its own process, port and folder. A test can stop, kill, freeze and restart it."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import redis
import redis.utils
from redis.backoff import NoBackoff
from redis.retry import Retry

from rig.bounds import BOUND_S
from rig.server_process import HOST, ServerProcess, installed_program

# Each new connection sends the client's version, and redis-py reads it from a file each time: 7 ms of CPU.
redis.utils.get_lib_version = cache(redis.utils.get_lib_version)

NO_RETRY = Retry(NoBackoff(), 0)
"""The retry setting of a client that must fail at once."""


def redis_program() -> Path:
    """Return the path of a Redis server, and fetch one when there is none. Raise RuntimeError with the reason."""
    try:
        return installed_program("install_redis.sh")
    except RuntimeError as error:
        raise RuntimeError(f"{error}TOLLGATE_WITHOUT_REDIS=1 skips the tests that need it.") from None


class RedisServer(ServerProcess):
    """One server.

    Nothing outlives a restart unless it is ``appendonly``. ``maxmemory`` is what Redis takes, such as "8mb"; a full
    server refuses writes. ``user`` and ``password`` are part of ``url``. ``more`` are lines of its own settings, which
    it may rewrite, and ``files`` are others that it finds in its folder.
    """

    def __init__(
        self,
        program: Path,
        *,
        appendonly: bool = False,
        maxmemory: str = "0",
        user: str = "",
        password: str = "",
        port: int | None = None,
        more: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        is_sentinel: bool = False,
    ) -> None:
        super().__init__("redis", port)
        self.url = f"redis://{f'{user}:{password}@' if password else ''}{HOST}:{self.port}"
        self.url += "" if is_sentinel else "/0"
        self._options = {
            "bind": HOST,
            "port": str(self.port),
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            "maxmemory": maxmemory,
            "maxmemory-policy": "noeviction",
            "requirepass": "" if user else password,
        }
        self._program = program
        self._arguments = ["--sentinel"] if is_sentinel else []
        for name, text in {"redis.conf": "\n".join(more), **(files or {})}.items():
            Path(self._folder.name, name).write_text(f"{text}\n", "utf-8")

    def command(self, *words: str | bytes | int | float, raw: bool = False) -> Any:
        """Run one command and return the answer, text as ``str``, and ``raw`` as Redis sends it."""
        with self._client() as client:
            if raw:
                client.response_callbacks.clear()
            return client.execute_command(*words)

    def flush(self) -> None:
        """Delete everything, in every database."""
        self.command("FLUSHALL")

    def _command(self) -> list[str]:
        words = [word for name, value in self._options.items() for word in (f"--{name}", value)]
        return [str(self._program), "redis.conf", *words, *self._arguments]

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=BOUND_S, retry=NO_RETRY)

    def _answers(self) -> bool:
        try:
            self.command("PING")
        except redis.ConnectionError:  # Refused, or still loading its data.
            return False
        return True
