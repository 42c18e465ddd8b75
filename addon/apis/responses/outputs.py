"""The outputs of the client's tools become tool messages. Pure.

Pictures and files of an output go into the next message of the user, because most providers take only text in a result.
Source: OpenAI, "Create a model response" (input), "Create chat completion" (messages).
"""

from collections.abc import Mapping
from typing import Any, Final

from addon.apis.chat_body import Losses
from addon.apis.responses.custom_tools import chat_name
from addon.apis.responses.parts import Part, join_parts, make_parts
from addon.text.json_encode import encode_json
from policies.large_text import whole_value

ATTACHED: Final = "Attached to the result of the tool call"
NO_TEXT: Final = "The result is attached to the next message of the user."


class Outputs:
    """Makes the messages of outputs, and keeps their pictures and files."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._media: list[Part] = []
        self.place = ""
        """The path of the last output with a picture or a file."""

    def message(self, item: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return the tool message of an output."""
        call_id = str(item.get("call_id") or item.get("id") or "")
        return {"role": "tool", "tool_call_id": call_id, "content": self._content(item, place, call_id)}

    def rest(self) -> dict[str, Any] | None:
        """Return the message with the pictures and files so far, None where there are none."""
        media, self._media = self._media, []
        return {"role": "user", "content": media} if media else None

    def _content(self, item: Mapping[str, Any], place: str, call_id: str) -> str | list[Part]:
        if item["type"] == "tool_search_output":
            return _loaded(item)
        output = item.get("output")
        if output is None or isinstance(output, str):
            return output or (
                str(item.get("status") or "") if item["type"] == "apply_patch_call_output" else ""
            )
        if item["type"] not in ("function_call_output", "custom_tool_call_output"):
            return encode_json(whole_value(output)).decode()
        texts: list[Part] = []
        others: list[Part] = []
        for part in make_parts(output, f"{place}.output", self._losses):
            (texts if part["type"] == "text" else others).append(part)
        if others:
            self.place = place
            self._media += [{"type": "text", "text": f"{ATTACHED} {call_id}:"}, *others]
            texts = texts or [{"type": "text", "text": NO_TEXT}]
        return join_parts(texts)


def _loaded(item: Mapping[str, Any]) -> str:
    """Return what a search of tools has found. The tools themselves are among those of the request."""
    names: list[str] = []
    for tool in item["tools"]:
        if tool["type"] == "namespace":
            names += [chat_name(str(one.get("name")), tool["name"]) for one in tool["tools"]]
        else:
            names.append(str(tool.get("name")))
    return f"Tools available: {', '.join(names)}" if names else "No tools found."
