"""Platform keys that rest, as operators see them: metrics, log lines and readiness."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rig.platform_keys import ENV, PROVIDERS, THREE, Rig, gauges
from rig.settings_files import edit, write_files

from addon.calls.request_id import make_request_ids
from addon.gateway.lifecycle import Lifecycle
from addon.settings.settings import Settings, SettingsFiles, load_settings
from addon.text.masking import mask_credentials
from policies.circuit_breaker import FAILURES
from policies.route import Target


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_the_gauge_counts_the_keys_that_are_ready_and_those_that_rest(rig: Rig) -> None:
    fresh = {("OPENAI", "ready"): 3, ("OPENAI", "resting"): 0, ("GROQ", "ready"): 1, ("GROQ", "resting"): 0}
    assert gauges(rig.metrics.render()[1], "tollgate_platform_keys", "state") == fresh
    rig.answer(429, "3")
    rig.keys.measure()
    resting = {("OPENAI", "ready"): 2, ("OPENAI", "resting"): 1}
    assert gauges(rig.metrics.render()[1], "tollgate_platform_keys", "state") == fresh | resting
    rig.now_s += 3
    rig.keys.measure()
    assert gauges(rig.metrics.render()[1], "tollgate_platform_keys", "state") == fresh
    del rig.env["GROQ_KEY"]
    rig.reload()
    assert gauges(rig.metrics.render()[1], "tollgate_platform_keys", "state") == fresh | {
        ("GROQ", "ready"): 0
    }


def test_a_rest_is_logged_once_by_the_keys_place(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    for target in [rig.choose("b") for _ in range(3)]:
        rig.keys.record_answer(target, 401, None)
    assert [record.getMessage() for record in caplog.records] == ["OPENAI: key 2 of 3 rests 60 s after 401"]
    assert not [record for record in caplog.records for key in ENV.values() if key in str(vars(record))]


def test_a_provider_that_loses_its_last_key_at_a_reload_is_an_error_in_the_log_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    edit(rig.folder / PROVIDERS, THREE, 'platform_keys = ["env:C"]')
    rig.reload()
    assert caplog.records == []
    del rig.env["C"]
    rig.reload()
    rig.reload()
    [record] = caplog.records
    assert (record.levelname, record.provider) == ("ERROR", "OPENAI")
    assert record.getMessage().startswith("OPENAI has lost its last platform key")
    rig.env["C"] = ENV["C"]
    rig.reload()
    edit(rig.folder / PROVIDERS, 'platform_keys = ["env:C"]', 'auth = "none"')
    rig.reload()
    assert caplog.records == [record], "a provider that takes no key any more lacks none"


def test_the_text_of_readyz_about_a_key_is_not_masked_as_a_credential(rig: Rig) -> None:
    rig.answer(429)
    assert mask_credentials(rig.keys.check()) == "OPENAI: key 1 of 3 rests 5 s after 429"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("GROQ_KEY", ENV["GROQ_KEY"])
    conf_file = write_files(tmp_path)
    edit(conf_file, "", "[sandbox]\nenabled = false\n[admin]\nport = 0\n")
    return load_settings(conf_file)


@pytest.fixture
async def lifecycle(settings: Settings, tmp_path: Path) -> AsyncIterator[Lifecycle]:
    files = SettingsFiles(tmp_path / "proxy.conf")
    files.load()
    made = Lifecycle(files, settings, make_request_ids())
    await made.start()
    yield made
    await made.stop()


async def test_resting_keys_and_open_circuits_are_shown_and_leave_the_process_ready(
    lifecycle: Lifecycle, settings: Settings
) -> None:
    quiet = {"platform_keys": "ok", "circuits": "ok", "ledger": "ok"}
    assert (await lifecycle.readiness()).checks.items() >= quiet.items()
    [key] = settings.providers["GROQ"].platform_keys
    target = lifecycle.platform_keys.choose(
        Target(settings.models["openai/gpt-oss-20b"], "payg", key), pytest.fail
    )
    lifecycle.platform_keys.record_answer(target, 429, "600")
    await lifecycle.store.maintain()
    for circuit in (
        *("GROQ/payg/acme", "GROQ/payg/beta", "GROQ/byok/acme", "GROQ/byok/beta"),
        *("OPENAI/byok/acme", "OPENAI/payg/acme", "GONE/payg/acme", "GONE/payg/beta"),
    ):
        for _ in range(FAILURES):
            await lifecycle.store.record_attempt(circuit, failed=True)

    found = await lifecycle.readiness()
    assert found.ready
    assert re.fullmatch(r"GROQ: key 1 of 1 rests \d+ s after 429", found.checks["platform_keys"])
    assert found.checks["circuits"] == (
        "open: GONE, GROQ, OPENAI for 1 of the workspaces, 3 of customers' keys"
    )

    assert lifecycle.admin
    _, _, page = await lifecycle.admin.pages["/metrics"]()
    assert gauges(page, "tollgate_platform_keys", "state") == {("GROQ", "ready"): 0, ("GROQ", "resting"): 1}
    counted = gauges(page, "tollgate_circuits_open", "mode", "scope")
    assert {labels: count for labels, count in counted.items() if count} == {
        ("GROQ", "payg", "all"): 1,
        ("GROQ", "payg", "workspace"): 2,
        ("GROQ", "byok", "workspace"): 2,
        ("OPENAI", "payg", "workspace"): 1,
        ("OPENAI", "byok", "workspace"): 1,
    }
    assert {provider for provider, *_ in counted} == settings.providers.keys()
