"""The one Redis client of the project: every use has a timeout, and every fault is one error type.

A connection that still waits for an answer is never used again. The client repeats nothing: only the caller knows what
may be repeated.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pydantic import SecretStr
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import parse_url
from redis.exceptions import NoScriptError, RedisError, ResponseError

from addon.runtime.deadline import within
from addon.store.protocol import TIMEOUT_S, StoreUnavailable
from addon.store.rates.redis.client import BoundedClient
from addon.store.rates.redis.nodes import connection_options
from addon.store.rates.redis.pipeline import Pipeline
from addon.store.rates.redis.scripts import Script

CONNECTIONS = 32
"""Enough for a process with some hundred calls at once: Redis runs one command after the other."""


class RedisClient(BoundedClient):
    """A pool of connections to the Redis at ``url``.

    All methods raise ``StoreUnavailable``. Its message contains no credentials.
    """

    def __init__(self, url: SecretStr) -> None:
        try:
            options = parse_url(url.get_secret_value())
        except ValueError:
            # The message of the ValueError may contain a part of the URL.
            raise StoreUnavailable("state.redis_url can't be understood") from None
        address = str(options.get("path") or f"{options.get('host')}:{options.get('port', 6379)}")
        super().__init__(address)
        pool = BlockingConnectionPool.from_url(
            url.get_secret_value(),
            max_connections=CONNECTIONS,
            timeout=None,
            **connection_options(),
        )
        # The types of its commands depend on the command, which is a variable here.
        self._redis: Any = Redis(connection_pool=pool)
        self._pipeline = Pipeline(pool, TIMEOUT_S)

    async def run(self, script: Script, keys: Sequence[str], *arguments: str | int) -> Any:
        """Run a script, with the other scripts of this turn of the event loop. All its ``keys`` have the same hash tag.

        The answer comes within ``TIMEOUT_S``.
        """
        try:
            return await self.ask("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        # Redis was restarted or has never seen the script. Nothing was done.
        return await self.ask("EVAL", script.text, len(keys), *keys, *arguments)

    async def ask(self, *words: str | int) -> Any:
        """Run one command as ``run`` does, and return its answer as Redis sends it: texts, numbers and lists."""
        try:
            return await self._pipeline.run(*words)
        except TimeoutError as error:
            raise self.no_answer(TIMEOUT_S) from error
        except (RedisError, OSError) as error:
            raise self.unavailable(error) from error

    async def command(self, *words: str | int) -> Any:
        """Run one command."""
        with self._raising_unavailable():
            return await self._redis.execute_command(*words)

    async def transaction(self, commands: Iterable[Sequence[str | int]]) -> list[Any]:
        """Run commands on keys with the same hash tag as one atomic step. Return their answers."""
        with self._raising_unavailable():
            async with self._redis.pipeline(transaction=True) as pipeline:
                for words in commands:
                    pipeline.execute_command(*words)
                return list(await pipeline.execute())

    async def close(self) -> None:
        """Close all connections."""
        with suppress(RedisError, OSError):  # TimeoutError is an OSError.
            async with within(TIMEOUT_S):
                await self._pipeline.close()
                await self._redis.aclose()
                await self._redis.connection_pool.disconnect()

    @contextmanager
    def _raising_unavailable(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise  # ``timeout`` handles it.
        except (RedisError, OSError) as error:
            raise self.unavailable(error) from error


def has_changed_nothing(error: StoreUnavailable) -> bool:
    """Return whether it is certain that nothing was done: Redis refused, or was not asked."""
    return error.__cause__ is None or isinstance(error.__cause__, ResponseError)


def has_error_code(error: StoreUnavailable, code: str) -> bool:
    """Return whether Redis refused with ``code``."""
    return isinstance(error.__cause__, ResponseError) and str(error.__cause__).startswith(code)
