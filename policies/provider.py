"""A provider: the vendor whose API serves models. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import SecretStr

from policies.family import CUSTOM_FAMILY, Family

Auth = Literal[
    "bearer", "api-key", "x-api-key", "x-goog-api-key", "google_service_account", "aws_sigv4", "none"
]

_NO_ENTRIES: Final[Mapping[Any, Any]] = MappingProxyType({})

NO_SECRET: Final = SecretStr("")
"""The secret for a provider that takes no key. No header is sent for it."""


@dataclass(frozen=True, slots=True)
class Provider:
    """An upstream vendor.

    | field | is |
    |---|---|
    | ``base_url`` | without a trailing slash; of a builtin provider, known once it is started |
    | ``platform_keys`` | the keys that are set, each once |
    | ``platform_key_names`` | for each of them what stays the same when the list changes, and is no secret |
    | ``builtin`` | whether the gateway itself starts it (the sandbox) |
    | ``auth`` | how a key is sent; ``"none"``: no key; ``"google_service_account"``: the key is its JSON |
    | ``aws_region``, ``aws_service`` | what ``"aws_sigv4"`` signs for; its key is ``ID:SECRET[:TOKEN]`` |
    | ``chat_path`` | follows ``base_url`` in the openai dialect, with ``{model}`` for the upstream model id |
    | ``responses_path`` | the same for its Responses API |
    | ``headers`` | sent with each call, names in lower case; they are no secrets |
    | ``custom_family`` | the family of its models outside the catalog |
    | ``skipped_keys`` | places in the operator's list whose key is not set, or is the same as an earlier one |
    | ``service_tier`` | the one that a call with a platform key asks for where its client asks for none |
    | ``request_quota_headers`` | of answers: how many requests remain, and when their quota begins again |
    | ``token_quota_headers`` | the same for tokens |
    | ``unset_variables`` | environment variables in the operator's list that are not set |
    """

    name: str
    base_url: str
    dialect: str
    platform_keys: tuple[SecretStr, ...]
    builtin: bool = False
    auth: Auth = "bearer"
    aws_region: str = ""
    aws_service: str = ""
    chat_path: str = "/chat/completions"
    responses_path: str = "/responses"
    headers: Mapping[str, str] = _NO_ENTRIES
    custom_family: Family = CUSTOM_FAMILY
    skipped_keys: frozenset[int] = frozenset()
    unset_variables: tuple[str, ...] = ()
    service_tier: str | None = None
    platform_key_names: tuple[str, ...] = ()
    request_quota_headers: tuple[tuple[str, str], ...] = ()
    token_quota_headers: tuple[tuple[str, str], ...] = ()
    quota_fields: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pairs = (*self.request_quota_headers, *self.token_quota_headers)
        object.__setattr__(self, "quota_fields", frozenset(name for pair in pairs for name in pair))

    @property
    def key_places(self) -> Mapping[SecretStr, int]:
        """The place of each platform key in the operator's list, starting at 1."""
        written = range(1, self.keys_written + 1)
        places = (place for place in written if place not in self.skipped_keys)
        return dict(zip(self.platform_keys, places, strict=True))

    @property
    def keys_written(self) -> int:
        """How many platform keys the operator's list has."""
        return len(self.platform_keys) + len(self.skipped_keys)

    @property
    def has_platform_key(self) -> bool:
        """Whether platform-managed calls are possible: with any key, also a resting one, or where none is needed."""
        return self.builtin or self.platform_secret is not None

    @property
    def platform_secret(self) -> SecretStr | None:
        """The secret of a platform-managed call: empty where the provider takes no key, None where a key is missing."""
        return NO_SECRET if self.auth == "none" else next(iter(self.platform_keys), None)
