"""The keys of the rates in Redis. A script touches keys with one hash tag, which one node of a cluster has. Pure."""

from functools import lru_cache

IDENTITY = "{tollgate}:rates"
"""A hash: the id of the "ledger" and the name of the "fleet" that the rates belong to."""
CIRCUITS = "{tollgate}:circuits"
"""A hash of the circuits of providers that failed lately, by name."""


@lru_cache(maxsize=4096)
def takes_of(workspace: str) -> str:
    """Return the key of the takes of a workspace: a list of groups."""
    return f"tollgate:{{{workspace}}}:tokens"


@lru_cache(maxsize=4096)
def tokens_of(workspace: str, scope: str) -> str:
    """Return the key of a bucket of tokens or requests a minute: packed numbers."""
    return f"tollgate:{{{workspace}}}:tpm:{scope}"


def values_of(workspace: str, shared_scope: str) -> str:
    """Return the key of the values of a budget that have a bucket: a sorted set of its keys, by when each is over."""
    return f"tollgate:{{{workspace}}}:values:{shared_scope}"
