"""The environment with which ``tollgate check`` reads secrets: that of the running gateway, else that of the shell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from addon.serve.environment_names import find_environment
from addon.settings.conf_schema import ProxyConf
from addon.settings.errors import SettingsError, describe_error
from addon.settings.secrets import Environment
from addon.settings.settings import load_conf
from addon.settings.value_types import SecretReference
from addon.store.money.sqlite.process_lock import find_running

_REDIS_URL: Final = "redis://127.0.0.1:6379/0"
_LEDGER_URL: Final = "postgresql://127.0.0.1/tollgate"
_PROXY_URL: Final = "http://127.0.0.1:1"
_CONSOLE_TEXT: Final = "the password of the running gateway"


class CheckedEnvironment(NamedTuple):
    """An environment, whose it is, and a line that says so."""

    env: Environment
    source: Literal["gateway", "shell"]
    described: str


def find_checked_environment(conf_file: Path, shell: Mapping[str, str]) -> CheckedEnvironment:
    """Return the environment of the gateway that serves ``conf_file``, as far as it is known.

    A value is that of the shell where it has one. Where only the gateway has a variable, a secret counts as set.
    """
    try:
        conf = load_conf(conf_file)
        database = conf.paths.database
        running = find_environment(database, conf_file)
        if running is None:
            others = find_running(database.with_name(f"{database.name}-owners"))
            why = (
                "a gateway runs on this ledger, but does not say which it has"
                if others
                else "no gateway runs"
            )
            return CheckedEnvironment(Environment(shell), "shell", f"this shell's; {why}")
    except SettingsError:
        return CheckedEnvironment(Environment(shell), "shell", "this shell's; proxy.conf does not load")
    except (OSError, ValueError) as error:
        reason = f"those of the running gateway can't be read: {describe_error(error)}"
        return CheckedEnvironment(Environment(shell), "shell", f"this shell's; {reason}")
    kept = {name: value for name, value in shell.items() if name in running.names and value.strip()}
    elsewhere = running.names - kept.keys()
    env = Environment(_stand_ins(conf, elsewhere) | kept, elsewhere)
    return CheckedEnvironment(env, "gateway", f"those of the running gateway (process {running.pid})")


def _stand_ins(conf: ProxyConf, elsewhere: frozenset[str]) -> dict[str, str]:
    """Return a value for each variable of a setting that can't be without one."""
    settings = (
        (conf.state.redis_url, _REDIS_URL),
        (conf.ledger.url, _LEDGER_URL),
        (conf.upstream.proxy, _PROXY_URL),
        (conf.alerts.webhook, "https://gateway.invalid"),
        (conf.admin.console_password, _CONSOLE_TEXT),
    )
    return {
        setting.name: text
        for setting, text in settings
        if isinstance(setting, SecretReference) and setting.kind == "env" and setting.name in elsewhere
    }
