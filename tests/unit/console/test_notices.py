"""The notices above pages: whether calls are served, where calls are recorded, and how far the sums are made."""

import asyncio
from pathlib import Path

from rig.ledger import make_row
from rig.rollups import NOW, build_all, open_ledger
from rig.stores import settlement

from addon.console.notices import ELSEWHERE, UNKNOWN, find_place_notices, find_refusal, find_sums_begin
from addon.settings.conf_schema import ProxyConf
from addon.settings.validation import validate
from addon.store.backends import open_store
from addon.store.money.reports.report import open_report
from addon.telemetry.admin import Readiness


def conf_of(folder: Path, redis_url: str) -> ProxyConf:
    folder.mkdir(exist_ok=True)
    sections = {
        "paths": {"database": str(folder / "ledger.db")},
        "state": {"backend": "redis", "redis_url": redis_url},
    }
    return validate(ProxyConf, folder / "proxy.conf", sections)


def find(conf: ProxyConf) -> list[str]:
    with open_report(conf.paths.database) as ledger:
        return find_place_notices(conf, ledger)


async def test_each_machine_says_whether_calls_are_recorded_in_its_ledger(
    tmp_path: Path, redis_url: str
) -> None:
    with_ledger, without = conf_of(tmp_path / "one", redis_url), conf_of(tmp_path / "two", redis_url)
    first, second = open_store(with_ledger), open_store(without)
    await first.check()
    await second.check()
    assert await asyncio.to_thread(find, with_ledger) == []
    assert await asyncio.to_thread(find, without) == [ELSEWHERE]
    await first.close()
    await second.settle(settlement("a", 400))
    await second.close()
    waits = "Calls of one workspace wait in Redis to be recorded. These pages do not have them yet."
    assert await asyncio.to_thread(find, with_ledger) == [waits]
    assert await asyncio.to_thread(find, without) == [ELSEWHERE, waits]


def test_a_redis_that_does_not_run_is_one_notice(tmp_path: Path) -> None:
    conf = conf_of(tmp_path, "redis://127.0.0.1:1/0")
    assert find(conf) == [UNKNOWN]


def test_an_older_ledger_says_how_far_its_sums_are_made() -> None:
    with open_ledger([make_row("a", created_at="2026-01-31T12:34:56.000+00:00")]) as ledger:
        assert find_sums_begin(ledger, NOW) == "2026-01-31 12:34"
        build_all(ledger)
        assert find_sums_begin(ledger, NOW) is None


def test_a_gateway_that_refuses_calls_says_why() -> None:
    checks = {"settings": "a.toml: broken", "store": "database is locked", "workers": "1 of 2 running"}
    assert find_refusal(Readiness(True, checks)) is None
    expected = "The gateway serves no calls now: store: database is locked; workers: 1 of 2 running"
    assert find_refusal(Readiness(False, checks)) == expected
