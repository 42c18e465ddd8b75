"""A ledger in PostgreSQL with the workspaces acme and beta, and a machine that has their copies."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from rig.ledger_files import FleetMachine, put_files, through
from rig.tcp_links import TcpLink, TcpLinks

from addon.store.money.ledger import LedgerPlace
from addon.store.money.postgres.ledger import PostgresPlace

ENV = {"CONSOLE": "a long pass phrase", "OPENAI_KEY": "sk-obviously-fake", "GROQ_KEY": "sk-obviously-fake"}


@pytest.fixture
def place(postgres_ledger_url: str) -> LedgerPlace:
    made = PostgresPlace(SecretStr(postgres_ledger_url))
    put_files(made, "acme", "beta")
    return made


@pytest.fixture
def link(postgres_ledger_url: str) -> Iterator[TcpLink]:
    """The way of the machine to PostgreSQL."""
    with TcpLinks() as links:
        yield links.link(int(postgres_ledger_url.rpartition(":")[2].partition("/")[0]))


@pytest.fixture
def machine(tmp_path: Path, postgres_ledger_url: str, place: LedgerPlace, link: TcpLink) -> FleetMachine:
    return FleetMachine(tmp_path / "machine", through(postgres_ledger_url, link.port), ENV)
