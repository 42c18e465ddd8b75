"""The keys of the rates in Redis. A script touches keys with one hash tag, which one node of a cluster has. Pure."""

from functools import lru_cache

CIRCUITS = "{tollgate}:circuits"
"""A hash of the circuits of providers that failed lately, by name."""


@lru_cache(maxsize=4096)
def takes_of(workspace: str) -> str:
    """Return the key of the takes of a workspace: a sorted set."""
    return f"tollgate:{{{workspace}}}:takes"
