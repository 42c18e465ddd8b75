"""Requests of Gemini's as the gateway makes them, and their parts."""

from typing import Any

from addon.dialects.gemini.request import to_request
from policies.family import Family
from rig.native_gemini import check

BY_LEVEL = Family("gemini")
BY_BUDGET = Family("gemini-2.5", effort_budgets={"low": 1_024, "high": 24_576})
HI = {"role": "user", "content": "Hi"}


def sent(family: Family = BY_LEVEL, **fields: Any) -> dict[str, Any]:
    native = to_request({"model": "gemini", "stream": True, "messages": [HI]} | fields, family)
    check(native)
    return native


def contents(*messages: dict[str, Any], family: Family = BY_BUDGET) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sent(family, messages=list(messages))["contents"]
    return found


def assistant(*calls: tuple[str, str], **more: Any) -> dict[str, Any]:
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for call_id, name in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": made} | more


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def image(url: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
