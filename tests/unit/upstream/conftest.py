"""TLS of a provider, a process that trusts its authority, and a token server."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme
from rig.token_server import TokenServer

from addon.runtime.local_http import LocalServer
from addon.upstream.access_tokens import AccessTokens
from addon.upstream.connector import SocketConnector
from addon.upstream.pool import Pool


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> None:
    """Trust the authority of the run by ``SSL_CERT_FILE``, like an operator."""
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


@pytest.fixture
async def server() -> AsyncIterator[TokenServer]:
    made = TokenServer()
    made.may_answer.set()
    listening = LocalServer(made.handle, 65_536)
    made.url = f"http://127.0.0.1:{await listening.start('127.0.0.1', 0)}/token"
    yield made
    made.may_answer.set()
    await listening.stop()


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool(SocketConnector())
    yield made
    await made.close()


@pytest.fixture
async def tokens(pool: Pool) -> AsyncIterator[AccessTokens]:
    made = AccessTokens(pool, pause_s=0)
    yield made
    await made.close()
