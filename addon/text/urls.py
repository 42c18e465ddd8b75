"""URLs that operators write, taken apart. No message shows any of a URL: it may hold a password. Pure."""

import re
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit


def split_url(url: str, schemes: Collection[str], expected: str) -> SplitResult:
    """Return the parts of a URL that has one of ``schemes`` and names a host.

    Raises ValueError with what is wrong with it: with ``expected`` where it is the scheme.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise ValueError("is not a URL") from None
    if not re.fullmatch(r"[!-~]+", url) or "\\" in url:
        raise ValueError("must be printable ASCII without spaces")
    if parts.scheme not in schemes:
        raise ValueError(expected)
    if not host or port == 0:
        raise ValueError("must name a host")
    return parts
