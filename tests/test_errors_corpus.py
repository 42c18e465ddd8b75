"""Recorded traffic against the readers of requests and errors: what real clients send, what real providers say.

The recordings are read from the folder in TOLLGATE_CORPUS; without it these tests are skipped.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from rig.corpus import needs_corpus, read_corpus

from addon.chat import parse_chat_request
from addon.errors import ErrorAnswer, from_upstream, from_upstream_payload, is_error_payload
from addon.mask import mask_credentials
from policies.refusal import Refusal

pytestmark = needs_corpus

# What the contract doesn't allow though some provider does: its own words for tool_choice, and tools without a type.
BEYOND_THE_CONTRACT = (
    "tool_choice: Input should be 'auto', 'none' or 'required'",
    "tool_choice.type: ",
    "tools.0.type: Field required",
)


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return read_corpus()


def decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def plain_message(payload: Any) -> str | None:
    """The message where it simply stands at error.message, read without the code under test."""
    wrapper = payload[0] if isinstance(payload, list) and payload else payload
    error = wrapper.get("error") if isinstance(wrapper, dict) else None
    if not isinstance(error, dict) or "raw" in (error.get("metadata") or {}):
        return None
    message = error.get("message")
    return " ".join(message.split()) if isinstance(message, str) else None


def chunks(record: dict[str, Any]) -> Iterator[Any]:
    """Every JSON payload of a recorded stream."""
    lines = record["response_text"].splitlines()
    yield from (decoded(line.removeprefix("data:")) for line in lines if line.startswith("data:"))


def assert_sensible(answer: ErrorAnswer, payload: Any, text: str) -> None:
    plain = plain_message(payload)
    if plain is not None:
        assert answer.message == mask_credentials(plain)
    else:
        assert not answer.message.startswith(("{", "[", "<"))
    assert answer.message.strip()
    assert ("without a readable explanation" in answer.message) == (not text.strip())


def test_every_recorded_error_answer_gets_its_sentence(records: list[dict[str, Any]]) -> None:
    failed = [record for record in records if record["status"] >= 400]
    assert len(failed) > 50
    for record in failed:
        text = record["response_text"] or ""
        answer = from_upstream(record["status"], text.encode())
        assert answer.status == record["status"], record["id"]
        assert_sensible(answer, decoded(text), text)


def test_every_recorded_success_that_is_an_error_is_seen(records: list[dict[str, Any]]) -> None:
    whole = [record for record in records if record["status"] < 400 and not record["stream"]]
    payloads = {record["id"]: decoded(record["response_text"] or "") for record in whole}
    # In the recordings, an error always has a member of that name that says something.
    errors = {id_: p for id_, p in payloads.items() if isinstance(p, dict) and p.get("error")}
    assert errors
    assert {id_ for id_, payload in payloads.items() if is_error_payload(payload)} == set(errors)
    for payload in errors.values():
        assert_sensible(from_upstream_payload(payload), payload, "x")


def test_every_recorded_chunk_that_is_an_error_is_seen(records: list[dict[str, Any]]) -> None:
    streams = [record for record in records if record["status"] < 400 and record["stream"]]
    errors = 0
    for record in streams:
        for chunk in chunks(record):
            is_error = isinstance(chunk, dict) and bool(chunk.get("error"))
            assert is_error_payload(chunk) is is_error, record["id"]
            if is_error:
                errors += 1
                assert_sensible(from_upstream_payload(chunk), chunk, "x")
    assert errors


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
