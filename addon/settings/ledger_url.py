"""The URL of a PostgreSQL that keeps the ledger: in proxy.conf itself, or kept as a secret."""

import re
from typing import Final
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from addon.settings.secrets import Secrets
from addon.settings.store_urls import check_ledger_url, read_store_url
from addon.settings.value_types import SecretReference

_UNSHOWN: Final = "a PostgreSQL whose URL is not shown"
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]*)(:[0-9]{1,5})?", re.ASCII)


def read_ledger_url(setting: SecretReference | SecretStr, secrets: Secrets) -> SecretStr:
    """Return the URL of the ledger. Raises ValueError, whose message shows no part of it."""
    return read_store_url(setting, secrets, check_ledger_url)


def hide_credentials(url: str) -> str:
    """Return the hosts and the database of a URL, without user, password and query."""
    scheme, mark, rest = url.partition("://")
    authority, _, path = rest.partition("?")[0].partition("/")
    hosts = authority.rpartition("@")[2]
    query = rest.partition("?")[2]
    if not mark or "@" in path + query or "#" in rest or not all(map(_HOST.fullmatch, hosts.split(","))):
        return _UNSHOWN  # A password with a "/", "?" or "#" that is not escaped.
    return f"{scheme}://{hosts}/{path}"


def has_bare_password(setting: SecretReference | SecretStr | str) -> bool:
    """Return whether a URL in proxy.conf itself has a password, which belongs in a secret."""
    if not isinstance(setting, SecretStr):
        return False
    try:
        parts = urlsplit(setting.get_secret_value())
        return bool(parts.password) or "password" in parse_qs(parts.query)
    except ValueError:
        return False
