"""A call as operators' policies see it."""

from dataclasses import replace
from typing import Any

from policies.review import ReviewedCall, ReviewedMessage

_ORDINARY = ReviewedCall(
    workspace="acme",
    plan="pro",
    key_id="ci",
    end_user=None,
    requested_model="gpt-4o-mini",
    model_slug="gpt-4o-mini",
    provider="OPENAI",
    mode="payg",
    is_fallback=False,
    decided_by="pinned",
    stream=False,
    requested_cap_tokens=None,
    choices=1,
    messages=(ReviewedMessage("user", "hello"),),
    last_user_text="hello",
    has_images=False,
    has_tools=False,
    wants_json=False,
    prompt_tokens=lambda: 9,
)


def reviewed(*texts: str, **changes: Any) -> ReviewedCall:
    """Return an ordinary call with ``changes``; each of ``texts`` is a message of the user."""
    if texts:
        changes["messages"] = tuple(ReviewedMessage("user", text) for text in texts)
        changes["last_user_text"] = texts[-1]
    return replace(_ORDINARY, **changes)
