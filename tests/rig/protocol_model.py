"""A plain model of the rules of calls, holds and money.

The model follows docs/limits.md. It keeps every call and counts again each time, so it has no counter that can drift.
It uses no code of the gateway for its decisions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import floor

from policies.limits import LimitKind, limits_of
from policies.model import Key, Mode, Workspace
from policies.spend import NOT_METERED, CounterUse, Denial, DenialReason, Hold, MaxCost

START = datetime(2026, 11, 28, 22, tzinfo=UTC)
"""A Saturday night: the day, the week and the month end soon after each other."""

KEYS = {
    "acme": (
        Key("ci", "00", spend_cap_nanousd=40_000, spend_reset="daily", request_cap=6, request_reset="weekly"),
        Key("app", "01", spend_cap_nanousd=150_000, spend_reset="monthly"),
    ),
    "bare": (Key("ci", "02", request_cap=3, request_reset="daily"),),
}
WORKSPACES = {
    "acme": Workspace("acme", "Acme", "standard", KEYS["acme"], monthly_spend_cap_nanousd=120_000),
    "bare": Workspace("bare", "Bare", "pro", KEYS["bare"], monthly_spend_cap_nanousd=90_000),
}
RPM = {"acme": 3, "bare": 2}
MINUTE_US = 60_000_000
CALLERS = [(workspace, key) for workspace, keys in KEYS.items() for key in keys]


@dataclass
class Call:
    """A call of the model, from its hold onwards."""

    id: str
    workspace: str
    key: Key
    created_at: datetime
    amount: int
    cap: int
    owner: int
    is_held: bool = True
    cost: int | None = None
    """The cost that was recorded, or None."""
    interrupted: bool = False
    asked_attempts: int = 1
    held_attempt: int = 1

    @property
    def pays_from_wallet(self) -> bool:
        return self.workspace == "acme"


def same_period(reset: str, one: datetime, other: datetime) -> bool:
    """Return whether two moments are in the same period."""
    if reset == "never":
        return True
    if reset == "daily":
        return one.date() == other.date()
    if reset == "monthly":
        return (one.year, one.month) == (other.year, other.month)
    return one.date() - timedelta(one.weekday()) == other.date() - timedelta(other.weekday())


def mode_of(max_cost: MaxCost) -> Mode:
    """Return the mode of a call with this greatest cost. Calls on a customer's key are not metered."""
    return "byok" if max_cost == NOT_METERED else "payg"


@dataclass(frozen=True)
class Moment:
    """A moment of the store's clock, in µs: not before ``since``, and not after ``until``."""

    since: int
    until: int


