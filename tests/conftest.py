"""Fixtures of the end-to-end tests. One fake upstream and one gateway serve the whole run; each test resets them.

A test that needs other settings starts its own gateway with ``start_gateway``.
"""

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import trustme
from rig.bounds import BOUND_S
from rig.configuration import Configuration, model, new_key, provider, workspace
from rig.gateway import Gateway
from rig.gateway_in_use import Conservation
from rig.new_ledgers import copy_new_ledgers
from rig.postgres_fixtures import (  # noqa: F401
    _ledger_template,
    _postgres_programs,
    _shared_postgres,
    postgres_ledger_url,
    postgres_server,
    postgres_url,
    start_postgres,
)
from rig.redis_fixtures import _redis_program, _shared_redis, redis_server, redis_url, start_redis  # noqa: F401
from rig.shipped_catalog import read_shipped_catalog
from rig.upstream import DeafPort, RefusingPort, Upstream


def _sharing_contexts(create: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    """Let all clients with the standard TLS settings share one context.

    To load the public authorities takes 30 ms of CPU, and thousands of calls have a client of their own.
    """

    @cache
    def standard(trust_env: bool, *_environment: str | None) -> ssl.SSLContext:
        return create(verify=True, trust_env=trust_env)

    def shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert:
            return create(verify=verify, cert=cert, trust_env=trust_env)
        return standard(trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    return shared


for _client in (httpx, httpx2):
    _client._transports.default.create_ssl_context = _sharing_contexts(_client._config.create_ssl_context)  # type: ignore[attr-defined]

pytest_plugins = ["rig.failure_lines", "rig.large", "rig.run_order", "rig.parallel_run"]

copy_new_ledgers()
read_shipped_catalog()

NO_BROWSER = "NO PAGE WAS TESTED IN A BROWSER"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly when no page was tested in a browser: a skipped test is easy to miss."""
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if NO_BROWSER in reason:
            terminalreporter.write_sep("!", reason.removeprefix("Skipped: "), red=True, bold=True)
            return


type StartGateway = Callable[..., Gateway]
type Chat = Callable[..., httpx.Response]

MODELS: dict[str, Any] = {
    "tester-large": model(upstream_model_id="vendor/large-2026", cached_input_price_per_m="0.075"),
    "tester-small": model(
        upstream_model_id="vendor-small",
        family="older-chat",
        max_completion_tokens=100,
        input_price_per_m="3",
    ),
    "tester-retired": model(active=False),
    "vendor/tall": model(),
    "tester-byok": model(byok_only=True),
    "refusing-model": model(provider="REFUSING"),
    "deaf-model": model(provider="DEAF"),
    "secure-model": model(provider="SECURE"),
    "untrusted-model": model(provider="UNTRUSTED"),
    "keyless-model": model(provider="KEYLESS"),
}


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The certificate authority that all gateways of the run trust."""
    return trustme.CA()


def _server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(scope="session")
def upstreams(authority: trustme.CA) -> Iterator[dict[str, Any]]:
    """All providers of the run by name: three that answer and three that do not."""
    with (
        Upstream() as tester,
        Upstream(tls=_server_context(authority)) as secure,
        Upstream(tls=_server_context(trustme.CA())) as untrusted,
        RefusingPort() as refusing,
        DeafPort() as deaf,
    ):
        yield {
            "TESTER": tester,
            "SECURE": secure,
            "UNTRUSTED": untrusted,
            "REFUSING": refusing,
            "DEAF": deaf,
        }


@contextmanager
def _starting(
    upstreams: dict[str, Any], authority: trustme.CA, folders: pytest.TempPathFactory
) -> Iterator[StartGateway]:
    """Start gateways, which all stop at the end of the context."""
    ca_file = folders.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    bases = {name: at.base_url for name, at in upstreams.items()}
    providers = {name: provider(base) for name, base in bases.items()}
    providers["KEYLESS"] = provider(bases["TESTER"], platform_key="env:TEST_KEY_THAT_IS_NOT_SET")
    started: list[Gateway] = []
    with ExitStack() as running:

        def start(
            folder: Path | None = None,
            kind: type[Gateway] = Gateway,
            keys: Mapping[str, str] | None = None,
            **changes: Any,
        ) -> Gateway:
            keys = keys or {name: new_key() for name in ("ci", "retired", "bare")}
            acme = workspace(("ci", keys["ci"], True), ("retired", keys["retired"], False))
            settings: dict[str, Any] = {
                "providers": providers,
                "models": MODELS,
                "workspaces": {
                    "acme": {"default_model": "tester-large"} | acme,
                    "bare": workspace(("bare", keys["bare"], True), name="Bare"),
                },
                "environment": {"SSL_CERT_FILE": str(ca_file)},
            } | changes
            folder = folder or folders.mktemp("gateway")
            started.append(running.enter_context(kind(Configuration(**settings), folder, keys)))
            return started[-1]

        yield start
        # Signal all gateways first and then wait, so that they stop at the same time.
        for gateway in started:
            if gateway.is_running:
                gateway.terminate()


@pytest.fixture(scope="module")
def start_gateway(
    upstreams: dict[str, Any], authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartGateway]:
    """Start a gateway with ``start(models=..., sections=...)``. It stops at the end of the module.

    The provider TESTER answers as usual first, whatever the last test of another module made it do.
    """
    upstreams["TESTER"].reset()
    with _starting(upstreams, authority, tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="session")
def _start_shared_gateway(
    upstreams: dict[str, Any], authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartGateway]:
    """Start a gateway that serves the whole run."""
    with _starting(upstreams, authority, tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="session")
def _shared_gateway(_start_shared_gateway: StartGateway) -> Gateway:
    return _start_shared_gateway()


@pytest.fixture
def upstream(upstreams: dict[str, Any]) -> Iterator[Upstream]:
    """The provider TESTER in its initial state. The test fails if the provider can't parse a request."""
    tester: Upstream = upstreams["TESTER"]
    tester.reset()
    yield tester
    assert tester.failures == []


@pytest.fixture(scope="session")
def _shared_conservation(_shared_gateway: Gateway) -> Conservation:
    return Conservation(_shared_gateway)


@pytest.fixture
def gateway(
    _shared_gateway: Gateway, _shared_conservation: Conservation, upstream: Upstream
) -> Iterator[Gateway]:
    """The gateway that all tests share, with ``upstream`` in its initial state.

    The test fails if its calls did not give back all that they took.
    """
    yield _shared_gateway
    _shared_conservation.check(upstream.close_idle_connections)


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    """An HTTP client of ``gateway`` with a valid key and the right content type."""
    with httpx.Client(
        base_url=gateway.url, headers=gateway.headers, timeout=BOUND_S, trust_env=False
    ) as made:
        yield made


@pytest.fixture
def ledger_path(tmp_path: Path) -> Path:
    """A path for a new ledger. Its folder does not exist yet."""
    return tmp_path / "var" / "tollgate.db"


HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def chat(client: httpx.Client) -> Chat:
    """Make a chat call with ``chat(model=..., stream=...)``. The default message is a greeting."""

    def send(**body: Any) -> httpx.Response:
        return client.post("/v1/chat/completions", json={"messages": HELLO} | body)

    return send


@pytest.fixture(scope="session")
def secure_sections(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The part of proxy.conf that turns on TLS toward clients."""
    pem = tmp_path_factory.mktemp("certificate") / "server.pem"
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    return {"listen": {"tls_certificate": str(pem)}}


@pytest.fixture(scope="session")
def secure_gateway(_start_shared_gateway: StartGateway, secure_sections: dict[str, Any]) -> Gateway:
    """A gateway with TLS toward clients."""
    return _start_shared_gateway(sections=secure_sections)


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """The TLS settings of a client that trusts ``secure_gateway``."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context
