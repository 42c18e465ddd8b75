"""The types of values in operators' files, each with one check. No check echoes the value in its error.

The schemas combine them into tables.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
)

from addon.settings.egress_proxy import parse_proxy
from addon.settings.policy_modules import check_name
from addon.settings.sealed_secrets import check_token
from addon.text.http_heads import CREDENTIAL_FIELDS
from addon.text.urls import split_url
from policies.money import parse_price_microusd_per_mtok, parse_usd_nanousd

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SLUG_IS = "a slug of printable ASCII without spaces or quotes"
NAME_IS = 'at most 64 letters, digits, ".", "_" and "-", the first a letter or a digit'

SHIPPED_CATALOG = Path(__file__).resolve().parents[2] / "catalog_data"
"""The catalog of this version of the program."""

# Headers that the gateway sets itself: the address of a request, its length, and the format of the answer.
_OWN_HEADERS = frozenset(
    {
        *("host", "content-length", "content-type", "content-encoding", "accept", "accept-encoding"),
        *("transfer-encoding", "te", "trailer", "connection", "keep-alive", "upgrade", "expect"),
        *("proxy-connection", "http2-settings"),
    }
)


@dataclass(frozen=True, slots=True)
class SecretReference:
    """The place of a secret: an environment variable, a file, or ``name`` itself as a sealed token."""

    kind: Literal["env", "file", "sealed"]
    name: str = field(repr=False)

    @property
    def variable(self) -> str:
        """The name of the environment variable; empty for other places."""
        return self.name if self.kind == "env" else ""


def _require_match(pattern: str | re.Pattern[str], description: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {description}")
        return text

    return AfterValidator(check)


def _parse_with(parse: Callable[[str], Any], example: str) -> BeforeValidator:
    """Return a validator that parses a TOML string. Decimals are strings because a float would lose digits."""

    def convert(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(f'must be a string such as "{example}"')
        return parse(value)

    return BeforeValidator(convert)


def _parse_percent(text: str) -> Decimal:
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})?", text):
        raise ValueError('must be a percentage such as "4" or "12.5", with at most four fractional digits')
    return Decimal(text)


def parse_secret(text: str) -> SecretReference:
    """Return the reference in a text. Raises ValueError."""
    kind, _, name = text.partition(":")
    if kind == "sealed":
        check_token(name)
        return SecretReference("sealed", name)
    if kind == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return SecretReference("env", name)
    if kind == "file" and name and "\0" not in name:
        return SecretReference("file", name)
    raise ValueError("must be env:NAME, file:PATH or sealed:TOKEN; a bare secret is not accepted")


def _parse_proxy_setting(text: str) -> SecretReference | str:
    """Return the URL of a proxy without credentials, a reference to a secret URL, or an empty text for no proxy."""
    if not text:
        return text
    if text.startswith("http:"):
        if parse_proxy(text).authorization is not None:
            raise ValueError("must not hold credentials; keep the whole URL as env:NAME or file:PATH")
        return text
    try:
        return parse_secret(text)
    except ValueError:
        raise ValueError("must be http://HOST:PORT, env:NAME, file:PATH or sealed:TOKEN") from None


def _parse_optional_secret(text: str) -> SecretReference | str:
    """Return a reference to a secret, or an empty text for none."""
    return parse_secret(text) if text else text


def _parse_hash(text: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", text):
        raise ValueError('must be "sha256:" and the 64 lower-case hex digits of the key\'s SHA-256')
    return text.removeprefix("sha256:")


def _parse_moment(value: object) -> datetime:
    """Return a TOML offset date-time in UTC. One without an offset would mean another moment on each machine."""
    if not isinstance(value, datetime):
        raise ValueError("must be a date and a time without quotes, such as 2027-01-01T00:00:00Z")
    if value.tzinfo is None:
        raise ValueError("must have an offset from UTC: add Z, or one such as +02:00")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a year from 1 to 9999 in UTC") from None


def _check_model_pattern(text: str) -> str:
    if "*" in text[:-1]:
        raise ValueError('must have "*" only at its end, such as "gpt-4o*"')
    return text


def _check_base_url(text: str) -> str:
    parts = split_url(text, ("http", "https"), "must begin with https:// or http://")
    if "@" in parts.netloc:
        raise ValueError("must not hold credentials; they belong in platform_key")
    if "?" in text or "#" in text:
        raise ValueError("must not hold a query or a fragment")
    return text.rstrip("/")


def _check_chat_path(text: str) -> str:
    if not re.fullmatch(r"/[!-~]*", text) or "#" in text:
        raise ValueError('must be a path of printable ASCII that begins with "/", without a fragment')
    if re.search(r"[{}]", text.replace("{model}", "")):
        raise ValueError("must hold no placeholder but {model}")
    return text


def _check_header_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]+", name):
        raise ValueError("must be the name of a header in lower case")
    if name in CREDENTIAL_FIELDS:
        raise ValueError("must not be set here: a secret belongs in platform_key")
    if name in _OWN_HEADERS:
        raise ValueError("must not be set: the gateway sets it itself")
    return name


def make_absolute(value: object, info: ValidationInfo) -> Path:
    """Return a path, which starts at the folder of the file that names it. Raises ValueError."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("must be a path")
    folder: Path = (info.context or {})["folder"]
    return folder / value


