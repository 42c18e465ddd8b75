"""The choice that ``[state] backend`` makes: which store a gateway opens, and where its ledger is.

The stores take long to import, so only a gateway that opens one imports it.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.conf_schema import ProxyConf
from addon.settings.ledger_url import read_ledger_url
from addon.settings.redis_url import read_redis_url
from addon.settings.secrets import Secrets
from addon.settings.sources import Sources
from addon.settings.value_types import SecretReference
from addon.store.money.ledger import LedgerPlace
from addon.store.protocol import Store, StoreUnavailable

if TYPE_CHECKING:
    from addon.store.money.archives.archived_ledger import ArchivedLedger
    from addon.store.money.postgres.money import PostgresMoney
    from addon.store.money.sqlite.money import SqliteMoney


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


def find_archived_ledger(conf: ProxyConf) -> "ArchivedLedger":
    """Return the ledger, for its months to be archived. Raise ``StoreUnavailable`` as ``find_ledger`` does."""
    url = find_ledger_url(conf.ledger.url, conf) if conf.ledger.url else None
    return archived_ledger_at(conf.paths.database, url)


def archived_ledger_at(database: Path, url: SecretStr | None) -> "ArchivedLedger":
    """Return the same for the PostgreSQL at ``url``, without it for the file ``database``."""
    if url is None:
        from addon.store.money.archives.archived_sqlite import SqliteArchivedLedger

        return SqliteArchivedLedger(database)
    from addon.store.money.archives.archived_postgres import PostgresArchivedLedger
    from addon.store.money.postgres.ledger import PostgresPlace

    return PostgresArchivedLedger(PostgresPlace(url), database.name)


def find_ledger_url(setting: SecretReference | SecretStr, conf: ProxyConf) -> SecretStr:
    """Return the URL of PostgreSQL. Raise ``StoreUnavailable`` when the secret that holds it can't be read."""
    try:
        return read_ledger_url(setting, Secrets(os.environ, Sources(), conf.paths.master_keys))
    except ValueError as error:
        raise StoreUnavailable(f"ledger.url: {error}") from None


def open_store(conf: ProxyConf, clock: Clock = SYSTEM_CLOCK) -> Store:
    """Open the store of ``conf``. Raise ``StoreUnavailable`` when that is not possible."""
    if conf.state.backend == "sqlite":
        from addon.store.money.sqlite.store import SqliteStore

        return SqliteStore(conf.paths.database, clock)
    from addon.store.paired import PairedStore
    from addon.store.rates.redis.rates import RedisRates

    rates = RedisRates(find_redis_url(conf), lambda: money.ledger_id, conf.state.fleet, clock)
    money = open_money(conf, clock)
    return PairedStore(rates, money)


def find_store_modules(conf: ProxyConf) -> list[str]:
    """Return the modules that ``open_store`` imports when it is called."""
    if conf.state.backend == "sqlite":
        return ["addon.store.money.sqlite.store"]
    engine = "postgres" if conf.ledger.url else "sqlite"
    rates = ["addon.store.paired", "addon.store.rates.redis.rates", "addon.store.earlier_redis"]
    return [*rates, f"addon.store.money.{engine}.money"]


def open_money(conf: ProxyConf, clock: Clock = SYSTEM_CLOCK) -> "SqliteMoney | PostgresMoney":
    """Open the money of ``conf`` alone, as commands do. Raise ``StoreUnavailable`` when that is not possible."""
    if conf.ledger.url:
        from addon.store import earlier_redis
        from addon.store.money.postgres.money import PostgresMoney

        earlier_redis.refuse(find_redis_url(conf))
        return PostgresMoney(find_ledger_url(conf.ledger.url, conf), clock)
    from addon.store.money.sqlite.money import SqliteMoney

    if conf.state.backend == "redis":
        from addon.store import earlier_redis

        earlier_redis.adopt(conf.paths.database, find_redis_url(conf))
    return SqliteMoney(conf.paths.database, clock)
