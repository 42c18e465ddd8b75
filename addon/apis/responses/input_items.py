"""The items of a request's input become chat messages. Pure.

Items of one turn of the assistant (reasoning, a message, calls) become one message. What a provider's own tools did is
left out and named: no other provider can go on from it. Source: OpenAI, "Create a model response" (input), "Function
calling"; recorded requests.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from addon.apis.chat_body import Losses
from addon.apis.responses.custom_tools import (
    CLIENT_CALLS,
    CLIENT_OUTPUTS,
    chat_name,
    client_call_arguments,
    custom_arguments,
)
from addon.apis.responses.outputs import Outputs
from addon.apis.responses.parts import make_content
from addon.apis.responses.turn import AssistantTurn

type Item = Mapping[str, Any]
type Message = dict[str, Any]

_OF_CALLS: Final = frozenset({"function_call", "custom_tool_call", *CLIENT_CALLS})
_OF_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", *CLIENT_OUTPUTS})
_CARRIED: Final = frozenset(
    {
        *(
            "type",
            "id",
            "status",
            "created_by",
            "role",
            "content",
            "call_id",
            "name",
            "namespace",
            "arguments",
        ),
        *("input", "output", "action", "operation", "execution", "tools", "max_output_length"),
        *("summary", "encrypted_content", "format"),
    }
)
"""The members of the items that are translated which are read, or say nothing to a model."""


def make_messages(given: str | Sequence[Item], losses: Losses) -> list[Message]:
    """Return the chat messages of an input. The source of each is the last item that it was made of."""
    if isinstance(given, str):
        losses.sources["messages"].append("input")
        return [{"role": "user", "content": given}]
    conversation = _Conversation(given, losses)
    for index, item in enumerate(given):
        conversation.add(item, f"input.{index}")
    return conversation.finish()


class _Conversation:
    """The messages so far, the assistant's turn that is open, and what outputs bring for the next message."""

    def __init__(self, items: Sequence[Item], losses: Losses) -> None:
        self._losses = losses
        self._messages: list[Message] = []
        self._place = ""
        """The path of the item that is read."""
        self._turn_place = ""
        self._turn = AssistantTurn(losses)
        self._outputs = Outputs(losses)
        self._searched = {
            item.get("call_id")
            for item in items
            if item.get("type") == "tool_search_output" and _is_clients(item)
        }

    def add(self, item: Item, place: str) -> None:
        """Add one item."""
        kind, self._place = item.get("type") or "message", place
        if kind == "message":
            self._message(item, place)
        elif kind == "reasoning":
            self._begin(fresh=self._turn.has_calls)
            self._turn.reason(item)
        elif kind in _OF_CALLS and self._is_paired(item):
            self._begin()
            self._turn.call(_call(item))
        elif kind in _OF_OUTPUTS and (kind != "tool_search_output" or _is_clients(item)):
            self._close()
            self._append(self._outputs.message(item, place))
        elif kind == "compaction":
            self._losses.refuse(place, "Only the provider that made it can read what was compacted.")
            return
        elif kind != "additional_tools":
            self._losses.drop(f"input.{kind}")
            return
        for name, value in item.items():
            if name not in _CARRIED and value is not None:
                self._losses.drop(f"input.{name}")

    def finish(self) -> list[Message]:
        """Return all messages."""
        self._close()
        self._flush_outputs()
        return self._messages

    def _message(self, item: Item, place: str) -> None:
        content = make_content(item["content"], f"{place}.content", self._losses)
        if item["role"] == "assistant":
            self._begin(fresh=self._turn.has_calls or self._turn.content is not None)
            self._turn.content = content
            return
        self._close()
        self._flush_outputs()
        self._append({"role": item["role"], "content": content})

    def _begin(self, *, fresh: bool = False) -> None:
        """Make sure that an assistant's turn is open; ``fresh``: another one than so far."""
        if fresh:
            self._close()
        self._flush_outputs()
        self._turn_place = self._place

    def _close(self) -> None:
        if (message := self._turn.message()) is not None:
            self._append(message, self._turn_place)
        self._turn = AssistantTurn(self._losses)

    def _flush_outputs(self) -> None:
        if (message := self._outputs.rest()) is not None:
            self._append(message, self._outputs.place)

    def _append(self, message: Message, place: str | None = None) -> None:
        self._messages.append(message)
        self._losses.sources["messages"].append(place or self._place)

    def _is_paired(self, item: Item) -> bool:
        return item["type"] != "tool_search_call" or (_is_clients(item) and item["call_id"] in self._searched)


def _is_clients(item: Item) -> bool:
    """Return whether a search of tools, or its output, is the client's and not the provider's."""
    return isinstance(item.get("call_id"), str) and item.get("execution") == "client"


def _call(item: Item) -> dict[str, Any]:
    kind = item["type"]
    if kind == "function_call":
        name, arguments = chat_name(item["name"], item.get("namespace")), _arguments(item["arguments"])
    elif kind == "custom_tool_call":
        name, arguments = chat_name(item["name"], item.get("namespace")), custom_arguments(item["input"])
    else:
        name, arguments = kind.removesuffix("_call"), client_call_arguments(item)
    call_id = item.get("call_id") or item.get("id") or ""
    return {"id": str(call_id), "type": "function", "function": {"name": name, "arguments": arguments}}


def _arguments(text: str) -> str:
    """Return arguments as JSON. OpenAI takes them from clients that encoded them twice."""
    if type(text) is not str or not text.startswith('"'):
        return text
    try:
        inner = json.loads(text)
    except ValueError:
        return text
    return inner if isinstance(inner, str) and inner.startswith("{") else text
