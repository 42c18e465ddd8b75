"""A gateway with each kind of secret, providers that repeat their key, and a search of all output.

Each secret is a canary: a unique text that looks random and is the same in each run.
"""

import base64
import hashlib
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx

from addon.settings.sealed_secrets import MasterKeys
from rig.canaries import Canaries, seen_in_answer, seen_in_head
from rig.configuration import key_hash, model, provider, workspace
from rig.gateway import Gateway
from rig.leaky import AUTH, STREAMED, WHOLE, Leak, shown_key, sse
from rig.scripts import Received, Script, whole
from rig.service_accounts import key_file, pem, rsa_key
from rig.upstream import Upstream

CHAT = "/v1/chat/completions"
PATHS = {"chat": CHAT, "messages": "/v1/messages", "responses": "/v1/responses"}
PROMPT_FIELDS = {"chat": "messages", "messages": "messages", "responses": "input"}


def canary(name: str, chars: int = 40) -> str:
    """Return a text that looks random and is the same in each run."""
    digest = hashlib.sha512(name.encode()).digest()
    return base64.b64encode(digest, altchars=b"x7").decode()[:chars]


def master_key(name: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).decode()


DIALECTS = {"ALPHA": "openai", "BETA": "anthropic", "GAMMA": "gemini", "DELTA": "openai"}
CLIENTS = ("solo", "own", "net", "hops", "onward", "mixed", "nosy", "former", "ended")
KEYS = {name: "tg_" + canary(f"client {name}") for name in CLIENTS}
PROVIDER_SECRETS = {
    ("ALPHA", "platform"): canary("ALPHA platform"),
    ("ALPHA", "platform's other"): canary("ALPHA platform, other"),
    ("BETA", "platform"): canary("BETA platform"),
    ("BETA", "platform's other"): canary("BETA platform, other"),
    ("GAMMA", "platform"): canary("GAMMA platform"),
    ("DELTA", "platform"): canary("DELTA access token", 60),
    ("ALPHA", "customer"): canary("ALPHA customer"),
    ("BETA", "customer"): canary("BETA customer"),
    ("GAMMA", "customer"): canary("GAMMA customer"),
}
MASTER, OTHER_MASTER = master_key("master"), master_key("another master")
PROMPT, COOKIE, PROXY, BARE, REDIS, PLANTED = map(
    canary, ("prompt", "cookie", "proxy", "bare", "redis", "planted")
)
HOOK, HOOK_PASSWORD, SIGNING = map(canary, ("webhook", "webhook's password", "signing"))
CONSOLE, NOT_CONSOLE = map(canary, ("console", "wrong password of the console"))
STRANGER, SWAPPED = "tg_" + canary("stranger"), canary("sealed with another master key")
# The first line of each RSA key is the same.
ACCOUNT = "".join(pem(rsa_key()).splitlines()[2:7])
SECRETS = {
    **{f"client key {name}": key for name, key in KEYS.items()},
    **{f"{owner} key of {name}": secret for (name, owner), secret in PROVIDER_SECRETS.items()},
    "master key": MASTER,
    "other master key": OTHER_MASTER,
    "service account": ACCOUNT,
    "prompt": PROMPT,
    "cookie": COOKIE,
    "proxy credentials": PROXY,
    "bare secret": BARE,
    "Redis password": REDIS,
    "stranger's key": STRANGER,
    "secret sealed with another master key": SWAPPED,
    "planted text": PLANTED,
    "webhook's path": HOOK,
    "webhook's password": HOOK_PASSWORD,
    "signing secret": SIGNING,
    "password of the console": CONSOLE,
    "wrong password of the console": NOT_CONSOLE,
}
CANARIES = Canaries(SECRETS)
MESSAGES = [{"role": "user", "content": f"'Authorization: Bearer {PROMPT}' is refused. Is it {PROMPT}?"}]
CLIENT_HEADERS = {
    "Content-Type": "application/json",
    "Cookie": f"session={COOKIE}",
    "X-Api-Key": COOKIE,
    "X-Goog-Api-Key": COOKIE,
    "OpenAI-Organization": COOKIE,
    "X-Client-Request-Id": f"Bearer {COOKIE}",
    "Proxy-Authorization": "Basic " + base64.b64encode(f"user:{PROXY}".encode()).decode(),
}
NOSY = """\
def review(call):
    if call.workspace == "nosy":
        raise RuntimeError(f"{call} {call.messages} {call.last_user_text} {call.end_user}")
"""


