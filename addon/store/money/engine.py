"""What a step needs of a database: the ``Engine``, which writes its statements, and a transaction, which runs them.

A step is a generator. It yields the statements of one round trip, gets their rows, decides, and at last returns its
answer. So the rules are written once: SQLite runs a statement at a time in the event loop, PostgreSQL those of many
steps in one round trip. A step never waits, and it may run again when its transaction was undone.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol

from policies.exchange import KNOWN_APIS
from policies.limits import LIMITS_OF_KEYS, Limit
from policies.spend import CounterUse

type Row = Mapping[str, Any]
"""A row of ``usage`` by column, with the content of its price set."""

type Rows = Sequence[Sequence[Any]]
"""What a statement found or wrote."""


class Statement(NamedTuple):
    """One SQL statement, and its value for each ``?``."""

    sql: str
    values: Sequence[Any] = ()


class Last(list[Statement]):
    """The last statements of a step that change anything: after them the transaction may be committed."""

    __slots__ = ()


type Step[T] = Generator[Sequence[Statement], Sequence[Rows], T]

type Make[Thing, Answer] = Callable[[Sequence[Thing]], Step[Sequence[Answer]]]
"""Makes the step that does several things, such as to place several holds. It has an answer for each."""


class Table(NamedTuple):
    """A table that steps write to: its name and its columns, the key first.

    ``known``: what happens to a row whose key is there: it is left out, or it is an error. ``lenient`` also leaves out
    a row that breaks a rule of the table, where the engine can.
    """

    name: str
    columns: tuple[str, ...]
    known: Literal["left out", "error", "lenient"] = "left out"


HOLDS = Table(
    "holds",
    (
        *("id", "created_at", "expires_at", "workspace", "key_id"),
        *("amount_nanousd", "owner", "cap_tokens", "interrupted_row", "budgets"),
    ),
)
ENTRIES = Table("wallet_entries", ("id", "created_at", "workspace", "amount_nanousd", "reference"))
PAYMENTS = Table(*ENTRIES[:2], "error")
"""The entries of calls. A call that is new has none, and to look for it costs SQLite 10 µs."""

# A set that a later version names otherwise must not keep the call out of the ledger.
PRICES = Table("prices", ("hash", "first_at", "model_slug", "content"), "lenient")


COUNTED_APIS: Final = tuple(name for name in KNOWN_APIS if name != "chat")
"""The APIs whose refusals have a column each. The rest of ``count`` is of chat calls, or of an earlier version."""
REFUSALS = Table("refusals", ("hour", "workspace", "key_id", "code", "count", *COUNTED_APIS))
"""Its key is the first four columns. The others are added up."""


class Asked(NamedTuple):
    """A limit whose use is asked for, for one call. The hold of the call ``except_id`` does not count."""

    limit: Limit
    workspace: str
    key_id: str
    except_id: str | None = None

    @property
    def of_key(self) -> bool:
        """Whether only the calls of the key count."""
        return self.limit.kind in LIMITS_OF_KEYS

    @property
    def of_budget(self) -> bool:
        """Whether only the calls count that the budget of its scope pays for."""
        return self.limit.kind == "budget_cap"


class Engine(Protocol):
    """The SQL of one database. A method with several things returns a statement for each, or one for all."""

    def read_used(self, asked: Sequence[Asked]) -> Statement:
        """Read how much of each limit is used, and how much calls in flight hold."""

    def find_used(self, rows: Rows, count: int) -> list[CounterUse]:
        """Return what ``read_used`` has read."""

    def insert(self, table: Table, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        """Insert rows, and return the keys that are new."""

    def replace_interrupted(self, rows: Iterable[Row]) -> Sequence[Statement]:
        """Replace those rows of ``usage`` that dead processes left. Each statement returns their ids."""

    def remove_attempts(self, ids: Sequence[str]) -> Sequence[Statement]:
        """Remove the attempts of calls whose rows were replaced."""

    def replace_holds(self, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        """Replace holds that are there."""

    def find_holds(self, ids: Sequence[str]) -> Sequence[Statement]:
        """Return id, amount, cap, owner, interrupted row and budgets of each hold."""

    def release(self, ids: Sequence[str]) -> Sequence[Statement]:
        """Delete holds."""

    def count(self, sums: Mapping[tuple[str, str], tuple[int, int]]) -> Statement:
        """Add nano-USD and calls to counters, by scope and period."""

    def find_scopes(self, scopes: Sequence[str]) -> Statement:
        """Return those of the scopes that have a counter."""

    def count_scopes(self, first: str, end: str) -> Statement:
        """Count the scopes from ``first`` to before ``end`` that have a counter."""

    def note_batch(self, batch_id: str) -> Statement:
        """Note the id of a batch of refusals, and return it if it is new."""

    def count_refusals(self, rows: Sequence[Sequence[Any]]) -> Sequence[Statement]:
        """Add rows of ``REFUSALS``, each with another key, and forget the ids of old batches."""
