"""Messages of a chat request, and their parts."""

from typing import Any


def call(call_id: str, **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}} | more


def said(role: str = "user", content: Any = "Hello", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content} | more


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | more
