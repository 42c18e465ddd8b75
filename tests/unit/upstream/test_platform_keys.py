"""Platform keys of real settings: used in turn, on a clock of the test, and shown to operators."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from rig.settings_files import edit, write_files

from addon.calls.request_id import make_request_ids
from addon.gateway.lifecycle import Lifecycle
from addon.settings.settings import Settings, SettingsFiles, load_settings
from addon.telemetry.metrics import Metrics
from addon.text.masking import mask_credentials
from addon.upstream.platform_keys import PlatformKeys
from policies.circuit_breaker import FAILURES
from policies.route import Target

PROVIDERS = "catalog_data/providers.toml"
ONE = 'platform_key = "env:OPENAI_KEY"'
THREE = 'platform_keys = ["env:A", "env:B", "env:C"]'
ENV = {
    "A": "sk-obviously-fake-a",
    "B": "sk-obviously-fake-b",
    "C": "sk-obviously-fake-c",
    "GROQ_KEY": "gsk-fake",
}


def gauges(page: bytes, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a gauge by their provider and other labels."""
    families = text_string_to_metric_families(page.decode())
    [found] = [family.samples for family in families if family.name == name]
    by = ("provider", *labels)
    return {tuple(sample.labels[label] for label in by): sample.value for sample in found}


@dataclass
class Rig:
    """The keys of a process over files on disk. It is their clock, which shows ``now_s``."""

    folder: Path
    now_s: float = 1000.0
    env: dict[str, str] = field(default_factory=lambda: dict(ENV))

    def __post_init__(self) -> None:
        self.conf_file = write_files(self.folder)
        edit(self.folder / PROVIDERS, ONE, THREE)
        self.metrics = Metrics("1.2.3")
        self.keys = PlatformKeys(self.metrics, self)
        self.reload()

    def reload(self) -> None:
        self.settings = load_settings(self.conf_file, self.env)
        self.keys.use_settings(self.settings)

    def monotonic_s(self) -> float:
        return self.now_s

    def now(self) -> datetime:
        return datetime.now(UTC)

    def target(self, slug: str = "gpt-4o-mini") -> Target:
        model = self.settings.models[slug]
        return Target(model, "payg", model.provider.platform_keys[0])

    def choose(self) -> Target:
        return self.keys.choose(self.target())

    def turns(self, count: int) -> str:
        """Return the letters of the next keys that are chosen."""
        return "".join(letter(self.choose()) for _ in range(count))

    def answer(self, status: int, retry_after: str | None = None) -> str:
        """Make one call with this answer. Return the letter of its key."""
        target = self.choose()
        self.keys.record_answer(target, status, retry_after)
        return letter(target)


def letter(target: Target) -> str:
    return target.secret.get_secret_value()[-1]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_keys_are_used_in_turn_and_a_rejected_key_rests(rig: Rig) -> None:
    assert rig.turns(6) == "abcabc"
    assert rig.answer(401) == "a"
    assert rig.turns(4) == "bcbc"
    rig.now_s += 59.9
    assert rig.turns(2) == "bc"
    rig.now_s += 0.1
    assert rig.turns(3) == "abc"


def test_a_provider_with_one_key_always_uses_it(rig: Rig) -> None:
    groq = rig.target("openai/gpt-oss-20b")
    for _ in range(5):
        chosen = rig.keys.choose(groq)
        assert chosen == groq
        rig.keys.record_answer(chosen, 401, None)
    assert rig.turns(3) == "abc"


def test_a_provider_says_when_its_key_is_ready_in_seconds_or_by_a_date(rig: Rig) -> None:
    rig.answer(429, "7")
    then = datetime.now(UTC) + timedelta(minutes=5)
    rig.answer(429, format_datetime(then, usegmt=True))
    assert rig.turns(2) == "cc"
    rig.now_s += 7
    assert rig.turns(2) == "ac"
    rig.now_s += 200
    assert rig.turns(2) == "ac"
    rig.now_s += 100
    assert "b" in rig.turns(3)


def test_where_all_keys_rest_the_one_that_is_ready_first_is_used(rig: Rig) -> None:
    assert [rig.answer(429, wait) for wait in ("30", "10", "20")] == ["a", "b", "c"]
    assert rig.turns(3) == "bbb"
    rig.answer(429, "40")
    assert rig.turns(2) == "cc"


