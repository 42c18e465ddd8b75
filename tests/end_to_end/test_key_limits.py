"""A key's models, its expiry and its previous secret, in a running gateway."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import tomlkit
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.configuration import key_hash, model, new_key, provider, workspace
from rig.error_answers import assert_error
from rig.gateway import Gateway
from rig.large import sampled
from rig.scripts import completion, whole
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
NAMES = ("plain", "narrow", "default", "outside", "custom", "fallback", "both", "old", "capped", "capped-old")
CUSTOMER_KEY = "fake-customer-key-" + "1" * 24
LATER = datetime(2100, 1, 1, tzinfo=UTC)
RULES = [{"keywords": ["sql"], "model": "tester-small"}]
OWN = {"OWN": {"secret": "env:TEST_CUSTOMER_KEY", "routing": True}}

type Ask = Callable[..., httpx.Response]


def of_keys(keys: dict[str, str], *names: str, **changes: dict[str, Any]) -> list[dict[str, Any]]:
    tables = workspace(*((name, keys[name], True) for name in names))["keys"]
    return [table | changes.get(table["id"], {}) for table in tables]


@pytest.fixture(scope="module")
def gateway(start_gateway: StartGateway, upstreams: dict[str, Any], tmp_path_factory: Any) -> Gateway:
    keys = {name: new_key() for name in NAMES}
    base = upstreams["TESTER"].base_url
    tables: dict[str, dict[str, Any]] = {
        "acme": {
            "default_model": "tester-large",
            "fallback_model": "tester-small",
            "rules": RULES,
            "keys": of_keys(
                keys,
                *("plain", "narrow", "fallback", "default"),
                default={"models": ["tester-small"]},
                narrow={"models": ["tester-l*"]},
                fallback={"models": ["tester-*"]},
            ),
        },
        "byok": {
            "byok": OWN,
            "keys": of_keys(
                keys,
                *("outside", "custom"),
                outside={"models": ["own-model"]},
                custom={"models": ["own/*"]},
            ),
        },
        "rotated": {
            "default_model": "tester-large",
            "keys": of_keys(
                keys,
                *("both", "capped"),
                both={"previous_hash": key_hash(keys["old"]), "previous_until": LATER},
                capped={
                    "previous_hash": key_hash(keys["capped-old"]),
                    "previous_until": LATER,
                    "spend_cap_usd": "0.01",
                    "request_cap": 3,
                },
            ),
        },
    }
    made = start_gateway(
        folder=tmp_path_factory.mktemp("keys"),
        providers={"TESTER": provider(base), "OWN": provider(base)},
        models={
            "tester-large": model(),
            "tester-small": model(),
            "own-model": model(provider="OWN", byok_only=True),
            "own-other": model(provider="OWN", byok_only=True),
        },
        workspaces={name: workspace() | table for name, table in tables.items()},
        environment={"TEST_CUSTOMER_KEY": CUSTOMER_KEY},
    )
    made.keys = keys
    return made


@pytest.fixture
def ask(gateway: Gateway, upstream: Upstream) -> Iterator[Ask]:
    """Make a call: ``ask("narrow", "tester-large", stream=True)``."""
    assert upstream.requests == []
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def send(key: str, name: str | None = None, text: str | None = None, **body: Any) -> httpx.Response:
            messages = HELLO if text is None else [{"role": "user", "content": text}]
            named = {} if name is None else {"model": name}
            headers = {"Authorization": f"Bearer {gateway.keys[key]}"}
            return client.post(CHAT, json={"messages": messages} | named | body, headers=headers)

        yield send


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("key", "name", "text"),
    [
        ("narrow", "tester-large", None),
        ("narrow", " TESTER-LARGE", None),
        ("narrow", None, None),
        ("narrow", "a hint", None),
        ("plain", "tester-small", None),
        ("default", "tester-small", None),
        ("default", None, "some sql"),
        ("outside", "own-model", None),
        ("custom", "own/vendor-new", None),
        ("custom", "OWN/vendor-new", None),
    ],
)
def test_a_model_of_the_key_is_served(
    ask: Ask, key: str, name: str | None, text: str | None, stream: bool
) -> None:
    assert ask(key, name, text, stream=stream).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("key", "name", "text", "param", "message"),
    [
        ("narrow", "tester-small", None, "model", "may not use 'tester-small': it may use tester-l*."),
        (
            "narrow",
            None,
            "some sql",
            None,
            "file chose 'tester-small' (rule 1), which this API key may not use",
        ),
        ("narrow", "tester-large", "some sql", None, "file chose 'tester-small' (rule 1)"),
        ("default", None, None, None, "file chose 'tester-large' (default), which this API key may not use"),
        ("default", "a hint", None, None, "file chose 'tester-large' (default)"),
        ("outside", "own-other", None, "model", "may not use 'own-other': it may use own-model."),
        ("outside", "own/vendor-new", None, "model", "may not use that model: it may use own-model."),
        ("custom", "own-model", None, "model", "may not use 'own-model': it may use own/*."),
    ],
)
def test_any_other_model_is_refused(
    ask: Ask,
    upstream: Upstream,
    gateway: Gateway,
    key: str,
    name: str | None,
    text: str | None,
    param: str | None,
    message: str,
    stream: bool,
) -> None:
    answer = ask(key, name, text, stream=stream)
    error = assert_error(answer, 403, "byok_required", "permission_denied")
    assert error["param"] == param
    assert message in error["message"]
    assert upstream.requests == []
    line = gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    assert (line["event"], line["key_id"], line["error_code"]) == ("refusal", key, "byok_required")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("key", "attempts"), [("plain", 2), ("fallback", 2), ("narrow", 1)])
def test_a_fallback_outside_the_models_of_the_key_is_skipped(
    ask: Ask, upstream: Upstream, key: str, attempts: int, stream: bool
) -> None:
    upstream.behave(whole({"error": {"message": "down"}}, status=503))
    assert ask(key, "tester-large", stream=stream).status_code == 503
    assert len(upstream.requests) == attempts
    upstream.behave(whole(completion()))
    assert ask(key, "tester-large").status_code == 200  # The circuit forgets the failures.


def test_both_secrets_of_a_rotated_key_are_one_key(ask: Ask, gateway: Gateway) -> None:
    for secret in ("both", "old"):
        row = gateway.wait_for_row(ask(secret).headers["x-request-id"])
        assert (row["workspace"], row["key_id"], row["status"]) == ("rotated", "both", 200)
    line = gateway.wait_for_log(lambda line: line.get("event") == "previous secret used")
    assert (line["workspace"], line["key_id"], line["level"]) == ("rotated", "both", "warning")
    page = httpx.get(f"{gateway.admin_url}/metrics", timeout=BOUND_S, trust_env=False).text
    assert "tollgate_previous_secret_calls_total " in page
    assert "tollgate_previous_secret_calls_total 0.0" not in page


def test_the_caps_of_a_rotated_key_count_the_calls_of_both_secrets(ask: Ask, gateway: Gateway) -> None:
    spent = 0
    for secret in ("capped", "capped-old", "capped"):
        row = gateway.wait_for_row(ask(secret, max_tokens=10).headers["x-request-id"])
        spent += row["retail_nanousd"]
    assert spent > 0
    for secret in ("capped", "capped-old"):
        assert_error(ask(secret), 429, "rate_limit_exceeded", "rate_limit_error")


def _edit(file: Path, **changes: Any) -> None:
    """Change the first key of a workspace file."""
    table = tomlkit.parse(file.read_text())
    table["keys"][0].update(changes)  # type: ignore[index, union-attr]
    file.write_text(tomlkit.dumps(table))


def _reloads(gateway: Gateway) -> int:
    return sum(line["message"].startswith("settings reloaded") for line in gateway.logs)


@sampled(every=2)
@pytest.mark.parametrize("field", ["expires_at", "previous_until"])
def test_a_secret_ends_at_its_moment_without_a_reload(
    start_gateway: StartGateway, tmp_path: Path, upstream: Upstream, field: str
) -> None:
    """The file is read while the secret is good, and never again."""
    assert upstream.requests == []
    gateway = start_gateway(folder=tmp_path)
    file, ended = tmp_path / "policies" / "workspaces" / "acme.toml", gateway.key
    with httpx.Client(
        base_url=gateway.url, headers=gateway.headers, timeout=BOUND_S, trust_env=False
    ) as client:
        assert client.post(CHAT, json={"messages": HELLO}).status_code == 200
        moment = datetime.now(UTC) + timedelta(seconds=3)
        changes: dict[str, Any] = {field: moment}
        if field == "previous_until":
            changes |= {"previous_hash": key_hash(ended), "hash": key_hash(new_key())}
        before = _reloads(gateway)
        _edit(file, **changes)
        gateway.wait_until(lambda: client.post(CHAT, json={"messages": HELLO}).status_code == 401)
        assert datetime.now(UTC) >= moment
        assert _reloads(gateway) == before + 1
        ended_answer = client.post(CHAT, json={"messages": HELLO})
        unknown = client.post(
            CHAT, json={"messages": HELLO}, headers={"Authorization": f"Bearer {new_key()}"}
        )
    assert ended_answer.json() == unknown.json()
    varying = {"x-request-id", "date"}
    assert ended_answer.headers.keys() == unknown.headers.keys()
    assert {k: v for k, v in ended_answer.headers.items() if k not in varying} == {
        k: v for k, v in unknown.headers.items() if k not in varying
    }
    line = gateway.wait_for_log(lambda line: line.get("event") == "key refused")
    reason = "expired at" if field == "expires_at" else "had this secret until"
    assert (line["workspace"], line["key_id"]) == ("acme", "ci")
    assert line["reason"].startswith(reason)
    refusal = gateway.wait_for_log(lambda line: line.get("id") == ended_answer.headers["x-request-id"])
    assert (refusal["event"], refusal["workspace"], refusal["key_id"]) == ("refusal", "acme", "ci")
    assert gateway.stop() == 0
    gateway.assert_no_secret_logged()


def test_a_key_keeps_its_counters_over_two_rotations_by_command(
    start_gateway: StartGateway, tmp_path: Path, upstream: Upstream
) -> None:
    gateway = start_gateway(folder=tmp_path)
    _edit(tmp_path / "policies" / "workspaces" / "acme.toml", request_cap=4)
    secrets = [gateway.key]

    def rotate(*words: str) -> str:
        ended = tollgate(tmp_path, "keys", "rotate", "acme", "ci", *words)
        assert ended.returncode == 0, ended.stderr
        secrets.append(ended.stdout.strip())
        gateway.keys = {str(number): secret for number, secret in enumerate(secrets)}
        return secrets[-1]

    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:

        def call(secret: str) -> int:
            headers = {"Authorization": f"Bearer {secret}"}
            return client.post(CHAT, json={"messages": HELLO}, headers=headers).status_code

        gateway.wait_until(lambda: _reloads(gateway) == 1)
        assert call(secrets[0]) == 200
        second = rotate()
        gateway.wait_until(lambda: call(second) == 200)
        assert call(secrets[0]) == 200
        # After a leak.
        third = rotate("--grace", "0")
        gateway.wait_until(lambda: call(third) == 200)
        assert [call(secret) for secret in secrets] == [401, 401, 429]
    assert len(upstream.requests) == 4
    assert gateway.stop() == 0
    gateway.assert_no_secret_logged()
