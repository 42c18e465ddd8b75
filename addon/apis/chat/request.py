"""The chat request: the body of a client's request, validated as the tables of the contract say. Pure.

Pydantic only validates. The client's own values go upstream. No message repeats a value, because it may be a secret.
Source: contract, "Chat request body" and "Message object"; docs/decisions/null-is-unset.md.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from addon.apis.chat.schema import FORWARDED, KNOWN, METADATA, validate
from addon.apis.field_names import NO_SOURCES, Sources
from addon.dialects.native_request import NativeRequest
from addon.text.json_decode import decode_large_object
from addon.text.large_strings import LargeStrings
from policies.estimate import estimate_native_tokens, estimate_prompt_tokens
from policies.family import CAP_FIELDS, Family
from policies.field_rules import count_choices
from policies.model import Model
from policies.prices import NORMAL_SERVICE_TIERS
from policies.refusal import Refusal
from policies.route import Target

SERVICE_TIER: Final = "service_tier"
"""The field for the service that a provider sells at a price of its own. Source: OpenAI, "Create chat completion"."""


class ChatRequest(Struct, frozen=True, gc=False):
    """A valid chat request.

    | field | is |
    |---|---|
    | ``requested_cap`` | the smaller of the client's two cap fields, in tokens |
    | ``include_usage`` | that of ``stream_options`` |
    | ``end_user`` | ``user``, which is also among ``fields`` |
    | ``fields`` | the other fields of the contract that are set, with the client's values |
    | ``extras`` | all other keys of the body, ``metadata`` among them |
    | ``large`` | the rest of each ``LargeText`` in ``fields``, ``extras`` and ``native`` |
    | ``native`` | the request in the shape of another API, of which this is the translation; None for chat |
    | ``untranslated`` | the fields of that request that a chat request can't carry, in the words of its API |
    | ``obstacle`` | the path and the reason of one that may not be left out, so that the call can't go through chat |
    | ``sources`` | for each message and each tool the path of what it is from in that request |
    """

    model: str | None
    stream: bool
    include_usage: bool
    requested_cap: int | None
    end_user: str | None
    fields: Mapping[str, Any]
    extras: Mapping[str, Any]
    large: LargeStrings | None = None
    body_bytes: int = 0
    native: NativeRequest | None = None
    untranslated: tuple[str, ...] = ()
    obstacle: tuple[str, str] | None = None
    sources: Sources = NO_SOURCES

    @property
    def metadata(self) -> Mapping[str, str]:
        """Return the client's own names for the call."""
        found: Mapping[str, str] = self.extras.get(METADATA, {})
        return found

    def sendable(self, family: Family) -> Mapping[str, Any]:
        """Return the fields that may be sent to a model of ``family``, before ``sanitize``."""
        if not self.extras:
            return self.fields
        return {
            **self.fields,
            **{name: value for name, value in self.extras.items() if name in family.extra},
        }

    def sendable_to(self, model: Model) -> Mapping[str, Any]:
        """Return the fields that may be sent to ``model``, before ``sanitize``: ``service_tier`` only with a price."""
        fields = self.sendable(model.family)
        if SERVICE_TIER not in self.extras:
            return fields
        fields = {name: value for name, value in fields.items() if name != SERVICE_TIER}
        tier = self._wanted_service_tier(model)
        return fields if tier is None else {**fields, SERVICE_TIER: tier}

    def service_tier(self, target: Target) -> str | None:
        """Return the service tier that ``target`` is asked for: the client's, where it has a price, or the provider's.

        Without one, the setting of the platform's account at the provider would decide, at the platform's cost.
        """
        model, usual = target.model, target.model.provider.service_tier
        if (wanted := self._wanted_service_tier(model)) is not None or target.mode != "payg":
            return wanted
        is_priced = usual in NORMAL_SERVICE_TIERS or model.wholesale.find_service_tier(usual) is not None
        return usual if is_priced else None

    def _wanted_service_tier(self, model: Model) -> str | None:
        prices, asked = model.wholesale, self.extras.get(SERVICE_TIER)
        is_base = asked == "default" and bool(prices.service_tiers)
        return asked if is_base or prices.find_service_tier(asked) is not None else None

    def prompt_tokens(self, family: Family) -> int:
        """Estimate the prompt from all fields that are sent to a model of ``family``, or may be sent natively."""
        if self.native is not None:
            return estimate_native_tokens(self.native.body, family.estimator)
        fields = self.sendable(family)
        if not family.drops.isdisjoint(fields):
            fields = {name: value for name, value in fields.items() if name not in family.drops}
        return estimate_prompt_tokens(fields, family.estimator)

    def choices(self, family: Family) -> int:
        """Return how many choices a model of ``family`` is asked for."""
        return count_choices(self.fields, family)


def parse_chat_request(body: bytes, _headers: object = None) -> ChatRequest:
    """Return the chat request in ``body``. A null is the same as an absent key.

    Raises Refusal ``bad_request`` where ``messages`` is missing or empty. Raises Refusal ``validation_failed`` with all
    invalid fields in its message, and with ``param`` where there is only one.
    """
    decoded, large = decode_large_object(body)
    given = {key: value for key, value in decoded.items() if value is not None}
    if given.get("messages", []) == []:
        raise Refusal("bad_request", "messages: At least one message is required.", "messages")
    validate(given)
    return make_chat_request(given, large, len(body))


def make_chat_request(
    given: Mapping[str, Any],
    large: LargeStrings | None,
    body_bytes: int,
    native: NativeRequest | None = None,
    untranslated: tuple[str, ...] = (),
    obstacle: tuple[str, str] | None = None,
    sources: Sources = NO_SOURCES,
) -> ChatRequest:
    """Return the request of a valid chat body without nulls. ``native`` is the request that it translates."""
    caps = [given[key] for key in CAP_FIELDS if key in given]
    return ChatRequest(
        model=given.get("model"),
        stream=given.get("stream", False),
        include_usage=bool(given.get("stream_options", {}).get("include_usage")),
        requested_cap=min(caps, default=None),
        end_user=given.get("user"),
        fields={key: value for key, value in given.items() if key in FORWARDED},
        extras={key: value for key, value in given.items() if key not in KNOWN},
        large=large,
        body_bytes=body_bytes,
        native=native,
        untranslated=untranslated,
        obstacle=obstacle,
        sources=sources,
    )


@lru_cache(maxsize=16)
def check_content_type(content_type: str | None, content_encoding: str | None) -> None:
    """Raise Refusal ``unsupported_media_type`` unless the body is JSON in UTF-8 and not compressed."""
    media_type, *parameters = (content_type or "").lower().split(";")
    if media_type.strip() != "application/json":
        raise Refusal(
            "unsupported_media_type", "The request needs the header Content-Type: application/json."
        )
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            raise Refusal("unsupported_media_type", "The charset of the request body must be utf-8.")
    if (content_encoding or "").strip().lower() not in ("", "identity"):
        raise Refusal(
            "unsupported_media_type",
            "A compressed request body is not accepted; send it without Content-Encoding.",
        )
