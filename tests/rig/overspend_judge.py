"""The judge of calls at flaky places: what each place counted, the rows, their attempts and the limits agree."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rig.flaky_places import DEAD, MODEL, PRICES, SERVED, Seen
from rig.money import select

LEFT = 499
MARKUP_PERCENT = 4

type _Row = dict[str, Any]


@dataclass
class Verdict:
    """What was found. ``discrepancies`` is what may not be; the rest says what was measured."""

    discrepancies: list[str] = field(default_factory=list)
    paid: Counter[str] = field(default_factory=Counter)
    """What the rows of each place cost by the place's own counts, wholesale, in nano-USD."""
    unpaid: Counter[str] = field(default_factory=Counter)
    """How many answers of each place no row has, because their client left a stream. It pays an estimate."""
    estimated: int = 0
    spent: Counter[str] = field(default_factory=Counter)
    """Retail, by workspace, and by workspace and user."""


def judge(ledger: Path, seen: Sequence[Seen], limits_nanousd: Mapping[str, int]) -> Verdict:
    """Compare all calls. ``limits_nanousd`` are what workspaces, or ``workspace/user``, may spend."""
    rows = {row["client_request_id"]: row for row in select(ledger, "SELECT * FROM usage")}
    verdict = Verdict()
    found = verdict.discrepancies
    (count,) = select(ledger, "SELECT count(*) AS n FROM usage")
    if count["n"] != len(rows):
        found.append(f"{count['n']} rows of {len(rows)} calls")
    found += [f"hold left: {hold}" for hold in select(ledger, "SELECT * FROM holds")]
    by_name: defaultdict[str, list[Seen]] = defaultdict(list)
    for one in seen:
        by_name[one.name].append(one)
    found += [f"{name}: sent, and has no row" for name in by_name.keys() - rows.keys()]
    for name, row in rows.items():
        found += [
            f"{name}: {what}: {_shown(row)} {by_name[name]}"
            for what in _judge_money(row, by_name[name], verdict)
        ]
    found += _judge_attempts(ledger, rows, by_name)
    found += _judge_limits(rows.values(), limits_nanousd, verdict)
    return verdict


def _shown(row: _Row) -> str:
    names = ("api", "deployment", "provider", "attempts", "status", "error_code", "usage_source", "resends")
    counts = ("prompt_tokens", "completion_tokens", "wholesale_nanousd", "retail_nanousd", "stream")
    return str({name: row[name] for name in (*names, *counts)})


def _place(row: _Row) -> str:
    return f"{row['provider']}/{row['upstream_model_id']}"


def _judge_money(row: _Row, seen: Sequence[Seen], verdict: Verdict) -> Iterator[str]:
    """Compare a row with what the place that it names counted."""
    served = [one for one in seen if one.end in SERVED]
    here = [one for one in served if one.place == _place(row)]
    if row["usage_source"] == "provider":
        if not any(_costs(one) == _counts(row) for one in here):
            yield "the row has other counts than its place"
        if row["retail_nanousd"] != _retail_nanousd(row):
            yield "the row has not the retail price of its model"
        verdict.paid[_place(row)] += row["wholesale_nanousd"]
        served = [one for one in served if one is not here[-1]] if here else served
    elif row["usage_source"] == "estimated":
        verdict.estimated += 1
        caps = [one.completion_tokens for one in seen if one.place == _place(row)]
        # A client that leaves at once may take its request away before the place has read it.
        if row["completion_tokens"] > max(caps, default=0) or not (caps or row["status"] == LEFT):
            yield "an estimate above the cap, or of a place that was not asked"
    elif row["wholesale_nanousd"] or row["retail_nanousd"]:
        yield "costs without counts"
    if row["status"] == 200 and not row["error_code"] and row["usage_source"] != "provider":
        yield "served without the provider's counts"
    if served and row["status"] != LEFT:
        yield "a place served, and the row has not its counts"
    verdict.unpaid.update(one.place for one in served)


def _costs(seen: Seen) -> tuple[int, int, int]:
    return seen.prompt_tokens, seen.completion_tokens, seen.wholesale_nanousd


def _counts(row: _Row) -> tuple[int, int, int]:
    return row["prompt_tokens"], row["completion_tokens"], row["wholesale_nanousd"]


def _retail_nanousd(row: _Row) -> int:
    of_prompt, of_answer = PRICES["A/a" if row["model_slug"] == MODEL else "S/s"]
    cost_nanousd = row["prompt_tokens"] * of_prompt + row["completion_tokens"] * of_answer
    return cost_nanousd * (100 + MARKUP_PERCENT) // 100


def _judge_attempts(
    ledger: Path, rows: Mapping[str, _Row], by_name: Mapping[str, Sequence[Seen]]
) -> Iterator[str]:
    """Compare the attempts of each call with the requests that its places got."""
    lines: defaultdict[str, list[_Row]] = defaultdict(list)
    for line in select(ledger, "SELECT * FROM attempts ORDER BY call_id, number"):
        lines[line["call_id"]].append(line)
    for name, row in rows.items():
        mine = lines.pop(row["id"], [])
        if [line["number"] for line in mine] != (
            list(range(1, row["attempts"] + 1)) if row["attempts"] > 1 else []
        ):
            yield f"{name}: {len(mine)} lines of attempts: {_shown(row)}"
        places = [line["deployment"] for line in mine] or [_place(row)]
        asked = [one.place for one in by_name.get(name, ())]
        reached = [place for place in places if place != DEAD]
        # A client that left before the request was written, or a request that was sent again.
        may_differ = row["resends"] or row["status"] == LEFT
        if asked != reached and not (may_differ and abs(len(asked) - len(reached)) <= 1):
            yield f"{name}: attempts at {places}, requests at {asked}: {_shown(row)}"
        paying = [line for line in mine if line["error_code"] is None]
        if len(paying) > 1 or (paying and paying[-1] is not mine[-1]):
            yield f"{name}: an attempt follows a success: {mine}"
        if row["retail_nanousd"] and mine and mine[-1]["deployment"] != _place(row):
            yield f"{name}: the cost is not that of the last attempt: {_shown(row)} {mine}"
    yield from (f"attempts of no row: {call}" for call in lines)


def _judge_limits(
    rows: Collection[_Row], limits_nanousd: Mapping[str, int], verdict: Verdict
) -> Iterator[str]:
    for row in rows:
        verdict.spent[row["workspace"]] += row["retail_nanousd"]
        verdict.spent[f"{row['workspace']}/{row['end_user']}"] += row["retail_nanousd"]
    for scope, limit in limits_nanousd.items():
        if verdict.spent[scope] > limit:
            yield f"{scope} spent {verdict.spent[scope]} of {limit}"
