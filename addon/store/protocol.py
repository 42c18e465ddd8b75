"""The interface of a store, whichever database it uses: calls, money and the ledger, all exact.

One rule holds for every method: when it can't do its work, it raises ``StoreUnavailable`` within ``TIMEOUT_S``. It
never waits longer, and it never lets a call pass unchecked.
"""

from collections.abc import Collection, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Protocol

import msgspec

from policies.exchange import ApiName
from policies.limits import Counter, Limit
from policies.spend import Denial, Hold, MaxCost
from policies.token_limits import TokenDenial, TokenRequest, TokensTaken

TIMEOUT_S = 1.0
"""How long a call waits for its store before it is refused. A busy machine needs less to catch up."""

LEASE_S = 60
"""How long a hold outlives the last renewal of a process on another machine. On this machine its lock decides."""

MAINTENANCE_INTERVAL_S = 1.0
"""The time between two calls of ``maintain``."""

NO_HOLD_TO_MOVE = "a call can't be moved: it holds nothing"
"""The message of ``CallNotHeld`` when ``move_hold`` finds no hold of the call."""


class StoreUnavailable(Exception):  # noqa: N818  (a state of the store, no fault of the caller)
    """The store can't do its work now. The message is one line for operators and contains no value of any row."""


class StoreAway(StoreUnavailable):
    """The server of the store can't be reached now. It may come back, and nobody has to do anything here."""


class CallNotHeld(StoreUnavailable):
    """One call can't be held or moved, although the store works."""


class IllegalRowError(ValueError):
    """A programming error: the row breaks a rule of its table, so it can never be written."""


class HoldRequest(msgspec.Struct, frozen=True):
    """A call that is about to be sent: the hold that it asks for, and the limits that apply.

    ``interrupted_row`` becomes its ledger row if the process ends before the call does. Each attempt of a call has a
    different one. ``tokens`` is what it takes of limits a minute that need its body, None where none applies.
    """

    id: str
    created_at: datetime
    workspace: str
    key_id: str
    max_cost: MaxCost
    limits: Sequence[Limit]
    interrupted_row: Mapping[str, Any]
    tokens: TokenRequest | None = None


class NoToken(msgspec.Struct, frozen=True):
    """The workspace's bucket has no token. One is back in ``wait_us``."""

    wait_us: int


class Settlement(msgspec.Struct, frozen=True):
    """The end of a call: its ledger row, as ``policies.ledger_row`` makes it, and whether its wallet pays."""

    row: Mapping[str, Any]
    from_wallet: bool


class WalletEntry(msgspec.Struct, frozen=True):
    """Money that was put into a wallet; a negative amount was taken out. An ``id`` is entered only once."""

    id: str
    created_at: datetime
    workspace: str
    amount_nanousd: int
    reference: str


class Rates(Protocol):
    """What is fast, and may be forgotten: the tokens of workspaces and the circuits of providers.

    Its methods belong to one event loop; every process opens its own. Source: docs/limits.md.
    """

    @property
    def empty_buckets(self) -> AbstractSet[str]:
        """The workspaces whose bucket had no token at the last take of this process.

        A call of such a workspace is likely to be refused. It takes its token first, before any other work.
        """

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        """Take one token from the workspace's bucket and return 0, or return in how many µs a token is back.

        A token is back 60 s after it was taken, by the store's own clock.
        """

    @property
    def known_circuits(self) -> Collection[str]:
        """The circuits with a failure or success to remember. Without any, a success records nothing."""

    @property
    def probes(self) -> Collection[str]:
        """The ids of the calls in flight that are probes."""

    async def record_attempt(self, circuit: str, *, failed: bool) -> None:
        """Record how an attempt ended, for its circuit (``policies.circuit_breaker.circuit_name``).

        This never raises ``StoreUnavailable``: a record that can't be written is lost. A success on a closed circuit
        writes nothing.
        """

    def is_circuit_open(self, circuit: str) -> bool:
        """Return whether this circuit, or the one of its provider for all workspaces, is not closed.

        The answer is as old as the last ``maintain``.
        """

    async def circuit_allows(self, circuit: str, call_id: str) -> bool:
        """Return whether a call that has a fallback may use this circuit: it is closed, or the call becomes its probe.

        The answer is as old as the last ``maintain``; only a probe asks the store. This never raises
        ``StoreUnavailable``: a circuit enforces no limit, so one that can't be read counts as closed. There is no
        second probe until ``record_attempt`` or ``end_probe``.
        """

    def end_probe(self, call_id: str) -> Coroutine[Any, Any, Any] | None:
        """Return what to await when a call has ended that was a probe without a result; None for any other call."""

    def open_circuits(self) -> frozenset[str]:
        """Return the circuits and the shared providers that are reported as open, as ``maintain`` last read them."""

    async def maintain(self) -> None:
        """Read the circuits that all processes share."""

    async def check(self) -> None:
        """Prove that tokens can be taken."""

    async def close(self) -> None:
        """Close the database. A second call does nothing."""


