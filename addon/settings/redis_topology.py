"""What the URL of Redis names: one server, the Sentinels that know it, or nodes of a cluster.

No message shows a part of the URL, because any part may be a piece of the password.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode

from pydantic import SecretStr

SCHEMES: Final = (
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)
NO_REDIS: Final = f"must begin with {', '.join(f'{one}://' for one in SCHEMES[:-1])} or {SCHEMES[-1]}://"
_DEFAULT_PORTS: Final = {"sentinel": 26379, "cluster": 6379}
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:,\s]+)(?::([0-9]{1,5}))?")
_OPTIONS: Final = frozenset(
    {
        *(
            "ssl_ca_certs",
            "ssl_ca_path",
            "ssl_certfile",
            "ssl_keyfile",
            "ssl_cert_reqs",
            "ssl_check_hostname",
        ),
        *("sentinel_username", "sentinel_password"),
    }
)
_LAST_PORT: Final = 65_535


class Address(NamedTuple):
    """Where a node listens. The one server of a URL has neither: only the URL says how to reach it."""

    host: str
    port: int


ALONE: Final = Address("", 0)


@dataclass(frozen=True, slots=True)
class RedisTopology:
    """The kind of a Redis and the addresses to begin with. ``service`` is the name that Sentinels know it by."""

    kind: Literal["alone", "sentinel", "cluster"]
    addresses: tuple[Address, ...]
    shown: str
    """The URL without user, password and options."""
    service: str
    database: str
    tls: bool
    credentials: SecretStr
    """User and password as in the URL, with the "@" after them, or nothing."""
    options: str
    """The query of a node's URL."""
    sentinel_options: SecretStr
    """The query of a Sentinel's URL, with the user and the password that it has for the gateway."""
    url: SecretStr

    def node_url(self, node: Address) -> SecretStr:
        """Return the URL of one node."""
        if self.kind == "alone":
            return self.url
        text = f"{self._begin}{self.credentials.get_secret_value()}{shown_address(node)}/{self.database}"
        return SecretStr(f"{text}?{self.options}")

    def sentinel_url(self, sentinel: Address) -> SecretStr:
        """Return the URL of one Sentinel. It has users of its own."""
        return SecretStr(f"{self._begin}{shown_address(sentinel)}?{self.sentinel_options.get_secret_value()}")

    @property
    def has_password(self) -> bool:
        """Whether the URL of Sentinels or of a cluster has a password."""
        own = parse_qs(self.sentinel_options.get_secret_value())
        return ":" in self.credentials.get_secret_value() or "password" in own

    @property
    def _begin(self) -> str:
        return "rediss://" if self.tls else "redis://"


def parse_redis_topology(url: SecretStr) -> RedisTopology:
    """Return what ``url`` names. Raises ValueError with the field that is wrong."""
    text = url.get_secret_value()
    scheme, mark, rest = text.partition("://")
    if not mark or scheme not in SCHEMES:
        raise ValueError(NO_REDIS)
    base, _, kind = scheme.partition("+")
    if not kind:
        return RedisTopology(
            "alone", (ALONE,), "", "", "", base == "rediss", SecretStr(""), "", SecretStr(""), url
        )
    found = re.fullmatch(r"([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?", rest)
    if not found or "@" in rest[found.end(1) :]:
        raise ValueError(
            'user and password: write "@", "/", "?", "#" and "%" in them as %40, %2F, %3F, %23 and %25'
        )
    credentials, at, hosts = found[1].rpartition("@")
    if "@" in credentials:
        raise ValueError('user and password: write "@" in them as %40')
    options, sentinel_options = _parse_options(found[3] or "", kind)
    service, database = _parse_path(found[2] or "", kind)
    addresses = _parse_addresses(hosts, _DEFAULT_PORTS[kind])
    shown = f"{scheme}://{','.join(map(shown_address, addresses))}" + (
        f"/{service}/{database}" if service else ""
    )
    return RedisTopology(
        "sentinel" if kind == "sentinel" else "cluster",
        addresses,
        shown,
        service,
        database,
        base == "rediss",
        SecretStr(credentials + at),
        options,
        sentinel_options,
        url,
    )


def shown_address(address: Address) -> str:
    """Return an address as a URL has it."""
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"


def _parse_addresses(text: str, default_port: int) -> tuple[Address, ...]:
    addresses = []
    for number, part in enumerate(text.split(","), 1):
        found = _ADDRESS.fullmatch(part)
        if not found:
            raise ValueError(f"address {number}: must be HOST or HOST:PORT, and an IPv6 address [HOST]:PORT")
        port = int(found[2] or default_port)
        if not 0 < port <= _LAST_PORT:
            raise ValueError(f"address {number}: the port must be from 1 to {_LAST_PORT}")
        addresses.append(Address(found[1].strip("[]"), port))
    if len(set(addresses)) < len(addresses):
        raise ValueError("addresses: one is there twice")
    return tuple(addresses)


def _parse_path(text: str, kind: str) -> tuple[str, str]:
    """Return the service and the database."""
    if kind == "cluster":
        if text not in ("", "/", "/0"):
            raise ValueError("database: a cluster has only database 0, so nothing follows the addresses")
        return "", "0"
    service, _, database = text[1:].partition("/")
    if not service:
        raise ValueError("service: its name must follow the addresses, as in HOST:PORT,HOST:PORT/SERVICE")
    if not re.fullmatch(r"[0-9]{0,4}", database):
        raise ValueError("database: must be a number")
    return unquote(service), database or "0"


def _parse_options(text: str, kind: str) -> tuple[str, SecretStr]:
    """Return the query of a node's URL and that of a Sentinel's."""
    pairs = parse_qsl(text, keep_blank_values=True)
    if unknown := [name for name, _ in pairs if name not in _OPTIONS]:
        raise ValueError(
            f"options: {len(unknown)} of them are unknown; these are known: {', '.join(sorted(_OPTIONS))}"
        )
    of_sentinel = [one for one in pairs if one[0].startswith("sentinel_")]
    if of_sentinel and kind != "sentinel":
        raise ValueError("options: sentinel_username and sentinel_password need redis+sentinel://")
    of_node = [one for one in pairs if one not in of_sentinel]
    own = [(name.removeprefix("sentinel_"), value) for name, value in of_sentinel]
    return urlencode(of_node), SecretStr(urlencode([*of_node, *own]))
