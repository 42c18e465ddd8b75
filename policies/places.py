"""The places of a model that may serve a call of a workspace, as targets. Pure.

A call uses the workspace's own keys if it has one, with its routing on, for the provider of any place. Then only these
places serve it, and the platform's only by the Safety Net. Source: docs/routing.md, "Several places".
"""

from policies.model import Model, Workspace
from policies.route import Target


def has_own_place(model: Model, workspace: Workspace) -> bool:
    """Return whether the workspace has a key of its own, with its routing on, for the provider of any place."""
    return any(workspace.routed_key(place.provider) for place in model.places)


def list_own_targets(model: Model, workspace: Workspace, *, is_fallback: bool = False) -> tuple[Target, ...]:
    """Return the places that the workspace's own keys reach. A key that is not stored reaches none."""
    keys = ((place, workspace.routed_key(place.provider)) for place in model.places)
    return tuple(
        [
            Target(place, "byok", own.secret, is_fallback)
            for place, own in keys
            if own and own.secret is not None
        ]
    )


def list_platform_targets(model: Model, *, is_fallback: bool = False) -> tuple[Target, ...]:
    """Return the places that the platform's keys reach."""
    keys = ((place, place.provider.platform_secret) for place in model.places)
    return tuple([Target(place, "payg", secret, is_fallback) for place, secret in keys if secret is not None])
