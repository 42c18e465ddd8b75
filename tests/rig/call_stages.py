"""Calls that are brought to a stage by the gateway's own steps, with the real services of one process."""

import json
from pathlib import Path
from typing import Any

from addon.apis.chat.request import parse_chat_request
from addon.calls import dependencies
from addon.calls.answer_reader import open_reader
from addon.calls.attempt import UpstreamAttempt
from addon.calls.call import admit, begin
from addon.calls.call_state import Call
from addon.calls.dependencies import Dependencies
from addon.calls.hold_request import make_hold_request
from addon.calls.request_id import make_request_ids
from addon.calls.reservation import reserve_first
from addon.calls.upstream_request import accept_request, accept_route, ask_policies, find_route
from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.settings import Settings
from addon.store.money.sqlite.store import SqliteStore
from addon.telemetry.metrics import Metrics
from addon.text.http_heads import Headers, RequestHead, ResponseHead
from policies.call_stages import Stage
from policies.spend import Hold

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "vendor/model-2026",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": USAGE,
}
"""An answer of 10 tokens of prompt and 5 of completion."""


def make_dependencies(settings: Settings, database: Path, clock: Clock = SYSTEM_CLOCK) -> Dependencies:
    """Return the services of one process, over the ledger ``database``."""
    deps = dependencies.make_dependencies(
        settings, SqliteStore(database, clock), Metrics("test"), make_request_ids(), clock
    )
    deps.platform_keys.use_settings(settings)
    return deps


def request_head(key: str) -> RequestHead:
    """Return the head of a chat request."""
    fields = [("authorization", f"Bearer {key}"), ("content-type", "application/json")]
    return RequestHead("POST", "/v1/chat/completions", "1.1", Headers(fields))


async def call_at(
    stage: Stage, deps: Dependencies, key: str, *, takes_token_later: bool = False, **fields: Any
) -> Call:
    """Return a new call at ``stage``, up to ``DISPATCHED``. ``fields`` are added to its body.

    With ``takes_token_later``, its body came with its head, so it takes its token with its hold.
    """
    call = begin(deps)
    if stage is Stage.RECEIVED:
        return call
    await admit(call, request_head(key), deps, has_whole_body=takes_token_later)
    if stage is Stage.ADMITTED:
        return call
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields).encode()
    deps.bodies.take(call, len(body))
    accept_request(call, parse_chat_request(body))
    accept_route(call, find_route(call))
    if stage is Stage.ROUTED:
        return call
    if stage is Stage.HELD:
        _, cap_tokens = ask_policies(call)
        hold = await deps.store.hold(make_hold_request(call, cap_tokens))
        assert isinstance(hold, Hold)
        call.exchange = call.exchange.with_hold(hold)
        return call
    assert stage is Stage.DISPATCHED
    await reserve_first(call, deps)
    return call


def give_answer(
    call: Call, deps: Dependencies, answer: dict[str, Any] = ANSWER, status: int = 200
) -> UpstreamAttempt:
    """Let the provider answer the attempt of a dispatched call as a whole. Return the attempt."""
    attempt = call.attempt
    attempt.is_sent = True
    attempt.head_s = deps.clock.monotonic_s()
    reader = open_reader(call, attempt, ResponseHead(status, Headers()), deps.clock.now())
    reader.feed(json.dumps(answer).encode())
    reader.finish()
    return attempt