def token_answer(request: Received) -> Script:
    """Return a token, or, at the path of the second account, an error that repeats the request."""
    assertion = parse_qs(request.body.decode())["assertion"][0]
    if request.target.endswith("/refuse"):
        return whole({"error": "invalid_grant", "error_description": f"{assertion} is no good"}, 400)
    return whole({"access_token": PROVIDER_SECRETS["DELTA", "platform"], "expires_in": 3599})


@dataclass
class Scene:
    """A gateway with its providers. ``leaks`` are secrets in wrong places, ``used`` the secrets in right places."""

    gateway: Gateway
    providers: dict[str, Upstream]
    tokens: Upstream
    client: httpx.Client
    written: dict[Path, bytes]
    settings: dict[str, Any]
    leaks: list[str] = field(default_factory=list)
    used: set[tuple[str, str]] = field(default_factory=set)
    took: list[tuple[str, str]] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    """The cookies and form tokens of the console."""

    def look(self, place: str, seen: bytes, allowed: Set[str] = frozenset()) -> None:
        self.leaks += [f"{place}: {found}" for found in sorted(CANARIES.found_in(seen, allowed))]

    def call(
        self,
        client: str,
        slug: str | None,
        leak: tuple[str, Leak] | None = None,
        *,
        always: bool = False,
        said: Set[str] = frozenset(),
        api: str = "chat",
        **body: Any,
    ) -> httpx.Response:
        """Make a call and search all of it. ``said`` are the secrets in its ``body``, without that of the prompt.

        The leak answers the first request of the call, or each one with ``always``.
        """
        name, shows = leak or ("healthy", None)
        self.prepare(shows, always=always)
        named = {PROMPT_FIELDS[api]: MESSAGES} | ({"model": slug} if slug else {}) | body
        named |= {"max_tokens": 100} if api == "messages" else {}
        headers = {"Authorization": f"Bearer {KEYS[client]}"}
        headers |= {"X-Api-Key": KEYS[client]} if api == "messages" else {}
        answer = self.client.post(PATHS[api], json=named, headers=headers)
        place = f"{api}, {client}, {slug}, {name}, {'stream' if body.get('stream') else 'whole'}"
        # A response has the settings that its client sent.
        echoed = said if api == "responses" and answer.is_success else frozenset()
        self.look(f"{place}: answer", seen_in_answer(answer), echoed)
        self.took = [
            (called, self._look_at(place, called, request, said).removesuffix("'s other"))
            for called, upstream in self.providers.items()
            for request in upstream.requests
        ]
        return answer

    def prepare(self, leak: Leak | None, *, always: bool = False) -> None:
        """Forget earlier calls. The leak answers the next one."""
        left = [leak] if leak else []
        for called, upstream in self.providers.items():
            upstream.reset()
            upstream.behave(_leaking(left, healthy(DIALECTS[called]), always=always))

    def _look_at(self, place: str, called: str, request: Received, said: Set[str]) -> str:
        """Search a request for secrets of others. Return the owner of its key."""
        header, shown = AUTH[DIALECTS[called]], shown_key(request)
        owner = next(
            (who for (name, who), key in PROVIDER_SECRETS.items() if (name, key) == (called, shown)), "no one"
        )
        self.used.add((called, owner))
        auth = (header, f"Bearer {shown}" if header == "authorization" else shown)
        self.look(f"{place}: head for {called}", seen_in_head(request, auth))
        self.look(f"{place}: body for {called}", request.body, {"prompt", *said})
        if PROMPT.encode() not in request.body:
            self.leaks.append(f"{place}: what the client said did not reach {called}")
        return owner


def _leaking(
    left: list[Leak], ordinary: Callable[[Received], Script], *, always: bool
) -> Callable[[Received], Script]:
    def answer(request: Received) -> Script:
        if not left:
            return ordinary(request)
        leak = left[0] if always else left.pop()
        return leak(shown_key(request))

    return answer


def healthy(dialect: str) -> Callable[[Received], Script]:
    """Return the behaviour of a provider that shows no secret."""

    def answer(request: Received) -> Script:
        streams = "stream" in request.target if dialect == "gemini" else request.json().get("stream")
        shape = "responses" if request.target.endswith("/responses") else dialect
        return sse(STREAMED[shape]) if streams else whole(WHOLE[shape])

    return answer


