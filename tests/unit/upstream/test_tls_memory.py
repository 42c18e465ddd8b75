"""The memory of open TLS connections, measured by the kernel in a separate process."""

import asyncio
import ssl
import sys
from pathlib import Path

import trustme
from rig.bounds import BOUND_S
from rig.configuration import ROOT
from rig.large import large_only
from rig.provider import Provider

CONNECTIONS = 300
MAX_KIB = 60
"""The bound for one connection. The buffers of asyncio's own TLS alone take 256 KiB."""

CLIENT = f"""
import asyncio, gc, os, sys
from addon.upstream.connector import SocketConnector
from addon.upstream.origin import Origin
from addon.upstream.pool import Pool, PoolLimits

REQUEST = b"POST / HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 2\\r\\n\\r\\n"

def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def main():
    pool = Pool(SocketConnector(), PoolLimits(open_per_workspace={CONNECTIONS}))
    origin = Origin("https", "127.0.0.1", int(sys.argv[1]))
    before = None
    held = []
    for number in range({CONNECTIONS}):
        connection = await pool.acquire(origin, "acme", {BOUND_S})
        connection.send(REQUEST, b"{{}}")
        assert (await connection.head()).status == 200
        while await connection.read():
            pass
        held.append(connection)
        before = before or resident_bytes()
    print((resident_bytes() - before) // len(held))
    await pool.close()

asyncio.run(main())
"""


@large_only
async def test_an_open_tls_connection_takes_little_memory(authority: trustme.CA, tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with Provider(tls=context) as provider, asyncio.timeout(BOUND_S):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", CLIENT, str(provider.port)),
            env={"SSL_CERT_FILE": str(tmp_path / "ca.pem"), "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )
        stdout, _ = await process.communicate()
    assert process.returncode == 0
    assert 0 < int(stdout) < MAX_KIB * 1024
