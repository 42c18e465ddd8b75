"""From a request to an attempt: what operators' policies see of it."""

from dataclasses import FrozenInstanceError, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr
from rig.ledger import route_fields

from addon.apis import APIS
from addon.apis.chat.request import parse_chat_request
from addon.apis.responses.response import prepare
from addon.calls.call_state import Call
from addon.calls.upstream_request import make_attempt, make_reviewed_call
from addon.text.http_heads import Headers
from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.family import Estimator, Family
from policies.model import Key, Model, Workspace
from policies.prices import Prices
from policies.provider import Provider
from policies.review import ReviewedMessage
from policies.route import Target
from policies.spend import Hold

PROVIDER = Provider("TESTER", "http://127.0.0.1:1", "openai", SecretStr("fake-platform-key"))
FAMILY = Family("narrow", n_limit=2, estimator=Estimator(base_tokens=0, tokens_per_message=50))
MODEL = Model("slug", PROVIDER, "vendor-model", FAMILY, Prices(1, 1, 1), Prices(1, 1, 1), 100, False, True)
KEY = Key("ci", "0" * 64)
WORKSPACE = Workspace("acme", "Acme", "standard", (KEY,))
BODY = b"""{
    "model": "hint", "user": "end-user-7", "stream": true, "n": 5, "max_tokens": 70, "max_completion_tokens": 60,
    "tools": [{"type": "function", "function": {"name": "look"}}], "response_format": {"type": "json_object"},
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [
            {"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "seen"}]}"""


def routed(body: bytes, *targets: Target, made: int = 0) -> Call:
    """Return a call with a route of ``targets``, after ``made`` attempts."""
    exchange = Exchange(
        id="call",
        created_at=datetime.now(UTC),
        started_s=0,
        stage=Stage.ROUTED,
        workspace=WORKSPACE,
        key=KEY,
        **route_fields(*targets, decided_by="default", made=made),
    )
    settings: Any = None  # They are not used.
    return Call(exchange, settings, chat=parse_chat_request(body))


FIRST = Target(MODEL, "byok", SecretStr("fake-customer-key"))
SECOND = Target(MODEL, "payg", SecretStr("fake-platform-key"), is_fallback=True)


def test_what_an_answer_repeats_is_made_with_the_request() -> None:
    call = routed(BODY, FIRST)
    call.api = APIS["responses"]
    call.chat = call.api.parse(b'{"input": "hi", "tools": [{"type": "custom", "name": "look"}]}', Headers())
    attempt = make_attempt(call, FIRST, None, Hold(0, 100))
    assert attempt.native is None and call.chat.native is not None
    assert attempt.prepared == prepare(call.chat.native.body)


def test_a_policy_sees_the_caller_the_request_and_the_model() -> None:
    call = make_reviewed_call(routed(BODY, FIRST))
    assert call.prompt_tokens() > 4 * 50
    assert {field.name: getattr(call, field.name) for field in fields(call)} == {
        "workspace": "acme",
        "plan": "standard",
        "key_id": "ci",
        "end_user": "end-user-7",
        "requested_model": "hint",
        "model_slug": "slug",
        "provider": "TESTER",
        "mode": "byok",
        "is_fallback": False,
        "decided_by": "default",
        "stream": True,
        "requested_cap_tokens": 60,
        "choices": 2,
        "messages": (
            ReviewedMessage("system", "be brief"),
            ReviewedMessage("user", "one\ntwo"),
            ReviewedMessage("assistant", ""),
            ReviewedMessage("tool", "seen"),
        ),
        "last_user_text": "one\ntwo",
        "has_images": True,
        "has_tools": True,
        "wants_json": True,
        "prompt_tokens": call.prompt_tokens,
    }


def test_fields_that_are_not_set_are_empty() -> None:
    call = make_reviewed_call(routed(b'{"messages": [{"role": "user"}]}', FIRST))
    assert (call.end_user, call.requested_model, call.requested_cap_tokens) == (None, None, None)
    assert (call.stream, call.has_images, call.has_tools, call.wants_json) == (False,) * 4
    assert (call.choices, call.last_user_text) == (1, "")
    assert call.messages == (ReviewedMessage("user", ""),)


def test_a_policy_sees_that_an_attempt_is_a_fallback() -> None:
    call = make_reviewed_call(routed(BODY, FIRST, SECOND, made=1))
    assert (call.mode, call.is_fallback) == ("payg", True)


def test_a_policy_can_change_nothing_of_the_call() -> None:
    call = make_reviewed_call(routed(BODY, FIRST))
    for field in fields(call):
        with pytest.raises(FrozenInstanceError):
            setattr(call, field.name, None)
    seen: list[Any] = [getattr(call, field.name) for field in fields(call) if field.name != "prompt_tokens"]
    while seen:
        one = seen.pop()
        if isinstance(one, tuple):
            seen += one
        elif is_dataclass(one) and not isinstance(one, type):
            with pytest.raises(FrozenInstanceError):
                setattr(one, fields(one)[0].name, None)
            seen += [getattr(one, field.name) for field in fields(one)]
        else:
            assert one is None or type(one) in (str, int, bool)
