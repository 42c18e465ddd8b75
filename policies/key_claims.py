"""Whose a key's hash is where two workspaces claim it: the one that had it keeps it, and none gets it by a claim.

Source: docs/configuration.md, "Edits".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettledClaims:
    """Who does not get which hash, each by the workspace's id with another that claims it too.

    ``gave_way``: the text claims what is another's, so the last good text stays. ``refused``: no last good text settles
    the matter, so the hash alone is refused.
    """

    gave_way: Mapping[str, tuple[str, str]]
    refused: Mapping[tuple[str, str], str]


def settle_claims(
    claims: Mapping[str, tuple[str, ...]], had: Callable[[str], tuple[str, ...] | None]
) -> SettledClaims:
    """Return who does not get what it claims.

    ``claims`` are the hashes of each workspace's text, ``had`` those of its last good text, None where there is none.
    """
    current, gave_way = dict(claims), dict[str, tuple[str, str]]()
    while True:
        refused = _refused(current, had)
        # One that gives way claims again what it had, which may be contested by now; each gives way once.
        losers: dict[str, tuple[str, str]] = {}
        for (workspace, key_hash), other in refused.items():
            if workspace not in gave_way and had(workspace) not in (None, current[workspace]):
                losers.setdefault(workspace, (key_hash, other))
        if not losers:
            return SettledClaims(gave_way, refused)
        gave_way |= losers
        current |= {workspace: had(workspace) or () for workspace in losers}


def _refused(
    claims: Mapping[str, tuple[str, ...]], had: Callable[[str], tuple[str, ...] | None]
) -> dict[tuple[str, str], str]:
    """Return who may not have which hash now, with another that claims it."""
    first: dict[str, str] = {}
    contested: dict[str, list[str]] = {}
    for workspace, hashes in claims.items():
        for key_hash in hashes:
            if (other := first.setdefault(key_hash, workspace)) != workspace:
                contested.setdefault(key_hash, [other]).append(workspace)
    refused = {}
    for key_hash, claimants in contested.items():
        owners = [one for one in claimants if key_hash in (had(one) or ())]
        keeper = owners[0] if len(owners) == 1 else None
        for one in claimants:
            if one != keeper:
                refused[one, key_hash] = keeper or next(other for other in claimants if other != one)
    return refused
