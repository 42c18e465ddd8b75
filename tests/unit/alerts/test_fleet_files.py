"""A machine whose files differ for over a minute is an event, as is the end of that, whoever leads."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from pydantic import SecretStr

from addon.alerts.fleet_files import LOOK_S, FleetFiles
from addon.alerts.found_events import FoundEvents
from addon.alerts.ledger_thread import LedgerThread
from addon.fleet import tables
from addon.store.money.postgres.ledger import PostgresPlace, translate
from addon.store.money.postgres.money import PostgresMoney


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 22, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic_s(self) -> float:
        return (self.moment - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()


class Leader:
    """The process that leads: it looks, and keeps the marks, which a next one reads."""

    def __init__(self, ledger: LedgerThread, connection: psycopg.Connection) -> None:
        self.clock, self.marks = Clock(), dict[str, str]()
        self.ledger, self.connection = ledger, connection
        self.files = FleetFiles(ledger, self.clock)

    def describe(self, **machines: dict[str, str]) -> None:
        """Let machines tell of themselves. Without files, a machine was last seen long ago."""
        for name, files in machines.items():
            values = (name, "1", "fingerprint", 1, 0, json.dumps(files))
            self.connection.execute(translate(tables.DESCRIBE).encode(), values)
            if not files:
                self.connection.execute(
                    "UPDATE machines SET seen_at = seen_at - interval '2 minutes' WHERE name = %s", (name,)
                )

    async def look(self, after_s: float) -> list[tuple[str, object]]:
        """Look once. Return type and machine of each event, with its files or why it ended."""
        self.clock.moment += timedelta(seconds=after_s)
        found = FoundEvents()
        await self.files.find(found, self.marks, self.clock.now())
        for name, value in found.marks.items():
            if value is None:
                del self.marks[name]
            else:
                self.marks[name] = value
        return [
            (f"{one.type} {one.fields['machine']}", one.fields.get("files") or one.fields["reason"])
            for one in found.events
        ]


@pytest.fixture
def connection(postgres_ledger_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_ledger_url, autocommit=True) as opened:
        yield opened


@pytest.fixture
async def leader(postgres_ledger_url: str, connection: psycopg.Connection) -> AsyncIterator[Leader]:
    money = PostgresMoney(SecretStr(postgres_ledger_url))
    await money.check()
    await money.close()
    ledger = LedgerThread(PostgresPlace(SecretStr(postgres_ledger_url)))
    yield Leader(ledger, connection)
    await ledger.close()


SAME, OLD, OLDER = {"models.toml": "2", "acme.toml": "2"}, {"models.toml": "1"}, {"acme.toml": "1"}


async def test_each_difference_and_its_end_are_told_once(leader: Leader) -> None:
    leader.describe(gw1=SAME, gw2=SAME, gw3=SAME | OLD)
    assert await leader.look(0) == []
    assert await leader.look(50) == []
    assert await leader.look(9) == [], "it looked a moment ago"
    assert await leader.look(LOOK_S) == [("fleet.files_differ gw3", ["models.toml"])]
    assert await leader.look(LOOK_S) == []
    leader.describe(gw3=SAME | OLD | OLDER)
    assert await leader.look(LOOK_S) == []
    assert await leader.look(60) == [("fleet.files_differ gw3", ["acme.toml"])]
    leader.describe(gw3=SAME)
    assert await leader.look(LOOK_S) == [("fleet.files_agree gw3", "alike")]
    assert leader.marks == {}


async def test_the_next_leader_tells_nothing_again_and_a_machine_that_is_gone_ends(leader: Leader) -> None:
    leader.describe(gw1=SAME, gw2=SAME, gw3=SAME | OLD)
    await leader.look(0)
    assert len(await leader.look(60)) == 1
    leader.files.forget()
    assert await leader.look(1) == []
    assert await leader.look(60) == []
    leader.describe(gw3={})
    assert await leader.look(LOOK_S) == []
    assert await leader.look(60) == [("fleet.files_agree gw3", "gone")]


async def test_machines_that_are_silent_after_an_outage_are_not_gone(leader: Leader) -> None:
    leader.describe(gw1=SAME, gw2=SAME, gw3=SAME | OLD)
    await leader.look(0)
    assert len(await leader.look(60)) == 1
    leader.describe(gw1={}, gw2={}, gw3={})
    leader.files.forget()
    assert await leader.look(1) == []
    leader.describe(gw1=SAME, gw2=SAME, gw3=SAME | OLD)
    assert await leader.look(60) == []
    leader.describe(gw3=SAME)
    assert await leader.look(LOOK_S) == [("fleet.files_agree gw3", "alike")]
