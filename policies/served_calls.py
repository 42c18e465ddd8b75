"""Whether the model that routing chose takes calls of an API: chat models make no embeddings, nor the other way. Pure.

Source: docs/embeddings.md.
"""

from collections.abc import Mapping
from typing import Final

from policies.model import Model, Serves
from policies.refusal import Refusal
from policies.route import Route
from policies.routing import CATALOG_ALIAS, PINNED, TIER_1

_MAX_NAMED: Final = 8


def check_serves(route: Route, wanted: Serves, models: Mapping[str, Model]) -> None:
    """Raise Refusal ``bad_request``, naming ``model``, where the model of a route does not take the call."""
    model = route.targets[0].model
    if model.serves in (wanted, None):
        return
    is_named = route.decided_by in (PINNED, TIER_1, CATALOG_ALIAS) or route.decided_by.startswith("alias ")
    if wanted == "chat":
        raise _refused(
            f"'{model.slug}' makes embeddings: POST /v1/embeddings takes it. Name a chat model here."
        )
    what = f"'{model.slug}' makes no embeddings" if is_named else "No model of that name makes embeddings"
    raise _refused(f"{what}: {_list_embeddings(models)}")


def _list_embeddings(models: Mapping[str, Model]) -> str:
    slugs = sorted(slug for slug, one in models.items() if one.serves == "embeddings" and one.active)
    if not slugs:
        return "no model of the catalog does."
    more = ", …" if len(slugs) > _MAX_NAMED else ""
    return f"name one of {', '.join(slugs[:_MAX_NAMED])}{more}."


def _refused(message: str) -> Refusal:
    return Refusal("bad_request", message, "model")
