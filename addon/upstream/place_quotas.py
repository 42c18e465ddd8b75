"""How much one process uses of the quotas of places. Only attempts with the platform's keys count.

What an attempt takes is given back when it ends, however it ends: ``tollgate_in_use`` has what is in flight. No I/O.
"""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct, field

from addon.runtime.clock import Clock, monotonic_us
from policies.model import Model
from policies.place_quota import PlaceQuota, bound_level, bound_take
from policies.route import Target
from policies.token_bucket import WINDOW_US, slice_us
from policies.token_rate import Bucket, Take, drain, settle, take


class _Group(Struct):
    """Attempts that count until 60 s after the last one, so that a minute of any length has a bounded memory."""

    began_us: int
    last_us: int
    count: int = 1


class _Place(Struct, eq=False):
    """What is used of one place. ``requests`` is the sum of the groups."""

    in_flight: int = 0
    requests: int = 0
    groups: deque[_Group] = field(default_factory=deque)
    tokens: Bucket = Bucket()

    def forget_old(self, now_us: int) -> None:
        while self.groups and self.groups[0].last_us <= now_us - WINDOW_US:
            self.requests -= self.groups.popleft().count

    def add_request(self, rpm: int, now_us: int) -> _Group:
        self.forget_old(now_us)
        self.requests += 1
        if self.groups and now_us - self.groups[-1].began_us < slice_us(rpm):
            group = self.groups[-1]
            group.last_us, group.count = now_us, group.count + 1
        else:
            group = _Group(now_us, now_us)
            self.groups.append(group)
        return group

    def take_back_request(self, group: _Group, now_us: int) -> None:
        self.forget_old(now_us)
        if group.last_us > now_us - WINDOW_US:
            group.count -= 1
            self.requests -= 1


class QuotaUse(Struct, eq=False):
    """What one attempt has taken of its place. ``is_dispatched``: it may be sent now."""

    _quotas: "PlaceQuotas"
    _place: _Place
    _group: _Group | None
    _taken: tuple[int, Take] | None
    is_dispatched: bool = False

    def end(self, used_tokens: int | None) -> None:
        """Give back what an attempt took, at its end. What it used counts on; None: nobody knows, so what it took."""
        self._place.in_flight -= 1
        if self._taken is not None and used_tokens is not None:
            tpm, taken = self._taken
            now_ms = self._quotas.now_us() // 1000
            settled = settle(drain(self._place.tokens, tpm, now_ms), tpm, taken, used_tokens)
            self._place.tokens = bound_level(settled, tpm)

    def cancel(self) -> None:
        """Give back all that was taken for an attempt that was not sent."""
        if self._group is not None:
            self._place.take_back_request(self._group, self._quotas.now_us())
        self.end(0)


class PlaceQuotas:
    """The use of one process, by place.

    ``processes`` is how many live processes share each quota, this one among them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: dict[str, _Place] = {}
        self.processes = 1

    @property
    def in_flight(self) -> int:
        """How many attempts are in flight at places with a quota."""
        return sum(place.in_flight for place in self._places.values())

    def now_us(self) -> int:
        """Return the monotonic time in µs."""
        return monotonic_us(self._clock)

    def is_full(self, target: Target, tokens: int) -> bool:
        """Return whether the place of ``target`` has no room for an attempt that likely uses ``tokens``."""
        quota = _find_quota(target)
        if quota is None or (place := self._places.get(target.model.place)) is None:
            return False
        now_us, share = self.now_us(), quota.share(self.processes)
        place.forget_old(now_us)
        drained = place.tokens if share.tpm is None else drain(place.tokens, share.tpm, now_us // 1000)
        return share.is_used_up(place.in_flight, place.requests, drained, tokens)

    def take(self, target: Target, tokens: int) -> QuotaUse | None:
        """Take of a place what an attempt likely uses, whether or not there is room. None: the place has no quota."""
        quota = _find_quota(target)
        if quota is None:
            return None
        now_us, share = self.now_us(), quota.share(self.processes)
        place = self._places.setdefault(target.model.place, _Place())
        place.in_flight += 1
        group = None if share.rpm is None else place.add_request(share.rpm, now_us)
        taken = None
        if share.tpm is not None:
            drained = drain(place.tokens, share.tpm, now_us // 1000)
            place.tokens, one = take(drained, bound_take(drained, share.tpm, tokens))
            taken = share.tpm, one
        return QuotaUse(self, place, group, taken)

    def use_models(self, models: Iterable[Model]) -> None:
        """Forget the places that have no quota any more, once nothing is in flight there."""
        kept = {place.place for model in models for place in model.places if place.quota is not None}
        self._places = {
            name: place for name, place in self._places.items() if name in kept or place.in_flight
        }


def _find_quota(target: Target) -> PlaceQuota | None:
    """Return the quota that an attempt counts against. A customer's own key has one of its own at the vendor."""
    return target.model.quota if target.mode == "payg" else None
