"""The start and the end of what every gateway does with its ports, with one process or several.

A start opens the ports, inherits them from systemd, or gets them from the running gateway in a takeover. After the
start the gateway offers them to the next takeover.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from addon.runtime.taken_ports import name_setting
from addon.runtime.tasks import wait_for_first
from addon.serve.listening_sockets import MAX_SOCKETS, Address, Port, Ports
from addon.serve.running_gateway import Running, TakeoverFailed, find_running
from addon.serve.systemd import InheritedSockets, ServiceManager
from addon.serve.takeover_offer import Offer
from addon.serve.takeover_protocol import socket_file
from addon.settings.settings import Settings
from addon.telemetry.admin import Readiness

log = logging.getLogger("tollgate.takeover")


@dataclass(frozen=True, slots=True)
class Start:
    """How a gateway starts: whether it takes over a running one, and what the service manager gave it."""

    is_takeover: bool = False
    inherited: InheritedSockets = field(default_factory=InheritedSockets)
    manager: ServiceManager = field(default_factory=lambda: ServiceManager(""))


class Service(Protocol):
    """A gateway that has started: a single server, or the supervisor of workers."""

    async def accept(self) -> None:
        """Accept clients."""

    async def pause(self) -> None:
        """Accept no clients, and close no listening socket."""

    async def readiness(self) -> Readiness:
        """Return whether it should get calls, and the result of each check."""

    async def open_admin(self) -> None:
        """Serve the admin port, unless that is done already."""

    async def wait(self) -> None:
        """Wait for ever. Raise a fault that ends the gateway."""

    def retire(self, hurry: asyncio.Event) -> None:
        """Prepare for the end after a takeover: clients may keep their connections until ``hurry``."""


@dataclass(slots=True)
class Opening:
    """The ``ports`` of a gateway, and the ``running`` gateway that it takes over, if any."""

    ports: Ports
    running: Running | None
    manager: ServiceManager
    file: Path
    uses_tls: bool

    @property
    def url(self) -> str:
        """The URL of the public port."""
        return self.ports["listen"].url(tls=self.uses_tls)

    async def serve(self, service: Service, announce: Callable[[str], None], stop: asyncio.Event) -> None:
        """Serve until ``stop``, or until another process has taken over. Call ``announce`` with the URL when ready.

        Raises TakeoverFailed when the running gateway goes on.
        """
        if self.running:
            if (store := (await service.readiness()).checks["store"]) != "ok":
                # The running one may have calls in memory, which a start without the store could not write.
                raise TakeoverFailed(f"the running gateway goes on: {store}")
            await self.running.stop_accepting()
        await service.accept()
        if self.running:
            await self.running.end()
            log.info("took over from process %d", self.running.pid, extra={"event": "took over"})
        await service.open_admin()
        self.manager.notify("READY=1", f"MAINPID={os.getpid()}")
        announce(self.url)
        offer = Offer(self.file, self.ports, service.pause, service.accept, self.manager.address)
        offer.start(replaces=self.running is not None)
        try:
            await wait_for_first(stop.wait(), offer.taken.wait(), service.wait())
        finally:
            await offer.close()
            # From now on the system refuses new connections, unless another process has the sockets.
            self.close()
        if offer.taken.is_set():
            self._end_after(offer.successor)
            service.retire(stop)
        else:
            self.manager.notify("STOPPING=1")

    def _end_after(self, successor: int) -> None:
        # The service manager must know the new main process before this one ends.
        self.manager.notify(f"MAINPID={successor}")
        message = "process %d took over; this one ends when its connections have ended"
        log.info(message, successor, extra={"event": "taken over"})

    def close(self) -> None:
        """Close everything here. Sockets that another process has as well go on there."""
        for port in self.ports.values():
            port.close()
        if self.running:
            self.running.close()


@contextmanager
def opened(settings: Settings, conf_file: Path, start: Start) -> Iterator[Opening]:
    """Give the ports of a gateway. Raises OSError when a port can't be bound, TakeoverFailed."""
    conf = settings.conf
    file = socket_file(conf.paths.database, conf_file)
    wanted = {
        "listen": Address(conf.listen.host, conf.listen.port),
        "admin": Address(conf.admin.host, conf.admin.port),
    }
    running = find_running(file) if start.is_takeover else None
    opening = Opening({}, running, start.manager, file, uses_tls=bool(conf.listen.tls_certificate))
    try:
        if running:
            opening.ports = running.request_ports(wanted)
            opening.manager = ServiceManager(start.manager.address or running.notify_address)
        else:
            if start.is_takeover:
                log.info("no gateway to take over: this is an ordinary start")
            # The public port first. So the error of a second gateway is about this one.
            for section, given in (("listen", start.inherited.public), ("admin", start.inherited.admin)):
                address, option = wanted[section], "--port" if section == "listen" else "--admin-port"
                with name_setting(f"[{section}]", option, address.port):
                    opening.ports[section] = Port(None, given) if given else Port.open(address)
        opening.ports["listen"].add_up_to(min(conf.listen.workers, MAX_SOCKETS))
        yield opening
    finally:
        opening.close()
