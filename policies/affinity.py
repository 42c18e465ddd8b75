"""What keeps a vendor's prompt cache warm: calls of one conversation go to one place, with one key. Pure.

Weighted rendezvous hashing needs no state, so all workers and machines choose alike. Where a place goes, only its share
of the conversations moves. Source: docs/routing.md, "Several places"; Thaler and Ravishankar, "Using Name-Based
Mappings to Increase Hit Rates" (1998).
"""

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from policies.request_facts import text_of

MAX_CHARS: Final = 20_000
"""How much of all texts is read. A vendor's cache is by the beginning of a prompt."""
MAX_MESSAGES: Final = 1_000
"""How many messages are looked at."""

_SYSTEM_ROLES: Final = frozenset({"system", "developer"})
_HASHES: Final = 2**64


def find_affinity(workspace: str, fields: Mapping[str, Any], cache_key: object) -> bytes:
    """Return what calls of one conversation share, as a digest.

    ``cache_key`` is the client's ``prompt_cache_key``. Without one it is the texts of the system and of the first user
    message that count.
    """
    digest = blake2b(workspace.encode("utf-8", "surrogatepass"), digest_size=16)
    if isinstance(cache_key, str) and cache_key:
        parts = ["key", cache_key[:MAX_CHARS]]
    else:
        parts = ["texts", *_beginning(fields["messages"])]
    for part in parts:
        digest.update(b"\0" + part.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _beginning(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the texts of the system's messages before the first one of the user, and of this one."""
    found, left = [], MAX_CHARS
    for message in messages[:MAX_MESSAGES]:
        is_user = message["role"] == "user"
        if is_user or message["role"] in _SYSTEM_ROLES:
            found.append(text_of(message.get("content"), left))
            left -= len(found[-1])
        if is_user or not left:
            break
    return found


type Distance = tuple[bool, float]


def distance(affinity: bytes, name: bytes, weight: int) -> Distance:
    """Return how far what is called ``name`` is from ``affinity``: the nearest is chosen."""
    hashed = int.from_bytes(blake2b(name, digest_size=8, key=affinity).digest())
    # Exponentially distributed, so that the smallest of several is of each with the probability of its weight.
    return weight == 0, -math.log((hashed + 1) / (_HASHES + 1)) / (weight or 1)
