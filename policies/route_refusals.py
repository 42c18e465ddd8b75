"""Why a request has no route: the refusals of routing that need no choice, and how to enable a customer's own key."""

from typing import Final

from policies.model import Workspace
from policies.provider import Provider
from policies.refusal import Refusal

LISTED: Final = "GET /v1/models lists them"


def to_enable(workspace: Workspace, provider: Provider) -> str:
    if provider.name in workspace.byok:
        return f"set 'routing = true' in [byok.{provider.name}] of the workspace's file"
    return f"add [byok.{provider.name}] with 'routing = true' to the workspace's file"


def inactive_model(slug: str, named_in: str | None) -> Refusal:
    remedy = f"change {named_in} of the workspace's file" if named_in else "name another model"
    message = f"No active model is configured for '{slug}': {remedy} ({LISTED})."
    return Refusal("invalid_state", message, None if named_in else "model")


def no_route(name: str | None) -> Refusal:
    if name is None:
        return refused_name("Name a model: nothing in the workspace's file chooses one for this request.")
    return refused_name(f"No model of that name is in the catalog: {LISTED}.")


def refused_name(message: str) -> Refusal:
    return Refusal("bad_request", message, "model")
