"""The quota that a vendor gives one place of a model, and when one process has used up its share of it. Pure.

| limit | counts | room is back |
|---|---|---|
| ``max_in_flight`` | the attempts that are being made | when one ends |
| ``rpm`` | the attempts of the last minute | 60 s after each: as in ``policies.token_bucket`` |
| ``tpm`` | the likely tokens of an attempt; at its end, those that it used | as they drain: ``policies.token_rate`` |

All processes that serve calls share a quota, and each has an equal part. A full place refuses no call: others have
their turn first. Source: docs/routing.md, "The quota of a place".
"""

from collections.abc import Iterable

from msgspec import Struct

from policies.token_rate import WINDOW_MS, Bucket, find_wait_ms


class PlaceQuota(Struct, frozen=True):
    """The limits of one place, None for none. At least one is set."""

    max_in_flight: int | None = None
    rpm: int | None = None
    tpm: int | None = None

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are set, by their keys of models.toml."""
        limits = {"max_in_flight": self.max_in_flight, "rpm": self.rpm, "tpm": self.tpm}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name} {limit}" for name, limit in self.limits.items())

    def share(self, processes: int) -> "PlaceQuota":
        """Return the part of one process: all parts together are the quota, or up to ``processes`` - 1 more."""
        if processes == 1:
            return self
        return PlaceQuota(
            _divide(self.max_in_flight, processes), _divide(self.rpm, processes), _divide(self.tpm, processes)
        )

    def is_used_up(self, in_flight: int, requests: int, drained: Bucket, tokens: int) -> bool:
        """Return whether there is no room for an attempt of ``tokens``. One of more than ``tpm`` needs all of it."""
        if self.max_in_flight is not None and in_flight >= self.max_in_flight:
            return True
        if self.rpm is not None and requests >= self.rpm:
            return True
        return self.tpm is not None and find_wait_ms(drained, self.tpm, min(max(tokens, 1), self.tpm)) > 0


def make_quota(
    limits: Iterable[tuple[int | None, int | None, int | None]],
) -> PlaceQuota | None:
    """Return the quota of a place from all that is written of it: ``max_in_flight``, ``rpm`` and ``tpm``, the least."""
    columns = zip(*limits, strict=True)
    least = [min((one for one in column if one is not None), default=None) for column in columns]
    return PlaceQuota(*least) if any(limit is not None for limit in least) else None


def bound_take(drained: Bucket, tpm: int, tokens: int) -> int:
    """Return how many of ``tokens`` a place counts: all of them, but no more than ``bound_level`` leaves room for."""
    return min(tokens, max(0, 2 * tpm - -(-drained.level // WINDOW_MS)))


def bound_level(bucket: Bucket, tpm: int) -> Bucket:
    """Return a bucket of at most twice its room. So a place that had to serve too much is full for a minute more."""
    return Bucket(min(bucket.level, 2 * tpm * WINDOW_MS), bucket.passed, bucket.at_ms)


def _divide(limit: int | None, processes: int) -> int | None:
    return None if limit is None else -(-limit // processes)
