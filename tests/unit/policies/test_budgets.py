from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.budgets import (
    BudgetScope,
    budget_limits,
    check_required,
    encode_scopes,
    find_value,
    forget_in,
    group_range,
    is_budget_scope,
    parse_scope,
    read_scopes,
    share,
    user_scopes,
    values_range,
)
from policies.limits import Counter, Limit
from policies.model import Budget, Workspace
from policies.refusal import Refusal
from policies.spend import Denial, make_denial_refusal

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
USERS, TEAMS = Budget("user", 5, "daily"), Budget("tag:team", 9, "weekly", is_required=True)
ACME = Workspace("acme", "Acme", "pro", (), budgets=(USERS, TEAMS))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def limit_of(user: str, workspace: Workspace = ACME) -> Limit:
    return budget_limits(workspace, user, None, NOW)[0]


def test_a_call_has_a_limit_in_each_budget_that_it_names_a_value_of():
    assert budget_limits(ACME, "ann", '{"team":"a/b"}', NOW) == (
        Limit("budget_cap", Counter("budget:acme/user/2026-11-21/=ann", "2026-11-21"), 5),
        Limit("budget_cap", Counter("budget:acme/tag:team/2026-W47/=a/b", "2026-W47"), 9),
    )
    assert budget_limits(ACME, None, '{"other":"x"}', NOW) == ()
    rates_only = Workspace("acme", "Acme", "pro", (), budgets=(Budget("user", None, rpm=1), TEAMS))
    assert [one.maximum for one in budget_limits(rates_only, "ann", '{"team":"x"}', NOW)] == [9]


@pytest.mark.parametrize(
    ("end_user", "tags", "found"),
    [
        (None, None, (None, None)),
        ("", '{"team":""}', (None, None)),
        ("\0", '{"team":"x"}', (None, "x")),
        ("a\0b", None, ("ab", None)),
        ("(other)", '{"team":"(other)"}', ("(other)", "(other)")),
    ],
)
def test_an_empty_text_is_no_value(end_user: str | None, tags: str | None, found: tuple[str | None, ...]):
    assert tuple(find_value(one, end_user, tags) for one in ACME.budgets) == found


def test_a_required_field_is_named():
    check_required(ACME.budgets, None, '{"team":"x"}')
    both = (Budget("user", 5, is_required=True), TEAMS)
    with pytest.raises(Refusal) as refused:
        check_required(both, "", None)
    assert refused.value.message == (
        "user: A text is required by a budget of the workspace;"
        " metadata.team: A text is required by a budget of the workspace"
    )
    assert (refused.value.code, refused.value.param) == ("validation_failed", None)


@given(TEXTS)
def test_no_value_has_the_scope_of_another_or_of_all_others(value: str):
    limit, shared = limit_of(value), share(limit_of(value))
    assert limit.counter.scope != shared.counter.scope
    assert parse_scope(limit.counter.scope) == BudgetScope("acme", "user", "2026-11-21", value)
    assert parse_scope(shared.counter.scope) == BudgetScope("acme", "user", "2026-11-21", "(other)")
    assert share(limit_of("x")) == shared
    assert read_scopes(encode_scopes([limit.counter.scope])) == (limit.counter.scope,)


@given(TEXTS, TEXTS)
def test_the_values_of_a_period_are_one_range(value: str, other: str):
    first, end = values_range(limit_of(value).counter.scope)
    encoded = limit_of(other).counter.scope.encode()
    assert first.encode() <= encoded < end.encode()
    assert not first <= share(limit_of(value)).counter.scope < end
    whole = group_range("acme", USERS, NOW)
    assert whole[0] <= share(limit_of(value)).counter.scope < whole[1]
    later = budget_limits(ACME, other, None, NOW.replace(day=22))[0].counter.scope
    assert not whole[0] <= later < whole[1]
    longer = limit_of(other, Workspace("acme-2", "", "pro", (), budgets=(USERS,))).counter.scope
    assert not user_scopes("acme")[0] <= longer < user_scopes("acme")[1]


@given(TEXTS)
def test_only_the_user_is_forgotten(user: str):
    own = limit_of(user).counter.scope
    assert forget_in(own, user) == "budget:acme/user/2026-11-21/(forgotten)"
    team = "budget:acme/tag:team/2026-W47/=" + user
    for other in (team, share(limit_of(user)).counter.scope, limit_of(f"{user}x").counter.scope):
        assert forget_in(other, user) == other
        assert is_budget_scope(other)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            "budget_cap",
            'Spend limit reached: the budget of user "{a}" is used up;'
            " raise its spend_cap_usd or wait for the reset cycle.",
        ),
        ("budget", 'Insufficient budget for this completion request. It is the budget of user "{a}".'),
    ],
)
def test_a_refusal_names_the_budget_and_the_value(reason: str, message: str):
    refusal = make_denial_refusal(Denial(reason, limit_of("{a}")), NOW)
    assert (refusal.code, refusal.message) == ("payment_required", message)
    assert refusal.retry_after_s == 14.5 * 3600
    long = make_denial_refusal(Denial("budget_cap", limit_of("x" * 300)), NOW)
    assert f'"{"x" * 64}…"' in long.message