def test_calls_in_flight_together_fail_as_one_in_any_order_of_answers(rig: Rig) -> None:
    together = [rig.choose() for _ in range(30)]
    of_a = [target for target in together if letter(target) == "a"]
    for target in of_a[:5]:
        rig.keys.record_answer(target, 401, None)
        rig.now_s += 1
    assert "key 1 of 3 rests 55 s after 401" in rig.keys.check()
    rig.now_s += 100
    for target in of_a[5:]:
        rig.keys.record_answer(target, 401, None)
    assert "key 1 of 3 rests 60 s after 401" in rig.keys.check()
    rig.now_s += 60
    assert rig.answer(401) == "a"
    assert "key 1 of 3 rests 120 s after 401" in rig.keys.check()


def test_a_success_makes_a_key_ready_unless_its_call_was_sent_before_the_rest(rig: Rig) -> None:
    early = rig.choose()
    assert rig.turns(2) == "bc"
    assert [rig.answer(429, wait) for wait in ("10", "500", "500")] == ["a", "b", "c"]
    rig.keys.record_answer(early, 200, None)
    assert "key 1 of 3 rests 10 s after 429" in rig.keys.check()
    assert rig.answer(200) == "a"
    assert "key 1 of 3" not in rig.keys.check()


@pytest.mark.parametrize("status", [400, 402, 403, 404, 408, 422, 500, 503])
def test_other_answers_change_nothing_for_a_key(rig: Rig, status: int) -> None:
    rig.answer(status, "60")
    assert rig.keys.check() == "ok"


def test_a_customers_key_is_neither_chosen_nor_noted_even_where_it_equals_a_platform_key(rig: Rig) -> None:
    own = Target(rig.target().model, "byok", SecretStr(ENV["A"]))
    assert rig.keys.choose(own) is own
    rig.keys.record_answer(own, 401, None)
    assert rig.keys.check() == "ok"


# A reload.


def test_a_reload_keeps_the_state_of_keys_that_stay_and_forgets_the_others(rig: Rig) -> None:
    assert [rig.answer(401), rig.answer(401)] == ["a", "b"]
    under_way = rig.choose()
    edit(rig.folder / PROVIDERS, THREE, 'platform_keys = ["env:C", "env:B"]')
    rig.reload()
    assert rig.keys.check() == "OPENAI: key 2 of 2 rests 60 s after 401"
    assert rig.turns(3) == "ccc"
    rig.keys.record_answer(under_way, 401, None)
    assert rig.keys.check().startswith("OPENAI: key 1 of 2 rests 60 s after 401; OPENAI: key 2 of 2")
    edit(rig.folder / PROVIDERS, '["env:C", "env:B"]', '["env:A", "env:C"]')
    rig.reload()
    assert rig.keys.check() == "OPENAI: key 2 of 2 rests 60 s after 401"
    assert rig.turns(2) == "aa"


def test_a_call_of_earlier_settings_has_their_keys_and_its_failure_counts_for_no_key(rig: Rig) -> None:
    earlier = rig.target()
    edit(rig.folder / PROVIDERS, THREE, 'platform_keys = ["env:C"]')
    rig.reload()
    chosen = [rig.keys.choose(earlier) for _ in range(3)]
    assert sorted(map(letter, chosen)) == ["a", "b", "c"]
    for target in chosen:
        rig.keys.record_answer(target, 429, "9")
    assert rig.keys.check() == "OPENAI: key 1 of 1 rests 9 s after 429"


def test_keys_are_used_in_turn_also_before_any_settings_are_loaded(rig: Rig) -> None:
    rig.keys = PlatformKeys(rig.metrics)
    assert rig.turns(4) == "abca"


def test_a_place_is_that_of_the_file_also_where_a_key_is_not_set(rig: Rig) -> None:
    del rig.env["A"]
    rig.reload()
    assert [rig.answer(429, "3"), rig.answer(200)] == ["b", "c"]
    assert rig.keys.check() == "OPENAI: key 2 of 3 rests 3 s after 429"


# The metrics and checks of operators.


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
    together = [rig.choose() for _ in range(9)]
    for target in together[1::3]:
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
    quiet = {"platform_keys": "ok", "circuits": "ok"}
    assert (await lifecycle.readiness()).checks.items() >= quiet.items()
    [key] = settings.providers["GROQ"].platform_keys
    target = lifecycle.platform_keys.choose(Target(settings.models["openai/gpt-oss-20b"], "payg", key))
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
