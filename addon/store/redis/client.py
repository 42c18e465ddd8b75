"""The one Redis client of the project: every use has a timeout, and every fault is one error type.

A connection that still waits for an answer is never used again. The client repeats nothing: only the caller knows what
may be repeated.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from pydantic import SecretStr
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from addon.runtime.deadline import within
from addon.store.protocol import TIMEOUT_S, StoreUnavailable
from addon.store.rates.redis.pipeline import Pipeline
from addon.store.rates.redis.scripts import Script

CONNECTIONS = 32
"""Enough for a process with some hundred calls at once: Redis runs one command after the other."""

_SHOWN_CHARS = 120


class RedisClient:
    """A pool of connections to the Redis at ``url``.

    All methods raise ``StoreUnavailable``. Its message contains no credentials.
    """

    def __init__(self, url: SecretStr) -> None:
        try:
            options = parse_url(url.get_secret_value())
        except ValueError:
            # The message of the ValueError may contain a part of the URL.
            raise StoreUnavailable("state.redis_url can't be understood") from None
        self.address = str(options.get("path") or f"{options.get('host')}:{options.get('port', 6379)}")
        pool = BlockingConnectionPool.from_url(
            url.get_secret_value(),
            max_connections=CONNECTIONS,
            timeout=None,
            # Socket timers would blame Redis when the event loop was blocked. ``timeout`` limits every use.
            socket_timeout=None,
            socket_connect_timeout=None,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            decode_responses=True,
        )
        # The types of its commands depend on the command, which is a variable here.
        self._redis: Any = Redis(connection_pool=pool)
        self._pipeline = Pipeline(pool, TIMEOUT_S)

    @asynccontextmanager
    async def timeout(self, timeout_s: float = TIMEOUT_S, *, spent_s: float = 0.0) -> AsyncIterator[None]:
        """Cancel the block after ``timeout_s`` and raise ``StoreUnavailable``. ``spent_s`` of that are over already."""
        try:
            async with within(max(timeout_s - spent_s, 0.0)):
                yield
        except TimeoutError as error:
            raise self._no_answer(timeout_s) from error

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
            raise self._no_answer(TIMEOUT_S) from error
        except (RedisError, OSError) as error:
            raise self._unavailable(error) from error

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
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"Redis at {self.address}: {_reason(error)}")

    def _no_answer(self, timeout_s: float) -> StoreUnavailable:
        return StoreUnavailable(f"Redis at {self.address}: no answer within {timeout_s:g} s")


def _reason(error: Exception) -> str:
    """Return a short reason without the arguments of the command, which may contain a client's text."""
    reason = str(error).partition(", with args")[0].partition("\n")[0]
    return reason[:_SHOWN_CHARS] or type(error).__name__


def has_changed_nothing(error: StoreUnavailable) -> bool:
    """Return whether it is certain that nothing was done: Redis refused, or was not asked."""
    return error.__cause__ is None or isinstance(error.__cause__, ResponseError)


def has_error_code(error: StoreUnavailable, code: str) -> bool:
    """Return whether Redis refused with ``code``."""
    return isinstance(error.__cause__, ResponseError) and str(error.__cause__).startswith(code)
