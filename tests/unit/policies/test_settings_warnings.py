"""Warnings about settings that load: one line for each rule, and for what it must not warn of."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from rig.routed_calls import MODELS, PROVIDERS

from policies.aliases import Alias, Aliases
from policies.allowed_models import AllowedModels
from policies.model import Budget, Byok, Key, Model, Workspace
from policies.place_quota import PlaceQuota
from policies.provider import Provider
from policies.routing_rules import Heuristic, KeywordRule
from policies.settings_warnings import find_warnings

NOW = datetime(2026, 11, 22, tzinfo=UTC)
KEY = Key("ci", "0" * 64)
ACME = Workspace("acme", "Acme", "pro", (KEY,))
UNSET = replace(PROVIDERS["BARE"], unset_variables=("BARE_KEY",), skipped_keys=frozenset({1}))
ON = {"OPENAI": Byok(SecretStr("customer"), routing=True)}


@dataclass(frozen=True)
class Case:
    """Changes of a good set of settings, and the warnings: kind, name, key and a part of the reason."""

    workspace: dict[str, Any] = field(default_factory=dict)
    providers: tuple[Provider, ...] = ()
    workspaces: tuple[Workspace, ...] | None = None
    unknown_hidden: tuple[str, ...] = ()
    warnings: tuple[tuple[str, str, str, str], ...] = ()


def unserved(key: str, reason: str) -> tuple[str, str, str, str]:
    return ("model_unserved", "acme", key, reason)


CASES = {
    "nothing": Case(),
    "a default model at a provider without a key": Case(
        {"default_model": "bare"},
        warnings=(unserved("default_model", "bare serves no call: BARE has no platform key"),),
    ),
    "the same with the customer's own key": Case(
        {"default_model": "bare", "byok": {"BARE": Byok(SecretStr("own"), routing=True)}}
    ),
    "a fallback that is not active": Case(
        {"fallback_model": "gpt-old"}, warnings=(unserved("fallback_model", "it is not active"),)
    ),
    "a default model that left the catalog": Case(
        {"default_model": "gone"}, warnings=(unserved("default_model", "it is not in the catalog"),)
    ),
    "a rule, a heuristic and an alias for customers' own keys": Case(
        {
            "aliases": Aliases((Alias("fast", "gpt"), Alias("mine-*", "gpt-own"))),
            "rules": (KeywordRule(("vip",), "gpt"), KeywordRule(("sql", "db"), "gpt-own")),
            "heuristics": (Heuristic("images", "gpt-own"),),
        },
        warnings=(
            unserved("rules[1] (sql).model", "there is no OPENAI key of the workspace's own"),
            unserved("heuristics[0] (images).model", "there is no OPENAI key of the workspace's own"),
            unserved("aliases[1] (mine-*).model", "there is no OPENAI key of the workspace's own"),
        ),
    ),
    "the same with such a key": Case({"heuristics": (Heuristic("images", "gpt-own"),), "byok": ON}),
    "an own key that is not set": Case(
        {"byok": {"OPENAI": Byok(None, True, "ACME_KEY"), "GROQ": Byok(None, False, "OTHER")}},
        warnings=(
            ("own_key_unset", "acme", "byok.OPENAI.secret", "ACME_KEY is not set; calls that need it are"),
            ("own_key_unset", "acme", "byok.GROQ.secret", "OTHER is not set"),
        ),
    ),
    "a wallet without protection": Case(
        {"plan": "standard", "overage_protection": False},
        warnings=(("overage_protection_off", "acme", "overage_protection", "is off, so calls at once"),),
    ),
    "an override of 0": Case(
        {"rpm_override": 0},
        warnings=(("rpm_override_below_1", "acme", "rpm_override", "is below 1, and counts"),),
    ),
    "an override of 1": Case({"rpm_override": 1}),
    "limits of tokens a minute that are too small": Case(
        {
            "tpm": 24,
            "keys": (
                replace(KEY, tpm=20, models=AllowedModels(("gpt-big",))),
                replace(KEY, id="off", active=False, tpm=1),
            ),
            "budgets": (Budget("user", None, rpm=1, tpm=25), Budget("tag:team", 5, tpm=24)),
        },
        warnings=(
            (
                "tpm_below_likely_call",
                "acme",
                "tpm",
                "is less than a call without a cap takes for gpt (25) and",
            ),
            (
                "tpm_below_likely_call",
                "acme",
                "budgets[1] (tag:team).tpm",
                "is less than a call without a cap takes for gpt (25) and",
            ),
            (
                "tpm_below_likely_call",
                "acme",
                "keys[0] (ci).tpm",
                "takes for gpt-big (25); until 5 answers",
            ),
        ),
    ),
    "limits of tokens a minute for which a call without a cap has room": Case(
        {"tpm": 25, "keys": (replace(KEY, tpm=25),)}
    ),
    "no wallet and no protection": Case({"overage_protection": False}),
    "a platform key that is not set": Case(
        providers=(UNSET,),
        warnings=(("platform_key_unset", "BARE", "BARE.platform_key", "BARE_KEY is not set, so its models"),),
    ),
    "one key of several that is not set": Case(
        providers=(replace(UNSET, platform_keys=(SecretStr("x"),), skipped_keys=frozenset({2})),),
        warnings=(
            (
                "platform_key_unset",
                "BARE",
                "BARE.platform_keys",
                "BARE_KEY is not set; the other keys are used",
            ),
        ),
    ),
    "a platform key that no model needs": Case(
        providers=(replace(PROVIDERS["SANDBOX"], name="IDLE", builtin=False, unset_variables=("IDLE_KEY",)),)
    ),
    "a base_url with the path of the API": Case(
        providers=(replace(PROVIDERS["GROQ"], base_url="https://groq.test/v1/chat/completions"),),
        warnings=(("base_url_has_path", "GROQ", "GROQ.base_url", "ends in /chat/completions, which"),),
    ),
    "a base_url with the path of the Responses API": Case(
        providers=(replace(PROVIDERS["GROQ"], base_url="https://groq.test/v1/responses"),),
        warnings=(("base_url_has_path", "GROQ", "GROQ.base_url", "ends in /responses, which"),),
    ),
    "a base_url with another chat_path": Case(
        providers=(replace(PROVIDERS["GROQ"], base_url="https://groq.test/v1/chat", chat_path="/chat?a=b"),),
        warnings=(("base_url_has_path", "GROQ", "GROQ.base_url", "ends in /chat, which"),),
    ),
    "a base_url that is the whole URL on purpose": Case(
        providers=(replace(PROVIDERS["GROQ"], base_url="https://groq.test/chat/completions", chat_path="/"),)
    ),
    "a base_url with the path of Anthropic": Case(
        providers=(
            replace(PROVIDERS["GROQ"], dialect="anthropic", base_url="https://groq.test/v1/messages"),
        ),
        warnings=(("base_url_has_path", "GROQ", "GROQ.base_url", "ends in /messages"),),
    ),
    "an overlay that hides nothing": Case(
        unknown_hidden=("gone-1.5",),
        warnings=(("overlay_hides_nothing", "", '"gone-1.5"', "hides no model"),),
    ),
    "keys that expired, expire soon, and later": Case(
        {
            "keys": (
                replace(KEY, expires_at=NOW),
                replace(KEY, id="soon", expires_at=NOW + timedelta(days=7)),
                replace(KEY, id="later", expires_at=NOW + timedelta(days=7, seconds=1)),
                replace(KEY, id="off", active=False, expires_at=NOW),
            )
        },
        warnings=(
            ("key_expired", "acme", "keys[0] (ci).expires_at", "the key expired at 2026-11-22T00:00:00"),
            ("key_expires_soon", "acme", "keys[1] (soon).expires_at", "the key expires at 2026-11-29T00:00"),
        ),
    ),
    "all keys expired": Case(
        {"keys": (replace(KEY, expires_at=NOW),)},
        warnings=(
            ("no_active_key", "", "", "no workspace has an active key"),
            ("key_expired", "acme", "keys[0] (ci).expires_at", "expired"),
        ),
    ),
    "patterns that match no model": Case(
        {
            "keys": (replace(KEY, models=AllowedModels(("GPT*", "gtp*", "openai/ft:*", "llama3"))),),
            "byok": ON,
        },
        warnings=(
            ("key_models_match_nothing", "acme", "keys[0] (ci).models", "gtp* matches no model"),
            ("key_models_match_nothing", "acme", "keys[0] (ci).models", "llama3 matches no model"),
        ),
    ),
    "a pattern of models outside the catalog, without a key for them": Case(
        {"keys": (replace(KEY, models=AllowedModels(("openai/ft:*",))),)},
        warnings=(
            ("key_models_match_nothing", "acme", "keys[0] (ci).models", "openai/ft:* matches no model"),
        ),
    ),
    "no workspace": Case(workspaces=(), warnings=(("no_active_key", "", "", "there is no workspace"),)),
    "no active key": Case(
        {"keys": (replace(KEY, active=False),)},
        warnings=(("no_active_key", "", "", "no workspace has an active key"),),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_warning_names_what_can_not_serve(case: Case) -> None:
    providers = PROVIDERS | {one.name: one for one in case.providers}
    models = {slug: replace(made, provider=providers[made.provider.name]) for slug, made in MODELS.items()}
    workspaces = (replace(ACME, **case.workspace),) if case.workspaces is None else case.workspaces
    found = find_warnings(providers, models, {one.id: one for one in workspaces}, NOW, case.unknown_hidden)
    assert len(found) == len(case.warnings)
    for warning, (kind, name, key, reason) in zip(found, case.warnings, strict=True):
        assert (warning.kind, warning.name, warning.key) == (kind, name, key)
        assert reason in warning.reason


def test_one_warning_names_all_providers_without_a_platform_key() -> None:
    """Else a first try with one key has a line for each of fifteen other providers."""
    names = ("A", "B", "C")
    providers = {
        name: replace(PROVIDERS["BARE"], name=name, unset_variables=(f"{name}_KEY",)) for name in names
    }
    # Another has one of its two keys.
    providers["C"] = replace(providers["C"], platform_keys=(SecretStr("one"),))
    models = {name: replace(MODELS["gpt"], slug=name, provider=one) for name, one in providers.items()}
    unserved, resting = find_warnings(providers, models, {"acme": ACME}, NOW)
    assert (unserved.kind, unserved.name, unserved.key) == ("platform_key_unset", "", "")
    assert unserved.reason.startswith("no platform key is set for A, B, so their models serve only calls")
    assert unserved.reason.endswith("; the variables are A_KEY, B_KEY")
    assert (resting.name, resting.reason) == ("C", "C_KEY is not set; the other keys are used")


def test_without_any_platform_key_one_warning_names_all_variables() -> None:
    """The built-in provider answers then, so this is a first try of the program."""
    sandbox = replace(MODELS["gpt"], slug="sandbox", provider=PROVIDERS["SANDBOX"])
    providers = {
        name: replace(PROVIDERS["BARE"], name=name, unset_variables=(f"{name}_KEY",)) for name in ("A", "B")
    }
    models: dict[str, Model] = {"sandbox": sandbox}
    for name, provider in providers.items():
        models[name.lower()] = replace(sandbox, slug=name.lower(), provider=provider)
    # Two providers may share a variable, which is named once.
    providers["C"] = replace(providers["B"], name="C")
    models["c"] = replace(sandbox, slug="c", provider=providers["C"])
    providers["SANDBOX"] = sandbox.provider
    [warning] = find_warnings(providers, models, {"acme": ACME}, NOW)
    assert warning.kind == "platform_key_unset"
    assert warning.reason.endswith("only the built-in provider answers; set one of A_KEY, B_KEY")


def test_a_limit_of_a_place_that_workers_cannot_share_is_named_once() -> None:
    slug, model = next((slug, one) for slug, one in MODELS.items() if one.active)
    quota = PlaceQuota(max_in_flight=3, rpm=4, tpm=1)
    models = {**MODELS, slug: replace(model, quota=quota), "again": replace(model, slug="again", quota=quota)}
    assert find_warnings(PROVIDERS, models, {"acme": ACME}, NOW) == []
    found = find_warnings(PROVIDERS, models, {"acme": ACME}, NOW, workers=4)
    assert [(one.kind, one.place, one.key, one.reason.partition(",")[0]) for one in found] == [
        ("quota_below_workers", "models", f'"{slug}"', f"max_in_flight of {model.place} is 3"),
        ("quota_below_workers", "models", f'"{slug}"', f"tpm of {model.place} is 1"),
    ]
