"""Every recorded request is valid and becomes a valid chat body, or is refused for a reason."""

from typing import Any

import pytest
from rig.corpus import needs_corpus
from rig.responses_requests import client_requests, corpus_requests, needs_agents, wants_state

from addon.apis.chat.schema import validate as validate_chat
from addon.apis.responses.request import to_chat
from addon.apis.responses.schema import validate
from policies.refusal import Refusal


def find_refusal(request: dict[str, Any]) -> Refusal | None:
    try:
        validate(request)
    except Refusal as refusal:
        return refusal
    return None


def translate(name: str, request: dict[str, Any]) -> None:
    """Translate a valid request, and check that nothing of its text is lost."""
    made = to_chat(request)
    validate_chat(made.body)
    assert not [key for key, value in made.body.items() if value is None], name
    calls = [call["id"] for message in made.body["messages"] for call in message.get("tool_calls", ())]
    results = [one["tool_call_id"] for one in made.body["messages"] if one["role"] == "tool"]
    assert sorted(set(calls)) == sorted(set(results)), name


@needs_corpus
def test_requests_of_the_corpus() -> None:
    counts = {"taken": 0, "stateful": 0, "refused by the vendor too": 0}
    for name, request, status in corpus_requests():
        if refusal := find_refusal(request):
            assert wants_state(request) or status == 400, f"{name}: {refusal.message}"
            counts["stateful" if wants_state(request) else "refused by the vendor too"] += 1
            continue
        assert not wants_state(request), name
        counts["taken"] += 1
        translate(name, request)
    assert counts["taken"] > 700 and counts["stateful"] > 20, counts


@needs_agents
def test_requests_of_real_clients() -> None:
    found = set()
    for name, request in client_requests():
        found.add(name)
        if wants_state(request):
            with pytest.raises(Refusal):
                validate(request)
            continue
        validate(request)
        assert to_chat(request).obstacle is None, name
        translate(name, request)
    assert {"codex", "opencode-openai", "cn"} <= found
