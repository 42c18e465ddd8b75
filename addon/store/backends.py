"""The choice that ``[state] backend`` makes: which store a gateway opens, and where a report reads the counters.

The client of Redis takes long to import, so only those who use it do.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.conf_schema import ProxyConf
from addon.store.ledger.report import ReadUsed, ledger_counters
from addon.store.protocol import Store, StoreUnavailable
from addon.store.sqlite.store import SqliteStore


def open_store(conf: ProxyConf, clock: Clock = SYSTEM_CLOCK) -> Store:
    """Open the store of ``conf``. Raise ``StoreUnavailable`` when that is not possible."""
    if conf.state.backend == "redis":
        from addon.store.redis.store import RedisStore

        return RedisStore(conf.paths.database, conf.state.redis_url, clock)
    return SqliteStore(conf.paths.database, clock)


@contextmanager
def open_counters(conf: ProxyConf, ledger: sqlite3.Connection) -> Iterator[ReadUsed]:
    """Give a function that reads the counters of limits. It and this raise ``StoreUnavailable``."""
    if conf.state.backend != "redis":
        yield ledger_counters(ledger)
        return
    from addon.store.redis.session import redis_counters
    from addon.store.redis.state import UNCOUNTED, read_identity

    identity = read_identity(ledger)
    if identity.state is None and not identity.is_empty:
        raise StoreUnavailable(UNCOUNTED)
    with redis_counters(conf.state.redis_url, identity.state) as read_used:
        yield read_used