def _make_optional(value: object, info: ValidationInfo) -> Path | None:
    return None if value in ("", None) else make_absolute(value, info)


def _find_catalog(value: object, info: ValidationInfo) -> Path:
    return SHIPPED_CATALOG if value == "" else make_absolute(value, info)


def _to_tuple(value: object) -> object:
    # TOML has only arrays, and strict pydantic does not turn a list into a tuple or a set.
    return tuple(value) if isinstance(value, list) else value


def _check_enabled(value: object) -> object:
    if not isinstance(value, bool) and value != "auto":
        raise ValueError('must be true, false or "auto"')
    return value


def _to_set(value: object) -> object:
    return frozenset(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


def _check_distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f'names "{name}" twice')
    return names


def _check_ascending(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise ValueError("must be in ascending order, each number once")
    return numbers


def _check_range(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError("must be [lowest, highest]")
    return bounds


type Text = Annotated[str, _require_match(r"(?=.*\S)[^\x00-\x1f\x7f]+", "a text of one line, not empty")]
type DottedPath = Annotated[
    str, _require_match(r"[A-Za-z0-9_]++(\.[A-Za-z0-9_]++)*+", "names joined by dots")
]
type Name = Annotated[str, _require_match(NAME, NAME_IS)]
type PolicyName = Annotated[str, AfterValidator(check_name)]
type ProviderName = Annotated[str, _require_match(r"[A-Z0-9][A-Z0-9_]*", "an upper-case name such as OPENAI")]
type HostName = Annotated[
    str,
    _require_match(
        r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?",
        "a host name in lower case, without a port or a final dot",
    ),
]
type AwsName = Annotated[
    str, _require_match(r"[a-z0-9][a-z0-9-]{0,62}", "a name of AWS such as us-east-1 or bedrock")
]
type Slug = Annotated[str, _require_match(r"[!#-\[\]-~]{1,200}", SLUG_IS)]
type ModelPattern = Annotated[Slug, AfterValidator(_check_model_pattern)]
type Label = Annotated[
    str, _require_match(r"(?=.*\S)[^\x00-\x1f\x7f]{1,100}", "a text of one line, at most 100 characters")
]
type Moment = Annotated[datetime, BeforeValidator(_parse_moment)]
# Strict by themselves: pydantic may forget the strictness of a table that uses a type twice and has a validator.
type Port = Annotated[int, Field(ge=0, le=65535, strict=True)]
type Count = Annotated[int, Field(ge=1, strict=True)]
type Tokens = Annotated[int, Field(ge=0, strict=True)]
type Ratio = Annotated[float, Field(ge=0.1, le=100, strict=True)]
type Seconds = Annotated[float, Field(gt=0, strict=True)]
type SecondsOrNone = Annotated[float, Field(ge=0, strict=True)]
type Price = Annotated[int, _parse_with(parse_price_microusd_per_mtok, "0.15")]
type Usd = Annotated[int, _parse_with(parse_usd_nanousd, "250")]
type Percent = Annotated[Decimal, _parse_with(_parse_percent, "4")]
type Secret = Annotated[SecretReference, _parse_with(parse_secret, "env:NAME")]
type ProxySetting = Annotated[SecretReference | str, _parse_with(_parse_proxy_setting, "http://HOST:PORT")]
type OptionalSecret = Annotated[SecretReference | str, _parse_with(_parse_optional_secret, "env:NAME")]
type KeyHash = Annotated[str, _parse_with(_parse_hash, "sha256:…")]
type BaseUrl = Annotated[str, AfterValidator(_check_base_url)]
type ChatPath = Annotated[str, AfterValidator(_check_chat_path)]
type HeaderName = Annotated[str, AfterValidator(_check_header_name)]
type HeaderValue = Annotated[
    str, _require_match(r"[!-~]([ -~]*[!-~])?", "a line of printable ASCII, not empty")
]
type AbsolutePath = Annotated[Path, BeforeValidator(make_absolute)]
type CatalogPath = Annotated[Path, BeforeValidator(_find_catalog)]
type OptionalPath = Annotated[Path | None, BeforeValidator(_make_optional)]
type Enabled = Annotated[bool | Literal["auto"], BeforeValidator(_check_enabled)]
type Words = Annotated[frozenset[Text], BeforeValidator(_to_set)]
type Listed[T] = Annotated[tuple[T, ...], BeforeValidator(_to_tuple)]
type Distinct[T] = Annotated[tuple[T, ...], AfterValidator(_check_distinct), BeforeValidator(_to_tuple)]
type AlertPercents = Annotated[
    tuple[Annotated[int, Field(ge=1, le=100)], ...],
    AfterValidator(_check_ascending),
    BeforeValidator(_to_tuple),
]
type Range = Annotated[tuple[float, float], AfterValidator(_check_range), BeforeValidator(_to_tuple)]
