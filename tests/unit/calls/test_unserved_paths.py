"""The paths of APIs that are not served: each message says what is served and how to switch, as the docs do."""

import re

import openai
import pytest
from rig.configuration import ROOT
from rig.gateway import Gateway
from rig.upstream import Upstream

from addon.calls.endpoints import SERVED
from addon.calls.unserved_paths import UNSERVED_PATHS, make_not_found

ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")

CHAT_ONLY = ("POST /v1/chat/completions", "GET /v1/models")
# the path, what the message must name
SAID = [
    ("/v1/responses/compact", "let the client summarize"),
    ("/v1/responses/resp_1/input_items", "not stored here"),
    ("/v1/messages/", "The path is /v1/messages,"),
    ("/v1/messages/batches/b/results", "Batches are not served."),
    ("/v1/messages/count_tokens/", "The path is /v1/messages,"),
    ("/v1/embeddings/", "The path is /v1/embeddings,"),
    ("/v1/completions", "/v1/chat/completions"),
    ("/v1/engines/davinci/completions", "/v1/chat/completions"),
    ("/v1/audio/speech", "Speech"),
    ("/v1/audio/transcriptions", "transcriptions"),
    ("/v1/images/generations", "Images"),
    ("/v1/files/file-1/content", "Files"),
    ("/v1/assistants", "Assistants"),
    ("/v1/threads/t/runs", "Assistants"),
    ("/v1/batches", "Batches"),
    ("/v1/moderations", "Moderations"),
    ("/v1beta/models/gemini:generateContent", "Gemini"),
    ("/openai/deployments/d/chat/completions", "Azure"),
    ("/api/chat", "Ollama"),
    ("/chat/completions", "base_url end in /v1"),
    ("/v1/v1/chat/completions", "twice"),
    ("/v1/chat/completions/", "without a slash"),
    ("/v1/completionsx", "There is nothing here"),
    ("/robots.txt", "There is nothing here"),
]


@pytest.mark.parametrize(("path", "named"), SAID)
def test_a_path_of_another_api_says_how_to_switch_and_what_is_served(path: str, named: str) -> None:
    refusal = make_not_found(path, CHAT_ONLY)
    assert (refusal.code, refusal.param) == ("not_found", None)
    assert named in refusal.message
    assert refusal.message.endswith("The gateway serves POST /v1/chat/completions and GET /v1/models.")


def test_the_served_endpoints_are_documented() -> None:
    section = ERRORS.split("## What is not served\n")[1].split("\n## ")[0]
    assert [one for one in SERVED if f"`{one}`" not in section] == []


def test_each_path_is_documented_and_no_other() -> None:
    section = ERRORS.split("## What is not served\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `/")]
    documented = [path for row in rows for path in re.findall(r"`(/[^`]+)`", row.split(" | ")[0])]
    assert sorted(documented) == sorted(UNSERVED_PATHS)


def test_a_client_of_what_is_not_served_gets_the_message(gateway: Gateway, upstream: Upstream) -> None:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0) as sdk:
        with pytest.raises(openai.NotFoundError, match="responses are not stored here") as raised:
            sdk.responses.retrieve("resp_1")
        assert raised.value.code == "not_found"
    assert upstream.requests == []
