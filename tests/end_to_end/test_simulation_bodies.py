"""The time that a body may take, to the second, in simulated time."""

import asyncio
from pathlib import Path

import pytest
from rig.configuration import Configuration, model, provider, workspace
from rig.simulation import World, simulate
from rig.simulation.gateway import SimulatedGateway

from addon.calls.request_body import BYTES_PER_S, TIMEOUT_S
from addon.settings.settings import Settings, load_settings

KEY = f"tg_{'body':0<40}"
LENGTH = 30_000_000


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    written = Configuration(
        providers={"TESTER": provider("http://127.0.0.1:20000/v1")},
        models={"m": model()},
        workspaces={"acme": workspace(("ci", KEY, True))},
    ).write(tmp_path_factory.mktemp("simulation"))
    return load_settings(written, {"TEST_PROVIDER_KEY": "fake"})


async def send_slowly(
    world: World, settings: Settings, database: Path, rate: int, piece: int
) -> tuple[int, float]:
    """Send a body of blanks at ``rate`` bytes a second. Return the status and the seconds until it arrived."""
    gateway = SimulatedGateway(world, settings, database)
    await gateway.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    fields = f"Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\nContent-Length: {LENGTH}\r\n"
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode())
    began_s = world.loop.time()
    answering = asyncio.create_task(reader.readuntil(b"\r\n"))
    left = LENGTH
    while left and not answering.done():
        writer.write(b" " * min(piece, left))
        left -= min(piece, left)
        await asyncio.wait({answering}, timeout=piece / rate)
    status = int((await answering).split()[1])
    took_s = world.loop.time() - began_s
    writer.close()
    await asyncio.wait({asyncio.create_task(writer.wait_closed())})
    await gateway.stop()
    return status, took_s


@pytest.mark.parametrize(
    ("rate", "piece", "status", "took_s"),
    [
        pytest.param(BYTES_PER_S, 65_536, 400, LENGTH / BYTES_PER_S, id="64 KiB a second"),
        pytest.param(BYTES_PER_S // 2, 16_384, 408, 2 * TIMEOUT_S, id="half of that"),
        pytest.param(100, 100, 408, TIMEOUT_S, id="100 bytes a second"),
    ],
)
def test_a_body_at_the_lowest_rate_is_read_and_a_slower_one_refused(
    settings: Settings, tmp_path: Path, rate: int, piece: int, status: int, took_s: float
) -> None:
    database = tmp_path / "tollgate.db"
    ran = simulate(1, lambda world: send_slowly(world, settings, database, rate, piece)).result
    assert ran[0] == status
    assert ran[1] == pytest.approx(took_s, abs=2)
