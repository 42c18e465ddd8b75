"""``tollgate explain``: the output for people and for programs, and the errors of wrong use."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rig import explained
from rig.commands import run_alone
from rig.configuration import PROVIDER_KEY, ROOT, Configuration, model, new_key, provider
from rig.money import credit
from rig.service_accounts import key_file
from rig.settings_files import edit

from addon.cli import main

BASE = "https://provider.example/v1"
COLUMNS = 100
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys = {name: new_key() for name in explained.NAMES}
    settings = explained.settings(BASE, keys)
    settings["providers"]["VERTEX"] = provider(
        BASE, auth="google_service_account", platform_key="env:TEST_ACCOUNT"
    )
    settings["models"] = settings["models"] | {"account": model(provider="VERTEX")}
    explained.write_policy(tmp_path)
    Configuration(**settings).write(tmp_path)
    return tmp_path


def run(folder: Path, *words: str, body: Any = None, **environment: str | None) -> Result:
    """Run ``tollgate explain`` with ``body`` in standard input: bytes unchanged, anything else as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    arguments = [
        "explain",
        "--conf",
        str(folder / "proxy.conf"),
        *words,
        *(["-"] if body is not None else []),
    ]
    return CliRunner(env=explained.ENVIRONMENT | environment).invoke(main, arguments, input=content)


def table(folder: Path, workspace: str, body: Any, *words: str, **environment: str | None) -> str:
    result = run(folder, "--workspace", workspace, *words, body=body, **environment)
    assert result.exit_code == 0, result.output
    return result.stdout


def record(folder: Path, workspace: str, body: Any, *words: str, **environment: str | None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table(folder, workspace, body, "--json", *words, **environment))
    return found


def asked(**fields: Any) -> dict[str, Any]:
    return {"messages": HELLO} | fields


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
    Configuration(providers={}, models={}, workspaces={"acme": acme}).write(tmp_path)
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


# The body, the workspace and the key.


def test_a_body_may_be_in_a_file(folder: Path) -> None:
    file = folder / "body.json"
    file.write_text(json.dumps(asked(max_tokens=3)), encoding="utf-8")
    result = run(folder, "--workspace", "plain", "--json", str(file))
    assert json.loads(result.stdout)["attempts"][0]["caps"]["sent"] == 3


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": "\xff"}', b'{"messages": [], "messages": []}']
)
def test_an_invalid_body_is_a_refusal_and_not_an_error(folder: Path, body: bytes) -> None:
    found = record(folder, "plain", body)
    assert (found["refusal"]["step"], found["refusal"]["status"]) == ("body", 400)
    assert found["attempts"] == []


def test_the_first_active_key_is_the_default(folder: Path) -> None:
    file = folder / "policies" / "workspaces" / "plain.toml"
    for name in ("plain", "retired"):
        edit(file, f'id = "{name}"', f'id = "{name[::-1]}"')
    edit(file, "active = true", "active = maybe")
    edit(file, "active = false", "active = true")
    edit(file, "active = maybe", "active = false")
    assert record(folder, "plain", asked())["key_id"] == "deriter"
    edit(file, "active = true", "active = false")
    found = record(folder, "plain", asked())
    assert (found["refusal"]["step"], found["refusal"]["code"]) == ("key", "invalid_api_key")


def test_the_models_and_the_expiry_of_a_key_are_explained(folder: Path) -> None:
    file = folder / "policies" / "workspaces" / "plain.toml"
    edit(file, "active = true", 'active = true\nmodels = ["nothing*"]')
    found = record(folder, "plain", asked(), "--key", "plain")
    assert (found["refusal"]["step"], found["refusal"]["code"]) == ("routing", "byok_required")
    assert "it may use nothing*" in found["refusal"]["message"]
    edit(file, "active = true", "active = true\nexpires_at = 2026-01-01T00:00:00Z")
    found = record(folder, "plain", asked(), "--key", "plain")
    assert (found["refusal"]["step"], found["refusal"]["code"]) == ("key", "invalid_api_key")
    assert found["refusal"]["why"] == "key plain expired at 2026-01-01T00:00:00.000+00:00"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--workspace", "plane"), 1, 'unknown workspace "plane"; did you mean "plain"?'),
        (
            ("--workspace", "plain", "--key", "retried"),
            1,
            'unknown key "retried" of workspace plain; did you mean "retired"?',
        ),
        ((), 2, "Missing option '--workspace'"),
        (("--workspace", "plain", "--jsn"), 2, "No such option"),
    ],
)
def test_wrong_use_gives_one_line(folder: Path, words: tuple[str, ...], status: int, message: str) -> None:
    result = run(folder, *words, body=asked())
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr


def test_a_body_that_can_not_be_read_is_an_error(folder: Path) -> None:
    result = run(folder, "--workspace", "plain", str(folder / "none.json"))
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {folder / 'none.json'}: No such file or directory\n",
    )
    assert run(folder, "--workspace", "plain").exit_code == 2


def test_files_that_do_not_load_are_an_error(folder: Path) -> None:
    edit(folder / "proxy.conf", "[listen]", "[listne]")
    result = run(folder, "--workspace", "plain", body=asked())
    assert (result.exit_code, result.stdout) == (1, "")
    assert 'did you mean "listen"?' in result.stderr


def test_a_workspace_without_keys_is_an_error(folder: Path) -> None:
    (folder / "policies" / "workspaces" / "new.toml").write_text('name = "New"\n', encoding="utf-8")
    result = run(folder, "--workspace", "new", body=asked())
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: workspace new has no key: tollgate keys create new\n",
    )


def test_a_missing_ledger_is_not_created(folder: Path) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = files()
    assert record(folder, "capped", asked())["refusal"] is None
    assert record(folder, "poor", asked())["refusal"]["code"] == "payment_required"
    assert files() == before
    assert not (folder / "var").exists()


def test_it_is_a_command_of_the_command_line(folder: Path) -> None:
    words = ("explain", "--workspace", "plain", "--conf", str(folder / "proxy.conf"), "--json", "-")
    done = run_alone(folder, *words, stdin=json.dumps(asked()), **explained.ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["decided_by"] == "default"
    assert os.sep in json.loads(done.stdout)["attempts"][0]["url"]


# With Redis.


def test_counters_are_read_from_redis(folder: Path, redis_url: str) -> None:
    state = f'\n[state]\nbackend = "redis"\nredis_url = "{redis_url}"\n'
    edit(folder / "proxy.conf", "", state)
    (attempt,) = record(folder, "capped", asked())["attempts"]
    assert [row["left_nanousd"] for row in attempt["limits"]] == [3 * 10**9, 4 * 10**9]
    edit(folder / "proxy.conf", redis_url, "redis://127.0.0.1:1/0")
    for workspace in ("capped", "acme"):
        refused = record(folder, workspace, asked(model="own" if workspace == "acme" else "gpt"))["refusal"]
        assert (refused["step"], refused["code"]) == ("limits", "rate_limit_unavailable")
        assert refused["why"].startswith("Redis at ")
