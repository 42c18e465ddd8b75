"""Recorded requests of real clients are valid, and recorded errors of real providers get a message.

The errors of every recorded API are read, also of APIs without a dialect. The recordings are in the folder
TOLLGATE_CORPUS; without it these tests are skipped.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rig.corpus import Recorded, needs_corpus, read_corpus, read_whole_corpus

from addon.apis.chat.request import parse_chat_request
from addon.text.errors import ErrorAnswer, is_error_payload, upstream_error, upstream_error_in_success
from addon.text.masking import mask_credentials
from policies.refusal import Refusal

pytestmark = needs_corpus

# Not allowed by the contract, though by some provider: own words for tool_choice, and tools without a type.
BEYOND_THE_CONTRACT = (
    "tool_choice: Input should be 'auto', 'none' or 'required'",
    "tool_choice.type: ",
    "tools.0.type: Field required",
)

# Contract, "Normalized upstream errors", a second time.
CONTRACT = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_denied", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
OTHER = {4: ("invalid_request_error", "invalid_request_error"), 5: ("api_error", "upstream_error")}

# A dump, a page, or a program's word for nothing.
NOT_HUMAN = re.compile(
    r"^[{\[]|<html|<[!/]|\[object Object\]|\{\s*\"|\\u00|^(null|None|undefined)$", re.IGNORECASE
)
# The part of a key that a vendor echoes, and the openings of issued keys.
KEY_FRAGMENT = re.compile(r"\w\*{2,}|\*{2,}\w|\*{4,}|\b(sk|gsk|xai|pplx|hf|csk|fw|tgp)[-_]\w{6,}|AIza\w{6,}")


def decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def one_line(text: str) -> str:
    return " ".join(text.split())


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string of a body, also those of JSON in a string; the title of a page; plain text."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_in(item)
    elif isinstance(value, str):
        inner = decoded(value)
        title = re.search(r"<title>(.*?)</title>", value)
        yield from strings_in(inner) if isinstance(inner, dict | list) else [title[1] if title else value]


def plain_message(payload: Any) -> str | None:
    """Return the message from its usual places, without the code under test."""
    wrapper = payload[0] if isinstance(payload, list) and payload else payload
    holder = wrapper.get("error", wrapper) if isinstance(wrapper, dict) else None
    if not isinstance(holder, dict) or "raw" in (holder.get("metadata") or {}):
        return None
    message = holder.get("message")
    # A template variable that the server did not fill in is no message.
    return one_line(message) if isinstance(message, str) and not message.startswith("$") else None


def chunks(record: Recorded) -> Iterator[Any]:
    """Yield every JSON payload of a recorded stream."""
    lines = record["response_text"].splitlines()
    yield from (decoded(line.removeprefix("data:")) for line in lines if line.startswith("data:"))


def assert_sensible(answer: ErrorAnswer, text: str) -> None:
    """Assert that the message is readable, is the provider's own, and shows no key. No message is reported as such."""
    assert answer.message.strip()
    assert ("without a readable explanation" in answer.message) == (not text.strip())
    assert not NOT_HUMAN.search(answer.message), answer.message
    assert not KEY_FRAGMENT.search(answer.message), answer.message
    assert not KEY_FRAGMENT.search(answer.param or ""), answer.param
    payload = decoded(text)
    plain = plain_message(payload)
    if plain is not None:
        assert answer.message == mask_credentials(plain)
    elif text.strip():
        said = [mask_credentials(one_line(found)) for found in strings_in(payload if payload else text)]
        for part in answer.message.split("; "):
            sentence = part.split(": ", 1)[-1] if part.startswith("messages.") else part
            assert any(sentence in found for found in said), sentence
    known = CONTRACT.get(answer.status) or OTHER[answer.status // 100]
    assert (answer.type, answer.code) == known


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return read_corpus()


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return read_whole_corpus()


def test_every_recorded_error_answer_gets_its_message(everything: list[dict[str, Any]]) -> None:
    failed = [record for record in everything if record["status"] >= 400]
    assert len(failed) > 250
    assert {"openai_chat", "anthropic_messages", "gemini_generate", "bedrock_converse", "cohere_chat"} <= {
        record["api"] for record in failed
    }
    for record in failed:
        text = record["response_text"] or ""
        answer = upstream_error(record["status"], text.encode())
        assert answer.status == record["status"], record["id"]
        assert_sensible(answer, text)


def test_a_nonstandard_status_becomes_502_and_keeps_its_message(
    everything: list[Recorded],
) -> None:
    failed = [record for record in everything if record["status"] >= 400 and record["response_text"]]
    for record in failed:
        answer = upstream_error(529, record["response_text"].encode())
        assert answer.status == 502
        assert_sensible(answer, record["response_text"])


def test_a_bad_key_reported_as_a_bad_request_stays_one(everything: list[Recorded]) -> None:
    found = [
        (record["provider"], upstream_error(400, record["response_text"].encode()))
        for record in everything
        if record["status"] == 400
        and re.search(r"API key (not valid|provided)", record["response_text"] or "")
    ]
    assert {"google", "vertex", "xai"} <= {provider for provider, _ in found}
    for _, answer in found:
        assert (answer.status, answer.type, answer.code) == (400, *OTHER[4])


def test_every_recorded_error_in_a_success_is_found(everything: list[Recorded]) -> None:
    whole = [record for record in everything if record["status"] < 400 and not record["stream"]]
    payloads = {record["id"]: decoded(record["response_text"] or "") for record in whole}
    # In the recordings, an error always has a member of that name that is not empty.
    errors = {id_: p for id_, p in payloads.items() if isinstance(p, dict) and p.get("error")}
    assert errors
    assert {id_ for id_, payload in payloads.items() if is_error_payload(payload)} == set(errors)
    for payload in errors.values():
        assert_sensible(upstream_error_in_success(payload), json.dumps(payload))


def test_every_recorded_error_in_a_chunk_is_found(everything: list[Recorded]) -> None:
    streams = [record for record in everything if record["status"] < 400 and record["stream"]]
    seen = set()
    for record in streams:
        for chunk in chunks(record):
            is_error = isinstance(chunk, dict) and bool(chunk.get("error"))
            assert is_error_payload(chunk) is is_error, record["id"]
            if is_error:
                seen.add(record["api"])
                assert_sensible(upstream_error_in_success(chunk), json.dumps(chunk))
    assert {"openai_chat", "anthropic_messages"} <= seen


def test_every_recorded_request_is_valid_unless_it_is_beyond_the_contract(
    records: list[dict[str, Any]],
) -> None:
    accepted = 0
    for record in records:
        if record["request"] is None:
            continue
        try:
            parse_chat_request(json.dumps(record["request"]).encode())
            accepted += 1
        except Refusal as refusal:
            known = refusal.message.startswith(BEYOND_THE_CONTRACT)
            assert known or record["status"] >= 400, f"{record['id']}: {refusal.message}"  # noqa: PT017
    assert accepted > 1000
