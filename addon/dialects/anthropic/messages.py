"""Chat messages become the ``system`` and ``messages`` of Anthropic's Messages API. Pure.

A turn there is all consecutive messages of one side. So messages of one side in a row become one turn,
and a user's turn begins with the results of tools. Source: Anthropic, API reference, "Messages"; "Tool use",
"Handling tool results"; "Extended thinking", "Preserving thinking blocks"; "Mid-conversation system messages".
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from addon.dialects.anthropic.parts import Block, refuse, text_blocks, user_blocks, with_cache_control
from addon.dialects.content_blocks import REASONING_FORMAT
from addon.text.json_decode import decode_object
from policies.large_text import whole_text
from policies.refusal import Refusal

_SYSTEM_ROLES: Final = ("system", "developer")
_ROLES: Final = "system, developer, user, assistant and tool"
_THINKING: Final = ("thinking", "redacted_thinking")
# Source: the API's 400 "String should match pattern '^[a-zA-Z0-9_-]+$'". Ids of other providers may not match.
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


def translate_messages(
    messages: Sequence[Mapping[str, Any]], *, keeps_late_system: bool = False
) -> tuple[list[Block], list[Block]]:
    """Return the blocks of ``system``, and the turns. Raises Refusal for a message that the API can't express.

    ``keeps_late_system``: the model takes system messages within the conversation. Then a late one keeps its place, so
    that the beginning of the prompt, which is cached, stays the same.
    """
    system: list[Block] = []
    turns: list[Block] = []
    late: list[Block] = []
    for index, message in enumerate(messages):
        place, role, content = f"messages.{index}", message["role"], message.get("content")
        if role in _SYSTEM_ROLES:
            blocks = _with_breakpoint(text_blocks(content, f"{place}.content"), message)
            (late if keeps_late_system and turns else system).extend(blocks)
        elif role == "assistant":
            if blocks := _assistant_blocks(message, place):
                _place_late_system(turns, late, system)
                _add(turns, "assistant", blocks)
        elif role == "user":
            _add(turns, "user", _with_breakpoint(user_blocks(content, f"{place}.content"), message))
        elif role == "tool":
            _add(turns, "user", [_tool_result(message, place)])
        else:
            refuse(f"{place}.role", f"The model supports the roles {_ROLES}.")
    _place_late_system(turns, late, system)
    if messages[-1]["role"] == "user" and turns and turns[-1]["role"] == "assistant":
        # A blank message is left out. Then the last turn would be the model's.
        refuse(f"messages.{len(messages) - 1}.content", "The last message must not be blank.")
    if turns and turns[-1]["role"] == "assistant":
        _trim_end(turns[-1]["content"])
    if not turns:
        refuse("messages", "The model needs a message that is neither empty nor a system message.")
    return system, turns


def _place_late_system(turns: list[Block], late: list[Block], system: list[Block]) -> None:
    """Move the ``late`` system blocks to the end of the user's turn as one message, which is their only place.

    Where no turn of the user is before them, they belong to ``system``.
    """
    if late and turns[-1]["role"] == "user":
        turns.append({"role": "system", "content": [*late]})
    else:
        system += late
    late.clear()


def thinks_first(turns: Sequence[Block]) -> bool:
    """Return whether thinking may be turned on for these turns.

    It may not when the assistant's turn is still open and does not begin with thinking. A turn is open when it waits
    for a tool's result, or when the client gave its beginning. Source: the API's 400 "a final `assistant` message must
    start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)".
    """
    turns = [turn for turn in turns if turn["role"] != "system"]
    if turns[-1]["role"] == "assistant":
        return False
    if turns[-1]["content"][0]["type"] != "tool_result" or len(turns) == 1:
        return True
    return turns[-2]["content"][0]["type"] in _THINKING


def without_thinking(turns: Sequence[Block]) -> list[Block]:
    """Return the turns without thinking, except turns of only thinking.

    Source: the API's 400 "When thinking is disabled, an `assistant` message in the final position cannot contain
    `thinking`". In earlier positions the API ignores thinking.
    """
    kept = [[block for block in turn["content"] if block["type"] not in _THINKING] for turn in turns]
    return [{**turn, "content": blocks or turn["content"]} for turn, blocks in zip(turns, kept, strict=True)]


def _trim_end(blocks: list[Block]) -> None:
    """Remove white space at the end: the API refuses the beginning of an answer that ends with it."""
    if blocks[-1]["type"] == "text":
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}


def _add(turns: list[Block], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if not turns or turns[-1]["role"] != role:
        turns.append({"role": role, "content": []})
    content = turns[-1]["content"]
    content += blocks
    if role == "user":
        content.sort(key=lambda block: block["type"] != "tool_result")


def _assistant_blocks(message: Mapping[str, Any], place: str) -> list[Block]:
    blocks = text_blocks(message.get("content") or message.get("refusal"), f"{place}.content")
    calls = message.get("tool_calls") or []
    blocks += [_tool_use(call, f"{place}.tool_calls.{index}") for index, call in enumerate(calls)]
    thinking = thinking_blocks(message.get("reasoning_details"), f"{place}.reasoning_details")
    return thinking + _with_breakpoint(blocks, message)


def thinking_blocks(details: object, field: str) -> list[Block]:
    """Return the thinking blocks of Anthropic's models. The reasoning of other models means nothing to them.

    Details that a client collected from a stream may still be in pieces; the pieces of one block have the same index.
    """
    if details is None:
        return []
    if not isinstance(details, list) or not all(isinstance(detail, dict) for detail in details):
        refuse(field, "Input should be an array of objects.")
    ours = [detail for detail in details if detail.get("format") in (REASONING_FORMAT, None)]
    numbered = [(detail.get("index", -1 - place), detail) for place, detail in enumerate(ours)]
    pieces = [[detail for _, detail in group] for _, group in groupby(numbered, key=lambda pair: pair[0])]
    return [block for piece in pieces if (block := _joined_block(piece))]


def _joined_block(pieces: list[dict[str, Any]]) -> Block | None:
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
        refuse(f"{place}.type", "The model supports only calls of functions.")
    function = call["function"]
    arguments = _arguments(function.get("arguments") or "{}", f"{place}.function.arguments")
    used = {"type": "tool_use", "id": accepted_id(call["id"]), "name": function["name"], "input": arguments}
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
    result: Block = {"type": "tool_result", "tool_use_id": accepted_id(call_id)}
    if blocks := user_blocks(message.get("content"), f"{place}.content"):
        result["content"] = blocks
    return with_cache_control(result, message)


def accepted_id(given: str) -> str:
    """Return an id that the API accepts: the given one, or a hash of it."""
    if _CALL_ID.fullmatch(given):
        return given
    return f"call_{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _with_breakpoint(blocks: list[Block], message: Mapping[str, Any]) -> list[Block]:
    """Return ``blocks`` with the message's own cache breakpoint on the last one."""
    return [*blocks[:-1], with_cache_control(blocks[-1], message)] if blocks else []
