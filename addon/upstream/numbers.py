"""The bounds of the pool of connections, and what it counts. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds of the pool.

    ``idle_s`` is below the 60 s after which AWS's load balancers close an idle connection, and the 75 s of nginx
    (``keepalive_timeout``), so that it is this side that closes. ``age_s`` lets a provider move its address: a
    connection is not used again after that.
    """

    idle_per_origin: int = 64
    idle: int = 1024
    open_per_origin: int = 1024
    open_per_workspace: int = 256
    idle_s: float = 50.0
    age_s: float = 600.0


DEFAULT_LIMITS = PoolLimits()


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Connections ``open`` now, ``idle`` ones among them; how often one was ``opened`` and ``reused`` so far."""

    open: int
    idle: int
    opened: int
    reused: int
