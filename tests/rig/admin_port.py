"""An admin port with a console in this process, whose gateway a test can make slow."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

import httpx

from addon.console.console import Console
from addon.console.sources import Sources
from addon.runtime.listening import bind
from addon.settings.settings import Settings, SettingsFiles
from addon.settings.snapshot import Snapshot
from addon.store.money.sqlite.connection import open_connection
from addon.telemetry.admin import Admin, Readiness
from addon.telemetry.metric_families import Sample
from rig.bounds import BOUND_S
from rig.session_keys import write_cheap_session_keys
from rig.settings_files import edit, write_files

PASSWORD = "obviously fake pass phrase"


def form_of(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of a page."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
    return {name: unescape(value) for name, value in found}


class Port:
    """An admin port. While ``gate`` is not set, pages wait for the state of the gateway."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0
        self.admin = Admin(self._readiness)
        self.files: SettingsFiles
        self.settings: Settings
        self.port = 0
        self.console: Console
        self.http: httpx.AsyncClient

    def load(self, admin: str = 'console_password = "file:phrase"') -> None:
        """Load settings with this section ``[admin]``."""
        conf = write_files(self.folder)
        edit(conf, "[billing]", f"[admin]\n{admin}\n[billing]")
        self.files = SettingsFiles(conf, {"OPENAI_KEY": "sk-obviously-fake"})
        self.settings = self.files.load()

    def _snapshot(self) -> Snapshot:
        built_from = self.files.built_from()
        return Snapshot.of(self.settings, built_from, built_from.shared_files[self.settings.conf_file])

    async def _readiness(self) -> Readiness:
        return Readiness(True, {})

    async def _slow_readiness(self) -> Readiness:
        self.asked += 1
        await self.gate.wait()
        return Readiness(True, {})

    async def _metrics(self) -> tuple[int, str, bytes]:
        return 200, "text/plain", b"tollgate_start_time_seconds 1\n"

    async def start(self, host: str = "127.0.0.1") -> None:
        listening = bind(host, 0)
        sources = Sources(
            lambda: self.settings,
            self._snapshot,
            self._slow_readiness,
            lambda: {"tollgate_start_time_seconds": [Sample({}, 1)]},
            lambda: None,
            lambda: 0.0,
            dict,
            self.files,
        )
        database = self.settings.conf.paths.database
        write_cheap_session_keys(database.parent)
        open_connection(database).close()
        self.console = Console(sources, [listening.getsockname()])
        self.admin.pages["/metrics"] = self._metrics
        await self.admin.start_on([listening], self.console)
        self.port = listening.getsockname()[1]
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", timeout=BOUND_S, trust_env=False, verify=False
        )

    async def log_in(self, password: str = PASSWORD) -> httpx.Response:
        """Send the form to log in."""
        page = await self.http.get("/login")
        return await self.http.post("/login", data=form_of(page) | {"password": password})

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The requests in work."""
        assert self.admin._server
        return self.admin._server._tasks

    async def send(self, *lines: str, body: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request as bytes, and return the open connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return reader, writer

    async def stop(self) -> None:
        await self.http.aclose()
        await self.admin.stop()


@asynccontextmanager
async def opened(folder: Path, admin: str, host: str = "127.0.0.1") -> AsyncIterator[Port]:
    (folder / "phrase").write_text(PASSWORD)
    port = Port(folder)
    port.load(admin)
    await port.start(host)
    try:
        yield port
    finally:
        await port.stop()
