"""Runs of ``tollgate secrets``, with master keys and a sealed secret."""

from pathlib import Path

from click.testing import CliRunner, Result

from addon.commands.secrets import secrets
from addon.settings.sealed_secrets import MasterKeys, make_master_key

VARIABLE = "TOLLGATE_SECRET_KEY"
OLD, NEW, OTHER = (make_master_key() for _ in range(3))
BOTH = f"{NEW},{OLD}"
SECRET = "sk-obviously-fake-secret"
TOKEN = MasterKeys(OLD).seal(SECRET)
OWN_TOKEN = MasterKeys(OLD).seal("gsk-obviously-fake-secret")


def run(*arguments: str | Path, keys: str = "", stdin: bytes = b"") -> Result:
    words = [str(word) for word in arguments]
    return CliRunner(env={VARIABLE: keys, f"{VARIABLE}_FILE": None}).invoke(secrets, words, input=stdin)
