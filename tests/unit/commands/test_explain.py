"""``tollgate explain``: the output for people and for programs."""

import json
import re
from pathlib import Path

import pytest
from rig import explained
from rig.configuration import PROVIDER_KEY, ROOT, Configuration
from rig.explain_commands import BASE, HELLO, asked, record, table, write_folder
from rig.money import credit
from rig.service_accounts import key_file
from rig.settings_files import edit

COLUMNS = 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


# For people.


def masked(text: str) -> list[str]:
    """Return the words without figures, because prices change with the catalog and months with time."""
    return [re.sub(r"[\d.,-]+", "0", word) for word in text.split() if not word.startswith("---")]


def test_the_command_prints_the_example_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = page.split("## tollgate explain FILE")[1].split("\n## ")[0]
    body, shown = (re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)[0] for kind in ("json", "text"))
    key = {"id": "ci", "hash": "sha256:" + "a" * 64, "spend_cap_usd": "0.01", "spend_reset": "monthly"}
    acme = {
        "name": "Acme",
        "plan": "pro",
        "overage_protection": True,
        "monthly_spend_cap_usd": "250",
        "keys": [key],
        "rules": [{"keywords": ["sql"], "model": "claude-haiku-4-5"}],
    }
    retried = {"upstream": {"retries": 1}}
    Configuration(providers={}, models={}, workspaces={"acme": acme}, sections=retried).write(tmp_path)
    edit(tmp_path / "proxy.conf", 'catalog = "catalog_data"', f'catalog = "{ROOT / "catalog_data"}"')
    assert masked(table(tmp_path, "acme", body.encode(), ANTHROPIC_API_KEY="fake")) == masked(shown)


def test_the_text_shows_the_decision_the_request_the_hold_and_the_limits(folder: Path) -> None:
    credit(folder / "var" / "tollgate.db", "capped", "50")
    shown = table(
        folder, "capped", asked(model="claude", temperature=2, max_tokens=200, stop="x", top_k=1, seed=3)
    )
    assert "capped/capped asks for claude, whole\n" in shown
    assert "limits: 1000000 requests a minute, overage protection on\ndecided by: pinned\n" in shown
    assert "Attempt 1: claude at CLAUDE\nmode: payg (the platform's key)\n" in shown
    assert f"upstream: vendor/model-2026, {BASE}/messages\n" in shown
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "client 200 sent" in lines
    assert "catalog 8000" in lines
    assert any(line.startswith("held: 0.000") for line in lines)
    assert any(
        line.startswith("spend cap ") and line.endswith("0.00 USD 0.00 USD 3.00 USD 3.00 USD")
        for line in lines
    )
    assert any(line.startswith("temperature clamped claude-sampling takes 0 to 1") for line in lines)
    assert any(line.startswith("seed dropped claude-sampling does not take") for line in lines)
    assert any(line.startswith("stop renamed the dialect anthropic sends") for line in lines)
    assert lines[-1] == "There is no second attempt: the workspace has no fallback_model."
    assert max(map(len, shown.splitlines())) <= COLUMNS


def test_both_attempts_are_shown(folder: Path) -> None:
    shown = table(folder, "hop", asked(model="gpt"))
    assert "\nAttempt 2, if the first fails: claude at CLAUDE\n" in shown
    shown = table(folder, "poor-net", asked(model="own"))
    assert "mode: byok (the workspace's own key)" in shown
    assert "None" not in shown
    assert "\nIt is not made: refused by the limits: 402 payment_required: Insufficient API credits" in shown
    assert "\nIf the first attempt fails, the client gets: 402 payment_required: Insufficient" in shown
    shown = table(folder, "net", asked(model="own-only"))
    assert "If the first attempt fails, the client gets: 403 byok_required: " in shown


