"""A provider on loopback that answers as the strict vendors do: it refuses what they refuse, in their words."""

import json
from typing import Any

from rig import anthropic_answers, fake_bedrock, gemini_answers, native_responses
from rig.scripts import Received, Script, chunked, event, ordinary, whole
from rig.vendors import find_vendor
from rig.vendors.rules import refusal

GEMINI_SAID = {**gemini_answers.answer({"text": "hello"}), "usageMetadata": gemini_answers.USAGE}


def base_url(upstream: str, provider: str) -> str:
    """Return the base URL of one vendor: the first part of the path chooses it."""
    return f"{upstream}/{provider}"


def answer(request: Received) -> Script:
    """Answer as the vendor in the path does."""
    provider = request.target.split("/")[2]
    if refused := refusal(find_vendor(provider, request.target), request.target, request.body):
        status, body = refused
        return whole(body, status)
    if request.target.endswith("/responses"):
        body = request.json()
        said = native_responses.response(native_responses.message("hello"), to=body)
        return native_responses.script(said, streams=body.get("stream") is True)
    if provider == "ANTHROPIC":
        return _anthropic(request.json())
    if provider == "GOOGLE":
        streams = ":streamGenerateContent" in request.target
        return chunked(event(GEMINI_SAID)) if streams else whole(GEMINI_SAID)
    return fake_bedrock.answer(request) if provider == "BEDROCK" else ordinary(request)


def _anthropic(body: dict[str, Any]) -> Script:
    if not body.get("stream"):
        return whole(anthropic_answers.answer(anthropic_answers.TEXT))
    said = anthropic_answers.events(anthropic_answers.TEXT)
    events = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in said]
    return chunked(*events)
