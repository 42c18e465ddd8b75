"""The rates in a cluster that speaks TLS and does not know its own address."""

from pathlib import Path

import pytest
import trustme
from pydantic import SecretStr
from rig.large import large_only
from rig.redis_fleet import wait_until
from rig.redis_server import RedisServer
from rig.server_process import HOST, free_ports
from rig.takers import FLEET, LEDGER

from addon.store.protocol import StoreUnavailable
from addon.store.rates.redis.rates import RedisRates


@large_only
async def test_a_cluster_with_tls_is_reached_with_its_authority_only(
    redis_program: Path, authority: trustme.CA, tmp_path: Path
) -> None:
    pem, ca_file = tmp_path / "server.pem", tmp_path / "ca.pem"
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(pem))
    authority.cert_pem.write_to_path(str(ca_file))
    tls_port, bus = free_ports(2)
    lines = (
        *("cluster-enabled yes", f"cluster-port {bus}", f"tls-port {tls_port}", "tls-cluster yes"),
        *(
            "tls-auth-clients no",
            f"tls-cert-file {pem}",
            f"tls-key-file {pem}",
            f"tls-ca-cert-file {ca_file}",
        ),
    )
    with RedisServer(redis_program, more=lines) as server:
        server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        wait_until(lambda: "cluster_state:ok" in server.command("CLUSTER", "INFO", raw=True))
        url = f"rediss+cluster://{HOST}:{tls_port}"
        trusting = RedisRates(SecretStr(f"{url}?ssl_ca_certs={ca_file}"), lambda: LEDGER, FLEET)
        await trusting.check()
        assert await trusting.take_token("acme", 1) == 0
        doubting = RedisRates(SecretStr(url), lambda: LEDGER, FLEET)
        with pytest.raises(StoreUnavailable, match="certificate verify failed"):
            await doubting.check()
        for rates in (trusting, doubting):
            await rates.close()
