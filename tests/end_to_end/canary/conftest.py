"""One gateway works with all secrets that a gateway may hold or receive.

Its providers repeat their key wherever they can, its clients send their key in every field, and its operators write
secrets in the wrong place. Each test searches the output that it causes. ``test_whole_output.py`` ends the gateway and
searches all of its output, so it has to be the last file of this folder.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from conftest import StartGateway
from rig.bounds import BOUND_S
from rig.canary_scene import CLIENT_HEADERS, DIALECTS, KEYS, NOSY, Scene, configuration, token_answer
from rig.upstream import Upstream


@pytest.fixture(scope="package")
def scene(_start_shared_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder, secrets = tmp_path_factory.mktemp("gateway"), tmp_path_factory.mktemp("secrets")
    (folder / "policies").mkdir()
    (folder / "policies" / "nosy.py").write_text(NOSY)
    with ExitStack() as running:
        providers = {name: running.enter_context(Upstream()) for name in DIALECTS}
        tokens = running.enter_context(Upstream())
        tokens.behave(token_answer)
        settings = configuration(providers, tokens, secrets)
        gateway = _start_shared_gateway(folder, **settings)
        gateway.keys = KEYS
        written = {file: file.read_bytes() for file in folder.rglob("*.toml")} | {
            file: file.read_bytes() for file in (folder / "proxy.conf", folder / "policies" / "nosy.py")
        }
        client = httpx.Client(base_url=gateway.url, headers=CLIENT_HEADERS, timeout=BOUND_S, trust_env=False)
        running.enter_context(client)
        yield Scene(gateway, providers, tokens, client, written, settings)


@pytest.fixture(autouse=True)
def no_leak(scene: Scene) -> Iterator[None]:
    scene.leaks.clear()
    yield
    assert not scene.leaks, "\n".join(scene.leaks)
    for upstream in (*scene.providers.values(), scene.tokens):
        assert upstream.failures == []


@pytest.fixture
def environment(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of the gateway for commands that run in this process."""
    for name, value in scene.settings["environment"].items():
        monkeypatch.setenv(name, value)
