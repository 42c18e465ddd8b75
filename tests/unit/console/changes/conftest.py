"""A folder of an operator's files with a ledger, and the changes of its console."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from rig.settings_files import ACME, edit, write_files

from addon.console.changes.maker import ChangeMaker
from addon.settings.settings import SettingsFiles
from addon.store.money.sqlite.file import LedgerFile

ENV = {"CONSOLE": "a long pass phrase", "OPENAI_KEY": "sk-obviously-fake", "GROQ_KEY": "sk-obviously-fake"}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    conf = write_files(tmp_path)
    edit(conf, "[billing]", '[admin]\nconsole_password = "env:CONSOLE"\n\n[billing]')
    with closing(LedgerFile(tmp_path / "var" / "tollgate.db")):
        return conf


@pytest.fixture
def maker(conf: Path) -> Iterator[ChangeMaker]:
    files = SettingsFiles(conf)
    settings, now_s = files.load(), count(1)
    for _ in range(2):  # As a gateway, which has seen all files at rest.
        files.look(next(now_s), settings.conf)
    made = ChangeMaker(lambda: SettingsFiles(conf, ENV).load(), files)
    yield made
    made.close()


@pytest.fixture
def acme(conf: Path) -> Path:
    return conf.parent / ACME


@pytest.fixture
def master_key(monkeypatch: pytest.MonkeyPatch) -> str:
    key = Fernet.generate_key().decode()
    monkeypatch.setenv("TOLLGATE_SECRET_KEY", key)
    return key
