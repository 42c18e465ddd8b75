"""Each secret that a gateway holds or receives appears where it must, and nowhere else.

One gateway works with all secrets. Its providers repeat their key wherever they can, its clients send their key in
every field, and its operators write secrets in the wrong place. Then the tests search all output.
"""

import json
import re
import shutil
import socket
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from click.testing import CliRunner
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.canaries import Canaries, all_files_seen, seen_in_answer, seen_in_files
from rig.canary_scene import (
    BARE,
    CANARIES,
    CHAT,
    CLIENT_HEADERS,
    CONSOLE,
    DIALECTS,
    KEYS,
    MASTER,
    MESSAGES,
    NOSY,
    NOT_CONSOLE,
    OTHER_MASTER,
    PLANTED,
    PROMPT,
    PROVIDER_SECRETS,
    REDIS,
    STRANGER,
    SWAPPED,
    Scene,
    configuration,
    token_answer,
)
from rig.configuration import Configuration
from rig.leaky import Leaks, leaks_of_answers, leaks_of_streams
from rig.leaky_errors import WIRE, leaks_of_errors
from rig.processes import run_to_its_end
from rig.raw_clients import RawClient, request_bytes
from rig.scripts import completion, whole
from rig.upstream import Upstream

from addon.cli import main
from addon.settings.sealed_secrets import MasterKeys


