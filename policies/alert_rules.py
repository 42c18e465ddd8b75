"""Which budgets have crossed which part of their limit, and which keys end soon: the decisions behind alerts.

A decision needs the present and a mark: what was alerted before, as the ledger keeps it. So it does not matter how
often a process looks, which one does, and whether one ended in between. Source: docs/alerts.md.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Literal

from msgspec import Struct

from policies.limits import LIMITS_OF_KEYS, Limit, LimitKind, limits_of
from policies.model import Key, Workspace

RESCUED_CALLS = 10
"""The Safety Net carries a workspace that had more rescued calls than this within ``RESCUE_WINDOW_S``."""
RESCUE_WINDOW_S = 600

AlertType = Literal[
    "budget.threshold",
    "key.expiring",
    "safety_net.carrying",
    "provider.circuit_open",
    "provider.circuit_closed",
    "provider.keys_lost",
    "store.unavailable",
    "store.recovered",
    "reload.failed",
    "fleet.files_differ",
    "fleet.files_agree",
    "ledger.not_archived",
    "test",
]

Secret = Literal["current", "previous"]

KEY_LEAD_S: Sequence[int] = (86_400, 7 * 86_400)
"""How long before its end a key is alerted, the shortest time first."""
PREVIOUS_LEAD_S: Sequence[int] = (3_600, 12 * 3_600)
"""The same for the earlier secret of a rotated key. Its usual time is a day, so the first alert comes in its middle."""


class Budget(Struct, frozen=True):
    """A limit and how much of it is used: calls for ``request_cap``, else nano-USD.

    For the wallet, ``maximum`` is the last credit, and ``period`` its id: the balance before it counts as not used.
    ``scope`` is that of a user or tag, for ``budget_cap``.
    """

    workspace: str
    key_id: str | None
    kind: LimitKind
    period: str
    used: int
    maximum: int
    scope: str | None = None

    @property
    def name(self) -> str:
        """The name of its mark: the same in all periods. That of a user or tag is of one period, and names no value."""
        if self.scope is not None:
            return f"{value_marks(self.workspace)}{blake2s(self.scope.encode(), digest_size=12).hexdigest()}"
        return f"budget {self.workspace} {self.kind}" + (f" {self.key_id}" if self.key_id else "")

    @property
    def left(self) -> int:
        return self.maximum - self.used


def value_marks(workspace: str) -> str:
    """Return the beginning of the marks of budgets of users and tags."""
    return f"value {workspace} "


class Mark(Struct, frozen=True):
    """The highest percentage that was alerted for a budget, in which period and of which maximum. 0: none."""

    period: str
    maximum: int
    percent: int


def find_crossed(
    percents: Sequence[int], budget: Budget, mark: Mark | None
) -> tuple[Sequence[int], Mark | None]:
    """Return the percentages to alert now, ascending, and the mark from now on.

    Each is alerted once a period. After the maximum has changed, those that are no longer reached may be alerted again.
    A mark that says nothing yet is not made: nearly all budgets never cross a percentage.
    """
    reached = max((percent for percent in percents if _is_reached(budget, percent)), default=0)
    done = 0
    if mark is not None and mark.period == budget.period:
        done = mark.percent if mark.maximum == budget.maximum else min(mark.percent, reached)
    crossed = [percent for percent in percents if done < percent <= reached]
    if mark is None and not reached:
        return crossed, None
    return crossed, Mark(budget.period, budget.maximum, max(done, reached))


def _is_reached(budget: Budget, percent: int) -> bool:
    return budget.maximum > 0 and budget.used * 100 >= budget.maximum * percent


def limits_to_watch(workspace: Workspace, now: datetime) -> Iterator[tuple[str | None, Limit]]:
    """Yield each limit of metered calls, those of keys with the key's id. An inactive key has none."""
    for limit in limits_of(workspace, _NO_KEY, "payg", now):
        yield None, limit
    for key in workspace.keys:
        for limit in limits_of(workspace, key, "payg", now) if key.active else ():
            if limit.kind in LIMITS_OF_KEYS:
                yield key.id, limit


_NO_KEY = Key("", "")


def make_budget(
    workspace: str,
    key_id: str | None,
    limit: Limit,
    spent_nanousd: int,
    requests: int,
    last_credit: tuple[str, int] | None,
) -> Budget | None:
    """Return a limit with its use; None for a wallet without a credit. ``last_credit`` is its id and nano-USD."""
    if limit.kind != "wallet":
        used = requests if limit.kind == "request_cap" else spent_nanousd
        scope = limit.counter.scope if limit.kind == "budget_cap" else None
        return Budget(workspace, key_id, limit.kind, limit.counter.period, used, limit.maximum, scope)
    if last_credit is None:
        return None
    credit_id, credit_nanousd = last_credit
    # The counter of a wallet is its negative balance.
    used = max(credit_nanousd + spent_nanousd, 0)
    return Budget(workspace, None, "wallet", credit_id, used, credit_nanousd)


class KeyEnd(Struct, frozen=True):
    """The end of a key, or of its ``previous`` secret. ``lead_s`` is which of the lead times has begun."""

    key_id: str
    which: Secret
    at: datetime
    lead_s: int


def find_key_ends(key: Key, now: datetime) -> Iterator[KeyEnd]:
    """Yield what ends soon. A key that has ended, or is not active, is no news."""
    ends: tuple[tuple[Secret, datetime | None, Sequence[int]], ...] = (
        ("current", key.expires_at, KEY_LEAD_S),
        ("previous", key.previous_until, PREVIOUS_LEAD_S),
    )
    for which, at, leads_s in ends if key.active else ():
        if at is not None and at > now:
            for lead_s in leads_s:
                if at - now <= timedelta(seconds=lead_s):
                    yield KeyEnd(key.id, which, at, lead_s)
                    break
