"""The changes that are allowed between a provider's chunks in standard form and the client's chunks."""

from collections.abc import Mapping, Sequence
from typing import Any

type Payload = Mapping[str, Any]


def difference_of_frames(recorded: Sequence[Payload], got: Sequence[Payload], *, asked: bool) -> str | None:
    """Return a difference other than in framing, model and the place of the usage, or None.

    ``asked``: the client asked for usage in the stream.
    """
    usages = [one["usage"] for one in recorded if isinstance(one.get("usage"), dict)]
    with_usage = [number for number, one in enumerate(got) if one.get("usage") is not None]
    if len(with_usage) != bool(usages) or (usages and got[with_usage[0]]["usage"] not in usages):
        return f"usage in the chunks {with_usage} of {len(got)}"
    without = [number for number, one in enumerate(got) if not one["choices"]]
    if without != ([len(got) - 1] if asked and usages else []):
        return f"chunks without a choice: {without} of {len(got)}"
    had = [one for one in recorded if one["choices"]]
    made = [one for one in got if one["choices"]]
    if _texts(had) != _texts(made):
        return f"other texts: {_texts(made)}, recorded {_texts(had)}"
    if _ends(had) != _ends(made):
        return f"other ends: {_ends(made)}, recorded {_ends(had)}"
    before_end = next((number for number, one in enumerate(had) if _ends([one])), len(had))
    pairs = enumerate(zip(had[:before_end], made[:before_end], strict=True))
    return next(
        (f"chunk {number}: {lost}" for number, (old, new) in pairs if (lost := _lost(old, new))), None
    )


def _texts(chunks: Sequence[Payload]) -> list[Any]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    shown = [(choice["index"], choice["delta"]) for choice in choices]
    return [(index, delta) for index, delta in shown if any(delta[name] for name in delta if name != "role")]


def _ends(chunks: Sequence[Payload]) -> dict[Any, str]:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return {one["index"]: one["finish_reason"] for one in choices if one.get("finish_reason")}


def _lost(old: Payload, new: Payload) -> dict[str, Any]:
    """Return the members that changed, except those that may change."""
    return {
        name: new.get(name) for name in old if name not in ("model", "usage") and new.get(name) != old[name]
    }