@pytest.fixture(scope="module")
def scene(start_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder, secrets = tmp_path_factory.mktemp("gateway"), tmp_path_factory.mktemp("secrets")
    (folder / "policies").mkdir()
    (folder / "policies" / "nosy.py").write_text(NOSY)
    with ExitStack() as running:
        providers = {name: running.enter_context(Upstream()) for name in DIALECTS}
        tokens = running.enter_context(Upstream())
        tokens.behave(token_answer)
        settings = configuration(providers, tokens, secrets)
        gateway = start_gateway(folder, **settings)
        gateway.keys = KEYS
        written = {file: file.read_bytes() for file in folder.rglob("*.toml")} | {
            file: file.read_bytes() for file in (folder / "proxy.conf", folder / "policies" / "nosy.py")
        }
        client = httpx.Client(base_url=gateway.url, headers=CLIENT_HEADERS, timeout=BOUND_S, trust_env=False)
        running.enter_context(client)
        yield Scene(gateway, providers, tokens, client, written, settings)


@pytest.fixture(autouse=True)
def no_leak(scene: Scene) -> Iterator[None]:
    scene.leaks.clear()
    yield
    assert not scene.leaks, "\n".join(scene.leaks)
    for upstream in (*scene.providers.values(), scene.tokens):
        assert upstream.failures == []


# --- the key of each provider --------------------------------------------------------------------------------


def test_each_secret_is_sent_to_its_own_provider(scene: Scene) -> None:
    scene.used.clear()
    for stream in (False, True):
        for name in DIALECTS:
            assert scene.call("solo", name.lower(), stream=stream).status_code == 200
        for name in ("alpha", "beta", "gamma"):
            assert scene.call("own", name, stream=stream).status_code == 200
    assert scene.used == PROVIDER_SECRETS.keys()


def test_the_secrets_of_a_rotated_and_of_an_expired_key_are_shown_nowhere(scene: Scene) -> None:
    assert scene.call("former", "alpha").status_code == 200
    assert scene.call("ended", "alpha").status_code == 401
    for event, key_id in (("previous secret used", "solo"), ("key refused", "ended")):
        scene.gateway.wait_for_log(
            lambda line, event=event, key_id=key_id: (
                (line.get("event"), line.get("key_id")) == (event, key_id)
            )
        )


FAILING: Leaks = leaks_of_errors("openai")
HOPS = {
    ("hops", "alpha"): [("ALPHA", "platform"), ("BETA", "platform")],
    ("hops", "delta"): [("BETA", "platform"), ("DELTA", "platform")],
    ("onward", "beta"): [("BETA", "platform"), ("GAMMA", "platform")],
    ("mixed", "gamma"): [("BETA", "customer"), ("GAMMA", "platform")],
    ("net", "alpha"): [("ALPHA", "customer"), ("ALPHA", "platform")],
    ("net", "beta"): [("BETA", "customer"), ("BETA", "platform")],
    ("net", "gamma"): [("GAMMA", "customer"), ("GAMMA", "platform")],
}
MENDING = {("solo", "alpha"), ("solo", "beta"), ("solo", "gamma"), ("mixed", "beta")}
"""Calls that close the circuits of the providers, so that the next attempts reach them."""


@pytest.mark.parametrize(("client", "slug"), HOPS)
def test_a_second_attempt_sends_only_its_own_secret(scene: Scene, client: str, slug: str) -> None:
    for name in ("401", "500", "200, message"):
        for always in (False, True):
            stream = always != (name == "500")
            answer = scene.call(client, slug, (name, FAILING[name]), always=always, stream=stream)
            assert answer.is_success is not always
            assert sorted(scene.took) == HOPS[client, slug]
        assert {scene.call(*healthy).status_code for healthy in {(client, slug), *MENDING}} == {200}


# --- providers that repeat a key------------------------------------------------------------------------------


def leaks_of(dialect: str) -> Leaks:
    return {**leaks_of_answers(dialect), **leaks_of_streams(dialect), **leaks_of_errors(dialect)}


@pytest.mark.parametrize("slug", ["alpha", "beta", "gamma"])
def test_a_key_that_its_provider_repeats_is_masked(scene: Scene, slug: str) -> None:
    for name, leak in leaks_of(DIALECTS[slug.upper()]).items():
        for client, stream in (("solo", name.startswith("stream")), ("own", not name.startswith("stream"))):
            scene.call(client, slug, (name, leak), stream=stream)
            assert len(scene.took) == 1


def test_an_access_token_that_its_provider_repeats_is_masked(scene: Scene) -> None:
    for name, leak in {**leaks_of_answers("openai"), **FAILING}.items():
        scene.call("solo", "delta", (name, leak), stream=name.startswith("stream"))
        assert len(scene.took) == 1


def test_a_key_in_the_providers_headers_reaches_no_client(scene: Scene) -> None:
    headers = [("Authorization", f"Bearer {KEYS['solo']}"), ("Connection", "close"), *CLIENT_HEADERS.items()]
    for (name, leak), stream in product(WIRE.items(), (False, True)):
        scene.prepare(leak)
        body = json.dumps({"model": "alpha", "messages": MESSAGES, "stream": stream}).encode()
        # Read as raw bytes, because HTTP clients hide early hints and trailers.
        with RawClient(scene.gateway.url) as client:
            client.send(request_bytes("POST", CHAT, headers, body))
            scene.look(f"{name}: answer", client.read_to_close())
        assert scene.providers["ALPHA"].requests


def test_a_token_request_is_not_logged(scene: Scene) -> None:
    scene.tokens.requests.clear()
    assert scene.call("solo", "epsilon").status_code == 502
    (request,) = scene.tokens.requests
    scene.look("head for a token", f"{request.target} {request.headers}".encode())
    scene.look("body for a token", request.body)
    # The signature is the secret part: without it, no one can get a token.
    signature = Canaries({"signature": parse_qs(request.body.decode())["assertion"][0].rpartition(".")[2]})
    assert signature.found_in(request.body)
    assert not signature.found_in("\n".join(scene.gateway.stderr_lines).encode())


# --- clients that send their key------------------------------------------------------------------------------

KEY = KEYS["solo"]
ITS_KEY = {"client key solo"}

SAID: dict[str, dict[str, Any]] = {
    "user": {"user": KEY},
    "a part of user": {"user": f"me:{KEY}"},
    "model": {"model": KEY},
    "model at a provider": {"model": f"alpha/{KEY}"},
    "role": {"messages": [{"role": KEY, "content": PROMPT}]},
    "name": {"messages": [{"role": "user", "name": KEY, "content": PROMPT}]},
    "content's type": {"messages": [{"role": "user", "content": [{"type": KEY, "text": PROMPT}]}]},
    "message's field": {"messages": [{"role": "user", "content": PROMPT, KEY: KEY}]},
    "field": {KEY: KEY},
    "stop": {"stop": [KEY]},
    "temperature": {"temperature": KEY},
    "n": {"n": KEY},
    "tool": {"tools": [{"type": "function", "function": {"name": KEY, "parameters": {KEY: KEY}}}]},
    "tool's type": {"tools": [{"type": KEY}]},
    "tool choice": {"tool_choice": KEY},
    "response format": {"response_format": {"type": KEY}},
    "logit bias": {"logit_bias": {KEY: KEY}},
    "effort": {"reasoning_effort": KEY},
}


@pytest.mark.parametrize("slug", ["alpha", "beta", "gamma"])
def test_a_key_in_a_field_of_a_request_is_in_no_answer_and_no_head(scene: Scene, slug: str) -> None:
    for client in ("solo", "own"):
        for name, body in SAID.items():
            scene.call(client, slug, said=ITS_KEY, **({"metadata": {"case": name}} | body))


RAW = {
    "query": f"POST {CHAT}?api_key={KEY} HTTP/1.1\r\nHost: h\r\n\r\n",
    "path": f"POST {CHAT}/{KEY} HTTP/1.1\r\nHost: h\r\n\r\n",
    "percent-encoded path": f"GET /{quote(KEY, safe='')} HTTP/1.1\r\nHost: h\r\n\r\n",
    "method": f"{KEY} {CHAT} HTTP/1.1\r\nHost: h\r\n\r\n",
    "version": f"POST {CHAT} {KEY}\r\nHost: h\r\n\r\n",
    "first line": f"{KEY}\r\n\r\n",
    "no colon": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nBearer {KEY}\r\n\r\n",
    "header's name": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\n{KEY}: {KEY}\r\n\r\n",
    "bad header's name": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\n{KEY} : {KEY}\r\n\r\n",
    "host": f"POST {CHAT} HTTP/1.1\r\nHost: {KEY}\r\n\r\n",
    "URL": f"POST http://user:{KEY}@h{CHAT} HTTP/1.1\r\nHost: h\r\n\r\n",
    "CONNECT": f"CONNECT {KEY}:443 HTTP/1.1\r\nHost: h\r\n\r\n",
    "length": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Length: {KEY}\r\n\r\n",
    "transfer encoding": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {KEY}\r\n\r\n",
    "basic": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {KEY}\r\n\r\n",
    "no scheme": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: {KEY}\r\n\r\n",
    "twice": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY} {KEY}\r\n\r\n",
    "unknown": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {STRANGER}\r\n\r\n",
    "chunk": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY}\r\n"
    f"Transfer-Encoding: chunked\r\n\r\n{KEY}\r\n",
    "no HTTP/1": f"PRI * HTTP/2.0\r\n\r\n{KEY}\r\n\r\n",
}
AUTHORIZED = [("Authorization", f"Bearer {KEY}")]
JSON = ("Content-Type", "application/json")
BODIES = {
    "no JSON": ([*AUTHORIZED, JSON], KEY.encode()),
    "no whole JSON": ([*AUTHORIZED, JSON], b'{"model": "%s' % KEY.encode()),
    "a text": ([*AUTHORIZED, JSON], json.dumps(KEY).encode()),
    "twice": ([*AUTHORIZED, JSON], b'{"%(key)s": 1, "%(key)s": 2}' % {b"key": KEY.encode()}),
    "content type": ([*AUTHORIZED, ("Content-Type", KEY)], b"{}"),
    "content encoding": ([*AUTHORIZED, JSON, ("Content-Encoding", KEY)], b"{}"),
    "expect": ([*AUTHORIZED, JSON, ("Expect", KEY)], b"{}"),
}


