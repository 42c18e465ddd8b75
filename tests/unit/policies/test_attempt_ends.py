"""The ends of attempts, as an exchange collects them for its row."""

from dataclasses import replace

from msgspec import structs
from rig.metrics import EXCHANGE

from policies.attempt_ends import ATTEMPT_ENDS, AttemptEnd
from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.ledger_row import make_interrupted_row, make_ledger_row
from policies.route import Route
from policies.spend import Hold

TARGET = replace(EXCHANGE.route.targets[0], platform_key=2)
MODEL = TARGET.model
ADMITTED = structs.replace(EXCHANGE, stage=Stage.ADMITTED, attempts=0)
FIRST = AttemptEnd(1, MODEL.provider.name, MODEL.place, "payg", 2, 503, "upstream_error", 40)


def held(call: Exchange) -> Exchange:
    return call.with_hold(Hold(1, 1))


def test_a_row_has_the_attempts_only_where_there_are_several() -> None:
    routed = ADMITTED.with_route(Route((TARGET, TARGET), "pinned"))
    one = held(routed).dispatch().with_attempt_end(503, "upstream_error", 0.04)
    assert make_ledger_row(one.answer(503, "upstream_error"), 2.0)[ATTEMPT_ENDS] is None
    two = held(one).dispatch().with_attempt_end(200, None, 0.9)
    served = FIRST._replace(number=2, status=200, error_code=None, duration_ms=900)
    assert make_ledger_row(two.answer(200, None), 2.0)[ATTEMPT_ENDS] == (FIRST, served)


def test_the_row_of_an_interrupted_call_has_the_attempt_that_is_about_to_be_made() -> None:
    routed = ADMITTED.with_route(Route((TARGET, TARGET), "pinned"))
    assert make_interrupted_row(held(routed))[ATTEMPT_ENDS] is None
    one = held(routed).dispatch().with_attempt_end(503, "upstream_error", 0.04)
    cut = FIRST._replace(number=2, status=499, error_code="interrupted", duration_ms=0)
    assert make_interrupted_row(one)[ATTEMPT_ENDS] == (FIRST, cut)
