"""The URLs of the servers that keep rates and money, or references to secret URLs, as values of proxy.conf.

No message shows a part of a URL.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo

from addon.settings.redis_topology import NO_REDIS, SCHEMES, parse_redis_topology
from addon.settings.secrets import Secrets
from addon.settings.value_types import SecretReference, make_absolute, parse_secret

REDIS_SCHEMES: Final = tuple(f"{one}://" for one in SCHEMES)
LEDGER_SCHEMES: Final = ("postgresql://", "postgres://")
_NO_LEDGER: Final = "must begin with postgresql://"


def check_redis_url(url: str) -> None:
    """Raise ValueError, which shows no part of ``url``, when it is not the URL of a Redis."""
    parse_redis_topology(SecretStr(url))


def check_ledger_url(url: str) -> None:
    """Raise ValueError, which shows no part of ``url``, when it is not the URL of a PostgreSQL."""
    if not url.startswith(LEDGER_SCHEMES):
        raise ValueError(_NO_LEDGER)


def _parse_redis_url(value: object, info: ValidationInfo) -> SecretReference | SecretStr:
    if not isinstance(value, str):
        raise ValueError('must be a string such as "redis://HOST:PORT/0"')
    return _parse(value, info, REDIS_SCHEMES, NO_REDIS, check_redis_url)


def _parse_ledger_url(value: object, info: ValidationInfo) -> SecretReference | SecretStr | str:
    if not isinstance(value, str):
        raise ValueError('must be a string such as "postgresql://HOST/DATABASE"')
    return value and _parse(value, info, LEDGER_SCHEMES, _NO_LEDGER, check_ledger_url)


def _parse(
    text: str, info: ValidationInfo, schemes: tuple[str, ...], wanted: str, check: Callable[[str], None]
) -> SecretReference | SecretStr:
    """Return a URL, or a reference to a secret URL, with an absolute path if that is a file."""
    if text.startswith(schemes):
        check(text)
        return SecretStr(text)
    try:
        reference = parse_secret(text)
    except ValueError:
        raise ValueError(f"{wanted}, or be env:NAME, file:PATH or sealed:TOKEN") from None
    if reference.kind == "file":
        return SecretReference("file", str(make_absolute(reference.name, info)))
    return reference


def read_store_url(
    setting: SecretReference | SecretStr, secrets: Secrets, check: Callable[[str], None]
) -> SecretStr:
    """Return the URL that a setting names. Raises ValueError, whose message shows no part of it."""
    if isinstance(setting, SecretStr):
        return setting
    url = secrets.require(setting, Path())  # The schema has made the path of a file absolute.
    check(url)
    return SecretStr(url)


type RedisUrl = Annotated[SecretReference | SecretStr, BeforeValidator(_parse_redis_url)]
type LedgerUrl = Annotated[
    Literal[""] | SecretReference | SecretStr,
    Field(union_mode="left_to_right"),
    BeforeValidator(_parse_ledger_url),
]
