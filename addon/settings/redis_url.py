"""The URL of Redis: in proxy.conf itself, or kept as a secret."""

import re
from typing import Final
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from addon.settings.redis_topology import parse_redis_topology
from addon.settings.secrets import Secrets
from addon.settings.store_urls import check_redis_url, read_store_url
from addon.settings.value_types import SecretReference

_UNSHOWN: Final = "a URL that is not shown"


def read_redis_url(setting: SecretReference | SecretStr, secrets: Secrets) -> SecretStr:
    """Return the URL of Redis. Raises ValueError, whose message shows no part of it."""
    return read_store_url(setting, secrets, check_redis_url)


def hide_credentials(url: str) -> str:
    """Return the URL of Redis without user, password and query. A part that may be a password is left out, too."""
    scheme, mark, _ = url.partition("://")
    if "+" in scheme:
        try:
            return parse_redis_topology(SecretStr(url)).shown
        except ValueError:
            return _UNSHOWN
    try:
        parts = urlsplit(url)
        address, port = parts.hostname, parts.port
    except ValueError:
        return _UNSHOWN
    if not mark or "@" in parts.path + parts.query + parts.fragment or (scheme != "unix" and address is None):
        return _UNSHOWN  # A password with a "/", "?" or "#" that is not escaped.
    if scheme == "unix":
        return f"unix://{parts.path}"
    database = parts.path if re.fullmatch(r"/[0-9]{1,4}", parts.path) else ""
    host = f"[{address}]" if address and ":" in address else address
    return f"{scheme}://{host}{'' if port is None else f':{port}'}{database}"


def has_bare_password(setting: SecretReference | SecretStr) -> bool:
    """Return whether a URL in proxy.conf itself has a password, which belongs in a secret."""
    if not isinstance(setting, SecretStr):
        return False
    try:
        topology = parse_redis_topology(setting)
        if topology.kind != "alone":
            return topology.has_password
        parts = urlsplit(setting.get_secret_value())
    except ValueError:
        return False
    return bool(parts.password) or "password" in parse_qs(parts.query)
