"""The URL of Redis: in proxy.conf itself, or kept as a secret."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from addon.settings.secrets import Secrets
from addon.settings.value_types import SecretReference, check_redis_url


def read_redis_url(setting: SecretReference | SecretStr, secrets: Secrets) -> SecretStr:
    """Return the URL of Redis. Raises ValueError, whose message shows no part of it."""
    if isinstance(setting, SecretStr):
        return setting
    url = secrets.require(setting, Path())  # The schema has made the path of a file absolute.
    check_redis_url(url)
    return SecretStr(url)


def has_bare_password(setting: SecretReference | SecretStr) -> bool:
    """Return whether a URL in proxy.conf itself has a password, which belongs in a secret."""
    if not isinstance(setting, SecretStr):
        return False
    try:
        parts = urlsplit(setting.get_secret_value())
    except ValueError:
        return False
    return bool(parts.password) or "password" in parse_qs(parts.query)
