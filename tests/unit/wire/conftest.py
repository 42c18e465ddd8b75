"""A port of the wire without TLS and with TLS."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme


@pytest.fixture
def certificate(authority: trustme.CA, tmp_path: Path) -> Path:
    pem = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
    return pem


@pytest.fixture(params=["plain", "tls"])
def kind(request: pytest.FixtureRequest, certificate: Path, trusting: ssl.SSLContext) -> dict[str, Any]:
    """The wire's arguments for a port without and with TLS."""
    return {} if request.param == "plain" else {"certificate": certificate, "tls": trusting}
