"""The endpoints of the public port, and how a request head names one. Pure."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from addon.calls.unserved_paths import make_not_found
from addon.text.http_heads import RequestHead
from policies.refusal import Refusal


class Endpoint(Enum):
    """A public endpoint. The value is its path."""

    CHAT = "/v1/chat/completions"
    MODELS = "/v1/models"
    MODEL = "/v1/models/{slug}"


METHODS: Mapping[Endpoint, tuple[str, ...]] = MappingProxyType(
    {Endpoint.CHAT: ("POST",), Endpoint.MODELS: ("GET", "HEAD"), Endpoint.MODEL: ("GET", "HEAD")}
)
_PLAIN: Mapping[tuple[str, str], Endpoint] = MappingProxyType(
    {(method, one.value): one for one in (Endpoint.CHAT, Endpoint.MODELS) for method in METHODS[one]}
)
"""The endpoints by method and target, for targets that are only a path."""
_ONE_MODEL: Final = f"{Endpoint.MODELS.value}/"


def endpoint_of(head: RequestHead) -> Endpoint:
    """Return the endpoint that a request is for. Raises Refusal ``not_found`` or ``method_not_allowed``."""
    if endpoint := _PLAIN.get((head.method, head.target)):
        return endpoint
    if head.method == "CONNECT":
        raise Refusal("method_not_allowed", "This is a gateway, not a proxy: CONNECT is not served.")
    if head.target == "*":
        raise Refusal("method_not_allowed", "The target * is not supported. Send a path.")
    endpoint = _endpoint_at(head.path)
    if endpoint is None:
        raise make_not_found(head.path)
    if head.method not in METHODS[endpoint]:
        allowed = " or ".join(METHODS[endpoint])
        raise Refusal("method_not_allowed", f"{endpoint.value} accepts {allowed} only.")
    return endpoint


def slug_in_path(head: RequestHead) -> str | None:
    """Return the slug in the path of a request for one model, None for all models. ``%2F`` in it is a slash."""
    path = head.path
    return unquote(path.removeprefix(_ONE_MODEL)) if path.startswith(_ONE_MODEL) else None


def allowed_methods(head: RequestHead) -> str:
    """Return the value of the ``Allow`` header for the path of a request."""
    endpoint = _endpoint_at(head.path)
    return ", ".join(METHODS[endpoint]) if endpoint else ""


def _endpoint_at(path: str) -> Endpoint | None:
    if path.startswith(_ONE_MODEL) and path != _ONE_MODEL:
        return Endpoint.MODEL
    return next((endpoint for endpoint in (Endpoint.CHAT, Endpoint.MODELS) if endpoint.value == path), None)
