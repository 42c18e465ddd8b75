"""The first run of a fresh clone."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import environment
from rig.gateway import Gateway
from rig.large import large_only
from rig.money import USD, select
from rig.processes import Shipped, curl_line, run_to_its_end, shown_keys
from rig.settings_files import edit
from rig.upstream import Upstream

from addon.settings.first_run import DEMO, WELCOME_NANOUSD, WELCOME_REFERENCE
from addon.settings.settings import load_conf
from addon.store.money.wallet import make_credit, save_entry

type Start = Callable[..., Gateway]

CHAT = "/v1/chat/completions"
PROVIDER_KEY = {"OPENAI_API_KEY": "fake-openai-key"}


def _start(running: ExitStack, folder: Path, **changes: Any) -> Gateway:
    return running.enter_context(Gateway(Shipped(**changes), folder, {}))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a gateway on the files of a fresh clone in ``tmp_path``. A second start keeps the files of the first."""
    with ExitStack() as running:
        yield lambda **changes: _start(running, tmp_path, **changes)


def _status(gateway: Gateway, key: str, model: str = "sandbox-chat") -> tuple[int, str | None]:
    """Return the status of a call with ``key``, and the code of an error."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.post(gateway.url + CHAT, headers=headers, json=body, timeout=BOUND_S, trust_env=False)
    return answer.status_code, answer.json().get("error", {}).get("code")


def _run_curl(command: str) -> dict[str, Any]:
    """Run what the first run shows, as it stands, and return the answer."""
    if shutil.which("curl") is None:
        pytest.skip("this machine has no curl")
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment({}),
        capture_output=True,
        text=True,
        check=True,
        timeout=BOUND_S,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _slugs(gateway: Gateway) -> set[str]:
    return {
        row["modelSlug"]
        for row in httpx.get(f"{gateway.url}/v1/models", timeout=BOUND_S, trust_env=False).json()
    }


def test_the_first_run_shows_a_curl_line_that_works(start: Start) -> None:
    gateway = start()
    command = curl_line(gateway)
    assert gateway.url in command
    answer = _run_curl(command)
    assert (answer["model"], answer["choices"][0]["finish_reason"]) == ("sandbox-chat", "stop")
    assert "Hello" in answer["choices"][0]["message"]["content"]
    row = gateway.wait_for_row(lambda _row: True)
    assert (row["workspace"], row["key_id"], row["status"], row["mode"]) == ("demo", "demo", 200, "payg")


def test_the_first_run_makes_a_master_key_once(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "var" / "master.keys"
    first = start()
    assert first.stop() == 0
    made, said = file.read_text(), "\n".join(first.stderr_lines)
    assert (file.stat().st_mode & 0o777, said.count(str(file))) == (0o600, 1)
    second = start()
    assert second.stop() == 0
    assert file.read_text() == made
    assert str(file) not in "\n".join(second.stderr_lines)
    assert made.strip() not in said


def test_the_key_is_shown_once_and_stored_nowhere(start: Start, tmp_path: Path) -> None:
    first = start()
    curl_line(first)
    assert first.stop() == 0
    [key] = shown_keys("\n".join(first.stderr_lines))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert tmp_path / "policies" / "workspaces" / "demo.toml" in files
    assert [path for path in files if key.encode() in path.read_bytes()] == []

    second = start()
    assert _status(second, key) == (200, None)
    assert second.stop() == 0
    said = "\n".join(second.stderr_lines)
    assert shown_keys(said) == set()
    assert "curl" not in said


def _credits(folder: Path) -> list[tuple[str, str, int]]:
    entries = select(folder / "var" / "tollgate.db", "SELECT * FROM wallet_entries WHERE reference <> 'call'")
    return [(entry["workspace"], entry["reference"], entry["amount_nanousd"]) for entry in entries]


FIVE_DOLLARS = ("demo", "first run", 5 * USD)


def test_the_first_workspace_has_five_dollars_once(start: Start, tmp_path: Path) -> None:
    first = start()
    curl_line(first)
    [key] = shown_keys("\n".join(first.stderr_lines))
    assert _status(first, key) == (200, None)
    row = first.wait_for_row(lambda _row: True)
    assert first.stop() == 0
    assert start().stop() == 0
    assert _credits(tmp_path) == [FIVE_DOLLARS]
    [balance] = json.loads(_tollgate(tmp_path, "wallet", "balance", "demo", "--json"))
    assert balance["balance_nanousd"] == 5 * USD - row["retail_nanousd"]


@large_only
def test_deleting_the_first_workspace_brings_a_new_key_and_no_new_money(start: Start, tmp_path: Path) -> None:
    assert start().stop() == 0
    assert save_entry(load_conf(tmp_path / "proxy.conf"), make_credit(DEMO, -4_990_000_000, "spent"))
    (tmp_path / "policies" / "workspaces" / "demo.toml").unlink()
    second = start()
    assert len(shown_keys("\n".join(second.stderr_lines))) == 1
    assert _credits(tmp_path) == [FIVE_DOLLARS, ("demo", "spent", -4_990_000_000)]


def test_the_next_first_run_completes_one_that_died_after_the_credit(start: Start, tmp_path: Path) -> None:
    conf = load_conf(Shipped().write(tmp_path))
    assert save_entry(conf, make_credit(DEMO, WELCOME_NANOUSD, WELCOME_REFERENCE))
    gateway = start()
    [key] = shown_keys("\n".join(gateway.stderr_lines))
    assert _status(gateway, key) == (200, None)
    assert _credits(tmp_path) == [FIVE_DOLLARS]


def test_no_workspace_is_made_if_the_credit_fails(tmp_path: Path) -> None:
    shipped = Shipped()
    shipped.write(tmp_path)
    (tmp_path / "var" / "tollgate.db").mkdir(parents=True)
    ended = run_to_its_end(shipped, tmp_path)
    assert ended.returncode == 1
    assert "tollgate.db: can't be opened" in ended.stderr
    assert shown_keys(ended.stderr) == set()
    assert not list(tmp_path.rglob("demo.toml"))


@large_only
def test_a_first_run_that_fails_later_has_shown_its_key(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_to_its_end(Shipped(arguments=("--port", port)), tmp_path)
    assert ended.returncode == 1
    assert "can't listen on" in ended.stderr
    [key] = shown_keys(ended.stderr)
    assert _status(start(), key) == (200, None)


def test_no_workspace_is_made_if_the_settings_do_not_load(tmp_path: Path) -> None:
    shipped = Shipped()
    with shipped.write(tmp_path).open("a") as conf:
        conf.write("surprise = 1\n")
    ended = run_to_its_end(shipped, tmp_path)
    assert ended.returncode == 1
    assert "surprise: unknown key" in ended.stderr
    assert shown_keys(ended.stderr) == set()
    assert not list(tmp_path.rglob("demo.toml"))


def _call_openai_at(folder: Path, upstream: Upstream) -> None:
    """Let the catalog of a fresh clone name ``upstream`` as OPENAI."""
    Shipped().write(folder)
    edit(folder / "catalog_data" / "providers.toml", "https://api.openai.com/v1", upstream.base_url)


def test_with_a_provider_key_the_first_run_calls_that_provider(
    start: Start, tmp_path: Path, upstream: Upstream
) -> None:
    _call_openai_at(tmp_path, upstream)
    gateway = start(environment=PROVIDER_KEY)
    answer = _run_curl(curl_line(gateway))
    row = gateway.wait_for_row(lambda _row: True)
    assert (row["workspace"], row["provider"], row["status"]) == ("demo", "OPENAI", 200)
    assert answer["model"] == row["model_slug"]
    assert any(f"{answer['model']} of OPENAI" in line for line in gateway.stderr_lines)
    assert not any(slug.startswith("sandbox-") for slug in _slugs(gateway))
    unset = [line for line in gateway.stderr_lines if "platform_key_unset" in line]
    assert len(unset) == 1
    assert "ANTHROPIC_API_KEY, GEMINI_API_KEY" in unset[0]
    assert _credits(tmp_path) == [FIVE_DOLLARS]
    # This shell has no key.
    assert re.search(r"on platform keys: \d+ \(OPENAI \d+\)", _tollgate(tmp_path, "check"))
    assert gateway.stop() == 0
    assert "this shell's; no gateway runs" in _tollgate(tmp_path, "check")


@large_only
def test_without_a_model_to_answer_there_is_no_demo_and_keys_create_makes_the_first_key(
    start: Start, tmp_path: Path
) -> None:
    edit(Shipped().write(tmp_path), 'enabled = "auto"', "enabled = false")
    gateway = start()
    assert shown_keys("\n".join(gateway.stderr_lines)) == set()
    assert any("./run.sh keys create NAME --new" in line for line in gateway.stderr_lines)

    key = _tollgate(tmp_path, "keys", "create", "acme", "--new").strip()
    gateway.wait_for_log(lambda line: line["message"].startswith("settings reloaded"))
    gateway.wait_until(lambda: _status(gateway, key, "gpt-4o-mini") == (403, "byok_required"))
    assert not list(tmp_path.rglob("demo.toml"))
    assert _credits(tmp_path) == []

    _tollgate(tmp_path, "keys", "revoke", "acme", "key-1")
    gateway.wait_until(lambda: _status(gateway, key) == (401, "invalid_api_key"))


def _tollgate(folder: Path, *arguments: str) -> str:
    done = tollgate(folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@large_only
def test_a_provider_key_after_the_first_run_moves_the_demo_to_that_provider(
    start: Start, tmp_path: Path, upstream: Upstream
) -> None:
    _call_openai_at(tmp_path, upstream)
    first = start()
    command = curl_line(first)
    assert "sandbox-chat" in _slugs(first)
    assert first.stop() == 0
    second = start(environment=PROVIDER_KEY)
    said = "\n".join(second.stderr_lines)
    assert 'The workspace "demo" called sandbox-chat' in said
    assert "model_unserved" not in said
    answer = _run_curl(command.replace(first.url, second.url))
    assert answer["model"] in _slugs(second)
    assert second.wait_for_row(lambda row: row["provider"] == "OPENAI")["status"] == 200
