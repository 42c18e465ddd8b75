"""The settings of ``/workspaces/ID`` as they are in force. No secret and no place of a secret is in them."""

from collections.abc import Mapping
from typing import Any

from addon.settings.settings import Settings
from addon.text.table import Table
from policies.limits import rpm_of
from policies.model import Byok, Workspace


def make_settings_values(workspace: Workspace | None, settings: Settings) -> Mapping[str, Any]:
    """Return the settings that have one value each, None for a workspace that has no settings."""
    if workspace is None:
        return {"file": None, "settings": None}
    limits = settings.conf.limits
    return {
        "file": str(settings.conf.paths.workspaces / f"{workspace.id}.toml"),
        "settings": {
            "name": workspace.name,
            "plan": workspace.plan,
            "limit_rpm": rpm_of(workspace, limits.standard_rpm, limits.pro_rpm),
            "rpm_override": workspace.rpm_override,
            "tpm": workspace.tpm,
            "max_in_flight": limits.max_in_flight,
            "monthly_spend_cap_nanousd": workspace.monthly_spend_cap_nanousd,
            "overage_protection": workspace.overage_protection,
            "default_model": workspace.default_model,
            "fallback_model": workspace.fallback_model,
            "context_fallback_model": workspace.context_fallback_model,
            "safety_net": workspace.safety_net,
            "alert_at_percent": list(workspace.alert_at_percent),
            "hosted_tools": sorted(workspace.hosted_tools),
        },
    }


def make_settings_tables(workspace: Workspace | None) -> Mapping[str, Table]:
    """Return budgets, rules, heuristics and aliases in their order, and the customer's own keys for providers."""
    rules = workspace.rules if workspace else ()
    heuristics = workspace.heuristics if workspace else ()
    aliases = workspace.aliases if workspace else ()
    byok = workspace.byok if workspace else {}
    budgets = workspace.budgets if workspace else ()
    return {
        "budget_limits": Table(
            ("budget", "spend_cap_nanousd", "spend_reset", "rpm", "tpm", "required"),
            [
                (one.of, one.spend_cap_nanousd, one.spend_reset, one.rpm, one.tpm, one.is_required)
                for one in budgets
            ],
        ),
        "rules": Table(
            ("place", "keywords", "model"),
            [(place, ", ".join(rule.keywords), rule.model) for place, rule in enumerate(rules, 1)],
        ),
        "heuristics": Table(
            ("place", "when", "threshold_tokens", "model"),
            [(place, one.when, one.threshold_tokens, one.model) for place, one in enumerate(heuristics, 1)],
        ),
        "aliases": Table(
            ("place", "name", "model"),
            [(place, one.name, one.model) for place, one in enumerate(aliases, 1)],
        ),
        "byok": Table(
            ("provider", "secret", "unset_variable", "routing"),
            [(name, *_describe_own_key(own), own.routing) for name, own in byok.items()],
        ),
    }


def _describe_own_key(own: Byok) -> tuple[str, str | None]:
    """Return whether the secret is there, and the variable that is not set. ``check`` names that variable, too."""
    if own.secret is not None:
        return "present", None
    return ("not set", own.variable) if own.variable else ("unreadable", None)
