"""The strict vendors themselves: each line fits a model and has a source, and each refusal has its vendor's shape."""

import json
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from rig.built_requests import active_models
from rig.configuration import ROOT
from rig.vendor_cases import ASKED, TOOLS, said
from rig.vendors import RESPONSES, VENDORS
from rig.vendors.rules import Vendor, refusal

IDS = [(model.provider.name, model.upstream_model_id) for model in active_models()]


TABLES = [*VENDORS.items(), *RESPONSES.items()]
"""Those of chat, and those of the Responses API."""


@pytest.mark.parametrize(("name", "vendor"), TABLES)
def test_every_line_fits_a_model_and_has_a_source(name: str, vendor: Vendor) -> None:
    ids = [model for provider, model in IDS if provider == name]
    for rule in vendor.rules:
        assert any(map(rule.applies_to, ids)), rule
        assert rule.source and rule.message
        assert 400 <= rule.status < 500


def test_the_tables_know_nothing_of_the_gateway() -> None:
    for file in (ROOT / "tests" / "rig" / "vendors").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert (
            re.findall(
                r"^(?:from|import) (?:addon|policies)\b|families\.toml|models\.toml", text, re.MULTILINE
            )
            == []
        )


@pytest.mark.parametrize(("name", "vendor"), TABLES)
def test_every_window_is_that_of_a_model(name: str, vendor: Vendor) -> None:
    ids = [model for provider, model in IDS if provider == name]
    assert [one for one in vendor.windows if not any(fnmatchcase(model, one) for model in ids)] == []


def asked(model: str, **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": ASKED, **fields}).encode()


REFUSED = [
    ("OPENAI", asked("gpt-5.1", max_tokens=9), 400, ("error", "code"), "unsupported_parameter"),
    ("OPENAI", asked("gpt-6-astra", **TOOLS), 400, ("error", "param"), "reasoning_effort"),
    ("MISTRAL", asked("mistral-large-2512", seed=1), 422, ("detail", 0, "loc", 1), "seed"),
    ("MISTRAL", asked("mistral-large-2512", messages=[*ASKED, said("assistant")]), 400, ("code",), "3230"),
    ("MISTRAL", asked("mistral-large-2512", max_tokens=262144), 422, ("detail", 0, "loc", 1), "max_tokens"),
    ("MOONSHOT", asked("kimi-k2.6", temperature=0), 400, ("error", "message"), "invalid temperature: only 1 is allowed for this model"),
    ("FIREWORKS", asked("accounts/fireworks/models/glm-5p1", max_tokens=4097), 400, ("error", "code"), "BAD_REQUEST"),
    ("FIREWORKS", asked("accounts/fireworks/models/glm-5p1", foo=1), 400, ("error", "object"), "error"),
    ("OPENROUTER", asked("nousresearch/hermes-4-405b", max_tokens=131072), 400, ("error", "metadata", "provider_name"), None),
    ("TOGETHER", asked("openai/gpt-oss-120b", max_tokens=131072), 400, ("error", "type"), "invalid_request_error"),
    ("ZAI", asked("glm-5.3", reasoning_effort="none"), 400, ("error", "code"), "1210"),
    ("MINIMAX", asked("MiniMax-M3", messages=[*ASKED, said("system")]), 400, ("error", "message"), "invalid params, chat content has invalid message role: system (2013)"),
    ("GROQ", asked("openai/gpt-oss-20b", max_tokens=65537), 400, ("error", "param"), "max_completion_tokens"),
    ("DEEPSEEK", asked("deepseek-v4-pro", tool_choice="required"), 400, ("error", "message"), "Thinking mode does not support this tool_choice"),
    ("COHERE", asked("command-a-03-2025", temperature=2), 400, ("message",), "invalid request: temperature must be between 0 and 1.0 inclusive."),
    ("CEREBRAS", asked("gpt-oss-120b", foo=1), 400, ("code",), "wrong_api_format"),
    ("XAI", asked("grok-4.5", stop="a"), 400, ("error",), "Model grok-4.5 does not support parameter stop."),
    ("ANTHROPIC", asked("claude-opus-5"), 400, ("error", "message"), "max_tokens: Field required"),
    ("BEDROCK_OPENAI", asked("openai.gpt-oss-20b-1:0", presence_penalty=1), 400, ("error", "type"), "invalid_request_error"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "status", "place", "value"), REFUSED)
def test_a_refusal_has_the_shape_of_its_vendor(
    name: str, content: bytes, status: int, place: tuple[str | int, ...], value: object
) -> None:
    refused = refusal(VENDORS[name], "/chat", content)
    assert refused is not None
    found: Any = refused[1]
    for step in place:
        found = found[step]
    assert (refused[0], found) == (status, value)


def test_gemini_and_bedrock_have_the_model_and_the_stream_in_the_path() -> None:
    contents = [{"role": "user", "parts": [{"text": "hello"}]}]
    two = json.dumps({"contents": contents, "generationConfig": {"candidateCount": 2}}).encode()
    refused = refusal(VENDORS["GOOGLE"], "/v1beta/models/gemini-3.5-flash:generateContent", two)
    assert refused is not None and refused[1]["error"]["status"] == "INVALID_ARGUMENT"
    assert refusal(VENDORS["GOOGLE"], "/v1beta/models/gemini-2.5-flash-lite:generateContent", two) is None
    spec = {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}
    messages = [{"role": "user", "content": [{"text": "hello"}]}]
    llama = json.dumps({"messages": messages, "toolConfig": {"tools": [spec]}}).encode()
    path = "/model/us.meta.llama3-3-70b-instruct-v1%3A0/converse"
    assert refusal(VENDORS["BEDROCK"], path, llama) is None
    refused = refusal(VENDORS["BEDROCK"], f"{path}-stream", llama)
    assert refused == (400, {"message": "This model doesn't support tool use in streaming mode."})
