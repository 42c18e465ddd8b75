"""Fixtures of a real Redis: one server for the whole run, and others for the tests that break theirs."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rig.redis_server import RedisServer, redis_program

type StartRedis = Callable[..., RedisServer]


@pytest.fixture(scope="session")
def _redis_program() -> Path:
    if os.environ.get("TOLLGATE_WITHOUT_REDIS") == "1":
        pytest.skip("TOLLGATE_WITHOUT_REDIS=1: what Redis keeps is not tested")
    try:
        return redis_program()
    except RuntimeError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def _shared_redis(_redis_program: Path) -> Iterator[RedisServer]:
    with RedisServer(_redis_program) as server:
        yield server


@pytest.fixture
def redis_server(_shared_redis: RedisServer) -> RedisServer:
    """The empty server that the whole run shares. Never stop or freeze it: see ``start_redis``."""
    _shared_redis.flush()
    return _shared_redis


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of ``redis_server``."""
    return redis_server.url


@pytest.fixture
def start_redis(_redis_program: Path) -> Iterator[StartRedis]:
    """Start a server for one test: ``start(appendonly=True)``. It ends with the test."""
    with ExitStack() as running:

        def start(**options: Any) -> RedisServer:
            return running.enter_context(RedisServer(_redis_program, **options))

        yield start
