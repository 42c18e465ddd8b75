"""Streams of Amazon Bedrock's Converse API: the frames of Amazon's event stream, and an answer as its events.

Nothing here comes from the gateway.
"""

import binascii
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any


def encode_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a frame of Amazon's event stream. All values of its headers are strings."""
    text = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    start = struct.pack(">II", 16 + len(text) + len(payload), len(text))
    made = start + struct.pack(">I", binascii.crc32(start)) + text + payload
    return made + struct.pack(">I", binascii.crc32(made))


def event_frame(name: str, payload: Mapping[str, Any]) -> bytes:
    """Return the frame of an event of ConverseStream."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, json.dumps(payload).encode())


def exception_frame(name: str, payload: Mapping[str, Any]) -> bytes:
    """Return the frame of an exception of ConverseStream."""
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return encode_frame(headers, json.dumps(payload).encode())


def stream_of(answer: Mapping[str, Any], pieces: int = 3) -> list[tuple[str, dict[str, Any]]]:
    """Return a whole answer as the events that ConverseStream has for it by its documentation."""
    events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
    for index, block in enumerate(answer["output"]["message"]["content"]):
        place = {"contentBlockIndex": index}
        if used := block.get("toolUse"):
            start = {name: used[name] for name in ("toolUseId", "name", "type") if name in used}
            events.append(("contentBlockStart", {"start": {"toolUse": start}, **place}))
        deltas = [{"delta": delta, **place, "p": "abcdefgh"} for delta in _deltas(block, pieces)]
        events += [("contentBlockDelta", delta) for delta in deltas]
        events.append(("contentBlockStop", place))
    events.append(("messageStop", {"stopReason": answer["stopReason"]}))
    if "usage" in answer:
        events.append(("metadata", {"usage": answer["usage"], "metrics": {"latencyMs": 1}}))
    return events


def _deltas(block: Mapping[str, Any], pieces: int) -> Iterator[dict[str, Any]]:
    for text in _cut(block.get("text", ""), pieces):
        yield {"text": text}
    for part in block.get("citationsContent", {}).get("content", []):
        yield {"text": part["text"]}
    for text in _cut(
        json.dumps(used["input"]) if (used := block.get("toolUse")) and used["input"] else "", pieces
    ):
        yield {"toolUse": {"input": text}}
    reasoning = block.get("reasoningContent", {})
    said = reasoning.get("reasoningText", {})
    for text in _cut(said.get("text", ""), pieces):
        yield {"reasoningContent": {"text": text}}
    if "signature" in said:
        yield {"reasoningContent": {"signature": said["signature"]}}
    if "redactedContent" in reasoning:
        yield {"reasoningContent": {"redactedContent": reasoning["redactedContent"]}}


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)]
