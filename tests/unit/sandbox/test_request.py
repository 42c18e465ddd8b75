"""The sandbox's directives, and the requests that it refuses."""

import re
from collections.abc import Mapping
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.configuration import ROOT
from rig.sandbox import SandboxClient

from addon.sandbox.request import FLAGS, NAMES, NUMBERS, parse_directives

WRONG_DIRECTIVES = [
    *(f"[[{name}:{highest + 1}]]" for name, (_, highest) in NUMBERS.items()),
    *(f"[[{name}:-1]]" for name in NUMBERS),
    *(f"[[{name}]]" for name in NUMBERS),
    *(f"[[{name}:1]]" for name in sorted(FLAGS)),
    "[[status:399]]",
    "[[delay:soon]]",
    "[[delay:1.5]]",
    "[[tool]]",
    "[[tool:get_weather]]",
    "[[pace:5]]",
    "[[error-in-stream]]",
    "[[no-done]]",
]


@pytest.mark.parametrize("text", WRONG_DIRECTIVES)
async def test_the_error_of_a_wrong_directive_names_it(sandbox: SandboxClient, text: str) -> None:
    answer = await sandbox.post(text)
    assert answer.status_code == 400
    assert f"[[{re.findall(r'[a-z0-9-]+', text)[0]}" in answer.json()["error"]["message"]


def _documented(page: str) -> set[str]:
    return set(re.findall(r"^\| `\[\[([a-z0-9-]+)", page, re.MULTILINE))


def test_every_directive_is_documented() -> None:
    page = (ROOT / "docs" / "sandbox.md").read_text(encoding="utf-8")
    assert _documented(page) == NAMES
    for name, (lowest, highest) in NUMBERS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `[[{name}:"))
        assert f"{lowest} to {highest}" in row


@given(st.text(alphabet="[]:adelypcotkns-1\n ", max_size=40))
def test_text_without_directives_is_unchanged(text: str) -> None:
    if not any(f"[[{name}" in text for name in NAMES):
        assert parse_directives(text).text == text.strip()


REFUSED: list[tuple[str, Mapping[str, Any], str | None]] = [
    ("no messages", {"messages": []}, "messages"),
    ("messages no list", {"messages": "Hello"}, "messages"),
    ("no role", {"messages": [{"content": "x"}]}, "messages.0.role"),
    ("cap of zero", {"max_tokens": 0}, "max_tokens"),
    ("cap as text", {"max_completion_tokens": "5"}, "max_completion_tokens"),
    ("n too large", {"n": 9}, "n"),
    ("stream as text", {"stream": "yes"}, "stream"),
    ("too many top_logprobs", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ("top_logprobs alone", {"top_logprobs": 2}, "top_logprobs"),
    ("stream_options alone", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("required without tools", {"tool_choice": "required"}, "tool_choice"),
    ("unknown tool", {"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
    ("unknown effort", {"reasoning_effort": "huge"}, "reasoning_effort"),
]


@pytest.mark.parametrize(("changes", "param"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_the_400_of_a_wrong_body_names_the_field(
    sandbox: SandboxClient, changes: Mapping[str, Any], param: str | None
) -> None:
    answer = await sandbox.post(**changes)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.json()["error"]["code"] == "invalid_value"
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'"text"', b"[" * 100_000, b'{"messages": "\\ud800"}'])
async def test_a_body_that_is_no_json_object_gets_400(sandbox: SandboxClient, raw: bytes) -> None:
    answer = await sandbox.http.post(f"{sandbox.base_url}/chat/completions", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_an_unknown_model_gets_404(sandbox: SandboxClient) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        await sandbox.whole(model="gpt-4o")
    assert raised.value.code == "model_not_found"
