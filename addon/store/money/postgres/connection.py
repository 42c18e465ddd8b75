"""One connection to PostgreSQL. It sends several statements as one message, and waits for their answers in the loop.

It speaks to libpq itself: through the cursors of psycopg, which serve many other uses, a round trip takes twice as
long. Nothing is prepared and no session has a state, so a pgbouncer may stand between.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import error_from_result
from pydantic import SecretStr

from addon.store.money.engine import Rows, Statement

CONNECT_TIMEOUT_S: Final = 2
"""How long each host of the URL has to accept a connection, unless the URL says it. psycopg waits for no less."""


class Connection:
    """A connection that is open. Its methods belong to one event loop."""

    def __init__(self, opened: psycopg.AsyncConnection[Any]) -> None:
        self._opened = opened  # Its end would close the connection.
        self._pgconn = opened.pgconn
        self._pgconn.nonblocking = 1
        self._loop = asyncio.get_running_loop()
        self._results: list[pq.abc.PGresult] = []
        self._answer: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self._socket = self._pgconn.socket
        self._loop.add_reader(self._socket, self._receive)

    @property
    def is_lost(self) -> bool:
        """Whether it can't be used any more."""
        return self._lost is not None

    def probe(self) -> None:
        """Raise ``psycopg.Error`` if the server has ended the connection, before anything is sent over it."""
        for _ in range(2):  # The first may only read why.
            self._receive()
        if self._lost:
            raise self._lost

    async def run(self, statements: Iterable[Statement]) -> list[Rows]:
        """Send statements in one message, and return the rows of each.

        Raises ``psycopg.Error``, UnicodeEncodeError and TypeError. One that was cancelled must be cut.
        """
        message = _compose(statements)
        if self._lost:
            raise self._lost
        self._results = []
        self._answer = self._loop.create_future()
        try:
            self._pgconn.send_query(message)
            self._flush()
        except psycopg.Error as error:
            self.cut(error)
        await self._answer
        for result in self._results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
        return [_rows_of(result) for result in self._results]

    def cut(self, why: Exception | None = None) -> None:
        """Close it at once. What runs on it gets the error ``why``, and the server undoes what is not committed."""
        if self._lost:
            return
        self._lost = why or psycopg.OperationalError("the connection was closed")
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._pgconn.finish()
        if self._answer and not self._answer.done():
            self._answer.set_exception(self._lost)

    def _flush(self) -> None:
        try:
            is_all_sent = not self._pgconn.flush()
        except psycopg.Error as error:
            self.cut(error)
            return
        if is_all_sent:
            self._loop.remove_writer(self._socket)
        else:
            self._loop.add_writer(self._socket, self._flush)

    def _receive(self) -> None:
        """Take what has come. A server that ends is noticed here also while nothing is asked."""
        if self._lost:
            return
        try:
            self._pgconn.consume_input()
            while not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    break
                self._results.append(result)
            else:
                return
        except psycopg.Error as error:
            self.cut(error)
            return
        if self._answer and not self._answer.done():
            self._answer.set_result(None)


async def connect(url: SecretStr) -> Connection:
    """Connect to the first host that is as the URL asks for. Raises ``psycopg.Error``, whose text has no password."""
    try:
        known = conninfo_to_dict(url.get_secret_value())
    except psycopg.ProgrammingError:  # Its text may quote the URL.
        raise psycopg.ProgrammingError("the URL can't be read") from None
    opened = await psycopg.AsyncConnection.connect(
        url.get_secret_value(),
        autocommit=True,
        connect_timeout=known.get("connect_timeout", CONNECT_TIMEOUT_S),
        application_name=known.get("application_name", "tollgate"),
        client_encoding="utf8",
    )
    return Connection(opened)


def _compose(statements: Iterable[Statement]) -> bytes:
    message = b";".join([_with_values(*one) for one in statements])
    if b"\0" in message:
        raise psycopg.DataError("text has a NUL")
    return message


def _with_values(sql: str, values: Sequence[Any]) -> bytes:
    pieces = _pieces_of(sql)
    if len(pieces) != len(values) + 1:
        raise TypeError(f"{len(values)} values for {len(pieces) - 1} places")
    if not values:
        return pieces[0]
    literals = map(_literal, values)
    return b"".join([one for pair in zip_longest(pieces, literals, fillvalue=b"") for one in pair])


@lru_cache(maxsize=1024)
def _pieces_of(sql: str) -> Sequence[bytes]:
    return sql.encode().split(b"?")


def _literal(value: Any) -> bytes:
    """Return a value as SQL. Raises TypeError, UnicodeEncodeError."""
    if isinstance(value, str):
        # These forms are the same whatever ``standard_conforming_strings`` says. The first is read much faster.
        text = value.encode()
        if b"$" not in text:
            return b" $$%b$$" % text
        return b" E'" + text.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
    if value is None:
        return b"NULL"
    if isinstance(value, int | float):
        return repr(value).encode()
    if isinstance(value, list):
        return _literal("{" + ",".join(map(_element, value)) + "}")
    raise TypeError(f"PostgreSQL gets no {type(value).__name__}")


def _element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _rows_of(result: pq.abc.PGresult) -> Rows:
    if not result.ntuples:
        return ()
    decode = [_DECODERS.get(result.ftype(place), bytes.decode) for place in range(result.nfields)]
    return [
        tuple(
            [
                None if (value := result.get_value(row, place)) is None else decode_one(value)
                for place, decode_one in enumerate(decode)
            ]
        )
        for row in range(result.ntuples)
    ]


def _number_of(value: bytes) -> float:
    return float(value) if b"." in value else int(value)


_DECODERS: Final[Mapping[int, Callable[[bytes], Any]]] = {
    **dict.fromkeys((20, 21, 23, 26), int),  # bigint, smallint, integer, oid
    **dict.fromkeys((700, 701), float),  # real, double precision
    1700: _number_of,  # numeric, such as a sum of bigints
    16: b"t".__eq__,  # boolean
}
"""How the values of each type are read, by its oid. All others are text."""
