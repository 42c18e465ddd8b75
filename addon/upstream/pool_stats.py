"""The numbers of a pool of connections to providers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Connections that are ``open`` now, ``idle`` ones included, and how many were ``opened`` and ``reused`` so far.

    Calls have ``leased`` ones, and places within the bounds of workspaces and of origins, or they are ``waiting``.
    """

    open: int
    idle: int
    opened: int
    reused: int
    leased: int
    connecting: int
    workspace_places: int
    origin_places: int
    waiting: int
