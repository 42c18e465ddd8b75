"""A client that asks a gateway for each recording, with the official OpenAI SDK, and checks the answers."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from rig.bounds import BOUND_S
from rig.configuration import PROVIDER_KEY
from rig.gateway import Gateway
from rig.readers import Answer, client, difference
from rig.readers.frames import difference_of_frames
from rig.readers.plain import is_plain
from rig.replay import Run

type Question = dict[str, Any]

HELLO: Any = [{"role": "user", "content": "hello"}]
PARALLEL_CALLS = 12
OWN_ERRORS = ("validation_failed", "bad_request")

# Contract, "Normalized upstream errors".
CODES = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_denied", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
OTHER = {4: ("invalid_request_error", "invalid_request_error"), 5: ("api_error", "upstream_error")}


PUT_RIGHT = frozenset(
    ("message.reasoning", "choice.text", "choice.message", "choice.delta", "message.tool_calls")
)
"""Members whose content the contract has elsewhere, or which have no content."""


@dataclass
class Outcome:
    """The outcome of one run."""

    run: Run
    problem: str | None
    refused: str | None = None
    """The error for the recorded request, if the gateway accepted only the plain one."""


async def ask_all(gateway: Gateway, runs: list[Run], asked: Callable[[Run], Question]) -> list[Outcome]:
    """Make the call of each run, ``PARALLEL_CALLS`` at a time, over kept connections."""
    places = asyncio.Semaphore(PARALLEL_CALLS)
    url = f"{gateway.url}/v1"
    async with AsyncOpenAI(base_url=url, api_key=gateway.key, max_retries=0, timeout=BOUND_S) as sdk:

        async def one(run: Run) -> Outcome:
            async with places:
                return await _outcome(sdk, run, asked(run))

        return await asyncio.gather(*map(one, runs))


async def _outcome(sdk: AsyncOpenAI, run: Run, question: Question) -> Outcome:
    try:
        return Outcome(run, await _ask(sdk, run, question))
    except openai.BadRequestError as error:
        if error.code not in OWN_ERRORS:
            raise
        refused = error.message
    return Outcome(run, await _ask(sdk, run, {"messages": HELLO}), refused)


async def _ask(sdk: AsyncOpenAI, run: Run, question: Question) -> str | None:
    body = run.question(question)
    chunks: list[ChatCompletionChunk] = []
    try:
        answer: Any = await sdk.chat.completions.create(
            model=run.slug, messages=HELLO, stream=run.stream, extra_body=body
        )
        if not run.stream:
            return "no error" if run.kind == "error" else _check_whole(run, answer)
        async for chunk in answer:
            # A comprehension would lose the chunks before a failure.
            chunks += [chunk]
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        return "no error" if run.kind == "error" else _check_stream(run, chunks, asked=asked)
    except openai.APIError as error:
        if getattr(error, "code", None) in OWN_ERRORS:
            raise
        if run.kind != "error":
            return f"{type(error).__name__} after {len(chunks)} chunks: {error.message}"
        return _check_error(run, error)


def _check_error(run: Run, error: openai.APIError) -> str | None:
    """Return the difference from the contract's error for the recording, or None."""
    body = error.body
    if not isinstance(body, dict) or set(body) != {"message", "type", "param", "code"}:
        return f"not the contract's error object: {body!r}"
    message, status = body["message"], getattr(error, "status_code", None)
    if not isinstance(message, str) or not message.strip() or message.startswith(("{", "[", "<html")):
        return f"not a readable message: {message!r}"
    if run.status >= 400 and status != run.status:
        return f"status {status}, recorded {run.status}"
    if status is not None and (body["type"], body["code"]) != (CODES.get(status) or OTHER[status // 100]):
        return f"status {status} with {body['type']} and {body['code']}"
    secret = PROVIDER_KEY in str(body) or run.upstream_model_id in str(body)
    return "has the provider's key or its name of the model" if secret else None


def _check_whole(run: Run, answer: ChatCompletion) -> str | None:
    """Return the difference from the recorded completion with its slug, or None."""
    made: dict[str, Any] = answer.to_dict(warnings=False)
    if made.get("model") != run.slug:
        return f"model {made.get('model')!r}"
    problem = _compared(run, lambda: client.read_whole(answer))
    if problem or run.dialect != "openai":
        return problem
    [recorded] = run.payloads
    changed = _changed(_without_notes(made, recorded), recorded)
    if is_plain([recorded], stream=False, think_tags=run.think_tags):
        return str(changed) if changed else None
    beyond = changed.keys() - {"choices", "id", "object", "created"}
    return f"{sorted(beyond)} changed" if beyond else _lost([made], run.payloads)


def _check_stream(run: Run, chunks: list[ChatCompletionChunk], *, asked: bool) -> str | None:
    """Return the difference from the recorded chunks with the slug, or None."""
    made: list[dict[str, Any]] = [chunk.to_dict(warnings=False) for chunk in chunks]
    if wrong := [chunk.get("model") for chunk in made if chunk.get("model") != run.slug]:
        return f"models {wrong[:3]}"
    problem = _compared(run, lambda: client.read_stream(chunks))
    problem = problem or _accumulated(chunks)
    if problem or run.dialect != "openai":
        return problem
    if not is_plain(run.payloads, stream=True, think_tags=run.think_tags):
        return _lost(made, run.payloads)
    return difference_of_frames(run.payloads, made, asked=asked)


def _lost(made: list[dict[str, Any]], recorded: list[dict[str, Any]]) -> str | None:
    """Return the provider's own members that the client did not get, or None."""
    lost = _names(recorded) - _names(made) - PUT_RIGHT
    return f"lost {sorted(lost)}" if lost else None


def _names(payloads: list[dict[str, Any]]) -> set[str]:
    """Return the names of all members of chunks, choices and messages."""
    choices = [choice for payload in payloads for choice in payload.get("choices") or ()]
    messages = [choice.get("delta") or choice.get("message") or {} for choice in choices]
    named = {"": payloads, "choice.": choices, "message.": messages}
    return {f"{prefix}{name}" for prefix, found in named.items() for one in found for name in one}


def _changed(made: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members, without the model, that differ from the recording."""
    names = (made.keys() | recorded.keys()) - {"model"}
    return {name: made.get(name) for name in names if made.get(name) != recorded.get(name)}


def _without_notes(made: dict[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer without the explanations of tokens without text."""
    bare: dict[str, Any] = json.loads(json.dumps(made))
    for choice, was in zip(bare["choices"], recorded["choices"], strict=True):
        original = was.get("message") or {}
        if not any(original.get(name) for name in ("content", "tool_calls", "reasoning_content")):
            choice["message"].pop("reasoning_content", None)
            choice["message"] |= {key: None for key in ("reasoning_content",) if key in original}
    return bare


def _compared(run: Run, read: Callable[[], Answer]) -> str | None:
    expected = run.expected_answer()
    try:
        got = read()
    except (AssertionError, KeyError, TypeError) as error:
        return f"not well-formed: {type(error).__name__}: {error}"
    _forget_notes(got, expected)
    return difference(got, expected)


def _forget_notes(got: Answer, expected: Answer) -> None:
    """Remove the explanations in ``reasoning_content``, which the contract allows for tokens without text."""
    spent = (expected.usage or {}).get("completion_tokens")
    for index, recorded in expected.choices.items():
        if spent and index in got.choices and not (recorded.text or recorded.reasoning or recorded.calls):
            got.choices[index].reasoning = ""


def _accumulated(chunks: list[ChatCompletionChunk]) -> str | None:
    """Return the difference from the result of the SDK's accumulator, or None."""
    plainly = client.read_stream(chunks)
    try:
        by_sdk = client.sdk_accumulates(chunks)
    except Exception as error:  # noqa: BLE001  (whatever it raises, a client with this SDK can't read the stream)
        return f"the SDK's accumulator: {type(error).__name__}: {error}"
    return difference(Answer(by_sdk.choices, plainly.usage), plainly)
