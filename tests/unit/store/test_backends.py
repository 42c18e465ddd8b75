"""The choice of ``[state] backend``: the store that a gateway opens, and the counters that a report reads."""

from pathlib import Path

import pytest
from rig.stores import WORKSPACE, request, settlement, wallet

from addon.settings.conf_schema import ProxyConf
from addon.settings.validation import validate
from addon.store.backends import open_store
from addon.store.money.reports.report import ledger_counters, open_report
from addon.store.money.sqlite.store import SqliteStore
from addon.store.protocol import StoreUnavailable
from policies.spend import CounterUse


def conf_of(ledger_path: Path, **state: str) -> ProxyConf:
    paths = {"database": str(ledger_path)}
    return validate(ProxyConf, ledger_path.with_name("proxy.conf"), {"paths": paths, "state": state})


async def test_the_default_store_is_sqlite_and_reports_read_its_file(ledger_path: Path) -> None:
    conf = conf_of(ledger_path)
    store = open_store(conf)
    assert isinstance(store, SqliteStore)
    await store.settle(settlement("a", 400))
    await store.hold(request("b"))
    await store.close()
    with open_report(ledger_path) as ledger:
        assert ledger_counters(ledger)(wallet(), WORKSPACE, "") == CounterUse(400, 0, 63_400, 1)


@pytest.mark.parametrize(
    "state", [{}, {"backend": "redis", "redis_url": "redis://127.0.0.1:9/0"}], ids=["sqlite", "redis"]
)
def test_a_store_whose_locks_can_not_be_made_keeps_no_file_open(
    ledger_path: Path, state: dict[str, str]
) -> None:
    ledger_path.parent.mkdir(exist_ok=True)
    ledger_path.with_name(f"{ledger_path.name}-owners").write_text("a file where a folder has to be")
    with pytest.raises(StoreUnavailable) as refused:
        open_store(conf_of(ledger_path, **state))
    links = [file for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    assert [link for link in links if str(ledger_path) in str(link.readlink())] == []
    assert refused.value.__traceback__, "its frames keep what they opened, so nothing was closed by chance"
