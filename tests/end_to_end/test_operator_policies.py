"""Operators' policies on a running gateway: they refuse calls, lower caps, fail closed and reload with their files."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model, new_key, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.scripts import Received, Script, ordinary, whole
from rig.settings_files import edit, replace
from rig.upstream import Upstream

PATH = "/v1/chat/completions"
CANARY = "quite-private-words"
EXAMPLES = ROOT / "docs" / "examples" / "policies"
STUMBLING = """\
from policies.refusal import Refusal

def review(call):
    if call.last_user_text.startswith("exit"):
        raise SystemExit(call.last_user_text)
    if call.last_user_text.startswith("stumble"):
        int(call.last_user_text)
    if call.last_user_text.startswith("second") and call.is_fallback:
        int(call.last_user_text)
    if call.last_user_text.startswith("quote"):
        raise Refusal("rate_limit_unavailable", call.last_user_text)
"""

type Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    """A gateway with the two policies of the documentation, and one that fails on request."""
    folder = tmp_path_factory.mktemp("policies")
    shutil.copytree(EXAMPLES, folder / "policies", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "policies" / "stumbling.py").write_text(STUMBLING)
    keys = {name: new_key() for name in ("ci", "trial", "free")}
    listed = ((name, key, True) for name, key in keys.items())
    acme = workspace(*listed, default_model="gpt-4o-mini", fallback_model="gpt-4.1")
    made = start_gateway(
        folder=folder,
        models={"gpt-4o-mini": model(), "gpt-4.1": model(upstream_model_id="vendor/other")},
        workspaces={"acme": acme},
        sections={"policies": {"extra": ["house_rules", "short_answers", "stumbling"]}},
    )
    made.keys = keys
    return made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    """Make a call with ``ask("hello", key="ci", stream=True)``."""
    assert upstream.requests == []
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(text: str = "hello", key: str = "free", **body: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
            said = {"messages": [{"role": "user", "content": text}]}
            return client.post(PATH, json=said | body, headers=headers)

        yield send
    assert CANARY not in "\n".join(gateway.stderr_lines)


def capped(upstream: Upstream) -> int:
    return int(upstream.last.json()["max_completion_tokens"])


@pytest.mark.parametrize("stream", [False, True])
def test_a_policy_limits_one_key_to_its_models(ask: Ask, upstream: Upstream, stream: bool) -> None:
    refused = ask(key="ci", model="gpt-4.1", stream=stream)
    error = assert_error(refused, 403, "byok_required", "permission_denied")
    assert (error["message"], error["param"]) == (
        "This key may use these models only: gpt-4o-mini.",
        "model",
    )
    assert upstream.requests == []
    assert ask(key="ci", stream=stream).status_code == 200
    assert ask(model="gpt-4.1", stream=stream).status_code == 200
    assert len(upstream.requests) == 2


def test_a_banned_word_in_any_message_is_refused_without_a_row(
    ask: Ask, gateway: Gateway, upstream: Upstream
) -> None:
    history = [{"role": "assistant", "content": f"PROJECT  Falcon {CANARY}"}, *HELLO]
    for refused in (ask("tell me about Project Falcon"), ask(messages=history)):
        error = assert_error(refused, 400, "validation_failed", "invalid_request_error")
        assert error["param"] == "messages"
        line = gateway.wait_for_log(lambda line, id=refused.headers["x-request-id"]: line.get("id") == id)
        assert (line["event"], line["error_code"]) == ("refusal", "validation_failed")
    assert upstream.requests == []
    answered = ask("projects, and a falcon")
    row = gateway.wait_for_row(answered.headers["x-request-id"])
    assert row["status"] == 200
    assert "validation_failed" not in {row["error_code"] for row in gateway.ledger_rows()}


def test_the_smallest_cap_goes_upstream(ask: Ask, upstream: Upstream) -> None:
    for body, cap in (({}, 256), ({"n": 2}, 128), ({"max_tokens": 300}, 256), ({"max_tokens": 40}, 40)):
        assert ask(key="trial", **body).status_code == 200
        assert capped(upstream) == cap
    assert ask().status_code == 200
    assert capped(upstream) == 16384


FAULTS = {
    "stumble": ("raised ValueError", "int(call.last_user_text)"),
    "exit": ("raised SystemExit", "raise SystemExit(call.last_user_text)"),
    "quote": ("refused with a code that is not for policies", 'raise Refusal("rate_limit_unavailable"'),
}


@pytest.mark.parametrize(
    ("word", "fault", "line"), [(word, *said) for word, said in FAULTS.items()], ids=FAULTS
)
def test_a_failing_policy_refuses_only_its_call_and_is_logged(
    ask: Ask, gateway: Gateway, upstream: Upstream, word: str, fault: str, line: str
) -> None:
    refused = ask(f"{word} {CANARY}")
    assert_error(refused, 500, "internal_error", "api_error")
    assert "stumbling" not in refused.text
    assert upstream.requests == []
    logged = gateway.wait_for_log(
        lambda logged: f'policy "stumbling" {fault}' in str(logged.get("exception"))
    )
    assert (logged["level"], logged["id"]) == ("error", refused.headers["x-request-id"])
    assert str(gateway.folder / "policies" / "stumbling.py") in logged["exception"]
    assert line in logged["exception"]
    assert ask().status_code == 200
    assert len(upstream.requests) == 1


def failing_first(request: Received) -> Script:
    """Fail for the first model and answer for its fallback."""
    if request.json()["model"] == "vendor/other":
        return ordinary(request)
    return whole({"error": {"message": "out of order"}}, 503)


# key, text of the message → status of the answer, number of attempts that reach the provider
SECOND_ATTEMPTS = {
    "let through": ("free", "hello", 200, 2),
    "narrowed": ("trial", "hello", 200, 2),
    "refused: the first failure is the answer": ("ci", "hello", 503, 1),
    "a policy fails": ("free", "second", 500, 1),
}


@pytest.mark.parametrize(("key", "text", "status", "attempts"), SECOND_ATTEMPTS.values(), ids=SECOND_ATTEMPTS)
def test_a_second_attempt_is_reviewed_again(
    ask: Ask, gateway: Gateway, upstream: Upstream, key: str, text: str, status: int, attempts: int
) -> None:
    upstream.behave(failing_first)
    answer = ask(text, key=key)
    assert (answer.status_code, len(upstream.requests)) == (status, attempts)
    row = gateway.wait_for_row(answer.headers["x-request-id"])
    assert (row["status"], row["attempts"], row["fallback"]) == (status, attempts, attempts - 1)
    if key == "trial":
        assert capped(upstream) == 256


@pytest.fixture
def short_answers(gateway: Gateway) -> Iterator[Path]:
    """The file of a policy. A test may edit it; the original is loaded again afterwards."""
    file = gateway.folder / "policies" / "short_answers.py"
    good = file.read_text()
    yield file
    reloads = _reloads(gateway)
    replace(file, good)
    gateway.wait_until(lambda: _reloads(gateway) > reloads)


def test_an_edited_policy_takes_effect_and_a_broken_edit_keeps_the_last_good_one(
    ask: Ask, gateway: Gateway, upstream: Upstream, short_answers: Path
) -> None:
    reloads = _reloads(gateway)
    edit(short_answers, "256", "99")
    gateway.wait_until(lambda: _reloads(gateway) > reloads)
    assert ask(key="trial").status_code == 200
    assert capped(upstream) == 99

    edit(short_answers, "def review(call: ReviewedCall)", "raise SystemExit\n\ndef review()")
    failed = gateway.wait_for_log(lambda line: line["message"].startswith("the settings do not load"))
    assert re.search(r"short_answers\.py: line \d+: raises SystemExit when it is loaded$", failed["message"])
    assert gateway.readiness().json()["checks"]["settings"] in failed["message"]
    assert ask(key="trial").status_code == 200
    assert capped(upstream) == 99


def _reloads(gateway: Gateway) -> int:
    return sum(line["message"].startswith("settings reloaded") for line in gateway.logs)
