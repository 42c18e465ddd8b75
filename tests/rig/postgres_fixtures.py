"""Fixtures of a real PostgreSQL: one server for the whole run, and others for the tests that break theirs."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

from rig.places import make_postgres_place
from rig.postgres_server import PostgresServer
from rig.postgres_template import Postgres, postgres_programs

type StartPostgres = Callable[..., PostgresServer]


@pytest.fixture(scope="session")
def _postgres_programs() -> Iterator[Postgres]:
    if os.environ.get("TOLLGATE_WITHOUT_POSTGRES") == "1":
        pytest.skip("TOLLGATE_WITHOUT_POSTGRES=1: what PostgreSQL keeps is not tested")
    try:
        programs = postgres_programs()
    except RuntimeError as error:
        pytest.fail(str(error), pytrace=False)
    with closing(programs):
        yield programs


@pytest.fixture(scope="session")
def _shared_postgres(_postgres_programs: Postgres) -> Iterator[PostgresServer]:
    with PostgresServer(_postgres_programs) as server:
        yield server


@pytest.fixture
def postgres_server(_shared_postgres: PostgresServer) -> PostgresServer:
    """The server that the whole run shares. Never stop, freeze or configure it: see ``start_postgres``."""
    return _shared_postgres


@pytest.fixture
def postgres_url(_shared_postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database on the shared server."""
    name = _shared_postgres.create_database()
    yield _shared_postgres.url_of(name)
    _shared_postgres.drop_database(name)


@pytest.fixture(scope="session")
def _ledger_template(_shared_postgres: PostgresServer) -> str:
    name = _shared_postgres.create_database()
    make_postgres_place(_shared_postgres.url_of(name))
    return name


@pytest.fixture
def postgres_ledger_url(_shared_postgres: PostgresServer, _ledger_template: str) -> Iterator[str]:
    """The URL of a new ledger on the shared server. To copy one takes half the time of making its tables."""
    name = _shared_postgres.create_database(_ledger_template)
    url = _shared_postgres.url_of(name)
    with psycopg.connect(url) as ledger:
        # A Redis takes ledgers with the same id for one.
        ledger.execute("UPDATE ledger SET id = replace(gen_random_uuid()::text, '-', '')")
    yield url
    _shared_postgres.drop_database(name)


@pytest.fixture
def start_postgres(_postgres_programs: Postgres) -> Iterator[StartPostgres]:
    """Start a server for one test: ``start(fsync=True)``. It ends with the test."""
    with ExitStack() as running:

        def start(**options: Any) -> PostgresServer:
            return running.enter_context(PostgresServer(_postgres_programs, **options))

        yield start
