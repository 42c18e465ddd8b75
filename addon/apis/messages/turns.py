"""The turns of a conversation become chat messages. Pure.

One turn of the user may hold the results of several tools and new text. It becomes one message for each result, right
after the calls, and then one for the rest. Pictures and documents in a result go into that one, because most providers
take only text in a result. Source: Anthropic, "Handle tool calls"; OpenAI, API reference, "Create chat completion".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from addon.apis.chat_body import Losses
from addon.apis.messages.blocks import (
    Block,
    Part,
    join_texts,
    make_content,
    make_part,
    make_parts,
    note_uncarried,
    text_part,
    with_mark,
)
from addon.apis.messages.thinking import add_reasoning
from addon.text.json_encode import encode_json
from policies.large_text import prefixed, whole_value

type Message = dict[str, Any]

ERROR_WORD: Final = "Error"
"""The beginning of a result with ``is_error``: chat has no member for it."""

_MEMBERS: Final = frozenset({"role", "content"})
_SYSTEM_MEMBERS: Final = _MEMBERS | {"output_config"}


def make_system(system: str | Sequence[Block] | None, losses: Losses) -> list[Message]:
    """Return the message of ``system``, none where it is empty."""
    if not system:
        return []
    content = system if isinstance(system, str) else make_content(make_parts(system, "system", losses))
    losses.sources["messages"].append("system")
    return [{"role": "system", "content": content}]


def make_messages(turns: Sequence[Mapping[str, Any]], losses: Losses) -> list[Message]:
    """Return the chat messages of ``turns``, each in its place."""
    made: list[Message] = []
    for index, turn in enumerate(turns):
        place, role, content = f"messages.{index}", turn["role"], turn.get("content")
        known = _SYSTEM_MEMBERS if role == "system" else _MEMBERS
        for name in turn.keys() - known:
            losses.drop(f"messages.{name}")
        messages = list(_messages_of(role, content, f"{place}.content", losses))
        losses.sources["messages"] += [place] * len(messages)
        made += messages
    return made


def _messages_of(role: str, content: Any, place: str, losses: Losses) -> Iterable[Message]:
    if content is None:
        return ()
    if isinstance(content, str):
        return ({"role": role, "content": content},)
    return _MAKERS[role](content, place, losses)


def _late_system(blocks: Sequence[Block], place: str, losses: Losses) -> Iterator[Message]:
    """Yield the message of a system turn. What changes the tools of a conversation is named, and changes nothing."""
    parts: list[Part] = []
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            parts += make_part(block, f"{place}.{index}", losses)
        else:
            losses.drop(f"messages.{block['type']}")
    if parts:
        yield {"role": "system", "content": make_content(parts)}


def _user(blocks: Sequence[Block], place: str, losses: Losses) -> Iterator[Message]:
    rest: list[Part] = []
    media: list[Part] = []
    for index, block in enumerate(blocks):
        if block["type"] == "tool_result":
            yield _tool_result(block, f"{place}.{index}", media, losses)
        else:
            rest += make_part(block, f"{place}.{index}", losses)
    if media or rest:
        yield {"role": "user", "content": make_content(media + rest)}


def _tool_result(block: Block, place: str, media: list[Part], losses: Losses) -> Message:
    """Return the message of a result. Its pictures and documents are added to ``media``."""
    note_uncarried(block, losses)
    texts: list[Part] = []
    others: list[Part] = []
    for part in _result_parts(block.get("content"), f"{place}.content", losses):
        (texts if part["type"] == "text" else others).append(part)
    if block.get("is_error"):
        texts = _as_error(texts)
    if others:
        media += [text_part(f"Attached to the result of the tool call {block['tool_use_id']}:"), *others]
        texts = texts or [text_part("The result is attached to the next message of the user.")]
    message = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": make_content(texts)}
    return with_mark(message, block)


def _result_parts(content: object, place: str, losses: Losses) -> list[Part]:
    if isinstance(content, str):
        return [text_part(content)]
    parts: list[Part] = []
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if block["type"] == "tool_reference":
            parts.append(with_mark(text_part(f"Tool available: {block.get('tool_name')}"), block))
        else:
            parts += make_part(block, f"{place}.{index}", losses)
    return parts


def _as_error(texts: list[Part]) -> list[Part]:
    """Return texts that say that they are an error. Most tools' errors say so themselves."""
    if not texts or not texts[0]["text"].strip():
        return [text_part(ERROR_WORD), *texts[1:]]
    first = texts[0]["text"]
    if ERROR_WORD.lower() in first[:40].lower():
        return texts
    return [{**texts[0], "text": prefixed(f"{ERROR_WORD}: ", first)}, *texts[1:]]


def _assistant(blocks: Sequence[Block], place: str, losses: Losses) -> Iterator[Message]:
    """Yield the message of an assistant's turn, unless nothing of it can be carried."""
    texts: list[Part] = []
    calls: list[Message] = []
    thoughts: list[Block] = []
    for index, block in enumerate(blocks):
        match block["type"]:
            case "text" | "image" | "document" | "search_result":
                texts += make_part(block, f"{place}.{index}", losses)
            case "tool_use":
                note_uncarried(block, losses)
                calls.append(_call(block))
            case "thinking" | "redacted_thinking":
                note_uncarried(block, losses)
                thoughts.append(block)
            case other:
                # The provider's own tools, and their results: no other provider can go on from them.
                losses.drop(f"messages.{other}")
    message: Message = {"role": "assistant", "content": join_texts(texts)}
    if calls:
        message["tool_calls"] = calls
        message["content"] = message["content"] or None
    add_reasoning(message, thoughts, losses)
    if texts or len(message) > 2:
        yield message


def _call(block: Block) -> Message:
    arguments = encode_json(whole_value(block["input"])).decode()
    function = {"name": block["name"], "arguments": arguments}
    return with_mark({"id": block["id"], "type": "function", "function": function}, block)


_MAKERS: Final[Mapping[str, Callable[[Sequence[Block], str, Losses], Iterator[Message]]]] = MappingProxyType(
    {"user": _user, "assistant": _assistant, "system": _late_system}
)
