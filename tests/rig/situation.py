"""One call with failing providers: its fault, what answers then, and the keys of its workspace."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rig.faults import Fault, silence
from rig.scripts import Behaviour, ordinary

Place = Literal["first", "second"]
Role = Literal["customer", "platform", "fallback"]
ROLES: tuple[Role, ...] = ("customer", "platform", "fallback")
"""Keys: the customer's and the platform's for the first provider, and the platform's for the fallback."""


@dataclass(frozen=True)
class Situation:
    """One call: the failure of its first attempt, and the outcome of a second.

    | field | meaning |
    |---|---|
    | ``own_keys`` | the places that the customer has a key for |
    | ``fallback`` | the place of the fallback model |
    | ``then`` | the answer to a second attempt |
    | ``workspace``, ``key``, ``first``, ``second`` | changes of the workspace's file, its key and the two models |
    | ``unset`` | keys that are missing |
    | ``spends_before`` | another call is paid first |
    | ``is_booked`` | the call has a ledger row |
    | ``is_alone`` | no other call uses the connections to its providers |
    """

    number: int
    name: tuple[str, ...]
    fault: Fault
    stream: bool = False
    own_keys: tuple[Place, ...] = ()
    fallback: Place | None = "second"
    then: Behaviour = ordinary
    workspace: Mapping[str, Any] = field(default_factory=dict)
    key: Mapping[str, Any] = field(default_factory=dict)
    first: Mapping[str, Any] = field(default_factory=dict)
    second: Mapping[str, Any] = field(default_factory=dict)
    wallet_usd: str | None = "1"
    spends_before: bool = False
    unset: frozenset[Role] = frozenset()
    is_booked: bool = True
    is_alone: bool = False

    def provider(self, place: Place) -> str:
        return f"{place.upper()}_{self.number:03}"

    def slug(self, place: Place) -> str:
        return f"{place}-{self.number:03}"

    @property
    def first_role(self) -> Role:
        """The key of the first attempt."""
        return "customer" if "first" in self.own_keys else "platform"

    @property
    def workspace_id(self) -> str:
        return f"w{self.number:03}"

    @property
    def is_repaired(self) -> bool:
        """Whether the port is repaired between the two attempts, which both use it."""
        return bool(self.fault.port and "first" in self.own_keys and self.then is ordinary)

    @property
    def has_accounts(self) -> bool:
        """Whether the first provider needs access tokens. The request for the second token repairs a port."""
        return self.is_repaired or self.fault.has_no_token

    @property
    def waits(self) -> bool:
        """Whether the call waits for a timeout."""
        return self.fault.waits or self.then is silence

    def secret(self, role: Role) -> str:
        """Return the key of ``role``."""
        return f"fake-{role}-key-{self.number:03}-{'x' * 20}"