def test_a_refusal_shows_its_step_and_the_answer_of_the_client(folder: Path) -> None:
    assert table(folder, "plain", asked(model="old")).endswith(
        "\nRefused by the routing: 400 invalid_state, param model: No active model is configured for 'old': "
        "name another model (GET /v1/models lists them).\n"
    )
    assert "Refused by the limits: 402 payment_required: Insufficient API credits" in table(
        folder, "poor", asked()
    )
    assert (
        "Refused by the policies: 500 internal_error: The gateway failed to handle this request. (PolicyFailed: "
        in (table(folder, "plain", {"messages": [{"role": "user", "content": "faulty"}]}))
    )


def test_a_built_in_provider_is_shown_without_an_address(folder: Path) -> None:
    assert "upstream: sandbox-chat-001, built in\n" in table(folder, "plain", asked(model="echo"))
    (attempt,) = record(folder, "plain", asked(model="echo"))["attempts"]
    assert (attempt["url"], attempt["built_in"]) == (None, True)
    assert attempt["body"] == {"model": "sandbox-chat-001", "messages": HELLO, "max_tokens": 16384}


def test_text_of_clients_does_not_control_the_terminal(folder: Path) -> None:
    shown = table(folder, "plain", asked(**{"model": "\x1b[31mred", "\x1b[2J": 1}))
    assert "\x1b" not in shown
    assert r"plain/plain asks for \x1b[31mred" in shown


def test_unicode_is_shown_unchanged(folder: Path) -> None:
    body = {"messages": [{"role": "user", "content": "用數據庫查询 naïve 🎉"}], "größe": 1}
    shown = table(folder, "plain", body)
    assert "decided by: rule 2 (數據庫)" in shown
    assert "größe" in shown
    found = record(folder, "plain", body)
    assert found["attempts"][0]["body"]["messages"][0]["content"][0]["text"] == "用數據庫查询 naïve 🎉"


# Keys that this shell lacks.


def test_a_missing_key_of_this_shell_is_a_refusal_with_a_hint(folder: Path) -> None:
    for shown, refusal in (
        (table(folder, "plain", asked(model="keyless")), "403 byok_required"),
        (table(folder, "plain", asked(), TEST_PROVIDER_KEY=None), "400 invalid_state"),
        (table(folder, "acme", asked(model="lost")), "400 invalid_state"),
    ):
        assert f"Refused by the routing: {refusal}" in shown
        assert shown.endswith(
            "\nKeys are those of this shell's environment, which may not be the gateway's.\n"
        )


def test_a_second_attempt_without_its_key_has_a_hint_too(folder: Path) -> None:
    edit(
        folder / "policies" / "workspaces" / "hop.toml",
        'fallback_model = "claude"',
        'fallback_model = "keyless"',
    )
    found = record(folder, "hop", asked(model="gpt"))
    assert found["why_alone"] == "fallback_model keyless can't serve: KEYLESS has no platform key"
    assert len(found["hints"]) == 1


def test_a_request_that_needs_no_missing_key_has_no_hint(folder: Path) -> None:
    assert record(folder, "plain", asked())["hints"] == []
    assert record(folder, "plain", asked(temperature="hot"))["hints"] == []


def test_a_sandbox_that_depends_on_the_environment_has_a_hint(folder: Path) -> None:
    edit(folder / "proxy.conf", "enabled = true", 'enabled = "auto"')
    (hint, _) = record(folder, "plain", asked(model="echo"), TEST_PROVIDER_KEY=None)["hints"]
    assert hint == "The built-in provider serves while no provider key is set."


def test_no_secret_is_shown(folder: Path) -> None:
    account = key_file("https://token.example/token")
    for workspace, name in (("plain", "gpt"), ("plain", "claude"), ("plain", "account"), ("acme", "own")):
        for words in ((), ("--json",)):
            shown = table(folder, workspace, asked(model=name), *words, TEST_ACCOUNT=account)
            assert "Attempt 1" in shown or json.loads(shown)["attempts"][0]["body"]
            for secret in (
                PROVIDER_KEY,
                explained.CUSTOMER_KEY,
                "PRIVATE KEY",
                "client_email",
                "uthorization",
            ):
                assert secret not in shown
