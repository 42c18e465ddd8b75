"""The names that the ``Host`` of a request to the console may have. Pure.

A hostile web page may give its own name the address of this machine (DNS rebinding). The browser then lets that page
read the console, but still sends the page's name as ``Host``. An address can't be rebound, so each one is accepted.
"""

import re
from collections.abc import Collection, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

_HOST: Final = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9_.-]{1,254}))(?::[0-9]{1,5})?")


def find_host_fault(hosts: Sequence[str], known: Collection[str]) -> str | None:
    """Return why a request with these ``Host`` headers is refused, None when it is accepted.

    ``known`` has names in lower case, without a port or a final dot.
    """
    if len(hosts) != 1:
        return "A request needs one Host header."
    found = _HOST.fullmatch(hosts[0].strip().lower())
    if found is None:
        return "The Host header is not a host with a port."
    if (ipv6 := found["ipv6"]) is not None:
        return None if _is_ipv6(ipv6) else "The Host header is not a host with a port."
    name = found["name"].removesuffix(".")
    if name == "localhost" or name in known or _is_address(name):
        return None
    return "The console is not served under this name. To allow it, add the name to [admin] console_hosts."


def split_port(host: str) -> str:
    """Return the port of a ``Host`` header, an empty text when it has none."""
    found = re.search(r":([0-9]{1,5})$", host.strip())
    return found[1] if found else ""


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
