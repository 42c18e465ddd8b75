"""The interface of a store, whichever database it uses: calls, money and the ledger, all exact.

One rule holds for every method: when it can't do its work, it raises ``StoreUnavailable`` within ``TIMEOUT_S``. It
never waits longer, and it never lets a call pass unchecked.
"""

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from policies.limits import Limit
from policies.spend import Denial, Hold, Want

TIMEOUT_S = 1.0
"""How long a call waits for its store, at most, before it is refused: more than a busy machine needs to catch up."""

LEASE_S = 60
"""How long the holds of a process on another machine outlive its last sign. On this machine its lock tells."""

MAINTENANCE_INTERVAL_S = 1.0
"""How often ``maintain`` is called."""


NO_HOLD_TO_MOVE = "a call can't be moved: it holds nothing"
"""What ``StoreUnavailable`` says of it."""


class StoreUnavailable(Exception):  # noqa: N818  (a state that callers answer to, not a fault of theirs)
    """The store can't be asked now. The message is one line for operators and holds no value of any row."""


class CallNotHeld(StoreUnavailable):
    """One call can't be held or moved, and the store is not to blame."""


class IllegalRowError(ValueError):
    """A programming error: the row breaks a rule of its table and will never be written."""


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """A call that is about to be sent: what it wants held, and under which limits.

    ``interrupted_row`` is its ledger row should its process end before the call does. No two attempts of a call have
    the same one.
    """

    id: str
    created_at: datetime
    workspace: str
    key_id: str
    want: Want
    limits: Sequence[Limit]
    interrupted_row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of a call: its ledger row, as ``Exchange.ledger_row`` returns it, and who pays."""

    row: Mapping[str, Any]
    from_wallet: bool


@dataclass(frozen=True, slots=True)
class WalletEntry:
    """Money that came into a wallet, or, negative, went out of it. An ``id`` is entered once only."""

    id: str
    created_at: datetime
    workspace: str
    amount_nanousd: int
    reference: str


class Store(Protocol):
    """What the gateway asks of a store. Its methods belong to one event loop; every process opens a store of its own.

    Each of them is one atomic step, however many processes work on the same store. A call's life is ``take``, ``hold``,
    ``move`` for each attempt after the first, then ``settle`` or ``void``. All of these raise ``StoreUnavailable``.
    Source: docs/limits.md, docs/ledger.md.
    """

    async def take_token(self, workspace: str, limit_rpm: int) -> int:
        """Take one token of the workspace's bucket and return 0, or return in how many µs one is back.

        A token comes back 60 s after it was taken, by the store's own clock.
        """

    async def hold(self, request: HoldRequest) -> Hold | Denial:
        """Check the limits and place the hold in one step. A hold outlives its process, as a call that was interrupted.

        An id is held once: asking again while the hold stands returns the hold that was placed.
        """

    async def move_hold(self, request: HoldRequest) -> Hold | Denial:
        """Let a call's hold be that of its next attempt, in one step: check the limits as if it had none, and place it.

        ``request`` is of a call that this process holds, with the same id, time, workspace and key. Asking again finds
        the hold that was placed. After a ``Denial``, or any error, the call still holds something, the old or, where
        that can't be known, the new: what was sent owes the ledger a row, so its hold stands until ``settle``. Raises
        ``StoreUnavailable`` also for a call that holds nothing here: it ended, or was taken for dead.
        """

    async def settle(self, settlement: Settlement) -> None:
        """Turn a call's hold into its row and its real cost, once: a second time is a no-op.

        A call whose hold was taken for dead and ended meanwhile has its interrupted row replaced. Where the store can't
        write now it raises ``StoreUnavailable``, keeps the booking and writes it later, so the caller need not; so it
        does whatever else goes wrong. Raises ``IllegalRowError``, and releases the hold, for a row that can never be
        written.
        """

    async def void(self, call_id: str) -> None:
        """Release the hold of a call that was not sent, if it has one; later, where that can't be done now."""

    async def credit(self, entry: WalletEntry) -> bool:
        """Put money into a wallet; return whether the entry is new. Raises ``IllegalRowError`` for what never fits."""

    async def record_attempt(self, circuit: str, *, failed: bool) -> None:
        """Take note of how an attempt ended, for its circuit (``policies.circuit_breaker.circuit_name``).

        Never raises ``StoreUnavailable``: a note that can't be written is lost. Nothing is written of what works.
        """

    def is_circuit_open(self, circuit: str) -> bool:
        """Tell whether this circuit is not closed, or its provider is passed over for all, as ``maintain`` read it."""

    async def circuit_allows(self, circuit: str, call_id: str) -> bool:
        """Tell whether a call that can go elsewhere may go here: nothing is open, or the call is the probe.

        Answered from what ``maintain`` read, but for a probe. Never raises ``StoreUnavailable``: a circuit is no guard,
        and one that can't be read is closed. A probe is waited for until its outcome is noted, or ``end_probe``.
        """

    def end_probe(self, call_id: str) -> Coroutine[Any, Any, Any] | None:
        """Return what is to be awaited of a call that has ended, None where it was no probe."""

    def open_circuits(self) -> frozenset[str]:
        """Return the circuits and the shared providers that are not closed, as ``maintain`` last read them."""

    async def maintain(self) -> None:
        """End the holds of dead processes, write what was kept, and read the circuits that all processes share."""

    async def check(self) -> None:
        """Write what was kept, and prove that more can be written."""

    async def close(self) -> None:
        """Write what was kept, log what can't be, and let go of the database. Closing twice is harmless."""
