"""A fresh clone's first run, and the sandbox that answers it, seen by a newcomer with curl and the openai SDK."""

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from rig.configuration import environment
from rig.gateway import Gateway
from rig.processes import Shipped, run_to_its_end
from rig.upstream import BOUND_S

type Start = Callable[..., Gateway]

CHAT = "/v1/chat/completions"
PROVIDER_KEY = {"OPENAI_API_KEY": "fake-openai-key"}
_KEY = re.compile(r"\btg_[0-9A-Za-z]{40}\b")


def _start(running: ExitStack, folder: Path, **changes: Any) -> Gateway:
    return running.enter_context(Gateway(Shipped(**changes), folder, {}))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start on a fresh clone's files in ``tmp_path``; what an earlier start of the test left there stays."""
    with ExitStack() as running:
        yield lambda **changes: _start(running, tmp_path, **changes)


def _shown_keys(said: str) -> set[str]:
    return set(_KEY.findall(said))


def _curl_line(gateway: Gateway) -> str:
    """The command that the first run shows, once all of it is there."""
    gateway.wait_until(lambda: any("-d '{" in line for line in gateway.stderr_lines))
    said = "\n".join(line for line in gateway.stderr_lines if not line.startswith("{"))
    return said[said.index("  curl ") :].strip()


def _status(gateway: Gateway, key: str, model: str = "sandbox-chat") -> tuple[int, str | None]:
    """What a call with ``key`` gets: the status, and the code of an error."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.post(gateway.url + CHAT, headers=headers, json=body, trust_env=False)
    return answer.status_code, answer.json().get("error", {}).get("code")


def _slugs(gateway: Gateway) -> set[str]:
    return {row["modelSlug"] for row in httpx.get(f"{gateway.url}/v1/models", trust_env=False).json()}


def test_the_first_run_shows_a_curl_line_that_works(start: Start) -> None:
    gateway = start()
    command = _curl_line(gateway)
    assert gateway.url in command
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
    answer = json.loads(done.stdout)
    assert (answer["model"], answer["choices"][0]["finish_reason"]) == ("sandbox-chat", "stop")
    assert "Hello" in answer["choices"][0]["message"]["content"]
    row = gateway.wait_for_row(lambda _row: True)
    assert (row["workspace"], row["key_id"], row["status"], row["mode"]) == ("demo", "demo", 200, "payg")


def test_the_key_is_shown_once_and_stored_nowhere(start: Start, tmp_path: Path) -> None:
    first = start()
    _curl_line(first)
    assert first.stop() == 0
    [key] = _shown_keys("\n".join(first.stderr_lines))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert tmp_path / "policies" / "workspaces" / "demo.toml" in files
    assert [path for path in files if key.encode() in path.read_bytes()] == []

    second = start()
    assert _status(second, key) == (200, None)
    assert second.stop() == 0
    said = "\n".join(second.stderr_lines)
    assert _shown_keys(said) == set()
    assert "curl" not in said


def test_a_first_run_that_fails_has_shown_its_key_all_the_same(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_to_its_end(Shipped(arguments=("--port", port)), tmp_path)
    assert ended.returncode == 1
    assert "can't listen on" in ended.stderr
    [key] = _shown_keys(ended.stderr)
    assert _status(start(), key) == (200, None)


def test_settings_that_do_not_load_make_no_workspace(tmp_path: Path) -> None:
    shipped = Shipped()
    with shipped.write(tmp_path).open("a") as conf:
        conf.write("surprise = 1\n")
    ended = run_to_its_end(shipped, tmp_path)
    assert ended.returncode == 1
    assert "surprise: unknown key" in ended.stderr
    assert _shown_keys(ended.stderr) == set()
    assert not list(tmp_path.rglob("demo.toml"))


def test_with_a_provider_key_there_is_no_sandbox_and_keys_create_makes_the_first_key(
    start: Start, tmp_path: Path
) -> None:
    gateway = start(environment=PROVIDER_KEY)
    assert _shown_keys("\n".join(gateway.stderr_lines)) == set()
    assert any("./run.sh keys create NAME --new" in line for line in gateway.stderr_lines)
    assert "gpt-4o-mini" in _slugs(gateway)
    assert not any(slug.startswith("sandbox-") for slug in _slugs(gateway))

    key = _tollgate(tmp_path, "keys", "create", "acme", "--new").strip()
    gateway.wait_for_log(lambda line: line["message"].startswith("settings reloaded"))
    gateway.wait_until(lambda: _status(gateway, key) == (400, "invalid_state"))
    assert not list(tmp_path.rglob("demo.toml"))

    _tollgate(tmp_path, "keys", "revoke", "acme", "key-1")
    gateway.wait_until(lambda: _status(gateway, key) == (401, "invalid_api_key"))


def _tollgate(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "addon.cli", *arguments, "--conf", str(folder / "proxy.conf")]
    done = subprocess.run(
        command, env=environment({}), capture_output=True, text=True, check=True, timeout=BOUND_S
    )
    return done.stdout


def test_a_provider_key_after_the_first_run_ends_the_sandbox_and_no_more(start: Start) -> None:
    first = start()
    _curl_line(first)
    [key] = _shown_keys("\n".join(first.stderr_lines))
    assert "sandbox-chat" in _slugs(first)
    assert first.stop() == 0
    second = start(environment=PROVIDER_KEY)
    assert _status(second, key) == (400, "invalid_state")
    assert "sandbox-chat" not in _slugs(second)


# The sandbox through the gateway.


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway after its first run, with the demo workspace's key as its client's."""
    with ExitStack() as running:
        gateway = _start(running, tmp_path_factory.mktemp("clone"))
        _curl_line(gateway)
        [key] = _shown_keys("\n".join(gateway.stderr_lines))
        yield gateway
        assert gateway.stop() == 0
        assert "\n".join(line for line in gateway.stderr_lines if line.startswith("{")).count(key) == 0


