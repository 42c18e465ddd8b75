"""``BackOff``: how long the next attempt to log in must wait. Pure: each function gets the time."""

from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

FREE_FAILURES: Final = 3
"""How many failures someone may have before each further attempt must wait."""

LONGEST_WAIT_S: Final = 60.0
FORGET_S: Final = 900.0
MAX_REMEMBERED: Final = 1024

PER_SECOND: Final = 1.0
"""How many attempts of all unknown addresses together are tried, after the first ``BURST``."""

BURST: Final = 5.0


@dataclass(slots=True)
class _Failures:
    count: int
    last_s: float

    def wait_s(self, now_s: float) -> float:
        over = self.count - FREE_FAILURES
        pause_s = min(2.0 ** min(over, 30), LONGEST_WAIT_S) if over >= 0 else 0.0
        return max(0.0, self.last_s + pause_s - now_s)


class BackOff:
    """The failures of each one who tried, and the rate of all together.

    Someone ``known`` has logged in before, so a flood of others does not make that one wait.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._left = BURST
        self._at_s = 0.0

    def wait_s(self, who: str, now_s: float, *, known: bool) -> float:
        """Return after how many seconds ``who`` may try, 0 when that is now."""
        found = self._failures.get(who)
        own_s = found.wait_s(now_s) if found else 0.0
        return own_s if known else max(own_s, self._shared_wait_s(now_s))

    def begin(self, who: str, now_s: float, *, known: bool) -> None:
        """Count an attempt as failed until ``succeed``, so that attempts at the same time count, too."""
        if not known:
            self._left = max(0.0, self._refilled(now_s) - 1.0)
            self._at_s = now_s
        found = self._failures.pop(who, None)
        count = found.count if found and now_s - found.last_s < FORGET_S else 0
        self._failures[who] = _Failures(count + 1, now_s)
        if len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)

    def succeed(self, who: str) -> None:
        """Forget the failures of ``who``."""
        self._failures.pop(who, None)

    def _refilled(self, now_s: float) -> float:
        return min(BURST, self._left + max(0.0, now_s - self._at_s) * PER_SECOND)

    def _shared_wait_s(self, now_s: float) -> float:
        return max(0.0, 1.0 - self._refilled(now_s)) / PER_SECOND


def network_of(address: str) -> str:
    """Return the network that counts as one client: an IPv4 address, or a /64 of IPv6, which one client can have."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped else str(ip_network((int(found), 64), strict=False))
    return str(found)