def test_a_key_anywhere_in_a_request_that_is_refused_is_in_no_answer(scene: Scene) -> None:
    for upstream in scene.providers.values():
        upstream.reset()
    refused = {name: raw.encode() for name, raw in RAW.items()}
    refused |= {name: request_bytes("POST", CHAT, *request) for name, request in BODIES.items()}
    for name, raw in refused.items():
        with RawClient(scene.gateway.url) as client:
            client.send(raw)
            client.half_close()
            scene.look(f"{name}: answer", client.read_to_close())
    assert not [request for upstream in scene.providers.values() for request in upstream.requests]


def test_a_policy_that_leaks_its_input_leaks_no_secret_to_the_client(scene: Scene) -> None:
    assert scene.call("nosy", "alpha").status_code == 500
    assert scene.took == []


# --- operators who misplace a secret ------------------------------------------------------------------------

PROVIDERS = "catalog_data/providers.toml"
OWN, SOLO = "policies/workspaces/own.toml", "policies/workspaces/solo.toml"
SWAPPED_TOKEN = MasterKeys(OTHER_MASTER).seal(SWAPPED)

BROKEN = {
    "bare": (OWN, f'\n[byok.DELTA]\nsecret = "{BARE}"\n'),
    "a number of them": (OWN, f'\n[byok.DELTA]\nsecret = ["{BARE}"]\n'),
    "a table": (OWN, f'\n[byok.DELTA]\nsecret = {{ key = "{BARE}" }}\n'),
    "no table": (SOLO, f'\n[byok]\nDELTA = "{BARE}"\n'),
    "misspelt": (OWN, f'\n[byok.DELTA]\nsecrte = "{BARE}"\n'),
    "no text": (OWN, f"\n[byok.DELTA]\nsecret = {BARE}\n"),
    "no end": (OWN, f'\n[byok.DELTA]\nsecret = "{BARE}\n'),
    "an unknown kind": (OWN, f'\n[byok.DELTA]\nsecret = "key:{BARE}"\n'),
    "a variable": (OWN, f'\n[byok.DELTA]\nsecret = "env:{BARE}-1"\n'),
    "a file": (OWN, f'\n[byok.DELTA]\nsecret = "file:{BARE}"\n'),
    "no token": (OWN, f'\n[byok.DELTA]\nsecret = "sealed:{BARE}"\n'),
    "another master key": (OWN, f'\n[byok.DELTA]\nsecret = "sealed:{SWAPPED_TOKEN}"\n'),
    "a key for its hash": (OWN, f'\n[[keys]]\nid = "new"\nhash = "{KEY}"\n'),
    "a hash of another kind": (OWN, f'\n[[keys]]\nid = "new"\nhash = "sha512:{KEY}"\n'),
    "bare, the platform's": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://h"\ndialect = "openai"\nplatform_key = "{BARE}"\n',
    ),
    "bare among several": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://h"\ndialect = "openai"\nplatform_keys = ["env:A", "{BARE}"]\n',
    ),
    "a header": (PROVIDERS, f'\n[GAMMA.headers]\nauthorization = "Bearer {BARE}"\n'),
    "a key as a header": (PROVIDERS, f'\n[GAMMA.headers]\nx-api-key = "{BARE}"\n'),
    "a URL": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://a:{BARE}@h"\ndialect = "openai"\nplatform_key = "env:A"\n',
    ),
    "a query": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://h?key={BARE}"\ndialect = "openai"\nplatform_key = "env:A"\n',
    ),
    "no URL": (
        PROVIDERS,
        f'\n[NEW]\nbase_url = "http://[{BARE}"\ndialect = "openai"\nplatform_key = "env:A"\n',
    ),
    "no account": (
        PROVIDERS,
        '\n[NEW]\nbase_url = "http://h"\ndialect = "openai"\nauth = "google_service_account"\n'
        'platform_key = "env:ALPHA_KEY"\n',
    ),
    "no Redis": ("proxy.conf", f'\n[state]\nredis_url = "http://:{REDIS}@h/0"\n'),
    "a Redis of no port": (
        "proxy.conf",
        f'\n[state]\nbackend = "redis"\nredis_url = "redis://:{REDIS}@127.0.0.1:x/0"\n',
    ),
    "a Redis that is not there": (
        "proxy.conf",
        f'\n[state]\nbackend = "redis"\nredis_url = "redis://user:{REDIS}@127.0.0.1:1/0"\n',
    ),
    "a secret URL of a Redis that is not there": (
        "proxy.conf",
        '\n[state]\nbackend = "redis"\nredis_url = "env:REDIS_URL"\n',
    ),
    "a secret that is not a URL of Redis": (
        "proxy.conf",
        '\n[state]\nbackend = "redis"\nredis_url = "env:NOT_REDIS_URL"\n',
    ),
}


