"""Which model serves a call, and with whose key: from facts to a ``Route``, or a ``Refusal``."""

from collections.abc import Mapping
from typing import Final

from pydantic import SecretStr

from policies.facts import Attempt, Model, Route, Workspace
from policies.refusal import Refusal

NO_SECRET: Final = SecretStr("")
"""What is sent to a provider that takes no key: no header at all."""


def choose_route(requested_model: str | None, workspace: Workspace, catalog: Mapping[str, Model]) -> Route:
    """Return the attempts for a call that names ``requested_model``, or no model at all.

    A catalog slug is taken as named; any other name is a hint, which the workspace's default model answers.
    Source: contract, "Errors" (bad_request, invalid_state, byok_required).
    """
    slug, decided_by = _choose_slug(requested_model, workspace, catalog)
    model = catalog[slug]
    if not model.active:
        raise Refusal("invalid_state", f"No active model is configured for '{slug}'.", "model")
    if model.byok_only:
        raise Refusal(
            "byok_required",
            f"'{slug}' is served with your own {model.provider.name} key only, and no such key is enabled.",
            "model",
        )
    return Route((Attempt(model, "payg", _platform_secret(model)),), decided_by)


def _platform_secret(model: Model) -> SecretStr:
    provider = model.provider
    if provider.auth == "none":
        return NO_SECRET
    if provider.platform_key is None:
        raise Refusal(
            "invalid_state", f"The provider of '{model.slug}' has no platform key configured.", "model"
        )
    return provider.platform_key


def _choose_slug(
    requested_model: str | None, workspace: Workspace, catalog: Mapping[str, Model]
) -> tuple[str, str]:
    if requested_model is not None and requested_model in catalog:
        return requested_model, "pinned"
    if workspace.default_model is not None:
        return workspace.default_model, "default_model"
    if requested_model is None:
        raise Refusal("bad_request", "Name a model: this workspace has no default model.", "model")
    # The name is not repeated: now and then somebody puts a key there.
    raise Refusal(
        "bad_request", "No model of that name is in the catalog: GET /v1/models lists them.", "model"
    )