def _byok(secrets: Path, *names: str) -> dict[str, Any]:
    kept = {
        "ALPHA": "env:CUSTOMER_KEY",
        "BETA": f"file:{secrets / 'customer'}",
        "GAMMA": "sealed:" + MasterKeys(MASTER).seal(PROVIDER_SECRETS["GAMMA", "customer"]),
    }
    return {name: {"secret": kept[name], "routing": True} for name in names or kept}


def _with_ended_secrets(table: dict[str, Any]) -> dict[str, Any]:
    """Return a workspace whose first key was rotated, and whose second one has expired."""
    table["keys"][0] |= {
        "previous_hash": key_hash(KEYS["former"]),
        "previous_until": datetime(2100, 1, 1, tzinfo=UTC),
    }
    table["keys"][1] |= {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}
    return table


def configuration(providers: dict[str, Upstream], tokens: Upstream, secrets: Path) -> dict[str, Any]:
    """Return the arguments of ``start_gateway``. Write the files of secrets to ``secrets``."""
    kept = {
        "beta": PROVIDER_SECRETS["BETA", "platform"],
        "other-beta": PROVIDER_SECRETS["BETA", "platform's other"],
        "customer": PROVIDER_SECRETS["BETA", "customer"],
        "account": key_file(tokens.base_url + "/mint"),
        "refused": key_file(tokens.base_url + "/refuse"),
        # No one listens there, so the log says again and again that alerts are not delivered.
        "console": CONSOLE,
        "webhook": f"http://user:{HOOK_PASSWORD}@127.0.0.1:9/{HOOK}?token={HOOK}",
    }
    for name, text in kept.items():
        (secrets / name).write_text(text)
    sealed = "sealed:" + MasterKeys(MASTER).seal(PROVIDER_SECRETS["GAMMA", "platform"])
    account = {"auth": "google_service_account"}
    at = {name: upstream.base_url for name, upstream in providers.items()}
    byok = _byok(secrets)
    several = {
        "ALPHA": {"dialect": "openai", "platform_keys": ["env:ALPHA_KEY", "env:OTHER_ALPHA_KEY"]},
        "BETA": {
            "dialect": "anthropic",
            "platform_keys": [f"file:{secrets / 'beta'}", f"file:{secrets / 'other-beta'}"],
        },
    }
    return {
        "providers": {
            **{name: {"base_url": at[name]} | written for name, written in several.items()},
            "GAMMA": provider(at["GAMMA"], dialect="gemini", platform_key=sealed),
            "DELTA": provider(at["DELTA"], platform_key=f"file:{secrets / 'account'}", **account),
            "EPSILON": provider(at["DELTA"], platform_key=f"file:{secrets / 'refused'}", **account),
        },
        "models": {name.lower(): model(provider=name) for name in (*DIALECTS, "EPSILON")}
        | {"alpha-responses": model(provider="ALPHA", dialect="responses")},
        "workspaces": {
            "solo": _with_ended_secrets(
                workspace(("solo", KEYS["solo"], True), ("ended", KEYS["ended"], True))
            ),
            "own": workspace(("own", KEYS["own"], True), byok=byok, safety_net=False),
            "net": workspace(("net", KEYS["net"], True), byok=byok, safety_net=True),
            "hops": workspace(("hops", KEYS["hops"], True), fallback_model="beta"),
            "onward": workspace(("onward", KEYS["onward"], True), fallback_model="gamma"),
            "mixed": workspace(
                ("mixed", KEYS["mixed"], True), fallback_model="beta", byok=_byok(secrets, "BETA")
            ),
            "nosy": workspace(("nosy", KEYS["nosy"], True)),
        },
        "sections": {
            "policies": {"extra": ["nosy"]},
            "admin": {"console_password": f"file:{secrets / 'console'}"},
            "alerts": {
                "webhook": f"file:{secrets / 'webhook'}",
                "secret": "sealed:" + MasterKeys(MASTER).seal(SIGNING),
            },
        },
        "environment": {
            "ALPHA_KEY": PROVIDER_SECRETS["ALPHA", "platform"],
            "OTHER_ALPHA_KEY": PROVIDER_SECRETS["ALPHA", "platform's other"],
            "REDIS_URL": f"redis://user:{REDIS}@127.0.0.1:1/0",
            "NOT_REDIS_URL": f"http://user:{REDIS}@127.0.0.1:1/0",
            "CUSTOMER_KEY": PROVIDER_SECRETS["ALPHA", "customer"],
            "TOLLGATE_SECRET_KEY": MASTER,
        },
    }
