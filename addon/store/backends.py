"""The choice that ``[state] backend`` makes: which store a gateway opens, and where a report reads the counters.

The stores take long to import, so only a gateway that opens one imports it.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.conf_schema import ProxyConf
from addon.settings.ledger_url import read_ledger_url
from addon.settings.redis_url import read_redis_url
from addon.settings.secrets import Secrets
from addon.settings.sources import Sources
from addon.settings.value_types import SecretReference
from addon.store.money.ledger import LedgerPlace
from addon.store.money.reports.report import ReadUsed, ledger_counters
from addon.store.protocol import LedgerPlace as OldPlace
from addon.store.protocol import Store, StoreUnavailable


def find_redis_url(conf: ProxyConf) -> SecretStr:
    """Return the URL of Redis. Raise ``StoreUnavailable`` when the secret that holds it can't be read."""
    try:
        return read_redis_url(conf.state.redis_url, Secrets(os.environ, Sources(), conf.paths.master_keys))
    except ValueError as error:
        raise StoreUnavailable(f"state.redis_url: {error}") from None


def find_ledger(conf: ProxyConf) -> LedgerPlace:
    """Return where the ledger is. Raise ``StoreUnavailable`` when the secret that holds its URL can't be read."""
    if not conf.ledger.url:
        from addon.store.money.sqlite.place import SqlitePlace

        return SqlitePlace(conf.paths.database)
    from addon.store.money.postgres.ledger import PostgresPlace

    return PostgresPlace(find_ledger_url(conf.ledger.url, conf))


def find_ledger_url(setting: SecretReference | SecretStr, conf: ProxyConf) -> SecretStr:
    """Return the URL of PostgreSQL. Raise ``StoreUnavailable`` when the secret that holds it can't be read."""
    try:
        return read_ledger_url(setting, Secrets(os.environ, Sources(), conf.paths.master_keys))
    except ValueError as error:
        raise StoreUnavailable(f"ledger.url: {error}") from None


def open_store(conf: ProxyConf, clock: Clock = SYSTEM_CLOCK) -> Store:
    """Open the store of ``conf``. Raise ``StoreUnavailable`` when that is not possible."""
    if conf.state.backend == "redis":
        from addon.store.redis.store import RedisStore

        return RedisStore(conf.paths.database, find_redis_url(conf), clock)
    from addon.store.money.sqlite.store import SqliteStore

    return SqliteStore(conf.paths.database, clock)


@contextmanager
def open_counters(conf: ProxyConf, ledger: sqlite3.Connection, timeout_s: float = 2.0) -> Iterator[ReadUsed]:
    """Give a function that reads the counters of limits. It and this raise ``StoreUnavailable``.

    ``timeout_s`` is that of each step in Redis.
    """
    if conf.state.backend != "redis":
        yield ledger_counters(ledger)
        return
    from addon.store.redis.session import redis_counters
    from addon.store.redis.state import UNCOUNTED, read_identity

    identity = read_identity(ledger)
    if identity.state is None and not identity.is_empty:
        raise StoreUnavailable(UNCOUNTED)
    with redis_counters(find_redis_url(conf), identity.state, timeout_s) as read_used:
        yield read_used


def find_ledger_place(conf: ProxyConf, ledger: sqlite3.Connection, timeout_s: float) -> OldPlace:
    """Return whether calls are recorded in this ledger. Raises ``StoreUnavailable``."""
    if conf.state.backend != "redis":
        return OldPlace(True, 0)
    from addon.store.redis.session import find_place
    from addon.store.redis.state import read_identity

    return find_place(find_redis_url(conf), read_identity(ledger).id, timeout_s)
