"""A gateway that connects to providers through an egress proxy with a password."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from conftest import HELLO, StartGateway
from rig.bounds import BOUND_S
from rig.configuration import model, provider
from rig.egress_proxy import run_egress_proxy
from rig.gateway import Gateway

PASSWORD = "obviously-fake-password"


@pytest.fixture
def start(
    start_gateway: StartGateway, upstreams: dict[str, Any], authority: trustme.CA, tmp_path: Path
) -> Any:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name in ("SECURE", "TESTER"):
        upstreams[name].reset()

    def begin(proxy_port: int) -> Gateway:
        return start_gateway(
            providers={
                "SECURE": provider(upstreams["SECURE"].base_url),
                "TESTER": provider(upstreams["TESTER"].base_url),
                "SANDBOX": {"dialect": "openai", "builtin": True},
            },
            models={
                "secure-model": model(provider="SECURE"),
                "tester-large": model(),
                "sandbox-chat": model(provider="SANDBOX", upstream_model_id="sandbox-chat-001"),
            },
            sections={"upstream": {"proxy": "env:EGRESS_PROXY"}, "sandbox": {"enabled": True}},
            environment={
                "SSL_CERT_FILE": str(tmp_path / "ca.pem"),
                "EGRESS_PROXY": f"http://user:{PASSWORD}@127.0.0.1:{proxy_port}",
            },
        )

    return begin


async def test_all_but_the_sandbox_goes_through_the_proxy(start: Any, upstreams: dict[str, Any]) -> None:
    async with run_egress_proxy() as (proxy, asked):
        gateway = await asyncio.to_thread(start, proxy.port)
        async with httpx.AsyncClient(
            base_url=gateway.url, headers=gateway.headers, timeout=BOUND_S, trust_env=False
        ) as client:
            for slug in ("secure-model", "tester-large", "secure-model", "sandbox-chat"):
                body = {"model": slug, "messages": HELLO}
                answer = await client.post("/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
        hosts = [upstreams[name].base_url.split("/")[2] for name in ("SECURE", "TESTER")]
        assert [request.split(b" ")[1].decode() for request in asked] == hosts
        assert all(b"\r\nProxy-Authorization: Basic " in request for request in asked)
        await asyncio.to_thread(gateway.stop)
    assert PASSWORD not in "\n".join(gateway.stderr_lines)


async def test_a_proxy_that_refuses_is_a_502_and_its_status_is_logged(start: Any) -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nX-Password: " + PASSWORD.encode() + b"\r\n\r\n"
    async with run_egress_proxy(refusal) as (proxy, _):
        gateway = await asyncio.to_thread(start, proxy.port)
        async with httpx.AsyncClient(
            base_url=gateway.url, headers=gateway.headers, timeout=BOUND_S, trust_env=False
        ) as client:
            body = {"model": "secure-model", "messages": HELLO}
            answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 502
        await asyncio.to_thread(gateway.stop)
    log = "\n".join(gateway.stderr_lines)
    assert "the egress proxy answered 407" in log
    assert PASSWORD not in log + answer.text
