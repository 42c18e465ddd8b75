"""The endpoints of the public port, and how a request head names one. Pure.

All are served below two base paths: ``/v1``, and ``/openai/v1`` for clients that expect OpenAI's list of models.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from addon.calls.public_catalog import ListShape
from addon.calls.unserved_paths import make_not_found
from addon.text.http_heads import RequestHead
from policies.exchange import ApiName
from policies.refusal import Refusal


class Endpoint(Enum):
    """A public endpoint. The value is its path below ``/v1``."""

    CHAT = "/v1/chat/completions"
    MESSAGES = "/v1/messages"
    COUNT_TOKENS = "/v1/messages/count_tokens"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"
    PROBE = "/"
    MODELS = "/v1/models"
    MODEL = "/v1/models/{slug}"


API_NAMES: Final[Mapping[Endpoint, ApiName]] = MappingProxyType(
    {
        Endpoint.CHAT: "chat",
        Endpoint.MESSAGES: "messages",
        Endpoint.COUNT_TOKENS: "messages",
        Endpoint.RESPONSES: "responses",
        Endpoint.EMBEDDINGS: "embeddings",
    }
)
"""The names in ``APIS`` of those that take a request body."""
_CATALOG: Final = (Endpoint.MODELS, Endpoint.MODEL)
METHODS: Mapping[Endpoint, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(API_NAMES, ("POST",)),
        **dict.fromkeys(_CATALOG, ("GET", "HEAD")),
        Endpoint.PROBE: ("HEAD",),
    }
)
OPENAI_BASE: Final = "/openai"
"""The start of the second base path."""
# Claude Code asks one of the two paths of PROBE, by its credential, before its first call.
_BY_PATH: Final[Mapping[str, Endpoint]] = MappingProxyType(
    {one.value: one for one in METHODS if one is not Endpoint.MODEL} | {"/api/hello": Endpoint.PROBE}
)
_PLAIN: Mapping[tuple[str, str], Endpoint] = MappingProxyType(
    {
        (method, f"{base}{path}"): one
        for base in ("", OPENAI_BASE)
        for path, one in _BY_PATH.items()
        if path.startswith("/v1/") or not base
        for method in METHODS[one]
    }
)
"""The endpoints by method and target, for targets that are only a path."""
SERVED: Final = tuple(
    f"{methods[0]} {one.value}" for one, methods in METHODS.items() if one is not Endpoint.PROBE
)
"""The endpoints with their first methods, but for the probe."""
_ONE_MODEL: Final = f"{Endpoint.MODELS.value}/"


def endpoint_of(head: RequestHead) -> Endpoint:
    """Return the endpoint that a request is for. Raises Refusal ``not_found`` or ``method_not_allowed``."""
    if endpoint := _PLAIN.get((head.method, head.target)):
        return endpoint
    if head.method == "CONNECT":
        raise Refusal("method_not_allowed", "This is a gateway, not a proxy: CONNECT is not served.")
    if head.target == "*":
        raise Refusal("method_not_allowed", "The target * is not supported. Send a path.")
    endpoint = _endpoint_at(head)
    if endpoint is None or (endpoint is Endpoint.PROBE and head.method != "HEAD"):
        raise make_not_found(path_of(head), SERVED)
    if head.method not in METHODS[endpoint]:
        allowed = " or ".join(METHODS[endpoint])
        raise Refusal("method_not_allowed", f"{endpoint.value} accepts {allowed} only.")
    return endpoint


def path_of(head: RequestHead) -> str:
    """Return the path of a request, the same below both base paths."""
    path = head.path
    return path.removeprefix(OPENAI_BASE) if path.startswith(f"{OPENAI_BASE}/v1/") else path


def api_name_of(head: RequestHead) -> ApiName:
    """Return the name of the API in whose shape errors are answered: that of the path or of the nearest one above."""
    path = f"{path_of(head)}/"
    return next((name for one, name in API_NAMES.items() if path.startswith(f"{one.value}/")), "chat")


def slug_in_path(head: RequestHead) -> str | None:
    """Return the slug in the path of a request for one model, None for all models. ``%2F`` in it is a slash."""
    path = path_of(head)
    return unquote(path.removeprefix(_ONE_MODEL)) if path.startswith(_ONE_MODEL) else None


def list_shape_of(head: RequestHead) -> ListShape:
    """Return whose shape an answer about models has: OpenAI's below its base path, Anthropic's for its clients."""
    if head.path.startswith(OPENAI_BASE):
        return "openai"
    return "anthropic" if "anthropic-version" in head.headers else "contract"


def allowed_methods(head: RequestHead) -> str:
    """Return the value of the ``Allow`` header for the path of a request."""
    endpoint = _endpoint_at(head)
    return ", ".join(METHODS[endpoint]) if endpoint else ""


def _endpoint_at(head: RequestHead) -> Endpoint | None:
    path = path_of(head)
    if path.startswith(_ONE_MODEL) and path != _ONE_MODEL:
        return Endpoint.MODEL
    return _BY_PATH.get(path)
