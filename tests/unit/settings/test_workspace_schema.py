"""A wrong value in a workspace file is refused with the file, the key and the reason, and no secret is shown."""

from pathlib import Path

import pytest
from rig.settings_files import ACME, BETA, HASH_A, HASH_B, SECRET, assert_refused

PLAN = 'plan = "pro"\n'


def plan_and(line: str) -> str:
    return f"{PLAN}{line}\n"


# file, old passage ("" = the end), new passage, key, part of the reason
EDITS = {
    "no name": (ACME, 'name = "Acme"\n', "", "name", "is required"),
    "unknown plan": (ACME, '"pro"', '"gold"', "plan", "'standard' or 'pro'"),
    "unknown workspace key": (ACME, PLAN, plan_and("rpm_overide = 6"), "rpm_overide", '"rpm_override"?'),
    "no percentage": (ACME, PLAN, plan_and("alert_at_percent = [0]"), "alert_at_percent[0]", "equal to 1"),
    "more than all": (
        ACME,
        PLAN,
        plan_and("alert_at_percent = [101]"),
        "alert_at_percent[0]",
        "equal to 100",
    ),
    "not ascending": (ACME, PLAN, plan_and("alert_at_percent = [95, 80]"), "alert_at_percent", "ascending"),
    "a percentage twice": (ACME, PLAN, plan_and("alert_at_percent = [80, 80]"), "alert_at_percent", "once"),
    "half a percentage": (
        ACME,
        PLAN,
        plan_and("alert_at_percent = [0.5]"),
        "alert_at_percent[0]",
        "valid integer",
    ),
    "half an rpm": (
        ACME,
        PLAN,
        plan_and("rpm_override = 1.5"),
        "rpm_override",
        "must be a valid integer (at line 3)",
    ),
    "a text as rpm": (ACME, PLAN, plan_and("\n\"rpm_override\" = '6'"), "rpm_override", "(at line 4)"),
    "a table as rpm": (ACME, PLAN, plan_and("rpm_override.x = 6"), "rpm_override", "(at line 3)"),
    "no tokens a minute": (ACME, PLAN, plan_and("tpm = 0"), "tpm", "equal to 1"),
    "too many tokens a minute": (ACME, PLAN, plan_and("tpm = 1_000_000_001"), "tpm", "equal to 1000000000"),
    "float cap": (
        ACME,
        PLAN,
        plan_and("monthly_spend_cap_usd = 2.5"),
        "monthly_spend_cap_usd",
        "must be a string",
    ),
    "negative cap": (
        ACME,
        PLAN,
        plan_and('monthly_spend_cap_usd = "-1"'),
        "monthly_spend_cap_usd",
        "negative",
    ),
    "unknown default": (
        ACME,
        '"gpt-4o-mini"',
        '"gpt-4o-mni"',
        "default_model",
        'did you mean "gpt-4o-mini"?',
    ),
    "unknown fallback": (
        ACME,
        PLAN,
        plan_and('fallback_model = "claude"'),
        "fallback_model",
        'model "claude"',
    ),
    "hash without scheme": (ACME, "sha256:", "", "keys[0] (ci).hash", "64 lower-case hex digits"),
    "the key in place of its hash": (
        ACME,
        f"sha256:{HASH_A}",
        f"tg_{SECRET}",
        "keys[0] (ci).hash",
        "64 lower-case hex digits",
    ),
    "id of two words": (ACME, '"ci"', '"c i"', "keys[0].id", "must be at most 64 letters, digits"),
    "id twice": (ACME, '"laptop"', '"ci"', "keys[1].id", '"ci" is used twice'),
    "hash twice": (ACME, "c" * 64, HASH_A, "keys[1] (laptop).hash", 'key "ci" of workspace "acme"'),
    "unknown key of a key": (ACME, "active = true", "actve = true", "keys[0] (ci).actve", '"active"?'),
    "unknown reset": (
        ACME,
        "active = true",
        'spend_reset = "yearly"',
        "keys[0] (ci).spend_reset",
        "'never', 'daily'",
    ),
    "request cap of 0": (ACME, "active = true", "request_cap = 0", "keys[0] (ci).request_cap", "equal to 1"),
    "a label of two lines": (
        ACME,
        "active = true",
        'label = "a\\nb"',
        "keys[0] (ci).label",
        "a text of one line",
    ),
    "a label of 101 characters": (
        ACME,
        "active = true",
        f'label = "{101 * "a"}"',
        "keys[0] (ci).label",
        "at most 100 characters",
    ),
    "expiry without an offset": (
        ACME,
        "active = true",
        "expires_at = 2027-01-01T00:00:00",
        "keys[0] (ci).expires_at",
        "must have an offset from UTC: add Z, or one such as +02:00",
    ),
    "expiry in quotes": (
        ACME,
        "active = true",
        'expires_at = "2027-01-01T00:00:00Z"',
        "keys[0] (ci).expires_at",
        "must be a date and a time without quotes",
    ),
    "expiry on a day": (
        ACME,
        "active = true",
        "expires_at = 2027-01-01",
        "keys[0] (ci).expires_at",
        "must be a date and a time without quotes",
    ),
    "expiry before the first year": (
        ACME,
        "active = true",
        "expires_at = 0001-01-01T00:00:00+12:00",
        "keys[0] (ci).expires_at",
        "a year from 1 to 9999",
    ),
    "no models": (ACME, "active = true", "models = []", "keys[0] (ci).models", "must not be empty"),
    "models as a string": (
        ACME,
        "active = true",
        'models = "gpt*"',
        "keys[0] (ci).models",
        "must be an array",
    ),
    "a star in the middle": (
        ACME,
        "active = true",
        'models = ["gpt-4o", "gpt*mini"]',
        "keys[0] (ci).models[1]",
        '"*" only at its end',
    ),
    "two stars": (
        ACME,
        "active = true",
        'models = ["gpt**"]',
        "keys[0] (ci).models[0]",
        '"*" only at its end',
    ),
    "a pattern with a blank": (
        ACME,
        "active = true",
        'models = ["gpt *"]',
        "keys[0] (ci).models[0]",
        "without spaces",
    ),
    "a previous hash without its end": (
        ACME,
        "active = true",
        f'previous_hash = "sha256:{"d" * 64}"',
        "keys[0] (ci).previous_until",
        "is required with previous_hash",
    ),
    "the end of no previous hash": (
        ACME,
        "active = true",
        "previous_until = 2027-01-01T00:00:00Z",
        "keys[0] (ci).previous_hash",
        "is required with previous_until",
    ),
    "a previous hash that is the hash": (
        ACME,
        "active = true",
        f'previous_hash = "sha256:{HASH_A}"\nprevious_until = 2027-01-01T00:00:00Z',
        "keys[0] (ci).previous_hash",
        "is the same as hash",
    ),
    "a previous hash that another key has": (
        ACME,
        "active = true",
        f'previous_hash = "sha256:{"c" * 64}"\nprevious_until = 2027-01-01T00:00:00Z',
        "keys[1] (laptop).hash",
        'key "ci" of workspace "acme"',
    ),
    "a previous hash that an earlier key has": (
        ACME,
        "active = false",
        f'previous_hash = "sha256:{HASH_A}"\nprevious_until = 2027-01-01T00:00:00Z',
        "keys[1] (laptop).previous_hash",
        'key "ci" of workspace "acme"',
    ),
    "a previous hash that another workspace has": (
        BETA,
        "",
        f'previous_hash = "sha256:{HASH_A}"\nprevious_until = 2027-01-01T00:00:00Z\n',
        "keys[0] (ci).previous_hash",
        'key "ci" of workspace "acme"',
    ),
    "bare customer key": (
        ACME,
        "",
        f'[byok.GROQ]\nsecret = "{SECRET}"\n',
        "byok.GROQ.secret",
        "a bare secret",
    ),
    "customer key as table": (ACME, "", f'[byok]\nGROQ = "{SECRET}"\n', "byok.GROQ", "must be a table"),
    "byok of an unknown provider": (
        ACME,
        "",
        '[byok.GROK]\nsecret = "env:X"\n',
        "byok.GROK",
        'unknown provider "GROK"; did',
    ),
    "byok of the built-in provider": (
        ACME,
        "",
        '[byok.SANDBOX]\nsecret = "env:X"\n',
        "byok.SANDBOX",
        "the provider takes no key",
    ),
    "rule without words": (
        ACME,
        "",
        '[[rules]]\nkeywords = []\nmodel = "x"\n',
        "rules[0].keywords",
        "must not be empty",
    ),
    "rule with an unknown model": (
        ACME,
        "",
        '[[rules]]\nkeywords = ["a"]\nmodel = "x"\n',
        "rules[0] (a).model",
        'unknown model "x"',
    ),
    "unknown heuristic": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "x"\nmodel = "x"\n',
        "heuristics[0].when",
        "'images'",
    ),
    "heuristic with an unknown model": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "json"\nmodel = "x"\n',
        "heuristics[0] (json).model",
        "unknown",
    ),
    "no threshold": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "prompt_tokens_above"\nmodel = "x"\n',
        "heuristics[0] (prompt_tokens_above).threshold_tokens",
        "is required",
    ),
    "threshold where none is used": (
        ACME,
        "",
        '[[heuristics]]\nwhen = "json"\nthreshold_tokens = 1\nmodel = "x"\n',
        "heuristics[0] (json).threshold_tokens",
        "is only for prompt_tokens_above",
    ),
    "hash in two workspaces": (BETA, HASH_B, HASH_A, "keys[0] (ci).hash", 'key "ci" of workspace "acme"'),
    "keys that are a table": (BETA, "[[keys]]", "[keys]", "keys", "must be an array"),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_wrong_edit_is_refused_with_file_key_and_reason(tmp_path: Path, case: str) -> None:
    assert_refused(tmp_path, *EDITS[case])
