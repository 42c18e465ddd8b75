"""The owner of an API key's hash that two workspaces claim: the workspace that had the key keeps it.

Source: docs/configuration.md, "Edits".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettledClaims:
    """The claims that are refused. Workspaces are named by their ids.

    ``gave_way`` maps a workspace to a hash and the other workspace that claims it. Its new text claims another's hash,
    so its last good text stays in use. ``refused`` maps a workspace and a hash to the other workspace. No last good
    text decides between them, so only the hash is refused.
    """

    gave_way: Mapping[str, tuple[str, str]]
    refused: Mapping[tuple[str, str], str]


def settle_claims(
    claims: Mapping[str, tuple[str, ...]], had: Callable[[str], tuple[str, ...] | None]
) -> SettledClaims:
    """Return the claims that are refused.

    ``claims`` has the hashes in each workspace's text. ``had`` returns those in its last good text, None without one.
    """
    current, gave_way = dict(claims), dict[str, tuple[str, str]]()
    while True:
        refused = _refused(current, had)
        # A workspace that gives way claims its former hashes again, and others may claim them by now. So repeat until
        # nothing changes. Each workspace gives way at most once.
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
    """Return the workspaces and hashes that are refused now, each with another workspace that claims the hash."""
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