class SeparateRates(Rates, Protocol):
    """Rates in another database than money: tokens a minute are taken and settled next to money, in steps of their own.

    Where both are in one database, the store does this in the steps of money. Source: docs/limits.md.
    """

    async def take_tokens(self, asked: TokenRequest, workspace: str) -> TokensTaken | TokenDenial:
        """Take the tokens of a call from each of its limits, or from none."""

    async def settle_tokens(self, taken: TokensTaken, used_tokens: int | None, workspace: str) -> None:
        """Replace what a call took by what it used, ``used_tokens`` as in ``token_limits.find_used``.

        This never raises ``StoreUnavailable``: what can't be given back drains within a minute.
        """


class Money(Protocol):
    """What may never be forgotten: holds, counters, rows and wallets. Each method is one atomic step.

    A call uses ``hold``, ``move_hold`` for each attempt after the first, then ``settle`` or ``void``. Source:
    docs/limits.md, docs/ledger.md.
    """

    @property
    def warnings(self) -> Sequence[str]:
        """What an operator should know about the database, such as that it has no standby. It is a minute old."""

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """Check the limits and place the hold in one step.

        When the process ends before the call does, another process settles the hold with its ``interrupted_row``. An
        id is held once: a second request returns the hold that exists.
        """

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        """Replace a call's hold with that of its next attempt, in one step.

        The limits are checked as if the call held nothing. ``request`` has the id, time, workspace and key of a call
        that this process holds. A second request returns the hold that was placed. After a ``Denial`` or an error the
        call still has a hold: the old one or, when that is not known, the new one. A call that was sent needs a ledger
        row, so its hold stays until ``settle``. Raise ``CallNotHeld`` when the call has no hold here: it ended, or its
        process counted as dead.
        """

    async def settle(self, settlement: Settlement) -> None:
        """Replace a call's hold by its ledger row and its real cost. A second call for the same id changes nothing.

        When the process counted as dead and its call was settled as interrupted, this row replaces the interrupted
        one. When the store can't write now, it raises ``StoreUnavailable``, keeps the settlement and writes it later;
        after any other error it does the same. Raise ``IllegalRowError`` and release the hold when the row can never
        be written.
        """

    async def void(self, call_id: str) -> None:
        """Release the hold of a call that was not sent, if it has one. When that fails now, it is done later."""

    @property
    def live_processes(self) -> int:
        """How many processes that serve calls share the ledger, 0 where it does not know. It is some seconds old."""

    @property
    def unrecorded(self) -> int:
        """How many calls have ended and wait in this process until they can be written."""

    async def credit(self, entry: WalletEntry) -> bool:
        """Put money into a wallet and return whether the entry is new.

        Raise ``IllegalRowError`` when it can never be written.
        """

    async def read_counters(self, workspace: str, counters: Sequence[Counter]) -> list[tuple[int, int]]:
        """Return the nano-USD and the calls of each counter of the workspace. Holds of calls in flight do not count."""

    def count_refusal(self, workspace: str, key_id: str, code: str, api: ApiName = "chat") -> None:
        """Count a call that was not sent upstream; workspace and key are empty if its key was not valid.

        This never waits. ``maintain`` writes the counts to the ledger, and keeps those that can't be written now.
        """

    async def maintain(self) -> None:
        """Settle the holds of dead processes, and write what is pending."""

    async def check(self) -> None:
        """Write what is pending, and prove that the database can be written."""

    async def close(self) -> None:
        """Write what is pending, log what can't be written, and close the database. A second call does nothing."""


class Store(Rates, Money, Protocol):
    """The interface of a store: rates and money, in one database or in two.

    Where its server is away at the start, no call passes before ``check`` has succeeded once.

    Each method is one atomic step, however many processes work on the same data. A call uses ``take_token`` and
    ``hold``, or ``take_and_hold`` instead of both. All of these raise ``StoreUnavailable``.

    Tokens a minute, and requests a minute of budgets, are taken by ``take_and_hold`` only. ``settle`` replaces them by
    what the call used by its row, and ``void`` by nothing. If the process dies, they drain within a minute.
    """

    async def take_and_hold(
        self, request: HoldRequest, limit_rpm: int
    ) -> Hold | Denial | NoToken | TokenDenial:
        """Do ``take_token``, take ``request.tokens``, and ``hold``, in one step where both are in one database.

        The first that is refused ends it. The tokens a minute of a call without a hold are given back. With
        ``limit_rpm`` 0 the call has its token already.
        """
