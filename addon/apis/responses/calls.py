"""The items of tool calls in a stream, and of pictures. Pure.

The arguments of a function go as they come. Those of other tools change their form, so they wait for the end.
"""

from types import MappingProxyType
from typing import Any, Final

from addon.answers.normalize.tool_calls import Outline
from addon.apis.responses.custom_tools import Tool, call_members
from addon.apis.responses.events import DeltaEvents, EventLog
from addon.apis.responses.items import ADDED, DONE, make_id

_PREFIXES: Final = MappingProxyType(
    {
        "function_call": "fc",
        "custom_tool_call": "ctc",
        "local_shell_call": "lsh",
        "shell_call": "sh",
        "apply_patch_call": "apc",
        "tool_search_call": "tsc",
    }
)
_ARGUMENTS: Final = "response.function_call_arguments"
_INPUT: Final = "response.custom_tool_call_input"


class CallItem:
    """The call of a tool; see ``items.Item``. Nothing is sent before its name is known."""

    def __init__(self, answer_id: str, call_id: str) -> None:
        self.value: dict[str, Any] = {}
        self.call_id = call_id
        self.is_closed = False
        self._answer_id, self._id, self._output_index = answer_id, "", 0
        self._tool: Tool | None = None
        self._log: EventLog | None = None
        self._deltas: DeltaEvents | None = None
        self._pieces: list[str] = []
        self._sent_pieces = 0
        self._outline = Outline()

    @property
    def may_close(self) -> bool:
        """Whether its arguments have their last bracket, so that no piece of them can follow."""
        return self._outline.is_whole

    @property
    def has_name(self) -> bool:
        """Whether ``name_tool`` was called."""
        return self._tool is not None

    def name_tool(self, tool: Tool) -> None:
        """Set the tool that is called."""
        self._tool = tool

    def put(self, piece: str) -> bytes:
        """Add a piece of the arguments, which may be empty. Raises ValueError for one that comes too late."""
        if self.is_closed and piece.strip():
            raise ValueError("arguments of a call that has ended")
        if piece:
            self._pieces.append(piece)
            self._outline.add(piece)
        is_function = self._tool is not None and self._tool.call_type == "function_call"
        return self._send_arguments() if self._log and is_function else b""

    def open(self, log: EventLog, output_index: int) -> bytes:
        """Return the events that begin the item, with what has waited."""
        self._log, self._output_index = log, output_index
        return self.put("")

    def close(self, status: str) -> bytes:
        """Return the events that end the item."""
        self.is_closed = True
        tool = self._tool = self._tool or Tool("function_call", "")
        arguments = "".join(self._pieces)
        if status == "completed" and not arguments.strip():
            arguments = "{}"
            self._pieces.append(arguments)
        made = call_members(tool, arguments)
        if made["type"] == "function_call":
            return self._end_function(made, arguments, status)
        return self._send_whole(made, status)

    def _send_arguments(self) -> bytes:
        begun = b"" if self._deltas else self._begin_function()
        text = "".join(self._pieces[self._sent_pieces :])
        self._sent_pieces = len(self._pieces)
        return begun + (self._deltas.add(text) if text and self._deltas else b"")

    def _begin_function(self) -> bytes:
        log, tool = self._opened()
        shell = call_members(tool, "") if tool.call_type == "function_call" else {"name": tool.name}
        added = self._add(log, {**shell, "type": "function_call", "arguments": ""}, "in_progress")
        self._deltas = DeltaEvents(
            log, f"{_ARGUMENTS}.delta", item_id=self._id, output_index=self._output_index
        )
        return added

    def _end_function(self, made: dict[str, Any], arguments: str, status: str) -> bytes:
        sent = self._send_arguments()
        log, _ = self._opened()
        place = {"item_id": self._id, "output_index": self._output_index}
        return (
            sent + log.add(f"{_ARGUMENTS}.done", **place, arguments=arguments) + self._end(log, made, status)
        )

    def _send_whole(self, made: dict[str, Any], status: str) -> bytes:
        """Return all events of a call that is no function's."""
        log, _ = self._opened()
        if made["type"] != "custom_tool_call":
            return self._add(log, made, "in_progress") + self._end(log, made, status)
        added = self._add(log, {**made, "input": ""}, "in_progress")
        place = {"item_id": self._id, "output_index": self._output_index}
        delta = log.add(f"{_INPUT}.delta", **place, delta=made["input"]) if made["input"] else b""
        return (
            added
            + delta
            + log.add(f"{_INPUT}.done", **place, input=made["input"])
            + self._end(log, made, status)
        )

    def _opened(self) -> tuple[EventLog, Tool]:
        if self._log is None or self._tool is None:
            raise ValueError("a call that has not begun")
        return self._log, self._tool

    def _add(self, log: EventLog, made: dict[str, Any], status: str) -> bytes:
        self._id = make_id(_PREFIXES.get(made["type"], "fc"), self._answer_id, self._output_index)
        return log.add(ADDED, item=self._item(made, status), output_index=self._output_index)

    def _end(self, log: EventLog, made: dict[str, Any], status: str) -> bytes:
        self.value = self._item(made, status)
        return log.add(DONE, item=self.value, output_index=self._output_index)

    def _item(self, made: dict[str, Any], status: str) -> dict[str, Any]:
        return {"id": self._id, **made, "call_id": self.call_id, "status": status}


class PictureItem:
    """A picture that the model made; see ``items.Item``. ``data`` is base64, or the URL of the picture."""

    may_close = True

    def __init__(self, answer_id: str, data: str) -> None:
        self.value: dict[str, Any] = {}
        self._answer_id, self._data = answer_id, data
        self._log, self._output_index = EventLog(), 0

    def open(self, log: EventLog, output_index: int) -> bytes:
        """Return the events that begin the item."""
        self._log, self._output_index = log, output_index
        place: dict[str, Any] = {
            "item_id": make_id("ig", self._answer_id, output_index),
            "output_index": output_index,
        }
        added = log.add(ADDED, item=self._item("in_progress", None), output_index=output_index)
        kinds = ("in_progress", "generating", "completed")
        return added + b"".join(
            [log.add(f"response.image_generation_call.{kind}", **place) for kind in kinds]
        )

    def close(self, _status: str) -> bytes:
        """Return the event that ends the item."""
        self.value = self._item("completed", self._data)
        return self._log.add(DONE, item=self.value, output_index=self._output_index)

    def _item(self, status: str, result: str | None) -> dict[str, Any]:
        item_id = make_id("ig", self._answer_id, self._output_index)
        return {"id": item_id, "type": "image_generation_call", "status": status, "result": result}
