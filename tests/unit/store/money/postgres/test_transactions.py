"""What fails in a transaction, and what then happens to the others of its group."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import psycopg
import pytest
from pydantic import SecretStr
from rig.postgres_server import PostgresServer
from rig.postgres_template import PASSWORD

from addon.store.money.engine import Last, Statement, Step
from addon.store.money.postgres.transactions import MAX_TRIES, Transactions
from addon.store.protocol import StoreUnavailable

_INSERT = "INSERT INTO numbers VALUES (?)"


def _insert(numbers: Sequence[int]) -> Step[Sequence[int]]:
    yield Last([Statement(_INSERT, (number,)) for number in numbers])
    return numbers


def _numbers(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]


def _end_connections(server: PostgresServer, url: str) -> None:
    server.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", _name_of(url)
    )


def _name_of(url: str) -> str:
    return urlsplit(url).path[1:]


async def test_a_row_that_is_refused_stands_alone_and_all_others_are_written_once(
    transactions: Transactions, postgres_url: str
) -> None:
    numbers = [*range(20), -1, *range(20, 40)]
    done = await asyncio.gather(
        *[transactions.do(_insert, number, number) for number in numbers], return_exceptions=True
    )
    failed = [one for one in done if isinstance(one, BaseException)]
    assert [type(one) for one in failed] == [psycopg.errors.CheckViolation]
    assert _numbers(postgres_url) == list(range(40))


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_a_conflict_with_another_transaction_begins_the_group_again(
    transactions: Transactions, postgres_url: str, code: str
) -> None:
    tries = []

    def conflict_once(numbers: Sequence[int]) -> Step[Sequence[int]]:
        tries.append(code)
        yield [Statement(_INSERT, (number,)) for number in numbers]
        if len(tries) == 1:
            yield [Statement(_raising(code))]
        yield Last()
        return numbers

    assert await transactions.do(conflict_once, 1, 1) == 1
    assert _numbers(postgres_url) == [1]


async def test_a_conflict_that_does_not_end_is_given_up(
    transactions: Transactions, postgres_url: str
) -> None:
    tries = []

    def conflict(numbers: Sequence[int]) -> Step[Sequence[int]]:
        tries.append(numbers)
        yield [Statement(_raising("40001"))]
        return numbers

    with pytest.raises(StoreUnavailable, match="canary of PostgreSQL"):
        await transactions.do(conflict, 1, 1)
    assert len(tries) == MAX_TRIES
    await transactions.do(_insert, 2, 2)
    assert _numbers(postgres_url) == [2]


@pytest.mark.parametrize("code", ["42501", "42P01", "53100", "57014", "25P02", "55P03", "XX001"])
async def test_an_error_that_is_no_fault_of_a_row_makes_the_store_unavailable(
    transactions: Transactions, code: str
) -> None:
    def fail(numbers: Sequence[int]) -> Step[Sequence[int]]:
        yield [Statement(_raising(code))]
        return numbers

    done = await asyncio.gather(
        *[transactions.do(fail, number, number) for number in range(3)], return_exceptions=True
    )
    assert {str(one) for one in done} == {"PostgreSQL: canary of PostgreSQL"}
    assert await transactions.do(_insert, 1, 1) == 1


async def test_the_server_ends_a_statement_that_takes_too_long(transactions: Transactions) -> None:
    def sleep(numbers: Sequence[int]) -> Step[Sequence[int]]:
        yield [Statement("SELECT pg_sleep(60)")]
        return numbers

    with pytest.raises(StoreUnavailable, match="statement timeout"):
        await transactions.do(sleep, 1, 1, timeout_s=30)
    assert await transactions.do(_insert, 1, 1) == 1


async def test_what_has_waited_too_long_fails_and_the_others_of_its_group_are_done(
    transactions: Transactions, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE numbers")
        late, early = (
            asyncio.ensure_future(transactions.do(_insert, number, number, timeout_s=timeout_s))
            for number, timeout_s in ((1, 0.05), (2, 30.0))
        )
        with pytest.raises(StoreUnavailable, match="does not answer in time"):
            await late
        assert not early.done()
        other.rollback()
        assert await early == 2
    assert _numbers(postgres_url) == [1, 2]


async def test_a_connection_that_was_lost_while_nothing_was_asked_is_made_again(
    transactions: Transactions, postgres_url: str, postgres_server: PostgresServer
) -> None:
    for number in range(3):
        await transactions.do(_insert, number, number)
        _end_connections(postgres_server, postgres_url)
    assert _numbers(postgres_url) == [0, 1, 2]


async def test_what_was_lost_before_the_commit_is_done_again(
    transactions: Transactions, postgres_url: str, postgres_server: PostgresServer
) -> None:
    tries = []

    def lose_once(numbers: Sequence[int]) -> Step[Sequence[int]]:
        tries.append(numbers)
        yield [Statement(_INSERT, (number,)) for number in numbers]
        if len(tries) == 1:
            _end_connections(postgres_server, postgres_url)
        yield Last([Statement(_INSERT, (number + 10,)) for number in numbers])
        return numbers

    await asyncio.gather(*[transactions.do(lose_once, number, number) for number in (1, 2)])
    assert _numbers(postgres_url) == [1, 2, 11, 12]


async def test_what_was_lost_after_the_commit_was_sent_is_not_done_again(
    transactions: Transactions, postgres_url: str
) -> None:
    tries = []

    def end_itself(numbers: Sequence[int]) -> Step[Sequence[int]]:
        tries.append(numbers)
        yield Last(
            [Statement(_INSERT, (1,)), Statement("SELECT pg_terminate_backend(pg_backend_pid())")],
        )
        return numbers

    with pytest.raises(StoreUnavailable, match="PostgreSQL: "):
        await transactions.do(end_itself, 1, 1)
    assert len(tries) == 1
    assert _numbers(postgres_url) == []


async def test_a_server_that_is_read_only_is_unavailable_until_it_is_not(
    transactions: Transactions, postgres_url: str, postgres_server: PostgresServer
) -> None:
    await transactions.do(_insert, 1, 1)
    for value, answer in (("on", "takes no writes"), ("off", None)):
        postgres_server.execute(
            f"ALTER DATABASE {_name_of(postgres_url)} SET default_transaction_read_only = {value}"
        )
        if answer:
            _end_connections(postgres_server, postgres_url)
            with pytest.raises(StoreUnavailable, match=answer):
                await transactions.do(_insert, 2, 2)
        else:
            await transactions.do(_insert, 3, 3)
    assert _numbers(postgres_url) == [1, 3]


async def test_why_no_connection_is_made_is_said_without_the_password(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.execute(f"ALTER DATABASE {_name_of(postgres_url)} CONNECTION LIMIT 0")
    for url, reason in (
        (postgres_url.replace(PASSWORD, "canary-wrong-8Kq3"), "password authentication failed"),
        (postgres_server.url_of("nowhere"), 'database "nowhere" does not exist'),
        (postgres_url, "too many connections for database"),
        (f"{postgres_url}?unknown=canary-{PASSWORD}", "the URL can't be read"),
        (f"postgresql://a:{PASSWORD}@127.0.0.1:port/b", "PostgreSQL: "),
        (f"postgresql://a:{PASSWORD}@127.0.0.1:1/b", "[Cc]onnection refused"),
    ):
        transactions = Transactions(SecretStr(url))
        with pytest.raises(StoreUnavailable, match=reason) as raised:
            await transactions.do(_insert, 1, 1)
        await transactions.close()
        assert "canary" not in str(raised.value)


def _raising(code: str) -> str:
    return (
        "DO $$ BEGIN RAISE EXCEPTION 'canary of PostgreSQL'"
        f" USING ERRCODE = '{code}', DETAIL = 'a value'; END $$"
    )
