"""From chat messages to the ``system`` and ``messages`` of Anthropic's Messages API. Pure.

A turn there is all that one side says until the other does, so messages of one side in a row become one, and the
results of tools are the beginning of the user's turn. Source: Anthropic, API reference, "Messages"; "Tool use",
"Handling tool results"; "Extended thinking", "Preserving thinking blocks".
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from addon.dialects.anthropic.answer import REASONING_FORMAT
from addon.dialects.anthropic.parts import Block, refuse, text_blocks, user_blocks, with_cache_control
from addon.text.json_decode import decode_object
from policies.large_text import whole_text
from policies.refusal import Refusal

_SYSTEM_ROLES: Final = ("system", "developer")
_THINKING: Final = ("thinking", "redacted_thinking")
# Source: the API's 400 "String should match pattern '^[a-zA-Z0-9_-]+$'", which ids of other providers may get.
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


def translate_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Block], list[Block]]:
    """Return the blocks of ``system`` and the turns. Raises Refusal for what the API has no place for."""
    system: list[Block] = []
    turns: list[Block] = []
    for index, message in enumerate(messages):
        place, role = f"messages.{index}", message["role"]
        if role in _SYSTEM_ROLES:
            system += _marked(text_blocks(message.get("content"), f"{place}.content"), message)
        elif role == "assistant":
            _say(turns, "assistant", _assistant_blocks(message, place))
        elif role == "user":
            _say(turns, "user", _marked(user_blocks(message.get("content"), f"{place}.content"), message))
        elif role == "tool":
            _say(turns, "user", [_tool_result(message, place)])
        else:
            refuse(f"{place}.role", "The model knows the roles system, developer, user, assistant and tool.")
    if messages[-1]["role"] == "user" and turns and turns[-1]["role"] != "user":
        # Left out like any other blank message, it would leave the last word to the model.
        refuse(f"messages.{len(messages) - 1}.content", "The last message must not be blank.")
    if turns and turns[-1]["role"] == "assistant":
        _trim(turns[-1]["content"])
    if not turns:
        refuse("messages", "The model needs a message that is not empty and not of the system.")
    return system, turns


def thinks_first(turns: Sequence[Block]) -> bool:
    """Tell whether the turns can go on with thinking that is begun anew for each of the user's questions.

    They can't where a turn of the assistant's that isn't over, be it for a tool's result or because its beginning was
    given, does not begin with thinking. Source: the API's 400 "a final `assistant` message must start with a thinking
    block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)".
    """
    if turns[-1]["role"] == "assistant":
        return False
    if turns[-1]["content"][0]["type"] != "tool_result" or len(turns) == 1:
        return True
    return turns[-2]["content"][0]["type"] in _THINKING


def without_thinking(turns: Sequence[Block]) -> list[Block]:
    """Return the turns without their thinking, but for those that are nothing else.

    Source: the API's 400 "When thinking is disabled, an `assistant` message in the final position cannot contain
    `thinking`"; in earlier positions it is passed over.
    """
    kept = [[block for block in turn["content"] if block["type"] not in _THINKING] for turn in turns]
    return [{**turn, "content": blocks or turn["content"]} for turn, blocks in zip(turns, kept, strict=True)]


def _trim(blocks: list[Block]) -> None:
    """The API refuses the beginning of an answer that ends with white space."""
    if blocks[-1]["type"] == "text":
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}


def _say(turns: list[Block], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if not turns or turns[-1]["role"] != role:
        turns.append({"role": role, "content": []})
    said = turns[-1]["content"]
    said += blocks
    if role == "user":
        said.sort(key=lambda block: block["type"] != "tool_result")


def _assistant_blocks(message: Mapping[str, Any], place: str) -> list[Block]:
    said = text_blocks(message.get("content") or message.get("refusal"), f"{place}.content")
    calls = message.get("tool_calls") or []
    said += [_tool_use(call, f"{place}.tool_calls.{index}") for index, call in enumerate(calls)]
    return _thinking(message.get("reasoning_details"), f"{place}.reasoning_details") + _marked(said, message)


def _thinking(details: object, field: str) -> list[Block]:
    """Return the blocks that Anthropic's models gave and know again; reasoning of others means nothing to them.

    What was gathered from a stream may still be in pieces: those of one block bear the same index.
    """
    if details is None:
        return []
    if not isinstance(details, list) or not all(isinstance(detail, dict) for detail in details):
        refuse(field, "Input should be an array of objects.")
    ours = [detail for detail in details if detail.get("format") in (REASONING_FORMAT, None)]
    numbered = [(detail.get("index", -1 - place), detail) for place, detail in enumerate(ours)]
    pieces = [[detail for _, detail in group] for _, group in groupby(numbered, key=lambda pair: pair[0])]
    return [block for piece in pieces if (block := _thinking_block(piece))]


def _thinking_block(pieces: list[dict[str, Any]]) -> Block | None:
    kind = pieces[0].get("type")
    if kind == "reasoning.text" and (signature := _joined(pieces, "signature")):
        return {"type": "thinking", "thinking": _joined(pieces, "text"), "signature": signature}
    if kind == "reasoning.encrypted" and (sealed := _joined(pieces, "data")):
        return {"type": "redacted_thinking", "data": sealed}
    return None


def _joined(pieces: list[dict[str, Any]], name: str) -> str:
    return "".join([piece[name] for piece in pieces if isinstance(piece.get(name), str)])


def _tool_use(call: Mapping[str, Any], place: str) -> Block:
    if call["type"] != "function":
        refuse(f"{place}.type", "The model knows calls of functions only.")
    function = call["function"]
    arguments = _arguments(function.get("arguments") or "{}", f"{place}.function.arguments")
    used = {"type": "tool_use", "id": _call_id(call["id"]), "name": function["name"], "input": arguments}
    return with_cache_control(used, call)


def _arguments(text: str, field: str) -> dict[str, Any]:
    try:
        return decode_object(whole_text(text).encode())
    except (Refusal, UnicodeEncodeError):
        refuse(field, "Input should be a JSON object, as text.")


def _tool_result(message: Mapping[str, Any], place: str) -> Block:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        refuse(f"{place}.tool_call_id", "A tool message needs the id of the call that it answers.")
    result: Block = {"type": "tool_result", "tool_use_id": _call_id(call_id)}
    if blocks := user_blocks(message.get("content"), f"{place}.content"):
        result["content"] = blocks
    return with_cache_control(result, message)


def _call_id(given: str) -> str:
    """Return an id that the API accepts; ids of other providers that it doesn't get one that is as unique."""
    if _CALL_ID.fullmatch(given):
        return given
    return f"call_{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _marked(blocks: list[Block], message: Mapping[str, Any]) -> list[Block]:
    """A message's own cache breakpoint stands on its last block."""
    return [*blocks[:-1], with_cache_control(blocks[-1], message)] if blocks else []