@pytest.fixture
def environment(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of the gateway for commands that run in this process."""
    for name, value in scene.settings["environment"].items():
        monkeypatch.setenv(name, value)


def run_command(folder: Path, *arguments: str, conf: bool = True) -> tuple[int, bytes]:
    """Run ``tollgate ARGUMENTS``. Return the status and the output of both streams, with any traceback."""
    words = [*arguments, *(("--conf", str(folder / "proxy.conf")) if conf else ())]
    result = CliRunner().invoke(main, words)
    trace = "".join(traceback.format_exception(*result.exc_info)) if result.exc_info else ""
    return result.exit_code, (result.output + trace).encode()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", BROKEN)
def test_a_misplaced_secret_is_in_no_error_message(scene: Scene, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "gateway"
    shutil.copytree(scene.gateway.folder, folder, ignore=shutil.ignore_patterns("var"))
    file, text = BROKEN[name]
    with (folder / file).open("a") as written:
        written.write(text)
    # `keys list` and `check` read all files. `wallet balance` reads only the files that it needs for the ledger.
    commands = (("keys", "list"), ("wallet", "balance"), ("check",), ("check", "--json"))
    outputs = [run_command(folder, *arguments) for arguments in commands]
    said = b"".join(said for _, said in outputs)
    # A command names a broken workspace file and goes on with the other workspaces.
    assert 1 in {status for status, _ in outputs} or b"is not served: " in said
    scene.look(f"{name}: command", said)


def test_readyz_of_broken_files_shows_no_secret(scene: Scene) -> None:
    gateway = scene.gateway
    file = gateway.folder / OWN
    good = file.read_text()
    for name in ("bare", "another master key"):
        logged = len(gateway.logs)
        file.write_text(good + BROKEN[name][1])
        gateway.wait_until(
            lambda logged=logged: any(line.get("event") == "file broken" for line in gateway.logs[logged:])
        )
        scene.look(f"{name}: readyz", seen_in_answer(gateway.readiness()))
    file.write_text(good)
    gateway.wait_until(lambda: any(line.get("event") == "file mended" for line in gateway.logs))


@pytest.mark.parametrize("url", [f"redis://user:{REDIS}@127.0.0.1:1/0", "env:REDIS_URL"], ids=["bare", "env"])
def test_a_failed_start_shows_no_secret(scene: Scene, tmp_path: Path, url: str) -> None:
    settings = scene.settings | {"sections": {"state": {"backend": "redis", "redis_url": url}}}
    ended = run_to_its_end(Configuration(**settings), tmp_path)
    assert ended.returncode == 1
    assert "Redis" in ended.stderr
    scene.look("output", (ended.stdout + ended.stderr).encode())


COMMANDS: dict[tuple[str, ...], int] = {
    ("check",): 0,
    ("check", "--json"): 0,
    ("usage",): 0,
    ("usage", "--workspace", "own"): 0,
    ("usage", "--workspace", KEY): 1,
    ("usage", "--model", KEY): 1,
    ("wallet", "history", KEY): 1,
    ("wallet", "credit", KEY, "1"): 1,
    ("wallet", "credit", "solo", KEY): 2,
    ("wallet", KEY): 2,
    (KEY,): 2,
    ("keys", "list"): 0,
    ("keys", "list", "--json"): 0,
    ("keys", "list", KEY): 1,
    ("keys", "create", KEY): 1,
    ("keys", "revoke", "solo", KEY): 1,
    ("keys", "rotate", "solo", KEY): 1,
    ("keys", "rotate", "solo", "solo", "--grace", KEY): 2,
    ("keys", "set", "solo", KEY, "--label", "x"): 1,
    ("keys", "set", "solo", "solo", "--label", KEY): 2,
    ("keys", "set", "solo", "solo", "--models", KEY): 2,
    ("keys", "set", "solo", "solo", "--expires", KEY): 2,
    ("keys", "create", "solo", "--id", KEY): 1,
    ("keys", "create", "solo", "--like", KEY): 1,
    ("workspaces", "list", "--json"): 0,
    ("workspaces", "create", KEY): 1,
    ("workspaces", "set", KEY, "--plan", "pro"): 1,
    ("workspaces", "set", "solo", "--name", KEY): 2,
    ("wallet", "debit", "solo", "1", "--reference", KEY): 2,
    ("wallet", "debit", KEY, "1", "--reference", "x"): 1,
    ("wallet", "balance", "--json"): 0,
    ("alerts", "list", "--json"): 0,
    ("alerts", "list", "--wide"): 0,
    ("alerts", "test"): 1,
    ("ledger", "verify"): 0,
    ("catalog", "list", "--json"): 0,
    ("state", "rebuild"): 1,
    ("explain", KEY, "--workspace", "solo"): 1,
    ("explain", "-", "--workspace", KEY): 1,
    ("explain", "-", "--workspace", "solo", "--key", KEY): 1,
}


@pytest.mark.usefixtures("environment")
def test_no_command_shows_a_secret(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = scene.gateway.folder
    for arguments, expected in COMMANDS.items():
        status, said = run_command(folder, *arguments)
        assert status == expected, (arguments, said.decode())
        scene.look(" ".join(arguments), said)
    for name, form in product(DIALECTS, ((), ("--json",))):
        # `explain` shows the body, which is the operator's own, but not the keys of the call.
        body = tmp_path / "body.json"
        body.write_text(json.dumps({"model": name.lower(), "messages": MESSAGES, "user": KEY}))
        status, said = run_command(folder, "explain", str(body), "--workspace", "net", *form)
        assert status == 0, said.decode()
        scene.look(f"explain {name}", said, {"prompt", *ITS_KEY})
    rotate = ("secrets", "rotate", "--check", str(folder / PROVIDERS), str(folder / OWN))
    for keys, expected in {MASTER: 0, f"{OTHER_MASTER} {MASTER}": 1, OTHER_MASTER: 1, MASTER[1:]: 1}.items():
        monkeypatch.setenv("TOLLGATE_SECRET_KEY", keys)
        status, said = run_command(folder, *rotate, conf=False)
        assert status == expected, said.decode()
        scene.look("rotate", said)
    status, said = run_command(folder, "secrets", "seal", BARE, conf=False)
    assert status == 2
    scene.look("seal", said)


# --- the console ----------------------------------------------------------------------------------------------


def test_a_password_a_cookie_and_a_token_of_the_console_are_shown_nowhere_else(scene: Scene) -> None:
    with httpx.Client(base_url=scene.gateway.admin_url, timeout=BOUND_S, trust_env=False) as browser:
        scene.console = seen = []
        for password, status in ((NOT_CONSOLE, 403), (CONSOLE, 303)):
            fields = dict(re.findall(r'name="(_xsrf|next)" value="([^"]*)"', browser.get("/login").text))
            answer = browser.post("/login", data=fields | {"password": password})
            assert answer.status_code == status
            scene.look("login", seen_in_answer(answer))
            seen += [fields["_xsrf"], *browser.cookies.values()]
        for path in (
            "/models",
            "/none",
            f"/{CONSOLE}",
            f"/models?{KEYS['solo']}=1",
            f"/models?a={KEYS['solo']}",
        ):
            for sent in (browser.get(path), browser.get(f"/api/v1{path}"), browser.post(path)):
                scene.look(f"console {path}", seen_in_answer(sent))
        for name, value in (
            ("Authorization", f"Bearer {NOT_CONSOLE}"),
            ("Authorization", f"Bearer \x01{CONSOLE}"),
            ("Cookie", f"tollgate_session={CONSOLE}"),
            ("Host", f"{KEYS['solo']}.example.com"),
            (f"X-{CONSOLE}", "1"),
        ):
            answer = raw_answer(scene.gateway.admin_url, name, value)
            scene.look(f"header {name}", answer)
        for scheme, password in (("Bearer", CONSOLE), ("Bearer", NOT_CONSOLE), ("Basic", NOT_CONSOLE)):
            plain = httpx.Client(base_url=browser.base_url, timeout=BOUND_S, trust_env=False)
            with plain:
                sent = plain.get("/api/v1/models", headers={"Authorization": f"{scheme} {password}"})
            assert sent.status_code == (200 if password == CONSOLE else 401)
            scene.look("program", seen_in_answer(sent))


def raw_answer(url: str, name: str, value: str) -> bytes:
    """Return the answer to a request for a page with one more header, as it is."""
    parts = urlsplit(url)
    others = "" if name == "Host" else f"Host: {parts.netloc}\r\n"
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=BOUND_S) as client:
        client.sendall(
            f"GET /models HTTP/1.1\r\n{others}{name}: {value}\r\nConnection: close\r\n\r\n".encode()
        )
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_no_page_of_the_console_and_no_data_shows_a_secret(scene: Scene) -> None:
    headers = {"Authorization": f"Bearer {CONSOLE}"}
    body = {"model": "alpha", "messages": MESSAGES}
    pages = ("overview", "calls", "workspaces", "workspaces/own", "workspaces/solo", "models", "settings")
    with httpx.Client(base_url=scene.gateway.admin_url, timeout=BOUND_S, trust_env=False) as program:
        for page in (*pages, "explain", "audit"):
            answer = program.get(f"/api/v1/{page}", headers=headers)
            assert answer.status_code == 200, page
            scene.look(f"data of {page}", seen_in_answer(answer), {"prompt"})
        for name in ("own", "solo", "nosy"):
            asked = {"workspace": name, "body": body}
            answer = program.post("/api/v1/explain", json=asked, headers=headers)
            assert answer.status_code == 200, answer.text
            scene.look(f"explain of {name}", seen_in_answer(answer), {"prompt"})
    with httpx.Client(base_url=scene.gateway.admin_url, timeout=BOUND_S, trust_env=False) as browser:
        form = hidden_fields(browser.get("/login"))
        assert browser.post("/login", data=form | {"password": CONSOLE}).status_code == 303
        own = [*browser.cookies.values(), hidden_fields(browser.get("/explain"))["_xsrf"]]
        for page in (*pages, "explain", "audit"):
            answer = browser.get(f"/{page}")
            assert answer.status_code == 200, page
            # Each page has the token of its own session.
            seen = seen_in_answer(answer)
            for one in own:
                seen = seen.replace(one.encode(), b"")
            scene.look(f"page {page}", seen, {"prompt"})


def hidden_fields(page: httpx.Response) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text))


# --- the output at the end ------------------------------------------------------------------------------------


def _logged(scene: Scene) -> bytes:
    return "\n".join([*scene.gateway.stderr_lines, *scene.gateway.later_stdout()]).encode()


def test_no_page_no_log_and_no_file_has_a_secret_at_the_end(scene: Scene) -> None:
    gateway = scene.gateway
    # Each of these places must show a planted text that is not secret. This proves that the search works.
    planted = completion(PLANTED) | {
        "choices": [completion(PLANTED)["choices"][0] | {"finish_reason": PLANTED}]
    }
    answer = scene.call("solo", "alpha", ("planted", lambda _key: whole(planted)), user=PLANTED)
    assert {leak.split(": ", 1)[1] for leak in scene.leaks} == {
        "answer: planted text, as it is",
        "body for ALPHA: planted text, as it is",
    }
    scene.leaks.clear()
    gateway.wait_for_row(answer.headers["x-request-id"])
    gateway.wait_for_log(lambda line: line.get("id") == answer.headers["x-request-id"])
    assert CANARIES.found_in(_logged(scene)) == {"planted text, as it is"}
    assert CANARIES.found_in(all_files_seen(gateway.folder, scene.written)) == {"planted text, as it is"}
    for page in ("metrics", "readyz", "healthz"):
        scene.look(
            page, seen_in_answer(httpx.get(f"{gateway.admin_url}/{page}", timeout=BOUND_S, trust_env=False))
        )
    scene.look("catalog", seen_in_answer(scene.client.get("/v1/models")))
    assert gateway.stop() == 0
    scene.look("log", _logged(scene), {"planted text"})
    assert all(one.encode() not in _logged(scene) for one in scene.console)
    files = dict(seen_in_files(gateway.folder, scene.written))
    assert {file.suffix for file in files} >= {".db"}
    for file, content in files.items():
        scene.look(str(file), content, {"planted text"})
    gateway.assert_no_secret_logged()
