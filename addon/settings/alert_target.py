"""The receiver of alerts: its URL and the secret that signs them."""

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from addon.settings.conf_schema import Alerts
from addon.settings.errors import SettingsError
from addon.settings.secrets import Secrets
from addon.settings.value_types import SecretReference
from addon.text.urls import split_url


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """Where alerts are sent. Without a ``secret`` they are not signed."""

    url: SecretStr
    secret: SecretStr | None = field(default=None, repr=False)


def load_alert_target(alerts: Alerts, conf_file: Path, secrets: Secrets) -> AlertTarget | None:
    """Return the receiver, or None when there is none or an environment variable is not set.

    Raises ``SettingsError``. An unset variable is no error: a command in a shell without the variables of the gateway
    must work, and alerts must not decide whether a gateway starts.
    """
    read = [
        _find(alerts.webhook, "webhook", conf_file, secrets),
        _find(alerts.secret, "secret", conf_file, secrets),
    ]
    url, secret = read
    if url is None or (alerts.secret and secret is None):
        return None
    try:
        split_url(url.get_secret_value(), ("http", "https"), "must begin with https:// or http://")
    except ValueError as error:
        raise SettingsError(conf_file, "alerts.webhook", str(error)) from None
    return AlertTarget(url, secret)


def _find(setting: SecretReference | str, key: str, conf_file: Path, secrets: Secrets) -> SecretStr | None:
    if isinstance(setting, str):
        return None
    return secrets.find(setting, "bearer", conf_file, "alerts", key)
