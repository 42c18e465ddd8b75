"""``mask_known_secrets``: finds the secrets of this gateway in a text that was typed into a wrong field.

``text.masking`` knows how keys of vendors look. A password, a master key or a customer's token may look like anything.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from addon.settings.secrets import read_master_keys
from addon.settings.settings import Settings
from addon.settings.sources import Sources
from addon.text.masking import MASK, is_unmistakable

_HEX_RUN: Final = re.compile(r"[0-9A-Fa-f]++")
_BETWEEN_KEYS: Final = re.compile(r"[\s,]++")


def mask_known_secrets(text: str, settings: Settings, env: Mapping[str, str] = os.environ) -> str:
    """Return a text in which each secret of the gateway, and each hash of an API key, is ``***``."""
    for secret in _list_secrets(settings, env):
        if secret in text:
            text = text.replace(secret, MASK)
    return _HEX_RUN.sub(lambda found: MASK if found[0].lower() in settings.keys else found[0], text)


def _list_secrets(settings: Settings, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets that do not occur in a text by chance. A password has at least 12 characters."""
    password = settings.console_password and settings.console_password.secret
    if password:
        yield password.get_secret_value()
    others = [key.get_secret_value() for one in settings.providers.values() for key in one.platform_keys]
    others += [
        own.secret.get_secret_value()
        for workspace in settings.workspaces.values()
        for own in workspace.byok.values()
        if own.secret
    ]
    if settings.alert_target and settings.alert_target.secret:
        others.append(settings.alert_target.secret.get_secret_value())
    with suppress(ValueError):
        others += _BETWEEN_KEYS.split(read_master_keys(env, Sources(), settings.conf.paths.master_keys).text)
    yield from filter(is_unmistakable, others)