@pytest.fixture
def sdk(newcomer: Gateway) -> Iterator[OpenAI]:
    [key] = _shown_keys("\n".join(newcomer.stderr_lines))
    with OpenAI(base_url=f"{newcomer.url}/v1", api_key=key, max_retries=0, timeout=BOUND_S) as made:
        yield made


def _ask(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "sandbox-chat", "messages": [{"role": "user", "content": text}]} | more


def _retail_nanousd(row: dict[str, Any]) -> int:
    """sandbox-chat's prices in the catalog, with the 4% markup, in nano-USD a token."""
    cached = row["cached_tokens"] or 0
    return (row["prompt_tokens"] - cached) * 156 + cached * 78 + row["completion_tokens"] * 624


def test_a_whole_answer_with_cached_tokens(newcomer: Gateway, sdk: OpenAI) -> None:
    messages = [
        {"role": "system", "content": "Be brief and kind"},
        {"role": "user", "content": "Hello there"},
    ]
    raw = sdk.chat.completions.with_raw_response.create(**_ask("", messages=messages))
    answer = raw.parse()
    assert answer.model == "sandbox-chat"
    assert "Hello there" in (answer.choices[0].message.content or "")
    usage = answer.usage
    assert usage
    assert usage.prompt_tokens_details
    assert usage.prompt_tokens_details.cached_tokens == 4
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    told = {
        name: row[name] for name in ("status", "stream", "cached_tokens", "usage_source", "prompt_tokens")
    }
    assert told == {
        "status": 200,
        "stream": 0,
        "cached_tokens": 4,
        "usage_source": "provider",
        "prompt_tokens": usage.prompt_tokens,
    }
    assert row["retail_nanousd"] == _retail_nanousd(row) > 0


def test_a_streamed_answer_says_the_same_as_a_whole_one(newcomer: Gateway, sdk: OpenAI) -> None:
    whole = sdk.chat.completions.create(**_ask("Tell me more"))
    raw = sdk.chat.completions.with_raw_response.create(
        **_ask("Tell me more", stream=True, stream_options={"include_usage": True})
    )
    chunks = list(raw.parse())
    assert {chunk.model for chunk in chunks} == {"sandbox-chat"}
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    assert (row["status"], row["stream"], row["usage_source"]) == (200, 1, "provider")
    assert row["retail_nanousd"] == _retail_nanousd(row) > 0


WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_call(newcomer: Gateway, sdk: OpenAI, stream: bool) -> None:
    request = _ask("Please use get_weather", tools=[WEATHER])
    if stream:
        with sdk.chat.completions.stream(**request) as events:
            answer: Any = events.get_final_completion()
    else:
        answer = sdk.chat.completions.create(**request)
    [call] = answer.choices[0].message.tool_calls or []
    assert (answer.choices[0].finish_reason, call.function.name) == ("tool_calls", "get_weather")
    assert "city" in json.loads(call.function.arguments)


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_text(newcomer: Gateway, sdk: OpenAI, stream: bool) -> None:
    raw = sdk.chat.completions.with_raw_response.create(
        **_ask("Think", model="sandbox-reasoner", stream=stream)
    )
    answer = raw.parse()
    messages = (
        [part.choices[0].delta for part in answer if part.choices] if stream else [answer.choices[0].message]
    )
    reasoning = "".join(getattr(message, "reasoning_content", None) or "" for message in messages)
    assert reasoning
    assert "Think" in "".join(message.content or "" for message in messages)
    assert newcomer.wait_for_row(raw.headers["x-request-id"])["reasoning_tokens"] > 0


def test_an_error_of_a_chosen_status(newcomer: Gateway, sdk: OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as refused:
        sdk.chat.completions.create(**_ask("[[status:429]]"))
    assert (refused.value.code, refused.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    row = newcomer.wait_for_row(str(refused.value.request_id))
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (429, "rate_limit_exceeded", 0)


def test_a_connection_dropped_before_the_answer_is_whole(newcomer: Gateway, sdk: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as broken:
        sdk.chat.completions.create(**_ask("[[drop]] Hello"))
    assert (broken.value.status_code, broken.value.code) == (502, "upstream_error")
    row = newcomer.wait_for_row(str(broken.value.request_id))
    assert (row["status"], row["error_code"], row["retail_nanousd"]) == (502, "upstream_error", 0)


def test_an_error_in_place_of_an_answer(newcomer: Gateway, sdk: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as broken:
        sdk.chat.completions.create(**_ask("[[error-200]] Hello"))
    row = newcomer.wait_for_row(str(broken.value.request_id))
    assert (row["status"], row["error_code"]) == (broken.value.status_code, "upstream_error")


@pytest.mark.parametrize("directive", ["[[drop]]", "[[error-in-stream]]"])
def test_a_stream_that_breaks_ends_in_an_error_event(newcomer: Gateway, sdk: OpenAI, directive: str) -> None:
    raw = sdk.chat.completions.with_raw_response.create(**_ask(f"{directive} one two three", stream=True))
    with pytest.raises(openai.APIError) as broken:
        list(raw.parse())
    assert broken.value.code == "upstream_error"
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    assert (row["stream"], row["error_code"], row["usage_source"]) == (1, "upstream_error", "estimated")
    assert row["retail_nanousd"] > 0


def test_tokens_without_any_text_are_explained(newcomer: Gateway, sdk: OpenAI) -> None:
    raw = sdk.chat.completions.with_raw_response.create(**_ask("[[silent]] Hello"))
    answer = raw.parse()
    assert answer.usage
    assert answer.usage.completion_tokens > 0
    assert not answer.choices[0].message.content
    assert getattr(answer.choices[0].message, "reasoning_content", None)
    row = newcomer.wait_for_row(raw.headers["x-request-id"])
    assert row["completion_tokens"] == answer.usage.completion_tokens
    assert row["retail_nanousd"] == _retail_nanousd(row) > 0


@pytest.mark.parametrize("directive", ["[[no-done]]", "[[no-usage]]"])
def test_a_stream_without_its_end_or_its_usage(newcomer: Gateway, sdk: OpenAI, directive: str) -> None:
    raw = sdk.chat.completions.with_streaming_response.create(**_ask(f"{directive} Hello", stream=True))
    with raw as answer:
        assert answer.read().endswith(b"data: [DONE]\n\n")
    row = newcomer.wait_for_row(answer.headers["x-request-id"])
    source = "estimated" if directive == "[[no-usage]]" else "provider"
    assert (row["status"], row["usage_source"]) == (200, source)
