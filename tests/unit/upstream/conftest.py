"""TLS of a provider, and a process that trusts its authority."""

import ssl
from typing import Any

import pytest
import trustme


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
