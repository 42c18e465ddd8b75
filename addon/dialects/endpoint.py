"""The URL and the headers of an attempt: the one place that makes them. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.dialects.http_request import UpstreamEndpoint, UpstreamRequest
from addon.text.aws_signature import TOKEN_HEADER, RequestSigner, parse_aws_credentials
from addon.text.json_encode import encode_request
from addon.text.urls import model_path
from policies.route import Target

MAX_KEPT: Final = 256
"""How many values a target keeps, of which clients choose some."""

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


def json_request(
    target: Target,
    path: str,
    body: Mapping[str, Any],
    *,
    streams: bool,
    headers: Mapping[str, str] = _NO_HEADERS,
    call_headers: tuple[tuple[str, str], ...] = (),
    accept: str | None = None,
    unsent_fields: tuple[str, ...] = (),
) -> UpstreamRequest:
    """Build a ``POST`` of ``body`` to ``path`` below the provider's ``base_url``, with the target's own key.

    ``headers`` (names in lower case) are the dialect's. Headers of the provider's configuration win over them.
    ``call_headers`` are those that calls of one target differ in; they win over the others.
    ``accept`` is the type of the answer; without it, server-sent events or JSON.
    ``unsent_fields`` names the fields of the chat body that are not sent at all. The URL and the headers are made once
    for a target.
    """
    key = (path, streams, call_headers) if call_headers else (path, streams)
    endpoint = target.kept.get(key)
    if endpoint is None:
        accept = accept or ("text/event-stream" if streams else "application/json")
        endpoint = _endpoint(target, path, headers, accept, call_headers)
        if not call_headers or len(target.kept) < MAX_KEPT:
            target.kept[key] = endpoint
    return UpstreamRequest(endpoint, encode_request(body), unsent_fields)


def _endpoint(
    target: Target,
    path: str,
    headers: Mapping[str, str],
    accept: str,
    call_headers: tuple[tuple[str, str], ...],
) -> UpstreamEndpoint:
    made = (
        *auth_headers(target),
        ("content-type", "application/json"),
        ("accept", accept),
        # The gateway can't read a compressed answer event by event.
        ("accept-encoding", "identity"),
        *{"user-agent": "tollgate", **headers, **target.model.provider.headers, **dict(call_headers)}.items(),
    )
    return UpstreamEndpoint(endpoint_url(target, path), made, request_signer(target))


def endpoint_url(target: Target, path: str) -> str:
    """Return the URL of ``path`` below the provider's ``base_url``. ``{model}`` in it becomes the upstream model id.

    Raises ValueError for an id that can't be part of a path.
    """
    model = target.model
    if "{model}" in path:
        path = path.replace("{model}", model_path(model.upstream_model_id))
    return model.provider.base_url + path


def request_signer(target: Target) -> RequestSigner | None:
    """Return the signer of the requests to a provider whose requests are signed."""
    provider = target.model.provider
    if provider.auth != "aws_sigv4":
        return None
    credentials = parse_aws_credentials(target.secret.get_secret_value())
    return RequestSigner(credentials, provider.aws_region, provider.aws_service)


def auth_headers(target: Target) -> tuple[tuple[str, str], ...]:
    """Return the header with the target's key, in the form that its provider expects; no header for ``"none"``.

    The key is never in the URL, because URLs end in logs. Raises ValueError for a service account that was not
    exchanged for a token.
    """
    auth, secret = target.model.provider.auth, target.secret.get_secret_value()
    if auth == "none":
        return ()
    if auth == "bearer":
        return (("authorization", f"Bearer {secret}"),)
    if auth == "aws_sigv4":  # The rest depends on the time and the body: see ``request_signer``.
        token = parse_aws_credentials(secret).session_token
        return ((TOKEN_HEADER, token),) if token else ()
    if auth == "google_service_account":
        if secret.lstrip().startswith("{"):
            raise ValueError("a provider gets an access token, never the service account's own key")
        return (("authorization", f"Bearer {secret}"),)
    return ((auth, secret),)
