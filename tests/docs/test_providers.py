"""docs/providers.md: its table agrees with the catalog, and each block of TOML serves a call of the OpenAI SDK."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from conftest import HELLO, StartGateway
from openai import APIStatusError, OpenAI
from rig import fake_bedrock
from rig.bounds import BOUND_S
from rig.configuration import ROOT, model
from rig.gateway import Gateway
from rig.large import sampled
from rig.scripts import Received, Script, ordinary, whole
from rig.service_accounts import key_file
from rig.upstream import Upstream

from addon.settings.settings import load_settings
from addon.upstream import access_tokens

PAGE = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
CATALOG = ROOT / "catalog_data"
TOKEN = "ya29.fake-access-token"
KEYS = {
    "NOVITA_API_KEY": "fake-novita-0000",
    "AZURE_OPENAI_API_KEY": "fake-azure-0000",
    "AWS_BEARER_TOKEN_BEDROCK": "fake-bedrock-0000",
    "AWS_ACCESS_KEY_ID": "AKIAFAKE000000000000",
    "AWS_SECRET_ACCESS_KEY": "fake-secret-0000000000",
    "AWS_SESSION_TOKEN": "fake-token-00000000000",
}
KEY_HEADERS = {"authorization", "api-key", "x-api-key", "x-goog-api-key"}


def blocks() -> dict[str, dict[str, Any]]:
    """Return the TOML that the page asks an operator to add, by file name. No table appears twice."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, text in re.findall(r"```toml\n# catalog_data/(\w+)\.toml\n(.*?)```", PAGE, re.DOTALL):
        tables = tomllib.loads(text)
        assert not found[name].keys() & tables.keys()
        found[name] |= tables
    return found


def shipped(name: str) -> dict[str, Any]:
    return tomllib.loads((CATALOG / f"{name}.toml").read_text(encoding="utf-8"))


def test_every_block_says_which_file_it_belongs_to() -> None:
    assert PAGE.count("```toml\n") == len(re.findall(r"```toml\n# catalog_data/\w+\.toml\n", PAGE))
    assert {name: len(tables) for name, tables in blocks().items()} == {
        "providers": 8,
        "families": 1,
        "models": 10,
    }


def test_no_block_repeats_the_shipped_catalog() -> None:
    for name, tables in blocks().items():
        assert not tables.keys() & shipped(name).keys()


def test_the_table_is_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "workspaces").mkdir()
    conf = tmp_path / "proxy.conf"
    conf.write_text(f'[paths]\ncatalog = "{CATALOG}"\nworkspaces = "workspaces"\n', encoding="utf-8")
    providers = [made for made in load_settings(conf, {}).providers.values() if not made.builtin]
    keys = {
        name: table.get("platform_key", "").removeprefix("env:")
        for name, table in shipped("providers").items()
    }
    rows = re.findall(
        r"^\| `([A-Z_]+)` \| `(\S+)` \| `(\S+)` \| `(\S+)` \| `?(\w*)`? ?\| \S.* \|$", PAGE, re.MULTILINE
    )
    assert rows == [
        (made.name, made.base_url, made.dialect, made.auth, keys[made.name]) for made in providers
    ]


def test_the_documented_times_are_the_real_ones() -> None:
    said = " ".join(PAGE.split())
    assert (access_tokens.RENEW_AHEAD_S, access_tokens.TIMEOUT_S, access_tokens.PAUSE_S) == (300, 10, 2)
    for phrase in (
        "renewed five minutes before its end",
        "at most ten seconds",
        "after two seconds at the earliest",
    ):
        assert phrase in said


