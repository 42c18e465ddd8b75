"""URLs that operators write, and model ids in paths. No message shows a part of a URL: it may hold a password. Pure."""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

_PATH_SAFE: Final = "!$&'()*+,;=:@"  # Source: RFC 3986, 3.3, "pchar".


def split_url(url: str, schemes: Collection[str], expected: str) -> SplitResult:
    """Return the parts of a URL that has one of ``schemes`` and names a host.

    Raises ValueError with the fault; a wrong scheme gives ``expected``.
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


@lru_cache(maxsize=1024)
def path_segment(model_id: str) -> str:
    """Return an upstream model id as one segment of a path. Raises ValueError for one that would change the path."""
    if model_id in ("", ".", ".."):
        raise ValueError("can't be part of a path")
    return quote(model_id, safe="")


@lru_cache(maxsize=1024)
def model_path(model_id: str) -> str:
    """Return an upstream model id, quoted for a path. Raises ValueError for one that would change the path.

    It may be the name of a resource, with several segments: ``accounts/a/models/b``.
    """
    segments = model_id.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise ValueError("can't be part of a path: it must be names between single slashes")
    return "/".join(quote(segment, safe=_PATH_SAFE) for segment in segments)
