"""Runs scripts in Redis, wherever the nodes are: every wait has a bound, and every fault is one error type.

A script may run twice when its answer is lost. Those of the rates may: a token is lost, or a change finds itself made.

| Redis says | what is done |
|---|---|
| MOVED, ASK | the script runs where it says |
| NOSCRIPT | it is sent whole |
| TRYAGAIN, LOADING | it runs again, a little later |
| READONLY, CLUSTERDOWN, MASTERDOWN, NOREPLICAS, or nothing more | the same, after a look at the nodes |
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from pydantic import SecretStr
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from addon.runtime.deadline import within
from addon.settings.redis_topology import Address, parse_redis_topology
from addon.settings.redis_url import hide_credentials
from addon.store.protocol import TIMEOUT_S, StoreUnavailable
from addon.store.rates.redis.nodes import Nodes, locate, reason_of, slot_of
from addon.store.rates.redis.scripts import Script

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.1


@dataclass(slots=True)
class _Call:
    """A script that runs, and where it runs next."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[str | int]
    slot: int
    at: Address | None
    is_asking: bool = False
    is_whole: bool = False

    def words(self) -> tuple[str | int, ...]:
        begin = ("EVAL", self.script.text) if self.is_whole else ("EVALSHA", self.script.sha)
        return (*begin, len(self.keys), *self.keys, *self.arguments)


class ScriptClient:
    """The Redis that ``url`` names. Its methods raise ``StoreUnavailable``, without credentials.

    ``place`` says which it is.
    """

    def __init__(self, url: SecretStr) -> None:
        try:
            topology = parse_redis_topology(url)
        except ValueError as error:
            raise StoreUnavailable(f"the URL of Redis: {error}") from None
        try:
            self._nodes = Nodes(topology)
        except ValueError:
            # The message of redis-py may contain a part of the URL.
            raise StoreUnavailable("the URL of Redis can't be understood") from None
        self.place = f"Redis at {hide_credentials(url.get_secret_value())}"
        self._down: set[Address | None] = set()
        """The nodes that a script has not reached in its whole time. Then no other waits for one of them."""

    async def run(self, script: Script, keys: Sequence[str], *arguments: str | int) -> Any:
        """Run a script, with the other scripts of this turn of the event loop. All its ``keys`` have the same hash tag.

        The answer comes within ``TIMEOUT_S``.
        """
        began_s = time.monotonic()
        slot = slot_of(keys[0])
        call = _Call(script, keys, arguments, slot, self._nodes.find(slot))
        try:
            answer = await self._try(call)
        except (RedisError, OSError) as error:
            return await self._repeat(call, error, began_s)
        self._down.discard(call.at)
        return answer

    def look_around(self) -> None:
        """Ask the Sentinels in the background, now and then."""
        self._nodes.look_around()

    async def close(self) -> None:
        """Close all connections."""
        with suppress(RedisError, OSError):  # TimeoutError is an OSError.
            async with within(TIMEOUT_S):
                await self._nodes.close()

    @asynccontextmanager
    async def timeout(self) -> AsyncIterator[None]:
        """Cancel the block after ``TIMEOUT_S`` and raise ``StoreUnavailable``."""
        try:
            async with within(TIMEOUT_S):
                yield
        except TimeoutError as error:
            raise self._no_answer() from error

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"{self.place}: {reason_of(error)}")

    def _no_answer(self, why: str = "") -> StoreUnavailable:
        return StoreUnavailable(f"{self.place}: no answer within {TIMEOUT_S:g} s{why and f' ({why})'}")

    async def _try(self, call: _Call) -> Any:
        if call.at is None:
            raise RedisConnectionError(self._nodes.fault)
        return await self._nodes.pipeline(call.at).run(*call.words(), is_asking=call.is_asking)

    async def _repeat(self, call: _Call, error: Exception, began_s: float) -> Any:
        """Run a script again and again until its time is over or nothing mends the error."""
        why = ""
        try:
            async with within(max(TIMEOUT_S - (time.monotonic() - began_s), 0.0)):
                for tries in count():
                    why = reason_of(error)
                    await self._mend(call, error, tries)
                    why = ""  # From now on, the node is silent.
                    try:
                        answer = await self._try(call)
                    except (RedisError, OSError) as another:
                        error = another
                    else:
                        self._down.discard(call.at)
                        return answer
        except TimeoutError:
            self._down.add(call.at)
            raise self._no_answer(why) from error

    async def _mend(self, call: _Call, error: Exception, tries: int) -> None:
        """Prepare a script for its next try after ``error``. Raise ``StoreUnavailable`` when nothing helps."""
        if isinstance(error, NoScriptError) and not call.is_whole:
            call.is_whole = True  # Redis was restarted or has never seen the script. Nothing was done.
            return
        if isinstance(error, TimeoutError):
            self._nodes.look_soon()
            raise self._no_answer() from error
        asked, call.is_asking = call.at or Address("", 0), False
        if isinstance(error, AskError):  # MovedError is one, too.
            if self._nodes.is_alone:
                raise StoreUnavailable(
                    f"{self.place} is a node of a cluster, whose URL begins with redis+cluster://"
                )
            call.at = locate(error.host, error.port, asked)
            call.is_asking = not isinstance(error, MovedError)
            if not call.is_asking:
                self._nodes.move(call.slot, call.at)
            if tries < 2:
                return
        elif _looks_elsewhere(error):
            if call.at in self._down:
                self._nodes.look_soon()
                raise self._unavailable(error) from error
            await self._nodes.look()
        elif not isinstance(error, TryAgainError | BusyLoadingError):
            raise self._unavailable(error) from error
        await asyncio.sleep(min(_FIRST_PAUSE_S * 2**tries, _LONGEST_PAUSE_S))
        if not call.is_asking:
            call.at = self._nodes.find(call.slot)


def _looks_elsewhere(error: Exception) -> bool:
    """Return whether another node may do what this one did not."""
    if isinstance(error, AuthenticationError | BusyLoadingError):
        return False
    if isinstance(error, RedisConnectionError | OSError | ReadOnlyError | ClusterDownError):
        return True
    return isinstance(error, ResponseError) and str(error).startswith("NOREPLICAS")