@pytest.fixture(scope="module")
def loopback() -> Iterator[Upstream]:
    """A server that takes the place of each provider of the page, and issues access tokens."""

    def answer(request: Received) -> Script:
        if request.target == "/token":
            return whole({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"})
        if request.target == "/refuse":
            return whole({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400)
        if b"echo" in request.body:
            shown = request.header("authorization")
            return whole({"error": {"message": f"Request had an invalid credential {shown}."}}, 401)
        return fake_bedrock.answer(request) if fake_bedrock.is_for_bedrock(request) else ordinary(request)

    with Upstream() as made:
        made.behave(answer)
        yield made


@pytest.fixture(scope="module")
def gateway(
    loopback: Upstream, start_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """A gateway with the shipped providers and families and those of the page, all at the port of ``loopback``."""
    here = f"http://127.0.0.1:{loopback.port}"
    secrets = tmp_path_factory.mktemp("secrets")
    (secrets / "good.json").write_text(key_file(f"{here}/token"), encoding="utf-8")
    (secrets / "refused.json").write_text(key_file(f"{here}/refuse"), encoding="utf-8")
    added = blocks()
    providers: dict[str, Any] = {}
    for name, table in (shipped("providers") | added["providers"]).items():
        providers[name] = dict(table)
        if "base_url" in table:
            providers[name]["base_url"] = here + urlsplit(table["base_url"]).path
    providers["VERTEX"]["platform_key"] = f"file:{secrets / 'good.json'}"
    providers["REFUSED"] = providers["VERTEX"] | {"platform_key": f"file:{secrets / 'refused.json'}"}
    others = {"tester-large": model(provider="NOVITA"), "refused": model(provider="REFUSED", family="vertex")}
    return start_gateway(
        providers=providers,
        families=shipped("families") | added["families"],
        models=added["models"] | others,
        environment=KEYS,
    )


@pytest.fixture
def sdk(gateway: Gateway, loopback: Upstream) -> Iterator[OpenAI]:
    loopback.requests.clear()
    with OpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.key, max_retries=0, timeout=BOUND_S) as made:
        yield made
    assert loopback.failures == []


# slug, path of the request, header with the key
CALLS = {
    "deepseek-v4-flash-novita": ("/openai/v1/chat/completions", ("authorization", "Bearer fake-novita-0000")),
    "gpt-4o-mini-azure": ("/openai/v1/chat/completions", ("api-key", "fake-azure-0000")),
    "gpt-4o-azure": (
        "/openai/deployments/my-gpt-4o/chat/completions?api-version=2024-10-21",
        ("api-key", "fake-azure-0000"),
    ),
    "gpt-5.5-azure": ("/openai/v1/chat/completions", ("api-key", "fake-azure-0000")),
    "gemini-3.5-flash-vertex": (
        "/v1/projects/PROJECT/locations/global/endpoints/openapi/chat/completions",
        ("authorization", f"Bearer {TOKEN}"),
    ),
    "qwen3-8b-local": ("/v1/chat/completions", None),
    "claude-sonnet-4-6-bedrock-eu": (
        "/model/eu.anthropic.claude-sonnet-4-6/converse",
        ("authorization", "Bearer fake-bedrock-0000"),
    ),
    "nova-lite-signed": (
        "/model/us.amazon.nova-lite-v1%3A0/converse",
        ("authorization", "AWS4-HMAC-SHA256"),
    ),
    "gpt-oss-120b-bedrock-eu": (
        "/openai/v1/chat/completions",
        ("authorization", "Bearer fake-bedrock-0000"),
    ),
    "gpt-oss-20b-bedrock-mantle": (
        "/v1/chat/completions",
        ("authorization", "Bearer fake-bedrock-0000"),
    ),
}


def test_every_model_of_the_page_is_called() -> None:
    assert CALLS.keys() == blocks()["models"].keys()


@sampled(every=4)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("slug", CALLS)
def test_a_model_of_the_page_answers(slug: str, stream: bool, sdk: OpenAI, loopback: Upstream) -> None:
    if stream:
        chunks = list(sdk.chat.completions.create(model=slug, messages=HELLO, stream=True))
        assert {chunk.model for chunk in chunks} == {slug}
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello"
    else:
        answer = sdk.chat.completions.create(model=slug, messages=HELLO)
        assert (answer.model, answer.choices[0].message.content) == (slug, "hello")
    target, key = CALLS[slug]
    if stream and fake_bedrock.is_for_bedrock(loopback.last):
        target += "-stream"
    asked = loopback.last
    assert asked.target == target
    shown = [
        (name.lower(), value.partition(" Credential=")[0])
        for name, value in asked.headers
        if name.lower() in KEY_HEADERS
    ]
    assert shown == ([key] if key else [])
    is_in_path = fake_bedrock.is_for_bedrock(asked)
    sent = fake_bedrock.model_asked(asked) if is_in_path else asked.json()["model"]
    assert sent == blocks()["models"][slug]["upstream_model_id"]


def test_requests_follow_the_family_of_the_page(sdk: OpenAI, loopback: Upstream) -> None:
    sdk.chat.completions.create(
        model="deepseek-v4-flash-novita",
        messages=HELLO,
        max_completion_tokens=7,
        user="u-1",
        parallel_tool_calls=False,
        extra_body={"top_k": 3, "service_tier": "flex"},
    )
    sent = loopback.last.json()
    assert (sent["max_tokens"], sent["top_k"]) == (7, 3)
    assert not sent.keys() & {"max_completion_tokens", "user", "parallel_tool_calls", "service_tier"}


def test_a_call_without_an_access_token_fails_before_it_is_sent(
    sdk: OpenAI, gateway: Gateway, loopback: Upstream
) -> None:
    with pytest.raises(APIStatusError) as caught:
        sdk.chat.completions.create(model="refused", messages=HELLO)
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_error")
    assert {request.target for request in loopback.requests} <= {"/refuse"}
    line = gateway.wait_for_log(lambda line: "no access token for" in str(line))
    assert "invalid_grant: Invalid JWT Signature." in str(line)


def test_a_token_in_an_answer_of_the_provider_is_masked(sdk: OpenAI) -> None:
    said: Any = [{"role": "user", "content": "echo"}]
    with pytest.raises(APIStatusError) as caught:
        sdk.chat.completions.create(model="gemini-3.5-flash-vertex", messages=said)
    assert caught.value.status_code == 401
    assert "invalid credential" in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_no_log_line_shows_a_key_or_a_token(gateway: Gateway, sdk: OpenAI) -> None:
    sdk.chat.completions.create(model="gemini-3.5-flash-vertex", messages=HELLO)
    gateway.wait_for_log(lambda line: line.get("slug") == "gemini-3.5-flash-vertex")
    logged = str(gateway.logs)
    for secret in (TOKEN, "PRIVATE KEY", *KEYS.values()):
        assert secret not in logged
