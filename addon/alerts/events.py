"""The events of alerts: each in words and in fields. Source: docs/alerts.md."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from addon.store.money.alerts import NewAlert, Rescue
from addon.text.masking import mask_credentials
from policies.alert_rules import RESCUE_WINDOW_S, AlertType, Budget, KeyEnd
from policies.budgets import parse_scope
from policies.fleet_files import MAX_NAMED, PERSIST_S, Reported
from policies.money import format_nanousd
from policies.utc_time import format_utc


@dataclass(frozen=True, slots=True)
class Event:
    """One event, in words and in ``fields``. Text that looks like a credential is masked when it is packed."""

    id: str
    type: AlertType
    time: datetime
    text: str
    fields: Mapping[str, Any]

    def pack(self, gateway: str) -> NewAlert:
        """Return the event for the queue. ``gateway`` names the machine."""
        common = {
            "id": self.id,
            "type": self.type,
            "time": format_utc(self.time),
            "gateway": gateway,
            "text": self.text,
        }
        body = {
            name: mask_credentials(value) if isinstance(value, str) else value
            for name, value in (common | dict(self.fields)).items()
        }
        workspace = self.fields.get("workspace")
        return NewAlert(self.id, body["time"], self.type, workspace, body["text"], json.dumps(body))


def event_id(*parts: object) -> str:
    """Return the id of an event that these parts name. Each process makes the same one."""
    return "evt_" + hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


def threshold_crossed(budget: Budget, percent: int, now: datetime) -> Event:
    """Return the event of a budget that has reached a percentage."""
    unit = "requests" if budget.kind == "request_cap" else "nanousd"
    period = {"credit_id": budget.period} if budget.kind == "wallet" else {"period": budget.period}
    fields: dict[str, Any] = {
        "workspace": budget.workspace,
        "key_id": budget.key_id,
        "limit": budget.kind,
        **period,
        "percent": percent,
        f"used_{unit}": budget.used,
        f"limit_{unit}": budget.maximum,
        f"left_{unit}": budget.left,
    }
    if budget.scope is not None:
        _, named, _, value = parse_scope(budget.scope)
        fields |= {"budget": named, "value": value}
    named = event_id(budget.name, budget.period, budget.maximum, percent)
    return Event(named, "budget.threshold", now, _describe_budget(budget, percent), fields)


def _describe_budget(budget: Budget, percent: int) -> str:
    if budget.kind == "request_cap":
        return (
            f"Key {budget.key_id} of {budget.workspace} has made {percent}% of its requests:"
            f" {budget.used:,} of {budget.maximum:,}."
        )
    amounts = f"{format_nanousd(budget.used)} of {format_nanousd(budget.maximum)} USD"
    match budget.kind:
        case "budget_cap" if budget.scope is not None:
            _, named, _, value = parse_scope(budget.scope)
            return f'The budget of {named} "{value}" of {budget.workspace} is used to {percent}%: {amounts}.'
        case "wallet":
            left = format_nanousd(budget.left)
            return f"{budget.workspace} has used {percent}% of its last credit: {left} USD are left in its wallet."
        case "spend_cap":
            return (
                f"Key {budget.key_id} of {budget.workspace} has used {percent}% of its spend cap: {amounts}."
            )
    return f"{budget.workspace} has used {percent}% of its monthly spend cap: {amounts}."


def key_expires(workspace: str, end: KeyEnd, now: datetime) -> Event:
    """Return the event of a key, or of its earlier secret, that ends soon."""
    at = format_utc(end.at)
    what = f"Key {end.key_id}" if end.which == "current" else f"The earlier secret of key {end.key_id}"
    fields = {
        "workspace": workspace,
        "key_id": end.key_id,
        "secret": end.which,
        "expires_at": at,
        "left_s": int((end.at - now).total_seconds()),
    }
    named = event_id("key", workspace, end.key_id, end.which, at, end.lead_s)
    return Event(
        named,
        "key.expiring",
        now,
        f"{what} of {workspace} expires at {at[:16].replace('T', ' ')} UTC.",
        fields,
    )


def safety_net_carries(rescue: Rescue, day: str, now: datetime) -> Event:
    """Return the event of a workspace whose calls the Safety Net repeats, again and again."""
    text = (
        f"The Safety Net served {rescue.calls} calls of {rescue.workspace} within {RESCUE_WINDOW_S // 60} minutes,"
        f" after calls with its own {rescue.provider} key had failed. They cost it"
        f" {format_nanousd(rescue.retail_nanousd)} USD."
    )
    fields = {
        "workspace": rescue.workspace,
        "provider": rescue.provider,
        "calls": rescue.calls,
        "window_s": RESCUE_WINDOW_S,
        "cost_nanousd": rescue.retail_nanousd,
    }
    return Event(
        event_id("rescue", rescue.workspace, rescue.provider, day), "safety_net.carrying", now, text, fields
    )


def circuit_opened(provider: str, workspaces: int, now: datetime) -> Event:
    """Return the event of a provider that is skipped. ``workspaces`` is for how many it fails."""
    text = f"{provider} keeps failing, for {workspaces} workspaces: calls that have a fallback skip it."
    fields = {"provider": provider, "workspaces": workspaces}
    return Event(event_id("circuit", provider, "open", now), "provider.circuit_open", now, text, fields)


def circuit_closed(provider: str, opened_at: str, now: datetime) -> Event:
    """Return the event of a provider that is used again."""
    fields = {"provider": provider, "opened_at": opened_at, "open_s": _seconds_since(opened_at, now)}
    text = f"Calls use {provider} again."
    return Event(
        event_id("circuit", provider, "closed", opened_at), "provider.circuit_closed", now, text, fields
    )


def platform_keys_lost(provider: str, now: datetime) -> Event:
    """Return the event of a provider whose last platform key is gone."""
    text = f"{provider} has lost its last platform key: its models are served with customers' own keys only."
    return Event(
        event_id("keys_lost", provider, now), "provider.keys_lost", now, text, {"provider": provider}
    )


def reload_failed(subject: str, reason: str, now: datetime) -> Event:
    """Return the event of files that do not load."""
    text = f"Edits have no effect: {subject}: {reason}"
    return Event(
        event_id("reload", subject, reason, now),
        "reload.failed",
        now,
        text,
        {"file": subject, "reason": reason},
    )


def store_unavailable(reason: str, now: datetime) -> Event:
    """Return the event of a store that does not work."""
    text = f"The store does not work, and calls are refused: {reason}"
    return Event(event_id("store", "down", now, reason), "store.unavailable", now, text, {"reason": reason})


def store_recovered(failed_at: datetime, now: datetime) -> Event:
    """Return the event of a store that works again."""
    since = format_utc(failed_at)
    fields: Mapping[str, Any] = {"failed_at": since, "outage_s": _seconds_since(since, now)}
    return Event(event_id("store", "up", now), "store.recovered", now, "The store works again.", fields)


def files_differ(machine: str, new: Sequence[str], reported: Reported, now: datetime) -> Event:
    """Return the event of a machine with ``new`` files that are not as most machines have them."""
    named, more = ", ".join(new[:MAX_NAMED]), len(new) - MAX_NAMED
    text = (
        f"{machine} has had other files than most machines for over {PERSIST_S:g} s:"
        f" {named}{f' and {more} more' if more > 0 else ''}."
    )
    fields = {
        "machine": machine,
        "files": list(new[:MAX_NAMED]),
        "count": len(reported.files),
        "differed_at": reported.since,
    }
    return Event(event_id("files", machine, reported.since, *new), "fleet.files_differ", now, text, fields)


def files_agree(machine: str, reported: Reported, *, is_gone: bool, now: datetime) -> Event:
    """Return the event of a machine that differs no more, or that is not there any more."""
    text = (
        f"{machine} is not there any more." if is_gone else f"{machine} has its files as most machines again."
    )
    fields = {
        "machine": machine,
        "reason": "gone" if is_gone else "alike",
        "differed_at": reported.since,
        "differ_s": _seconds_since(reported.since, now),
    }
    return Event(event_id("files", machine, reported.since, "end"), "fleet.files_agree", now, text, fields)


def not_archived(reason: str, now: datetime) -> Event:
    """Return the event of months that are older than they are kept, and can't be archived. Once a day for a reason."""
    text = f"Months that are older than keep_months stay in the ledger: {reason}"
    named = event_id("archive", reason, now.date().isoformat())
    return Event(named, "ledger.not_archived", now, text, {"reason": reason})


def tested(now: datetime) -> Event:
    """Return the event of ``tollgate alerts test``."""
    return Event(event_id("test", now), "test", now, "This is a test of the alerts of Tollgate.", {})


def _seconds_since(then: str, now: datetime) -> int:
    return max(0, round((now - datetime.fromisoformat(then)).total_seconds()))
