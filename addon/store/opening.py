"""The store that ``[state]`` in proxy.conf names."""

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.files_schema import ProxyConf
from addon.store import Store
from addon.store.redis.store import RedisStore
from addon.store.sqlite.store import SqliteStore


def open_store(conf: ProxyConf, clock: Clock = SYSTEM_CLOCK) -> Store:
    """Open it. Raises ``StoreUnavailable`` where that can't be done."""
    if conf.state.backend == "redis":
        return RedisStore(conf.paths.database, conf.state.redis_url, clock)
    return SqliteStore(conf.paths.database, clock)
