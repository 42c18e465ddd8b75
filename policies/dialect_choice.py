"""The wire shape of a call to a model: the one place of this rule.

OpenAI's reasoning models take tools with reasoning only over their Responses API, and only there they get their own
reasoning back. Every other call stays as it is in the provider's own shape. Source: docs/dialect-responses.md.
"""

from collections.abc import Mapping
from typing import Any

from policies.family import EFFORT
from policies.field_rules import clamp_value
from policies.model import RESPONSES, Model
from policies.route import Target


def find_dialect(model: Model, fields: Mapping[str, Any], native: str | None = None) -> str:
    """Return the dialect of a call with these chat fields: those of the contract and the family's extra ones.

    ``native`` is the dialect that has the shape of the client's API, None for chat.
    """
    if model.prefers_responses and (
        native == RESPONSES or (fields.get("tools") and _may_reason(model, fields))
    ):
        return RESPONSES
    return model.dialect


def name_dialect_rule(model: Model) -> str:
    """Return the place of the rule that gave a model, as a call sees it, its dialect."""
    if model.dialect == model.provider.dialect:
        return f"providers.toml [{model.provider.name}] dialect"
    if model.family.responses_only:
        return f"families.toml [{model.family.name}] responses_only"
    return f'models.toml ["{model.slug}"] dialect'


def explain_dialect(model: Model) -> str | None:
    """Return why a call goes to the Responses API, None for one that does not."""
    if model.dialect != RESPONSES:
        return None
    why = ": it has no other" if model.family.responses_only else ", for calls with tools and reasoning"
    return f"dialect {RESPONSES}{why} ({name_dialect_rule(model)})"


def choose_dialect(target: Target, fields: Mapping[str, Any], native: str | None = None) -> Target:
    """Return the target as a call sees it (see ``find_dialect``): the same one where its own dialect serves."""
    own = find_dialect(target.model, fields, native) == target.model.dialect
    return target if own else target.over_responses


def _may_reason(model: Model, fields: Mapping[str, Any]) -> bool:
    family = model.family
    effort = fields.get(EFFORT, family.default_effort)
    return bool(clamp_value(EFFORT, effort, family) != "none")
