"""The models of the catalog in the shapes of Anthropic's and OpenAI's own lists. Pure.

The catalog knows no day on which a model came out, so each has the epoch, as Anthropic documents for that case. Source:
the vendors' API references, "Models"; docs/catalog.md.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qsl

from addon.text.json_encode import encode_json
from policies.model import Model
from policies.refusal import Refusal

_DEFAULT_LIMIT: Final = 20
_MAX_LIMIT: Final = 1000
_EPOCH: Final = "1970-01-01T00:00:00Z"
_PAGING: Final = frozenset({"limit", "before_id", "after_id"})


def make_anthropic_model(model: Model) -> dict[str, Any]:
    """Return a model as ``GET /v1/models/{slug}`` of Anthropic's API has it."""
    return {
        "type": "model",
        "id": model.slug,
        "display_name": model.slug,
        "created_at": _EPOCH,
        "max_input_tokens": model.context_window,
        "max_tokens": model.max_completion_tokens,
        "lifecycle": "active",
    }


def make_openai_model(model: Model) -> dict[str, Any]:
    """Return a model as ``GET /v1/models/{slug}`` of OpenAI's API has it."""
    owner = model.provider.name.lower()
    return {"id": model.slug, "object": "model", "created": 0, "owned_by": owner}


def format_anthropic_list(models: Iterable[Model], query: str) -> bytes:
    """Return the page of the active chat models that a query asks for. Raises Refusal ``validation_failed``.

    A page begins after ``after_id`` or ends before ``before_id``, in the order of slugs. So a model that left the
    catalog between two pages still has its place.
    """
    by_slug = {model.slug: model for model in _list_active(models) if model.serves == "chat"}
    slugs = list(by_slug)
    asked = {name: value for name, value in parse_qsl(query, keep_blank_values=True) if name in _PAGING}
    limit = _read_limit(asked.get("limit"))
    before, after = asked.get("before_id"), asked.get("after_id")
    if before is not None and after is not None:
        raise Refusal("validation_failed", "before_id: send it or after_id, not both.", "before_id")
    if before is not None:
        end = bisect_left(slugs, before)
        begin = max(0, end - limit)
        has_more = begin > 0
    else:
        begin = 0 if after is None else bisect_right(slugs, after)
        end = begin + limit
        has_more = end < len(slugs)
    page = slugs[begin:end]
    ends = {"first_id": page[0] if page else None, "last_id": page[-1] if page else None}
    return encode_json(
        {"data": [make_anthropic_model(by_slug[slug]) for slug in page], "has_more": has_more, **ends}
    )


def format_openai_list(models: Iterable[Model]) -> bytes:
    """Return all active models, also those that make embeddings."""
    return encode_json({"object": "list", "data": [make_openai_model(one) for one in _list_active(models)]})


def _list_active(models: Iterable[Model]) -> list[Model]:
    return sorted((model for model in models if model.active), key=lambda model: model.slug)


def _read_limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= _MAX_LIMIT:
        return int(text)
    raise Refusal("validation_failed", f"limit: must be an integer from 1 to {_MAX_LIMIT}.", "limit")
