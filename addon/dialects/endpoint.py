"""Where an attempt is sent and how it shows its key: the one place that makes a provider's URL and headers. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from addon.dialects.http_request import UpstreamRequest
from addon.text.json_encode import request_text
from addon.text.urls import path_of
from policies.model import Attempt

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


def json_request(
    attempt: Attempt,
    path: str,
    body: Mapping[str, Any],
    *,
    streams: bool,
    headers: Mapping[str, str] = _NO_HEADERS,
    left_out: tuple[str, ...] = (),
) -> UpstreamRequest:
    """``POST`` ``body`` to ``path`` below the provider's ``base_url``, with the attempt's own key.

    ``headers`` (names in lower case) are the dialect's; those of the provider's own configuration win over them.
    ``left_out`` names the fields of the chat body that ``body`` bears nothing of.
    """
    made = (
        *auth_headers(attempt),
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if streams else "application/json"),
        # A compressed answer could not be read event by event.
        ("accept-encoding", "identity"),
        *{"user-agent": "tollgate", **headers, **attempt.model.provider.headers}.items(),
    )
    return UpstreamRequest(endpoint_url(attempt, path), made, request_text(body), left_out)


def endpoint_url(attempt: Attempt, path: str) -> str:
    """Return the URL of ``path`` below the provider's ``base_url``; ``{model}`` in it is the upstream model id.

    Raises ValueError for an id that can't stand in a path.
    """
    model = attempt.model
    if "{model}" in path:
        path = path.replace("{model}", path_of(model.upstream_model_id))
    return model.provider.base_url + path


def auth_headers(attempt: Attempt) -> tuple[tuple[str, str], ...]:
    """Return the header that bears the attempt's key, in the way that its provider wants it; none for ``"none"``.

    Never a query: URLs end in logs. Raises ValueError for a service account that was not exchanged for a token.
    """
    auth, secret = attempt.model.provider.auth, attempt.secret.get_secret_value()
    if auth == "none":
        return ()
    if auth == "bearer":
        return (("authorization", f"Bearer {secret}"),)
    if auth == "google_service_account":
        if secret.lstrip().startswith("{"):
            raise ValueError("a service account's own key is not for its provider: an access token is")
        return (("authorization", f"Bearer {secret}"),)
    return ((auth, secret),)
