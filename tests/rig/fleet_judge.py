"""The judge of a fleet: the provider's sum, the rows, the counters and the wallets agree, and no hold is left.

It reads the tables of PostgreSQL, and asks ``tollgate ledger verify``, too.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import psycopg
from psycopg.rows import dict_row

from policies.limits import counters_of
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.fleet import COMPLETION_NANOUSD, PROMPT_NANOUSD, RATED, RPM, WALLETS_USD, Fleet
from rig.fleet_load import Answer
from rig.postgres_template import ROLE
from rig.scripts import Received

INTERRUPTED = "interrupted"
_LOOK_AGAIN_S = 0.1

type _Rows = list[dict[str, Any]]


@dataclass
class Verdict:
    """What the judge found. ``discrepancies`` are what no table of losses allows; the rest is what was lost."""

    discrepancies: list[str] = field(default_factory=list)
    calls: int = 0
    lost_rows: int = 0
    interrupted: int = 0
    unbilled_nanousd: int = 0
    interrupted_nanousd: Counter[str] = field(default_factory=Counter)
    """What calls cost that were interrupted, by workspace. Nobody pays it, so as much may be spent again."""
    overspent_nanousd: int = 0


@dataclass(frozen=True)
class Allowed:
    """What a fault may cost.

    ``gateways_killed`` may leave calls whose row says that they were interrupted, and ``rows_lost`` calls may lack
    theirs. ``buckets`` is how many times the rates of a minute may be given. What calls had spent in the times that
    PostgreSQL ``forgot`` (monotonic) may be spent again, until the gateways have written it again. So may what the
    calls ``late`` cost, which ended after their process had counted as dead.
    """

    gateways_killed: Collection[int] = ()
    rows_lost: int = 0
    forgot: Sequence[tuple[float, float]] = ()
    late: Collection[str] = ()
    buckets: int = 1


def judge(fleet: Fleet, answers: Sequence[Answer], allowed: Allowed = Allowed()) -> Verdict:
    """Wait until nothing is held and each call has its row, for a bounded time. Then compare everything."""
    deadline_s = time.monotonic() + BOUND_S / 4
    verdict = _compare(fleet, answers, allowed)
    while verdict.discrepancies and time.monotonic() < deadline_s:
        time.sleep(_LOOK_AGAIN_S)
        verdict = _compare(fleet, answers, allowed)
    verified = tollgate(fleet.folder / "machine-0", "ledger", "verify")
    if verified.returncode:
        verdict.discrepancies += f"ledger verify: {verified.stdout}{verified.stderr}".splitlines()
    return verdict


def cost_nanousd(request: Received) -> int:
    """Return what a call costs that the provider answered as dear as it may be."""
    body = request.json()
    cap = body.get("max_completion_tokens") or body["max_tokens"]
    return len(json.dumps(body["messages"])) // 4 * PROMPT_NANOUSD + int(cap) * COMPLETION_NANOUSD


def _compare(fleet: Fleet, answers: Sequence[Answer], allowed: Allowed) -> Verdict:
    rows, entries, held, counters = _read(fleet)
    told = {str(request.json()["user"]): cost_nanousd(request) for request in list(fleet.upstream.requests)}
    verdict = Verdict(calls=len(told))
    found = verdict.discrepancies
    found += [f"hold {call_id} of {workspace} is left" for call_id, workspace in held]
    found += _compare_rows(rows, told, answers, allowed, verdict)
    found += _compare_wallets(fleet, rows, entries)
    found += _compare_counters(rows, counters)
    found += _compare_budgets(fleet, told, rows, answers, allowed, verdict)
    found += _compare_rates(answers, allowed)
    return verdict


def _read(fleet: Fleet) -> tuple[_Rows, _Rows, list[tuple[str, str]], dict[tuple[str, str], tuple[int, int]]]:
    with psycopg.connect(fleet.postgres.url_of(ROLE), connect_timeout=int(BOUND_S)) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor = connection.cursor(row_factory=dict_row)
        rows = cursor.execute("SELECT * FROM usage").fetchall()
        entries = cursor.execute("SELECT * FROM wallet_entries").fetchall()
        held = connection.execute("SELECT id, workspace FROM holds").fetchall()
        spend = connection.execute("SELECT scope, period, spent_nanousd, requests FROM spend").fetchall()
    return rows, entries, held, {(scope, period): (spent, calls) for scope, period, spent, calls in spend}


def _compare_rows(
    rows: Sequence[dict[str, Any]],
    told: dict[str, int],
    answers: Sequence[Answer],
    allowed: Allowed,
    verdict: Verdict,
) -> Iterator[str]:
    of_name: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        of_name[row["end_user"]].append(row)
    gateway_of = {answer.name: answer.gateway for answer in answers}
    lost = []
    for name, cost in told.items():
        mine = of_name.pop(name, [])
        if not mine:
            lost.append(name)
            verdict.unbilled_nanousd += cost
        elif len(mine) > 1:
            yield f"{name}: {len(mine)} rows"
        elif mine[0]["error_code"] == INTERRUPTED and gateway_of.get(name) in allowed.gateways_killed:
            verdict.interrupted += 1
            verdict.unbilled_nanousd += cost
            verdict.interrupted_nanousd[mine[0]["workspace"]] += cost
        elif mine[0]["retail_nanousd"] != cost:
            yield (
                f"{name}: the provider counted {cost}, the row {mine[0]['retail_nanousd']}"
                f" ({mine[0]['error_code']}, {mine[0]['usage_source']})"
            )
    verdict.lost_rows = len(lost)
    if len(lost) > allowed.rows_lost:
        yield f"{len(lost)} calls have no row, such as {lost[0]} of gateway {gateway_of.get(lost[0])}"
    for name, mine in of_name.items():
        if any(row["error_code"] != INTERRUPTED or row["retail_nanousd"] for row in mine):
            yield f"{name}: a row of a call that the provider did not get: {mine[0]['error_code']}"
    sent = Counter(answer.name for answer in answers if answer.status == 200)
    yield from (f"{name}: answered, and the provider did not get it" for name in sent if name not in told)


def _compare_wallets(
    fleet: Fleet, rows: Sequence[dict[str, Any]], entries: Sequence[dict[str, Any]]
) -> Iterator[str]:
    for name in WALLETS_USD:
        spent = sum(row["retail_nanousd"] for row in rows if row["workspace"] == name)
        left = sum(entry["amount_nanousd"] for entry in entries if entry["workspace"] == name)
        if left != fleet.budgets_nanousd[name] - spent:
            yield f"wallet {name}: {left} are left of {fleet.budgets_nanousd[name]} after {spent}"


def _compare_counters(
    rows: Sequence[dict[str, Any]], counters: dict[tuple[str, str], tuple[int, int]]
) -> Iterator[str]:
    counted: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        day = date.fromisoformat(row["created_at"][:10])
        for counter in counters_of(row["workspace"], row["key_id"], day):
            counted[counter.scope, counter.period][0] += row["retail_nanousd"]
            counted[counter.scope, counter.period][1] += 1
    for place, expected in counted.items():
        if (found := counters.get(place, (0, 0))) != tuple(expected):
            yield f"counter {place}: {found} are counted, {expected} are recorded"


def _compare_budgets(
    fleet: Fleet,
    told: dict[str, int],
    rows: Sequence[dict[str, Any]],
    answers: Sequence[Answer],
    allowed: Allowed,
    verdict: Verdict,
) -> Iterator[str]:
    """Compare what the provider counted, whoever paid it, with each budget."""
    workspace_of = {answer.name: answer.workspace for answer in answers}
    workspace_of |= {row["end_user"]: row["workspace"] for row in rows}
    for name, budget in fleet.budgets_nanousd.items():
        spent = sum(cost for call, cost in told.items() if workspace_of.get(call) == name)
        over = max(spent - budget, 0)
        verdict.overspent_nanousd = max(verdict.overspent_nanousd, over)
        forgotten = sum(
            told.get(one.name, 0)
            for one in answers
            if one.workspace == name
            and (
                one.name in allowed.late
                or any(since < one.ended_s <= until for since, until in allowed.forgot)
            )
        )
        if over > forgotten + verdict.interrupted_nanousd[name]:
            yield f"budget of {name}: {over} nano-USD more than {budget} were spent"


def _compare_rates(answers: Sequence[Answer], allowed: Allowed) -> Iterator[str]:
    """Compare how many calls of a minute were served. A call took its token between its begin and its end."""
    taken = sorted(
        (one.began_s, one.ended_s) for one in answers if one.workspace == RATED and one.status == 200
    )
    for begin, _ in taken:
        inside = [one for one in taken if begin <= one[0] and one[1] < begin + 60]
        if len(inside) > allowed.buckets * RPM:
            yield f"rate of {RATED}: {len(inside)} calls in a minute, and {RPM} are allowed"
            break
