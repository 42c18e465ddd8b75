"""Providers in the type of ``policies/provider.py``, made from the tables of providers.toml.

Source: docs/providers.md, docs/configuration.md.
"""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import SecretStr

from addon.settings.catalog_schema import ProviderTable
from addon.settings.errors import SettingsError, join_key_path
from addon.settings.gateway_secrets import SecretUse
from addon.settings.secrets import Secrets
from addon.settings.validation import check_known
from addon.settings.value_types import SecretReference
from policies.family import CUSTOM_FAMILY, Family
from policies.provider import Auth, Provider

_DEFAULT_AUTH: Final[Mapping[str, Auth]] = MappingProxyType(
    {"openai": "bearer", "anthropic": "x-api-key", "gemini": "x-goog-api-key", "bedrock": "bearer"}
)
"""How each dialect sends a key, unless the provider's table says otherwise. Source: the vendors' API references."""

type _Pairs = tuple[tuple[str, str], ...]

_REQUEST_QUOTAS: Final[Mapping[str, _Pairs]] = MappingProxyType(
    {
        "openai": (("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),),
        "anthropic": (("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),),
    }
)
_TOKEN_QUOTAS: Final[Mapping[str, _Pairs]] = MappingProxyType(
    {
        "openai": (("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),),
        "anthropic": (
            ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
            ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
        ),
    }
)
"""The headers of each dialect that say what is left of a quota, unless the provider's table says otherwise. Source: the
vendors' pages on rate limits."""


class ProviderBuilder:
    """Makes providers with their platform keys. ``families`` are those of the catalog, once they are made.

    ``key_uses`` are the references to platform keys so far.
    """

    def __init__(self, secrets: Secrets, families: Mapping[str, Family]) -> None:
        self._secrets = secrets
        self._families = families
        self.key_uses: list[SecretUse] = []

    def make(self, name: str, table: ProviderTable, file: Path) -> Provider:
        """Return one provider. Raises ``SettingsError``."""
        auth = table.auth or _DEFAULT_AUTH[table.dialect]
        keys, names, skipped, unset = self._read_platform_keys(table, auth, file, name)
        return Provider(
            name=name,
            base_url=table.base_url or "",
            dialect=table.dialect,
            platform_keys=keys,
            builtin=table.builtin,
            auth=auth,
            aws_region=(table.region or "") if auth == "aws_sigv4" else "",
            aws_service=table.aws_service,
            chat_path=table.chat_path,
            responses_path=table.responses_path,
            headers=MappingProxyType(table.headers),
            custom_family=self._find_custom_family(table, file, name),
            skipped_keys=skipped,
            unset_variables=unset,
            service_tier=table.service_tier,
            platform_key_names=names,
            request_quota_headers=_or_usual(table.request_quota_headers, _REQUEST_QUOTAS, table.dialect),
            token_quota_headers=_or_usual(table.token_quota_headers, _TOKEN_QUOTAS, table.dialect),
        )

    def _read_platform_keys(
        self, table: ProviderTable, auth: Auth, file: Path, name: str
    ) -> tuple[tuple[SecretStr, ...], tuple[str, ...], frozenset[int], tuple[str, ...]]:
        """Return ``platform_keys``, their names, ``skipped_keys`` and ``unset_variables`` of a ``Provider``."""
        keys: list[SecretStr] = []
        names: list[str] = []
        skipped: set[int] = set()
        unset: list[str] = []
        for position, (path, reference) in enumerate(table.keys_by_path.items(), start=1):
            key = self._secrets.find(reference, auth, file, name, *path)
            self.key_uses.append(SecretUse(file, join_key_path(name, *path), reference, key))
            if key is None or key in keys:
                skipped.add(position)
            else:
                keys.append(key)
                names.append(name_key(reference, key))
            if key is None:
                unset.append(reference.variable)
        return tuple(keys), tuple(names), frozenset(skipped), tuple(unset)

    def _find_custom_family(self, table: ProviderTable, file: Path, name: str) -> Family:
        family = table.custom_family
        if family is None:
            return CUSTOM_FAMILY
        found = self._families[
            check_known(family, self._families, file, name, "custom_family", kind="family")
        ]
        if found.responses_only and table.dialect != "openai":
            raise SettingsError(file, join_key_path(name, "custom_family"), "is only for the dialect openai")
        return found


def _or_usual(stated: _Pairs | None, usual: Mapping[str, _Pairs], dialect: str) -> _Pairs:
    return usual.get(dialect, ()) if stated is None else stated


def name_key(reference: SecretReference, key: SecretStr) -> str:
    """Return a name for a key, which does not show it: that of its reference.

    A sealed reference is another one after each rotation of the master key, so its key is named by its text.
    """
    stays = key.get_secret_value() if reference.kind == "sealed" else reference.name
    return blake2b(f"{reference.kind}:{stays}".encode(), digest_size=8).hexdigest()
