"""Budgets by end user or by tag: each value of the field has a budget of its own. Pure.

A counter of one value has the budget and the period in its scope, so that the values of a period are one range:

| scope | counts |
|---|---|
| ``budget:acme/user/2026-11-21/=ann`` | what the calls of the value ``ann`` cost |
| ``budget:acme/user/2026-11-21/(other)`` | the same of all values beyond ``MAX_VALUES`` |
| ``budget:acme/user/2026-11-21/(forgotten)`` | the same of users who were forgotten |
| ``budget:acme/user/tpm/=0123…`` | the tokens a minute of the value with this digest; ``rpm``: its requests |
| ``budget:acme/user/tpm/(other)`` | the same of all values for which there is no bucket |

A value begins with "=", so no client can name one of the others. Source: docs/limits.md, "Budgets of users and tags".
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from policies.limits import Counter, Limit, period_of
from policies.model import Budget, Workspace
from policies.refusal import Refusal
from policies.tags import TAG, USER

MAX_VALUES: Final = 10_000
"""How many values of a budget have a counter of their own in a period, and how many a bucket of each rate."""
MAX_SHOWN_CHARS: Final = 64
"""How much of a value is shown in a message."""
OTHER: Final = "(other)"
FORGOTTEN: Final = "(forgotten)"
_BEGINNING: Final = "budget:"
_VALUE: Final = "="
_AFTER_VALUES: Final = ">"
"""The character after ``_VALUE``: the scopes of values are below it."""


class BudgetScope(NamedTuple):
    """What a scope names: ``budget`` is ``user`` or ``tag:NAME``, ``value`` as people read it."""

    workspace: str
    budget: str
    period: str
    value: str


def find_value(budget: Budget, end_user: str | None, tags: str | None) -> str | None:
    """Return what a call says of the field of a budget, given its columns. None where it says nothing."""
    found = end_user
    if budget.of != USER:
        found = _read_tags(tags).get(budget.of.removeprefix(TAG)) if tags else None
    return found.replace("\0", "") or None if found else None


@lru_cache(maxsize=256)
def _read_tags(tags: str) -> dict[str, str]:
    return msgspec.json.decode(tags, type=dict[str, str])


def check_required(budgets: Sequence[Budget], end_user: str | None, tags: str | None) -> None:
    """Raise Refusal ``validation_failed`` that names each field which a budget requires and a call lacks."""
    missing = [
        one.of.replace(TAG, "metadata.", 1)
        for one in budgets
        if one.is_required and find_value(one, end_user, tags) is None
    ]
    if missing:
        words = "; ".join(f"{field}: A text is required by a budget of the workspace" for field in missing)
        raise Refusal("validation_failed", words, missing[0] if len(missing) == 1 else None)


def budget_limits(
    workspace: Workspace, end_user: str | None, tags: str | None, created_at: datetime
) -> tuple[Limit, ...]:
    """Return the limits of a metered call, with the counter of its value in each budget that it belongs to."""
    return tuple(
        Limit("budget_cap", _counter(workspace.id, one, value, created_at), cap_nanousd)
        for one, cap_nanousd in capped_budgets(workspace)
        if (value := find_value(one, end_user, tags)) is not None
    )


def capped_budgets(workspace: Workspace) -> Iterator[tuple[Budget, int]]:
    """Yield the budgets that cap what is spent, each with its cap in nano-USD."""
    for one in workspace.budgets:
        if one.spend_cap_nanousd is not None:
            yield one, one.spend_cap_nanousd


def _counter(workspace: str, budget: Budget, value: str, created_at: datetime) -> Counter:
    period = period_of(created_at.date(), budget.spend_reset)
    return Counter(f"{_BEGINNING}{workspace}/{budget.of}/{period}/{_VALUE}{value}", period)


def rate_scopes(workspace: str, budget: Budget, name: str, digest: str) -> tuple[str, str]:
    """Return the scope of a value's bucket for the rate ``name`` of a budget, and that of the one it may share."""
    group = f"{_BEGINNING}{workspace}/{budget.of}/{name}/"
    return f"{group}{_VALUE}{digest}", f"{group}{OTHER}"


def share(limit: Limit) -> Limit:
    """Return the limit that a value beyond ``MAX_VALUES`` shares with all others."""
    counter = limit.counter
    return Limit(limit.kind, Counter(f"{_group(counter.scope)}{OTHER}", counter.period), limit.maximum)


def values_range(scope: str) -> tuple[str, str]:
    """Return the first scope of the values of the same budget and period, and the one after the last."""
    group = _group(scope)
    return f"{group}{_VALUE}", f"{group}{_AFTER_VALUES}"


def group_range(workspace: str, budget: Budget, now: datetime) -> tuple[str, str]:
    """Return the first scope of a budget in the period of ``now`` (UTC), and the one after the last."""
    group = _group(_counter(workspace, budget, "", now).scope)
    return group, f"{group.removesuffix('/')}0"


def user_scopes(workspace: str) -> tuple[str, str]:
    """Return the first scope of a workspace's budgets of users, and the one after the last."""
    group = f"{_BEGINNING}{workspace}/{USER}"
    return f"{group}/", f"{group}0"


def forget_in(scope: str, user: str) -> str:
    """Return the scope that takes the place of one in the calls of a user who is forgotten: the same for a tag's."""
    found = parse_scope(scope)
    is_own = found.budget == USER and scope == f"{_group(scope)}{_VALUE}{user}"
    return f"{_group(scope)}{FORGOTTEN}" if is_own else scope


def is_budget_scope(scope: str) -> bool:
    """Return whether a scope is one of a budget."""
    return scope.startswith(_BEGINNING)


def parse_scope(scope: str) -> BudgetScope:
    """Return what the scope of a budget names."""
    workspace, budget, period, value = scope.removeprefix(_BEGINNING).split("/", 3)
    return BudgetScope(workspace, budget, period, value.removeprefix(_VALUE))


def describe_value(budget: str, value: str) -> str:
    """Return a value in words: ``user "ann"``."""
    shown = value if len(value) <= MAX_SHOWN_CHARS else f"{value[:MAX_SHOWN_CHARS]}…"
    return f'{budget} "{shown}"'


def encode_scopes(scopes: Sequence[str]) -> str:
    """Return scopes as the column ``budgets`` of a hold and of a row has them."""
    return msgspec.json.encode(scopes).decode()


@lru_cache(maxsize=4096)
def read_scopes(budgets: str) -> tuple[str, ...]:
    """Return the scopes in a column ``budgets``."""
    return msgspec.json.decode(budgets, type=tuple[str, ...])


def _group(scope: str) -> str:
    """Return the beginning of a scope that all values of the budget and period have."""
    return scope[: len(scope) - len(scope.split("/", 3)[3])]