@dataclass
class Model:
    """The model: everything that has happened."""

    takes: dict[str, list[Moment]] = field(default_factory=lambda: {name: [] for name in WORKSPACES})
    calls: dict[str, Call] = field(default_factory=dict)
    credits: dict[str, tuple[str, int]] = field(default_factory=dict)

    def take(self, workspace: str, wait_us: int, since_us: int, until_us: int) -> None:
        """Check what a store said between two moments of its clock: 0 for a token, or in how many µs one is back.

        A token is back a minute after it was taken. One that is back between the two moments may count or not.
        """
        taken, limit = self.takes[workspace], RPM[workspace]
        may_be_out = [one for one in taken if one.until + MINUTE_US > since_us]
        are_out = [one for one in taken if one.since + MINUTE_US > until_us]
        if not wait_us:
            assert len(are_out) < limit, "a token too many"
            taken.append(Moment(since_us, until_us))
            return
        assert len(may_be_out) >= limit, "a token too few"
        first = may_be_out[: len(may_be_out) - len(are_out) + 1]
        waits = [(one.since + MINUTE_US - until_us, one.until + MINUTE_US - since_us) for one in first]
        assert any(least <= wait_us <= most for least, most in waits), f"{wait_us} is not in {waits}"

    def age_takes(self, by_us: int) -> None:
        """Make all takes older."""
        for taken in self.takes.values():
            taken[:] = [Moment(one.since - by_us, one.until - by_us) for one in taken]

    def count(self, includes: Callable[[Call], bool]) -> CounterUse:
        calls = [call for call in self.calls.values() if includes(call)]
        settled = [call for call in calls if call.cost is not None]
        held = [call for call in calls if call.is_held]
        return CounterUse(
            sum(call.cost or 0 for call in settled),
            len(settled),
            sum(call.amount for call in held),
            len(held),
        )

    def of_key(self, workspace: str, key: Key, reset: str, at: datetime) -> CounterUse:
        return self.count(
            lambda call: (
                (call.workspace, call.key.id) == (workspace, key.id)
                and same_period(reset, call.created_at, at)
            )
        )

    def of_month(self, workspace: str, at: datetime) -> CounterUse:
        return self.count(
            lambda call: call.workspace == workspace and same_period("monthly", call.created_at, at)
        )

    def of_wallet(self, workspace: str) -> CounterUse:
        of = self.count(lambda call: call.workspace == workspace)
        paid = sum(
            call.cost or 0
            for call in self.calls.values()
            if call.workspace == workspace and call.pays_from_wallet
        )
        credited = sum(amount for name, amount in self.credits.values() if name == workspace)
        return CounterUse(paid - credited, 0, of.held_nanousd, of.in_flight)

    def hold(
        self, call_id: str, workspace: str, key: Key, at: datetime, max_cost: MaxCost, owner: int
    ) -> Hold | Denial:
        decided = self.decide(workspace, key, at, max_cost)
        if isinstance(decided, Hold):
            self.calls[call_id] = Call(
                call_id, workspace, key, at, decided.amount_nanousd, decided.cap_tokens, owner
            )
        return decided

    def decide(self, workspace: str, key: Key, at: datetime, max_cost: MaxCost) -> Hold | Denial:
        """Run the checks in the order of docs/limits.md."""
        limits = {limit.kind: limit for limit in limits_of(WORKSPACES[workspace], key, mode_of(max_cost), at)}
        if key.request_cap is not None:
            of = self.of_key(workspace, key, key.request_reset, at)
            if of.requests + of.in_flight >= key.request_cap:
                return Denial("request_cap", limits["request_cap"])
        remaining: list[tuple[int, LimitKind, CounterUse]] = []
        unspent: list[tuple[int, LimitKind]] = []
        money: list[tuple[LimitKind, int | None, CounterUse]] = [
            ("spend_cap", key.spend_cap_nanousd, self.of_key(workspace, key, key.spend_reset, at)),
            ("wallet", 0 if workspace == "acme" else None, self.of_wallet(workspace)),
            (
                "monthly_spend_cap",
                WORKSPACES[workspace].monthly_spend_cap_nanousd,
                self.of_month(workspace, at),
            ),
        ]
        for reason, most, of in money:
            if most is None or mode_of(max_cost) == "byok":
                continue
            if of.spent_nanousd >= most:
                return Denial(reason, limits[reason])
            if not max_cost.is_protected and of.spent_nanousd + of.held_nanousd >= most:
                return Denial(reason, limits[reason], of.in_flight, of.held_nanousd)
            unspent.append((most - of.spent_nanousd, reason))
            remaining.append((most - of.spent_nanousd - of.held_nanousd, reason, of))
        if not max_cost.is_protected:
            return Hold(max_cost.prompt_nanousd, max_cost.cap_tokens)
        token_nanousd = Fraction(max_cost.token_picousd, 1000)
        cap = max_cost.cap_tokens
        if not remaining:
            return Hold(max_cost.prompt_nanousd - floor(-cap * token_nanousd), cap)
        room, reason, of = min(remaining, key=lambda one: one[0])
        if room < max_cost.prompt_nanousd + token_nanousd:
            least, scarcest = min(unspent, key=lambda one: one[0])
            why: DenialReason = "budget_of_prompt" if room < max_cost.prompt_nanousd else "budget"
            if least < max_cost.prompt_nanousd + token_nanousd:
                return Denial(why, limits[scarcest])
            return Denial(why, limits[reason], of.in_flight, of.held_nanousd)
        if token_nanousd:
            cap = min(cap, floor((room - max_cost.prompt_nanousd) / token_nanousd))
            if not max_cost.names_cap:
                quarter = floor((room // 4 - max_cost.prompt_nanousd) / token_nanousd)
                cap = min(cap, max(quarter, 4_096))
        return Hold(max_cost.prompt_nanousd - floor(-cap * token_nanousd), cap)

    def move(self, call: Call, max_cost: MaxCost) -> Hold | Denial:
        """Decide as if the call held nothing."""
        call.is_held = False
        decided = self.decide(call.workspace, call.key, call.created_at, max_cost)
        call.is_held = True
        call.asked_attempts += 1
        if isinstance(decided, Hold):
            call.amount, call.cap = decided.amount_nanousd, decided.cap_tokens
            call.held_attempt = call.asked_attempts
        return decided

    def settle(self, call: Call, cost: int) -> None:
        if call.cost is None or call.interrupted:
            call.cost, call.interrupted = cost, False
        call.is_held = False

    def end_those_of(self, owner: int) -> None:
        for call in self.calls.values():
            if call.owner == owner and call.is_held:
                call.is_held, call.cost, call.interrupted = False, 0, True
