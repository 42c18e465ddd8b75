"""What calls take of a running gateway is given back: the check after a test, by the gateway's own gauges."""

import http.client
import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from addon.gateway.in_use import RESOURCES
from rig.bounds import BOUND_S
from rig.gateway import Gateway

TASKS_OF_A_CLIENT = 3
TIMERS_OF_A_CLIENT = 2
TIMERS_OF_THE_POOL = 1
"""It closes idle connections, and runs on for a while where the last one of them was taken."""
FILES_OF_PAGES = 3
"""The process that makes pages begins with the first page and stays."""
FILES_OF_THE_LEDGER = 3
"""Background work connects to the ledger soon after the start, which are two. SQLite keeps one of a connection that it
has closed while another is open, for its next connection."""
SOON_S = 1.0
"""How long the last call of a test may take to end by itself."""

_SERIES = re.compile(rb'^tollgate_in_use\{resource="(\w+)"\} (\S+)$', re.MULTILINE)


def read_in_use(gateway: Gateway) -> dict[str, int]:
    """Return how much of each resource is in use, as ``/metrics`` has it."""
    asking = http.client.HTTPConnection(str(urlsplit(gateway.admin_url).netloc), timeout=BOUND_S)
    try:
        asking.request("GET", "/metrics", headers={"Connection": "close"})
        page = asking.getresponse().read()
    finally:
        asking.close()
    return {name.decode(): int(float(count)) for name, count in _SERIES.findall(page)}


class Conservation:
    """The check of one gateway, which has made no call yet."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._start = read_in_use(gateway)

    def check(self, end_calls: Callable[[], object]) -> None:
        """Fail unless all is back, and name what is not. ``end_calls`` makes the provider end what still runs."""
        soon_s = time.monotonic() + SOON_S
        deadline_s = soon_s + BOUND_S
        while left := find_left(
            read_in_use(self._gateway), self._start, page_processes=len(self._gateway.page_processes())
        ):
            if time.monotonic() > soon_s:
                end_calls()
                soon_s = deadline_s
            assert time.monotonic() < deadline_s, f"not given back: {left}"
            time.sleep(0.01)


def find_left(now: Mapping[str, int], start: Mapping[str, int], *, page_processes: int = 0) -> dict[str, int]:
    """Return how much of each resource is in use beyond what open connections and the process of pages may have."""
    clients, idle = now["client_connections"], now["idle_connections"]
    rest = {one.name: 0 for one in RESOURCES if not one.may_stay}
    rest["tasks"] = start["tasks"] + TASKS_OF_A_CLIENT * clients + page_processes
    rest["timers"] = start["timers"] + TIMERS_OF_A_CLIENT * clients + idle + TIMERS_OF_THE_POOL
    files = FILES_OF_THE_LEDGER + FILES_OF_PAGES * page_processes
    rest["descriptors"] = start["descriptors"] + clients + idle + files
    return {name: now[name] - most for name, most in rest.items() if now[name] > most}
