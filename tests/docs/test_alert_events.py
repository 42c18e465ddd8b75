"""docs/alerts.md has each event with its fields, the numbers of the program, and a receiver that works."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from rig.configuration import ROOT

from addon.alerts import events, sender, service, webhook
from addon.alerts.events import Event
from addon.alerts.webhook import sent_body, sign
from addon.store.money.alerts import MAX_ENDED, MAX_WAITING, Rescue
from policies.alert_rules import (
    KEY_LEAD_S,
    PREVIOUS_LEAD_S,
    RESCUE_WINDOW_S,
    RESCUED_CALLS,
    AlertType,
    Budget,
    KeyEnd,
)
from policies.fleet_files import MAX_NAMED, Reported
from policies.limits import LimitKind

PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
COMMON = "Every event has these fields too:"
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def budget(kind: LimitKind) -> Event:
    key_id = "ci" if kind in ("spend_cap", "request_cap") else None
    scope = "budget:acme/user/2026-11/=ann" if kind == "budget_cap" else None
    used = Budget("acme", key_id, kind, "2026-11", 80 * 10**9, 100 * 10**9, scope)
    return events.threshold_crossed(used, 80, NOW)


MADE: dict[AlertType, list[Event]] = {
    "budget.threshold": [budget(kind) for kind in get_args(LimitKind)],
    "key.expiring": [
        events.key_expires("acme", KeyEnd("ci", "current", NOW + timedelta(days=1), 86_400), NOW)
    ],
    "safety_net.carrying": [events.safety_net_carries(Rescue("acme", "OPENAI", 11, 5), "2026-11-22", NOW)],
    "provider.circuit_open": [events.circuit_opened("OPENAI", 2, NOW)],
    "provider.circuit_closed": [events.circuit_closed("OPENAI", "2026-11-22T11:59:00.000+00:00", NOW)],
    "provider.keys_lost": [events.platform_keys_lost("OPENAI", NOW)],
    "store.unavailable": [events.store_unavailable("it is locked", NOW)],
    "store.recovered": [events.store_recovered(NOW - timedelta(seconds=9), NOW)],
    "reload.failed": [events.reload_failed("proxy.conf", "unknown key", NOW)],
    "fleet.files_differ": [
        events.files_differ("gw-2:/srv", ["acme.toml"], Reported("2026-11-22T11:59:00.000+00:00", []), NOW)
    ],
    "fleet.files_agree": [
        events.files_agree("gw-2:/srv", Reported("2026-11-22T11:59:00.000+00:00", []), is_gone=False, now=NOW)
    ],
    "ledger.not_archived": [events.not_archived("/archive: no such folder", NOW)],
    "test": [events.tested(NOW)],
}


def test_the_table_has_every_event_with_its_fields() -> None:
    table = section("Events").partition("|---|")[2].partition(COMMON)[0]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| [^|]+ \| ([^|]*)\|$", table, re.MULTILINE))
    assert list(rows) == list(get_args(AlertType)) == list(MADE)
    for kind, made in MADE.items():
        documented = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", rows[kind])))
        assert documented == {name for event in made for name in event.fields}, kind
        assert all(event.type == kind for event in made)


def test_the_fields_of_every_event_are_documented() -> None:
    table = section("Events").partition(COMMON)[2].partition("|---|")[2]
    packed = MADE["test"][0].pack("gw-1").body
    sent: dict[str, Any] = json.loads(sent_body(packed, NOW, 1))
    assert re.findall(r"^\| `(\w+)` \| \S", table, re.MULTILINE) == list(sent)


def test_the_example_is_what_the_program_sends() -> None:
    [example] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    shown = json.loads(example)
    [made] = [event for event in MADE["budget.threshold"] if event.fields["limit"] == "monthly_spend_cap"]
    sent = json.loads(sent_body(made.pack("gw-1").body, NOW + timedelta(milliseconds=412), 1))
    assert shown | {"id": sent["id"]} == sent
    assert list(shown) == list(sent)
    assert re.fullmatch(r"evt_[0-9a-f]{32}", shown["id"])
    assert re.fullmatch(r"evt_[0-9a-f]{32}", sent["id"])


def receiver() -> Any:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["read_event"]


def test_the_receiver_of_the_page_accepts_an_event_and_nothing_else() -> None:
    read_event, secret = receiver(), "a-secret"
    body = sent_body(MADE["test"][0].pack("gw-1").body, NOW, 2)
    assert read_event(body, sign(body, secret), secret, NOW)["attempt"] == 2
    wrong = [
        (body, sign(body, "another"), NOW),
        (body + b" ", sign(body, secret), NOW),
        (body, "", NOW),
        (body, sign(body, secret), NOW + timedelta(minutes=6)),
    ]
    for changed, signature, now in wrong:
        with pytest.raises(ValueError, match=r"the (signature is wrong|request is too old)"):
            read_event(changed, signature, secret, now)


def test_the_numbers_are_those_of_the_program() -> None:
    assert f"more than {RESCUED_CALLS} calls of a workspace within {RESCUE_WINDOW_S // 60} minutes" in PAGE
    assert [lead_s / 86_400 for lead_s in KEY_LEAD_S] == [1, 7]
    assert "ends in 7 days, and again in 1 day" in PAGE
    assert [lead_s / 3_600 for lead_s in PREVIOUS_LEAD_S] == [1, 12]
    assert "ends in 12 hours, and again in 1 hour" in PAGE
    rows = dict(re.findall(r"^\| ([\w ]+) \| (.*) \|$", section("Delivery"), re.MULTILINE))
    assert f"within {webhook.TIMEOUT_S:g} s" in rows["success"]
    assert [sender.back_off_s(failures) for failures in (1, 2, 3, 4, 99)] == [1, 2, 4, 8, 300]
    assert rows["next attempt"] == "after 1, 2, 4, 8, … seconds, at most 5 minutes"
    assert timedelta(days=1) == sender.MAX_AGE
    assert f"within a day, in at least {sender.MIN_ATTEMPTS} attempts" in rows["end"]
    assert f"at most {MAX_WAITING:,}" in rows["queue"]
    assert f"with at most {sender.MAX_IN_MEMORY} others" in PAGE
    assert MAX_ENDED == 1_000
    assert MAX_NAMED == 10
    assert "names at most ten new ones" in PAGE
    assert service.LOOK_S == 1
