"""Every recorded request is valid and becomes a valid chat body, or is refused for a reason."""

import json
import re
from itertools import islice
from typing import Any

import pytest
from rig.built_requests import build, shipped_settings
from rig.corpus import needs_corpus
from rig.large import large, sized
from rig.responses_requests import client_requests, corpus_requests, needs_agents, wants_state
from rig.vendors import find_vendor
from rig.vendors.rules import refusal

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


SAMPLE = sized(6, 1)
MODELS = ("claude-opus-5-5", "gemini-3.8-flash", "deepseek-v4-pro")
REFUSED = re.compile(
    r"file_id: The model takes only a picture that is sent|A file must be a PDF|can read what was compacted"
    r"|tool_choice: (?:The model has no tool|claude-opus-5-5 does not take)|reasoning.effort: must be one of"
    r"|does not take images"
    # What chat clients are refused, too: who speaks first, or last.
    r"|does not support assistant message prefill|ending with a model turn|function call turn comes immediately"
    # OpenAI takes it, as recorded; the vendor of the rig does not, and natively it goes as it was written.
    r"|Unknown parameter: 'tools\[0\]\.function'"
)
"""What other vendors' models can't do."""


@large
@needs_corpus
@pytest.mark.parametrize("model", MODELS)
def test_requests_of_the_corpus_suit_strict_vendors(model: str) -> None:
    count = 0
    for name, request, status in islice(corpus_requests(), None, None, SAMPLE):
        if status != 200 or find_refusal(request):
            continue
        built = build(request | {"model": model}, "responses")
        if isinstance(built, Refusal):
            assert REFUSED.search(built.message), f"{name}: {built.message}"
            continue
        vendor = find_vendor(shipped_settings().models[model].provider.name, built.path)
        if refused := refusal(vendor, f"/v1{built.path}", built.content):
            assert REFUSED.search(json.dumps(refused[1])), f"{name}: {refused}"
            continue
        count += 1
    assert count > 600 // SAMPLE


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
