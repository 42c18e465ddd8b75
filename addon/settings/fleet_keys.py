"""What the ledger says of API keys, whatever the files of this machine say: a copy next to the ledger's other copies.

The process that follows the ledger writes it, so that revoked keys stay revoked while the ledger is away.
Source: docs/configuration.md, "Several machines".
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from policies.model import Workspace

FILE_NAME: Final = "fleet-keys.json"

_NO_OWNERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FleetKeys:
    """The hashes of ``revoked`` keys, and the one workspace that has a hash that several claim, in ``owners``."""

    revoked: frozenset[str] = frozenset()
    owners: Mapping[str, str] = field(default_factory=lambda: _NO_OWNERS)

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Return what ``format`` has made. Raises ValueError."""
        try:
            read = json.loads(content)
            revoked, owners = read["revoked"], read["owners"]
            if not isinstance(revoked, list) or not isinstance(owners, dict):
                raise TypeError
            return cls(
                frozenset(map(str, revoked)), MappingProxyType({str(k): str(v) for k, v in owners.items()})
            )
        except (ValueError, KeyError, TypeError):
            raise ValueError("is no copy of the revoked keys; the gateway writes it again") from None

    def format(self) -> str:
        """Return the content of the file."""
        return json.dumps({"revoked": sorted(self.revoked), "owners": dict(sorted(self.owners.items()))})

    def find_revoked(self, hashes: Iterable[str]) -> frozenset[str]:
        """Return those ``hashes`` that are revoked."""
        return self.revoked.intersection(hashes)

    def find_claimed_elsewhere(self, workspace: str, hashes: Iterable[str]) -> Mapping[str, str]:
        """Return those ``hashes`` of a workspace that another one had first, with that workspace."""
        if not self.owners:
            return {}
        return {one: self.owners[one] for one in hashes if self.owners.get(one, workspace) != workspace}


def find_file(database: Path) -> Path:
    """Return the copy that belongs to ``[paths] database``."""
    return database.with_name(FILE_NAME)


def turn_off(workspace: Workspace, revoked: Collection[str]) -> Workspace:
    """Return a workspace in which the secrets of these hashes don't work: its keys stay, and are turned off."""
    if not revoked:
        return workspace
    kept = []
    for key in workspace.keys:
        if key.hash in revoked:
            key = replace(key, active=False, previous_hash=None, previous_until=None)
        elif key.previous_hash in revoked:
            key = replace(key, previous_hash=None, previous_until=None)
        kept.append(key)
    return replace(workspace, keys=tuple(kept))
