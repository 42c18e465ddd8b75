"""The platform's keys take turns: a PAYG call goes out with its provider's next key that does not rest.

What is known of a key is of this process alone, and no output shows more of it than its provider and its place in the
list as it is written. How long a key rests is ``policies.key_cooldown``'s to say; a rest keeps no call from being made.
"""

import logging
import math
from collections import Counter
from dataclasses import dataclass, replace

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.settings import Settings
from addon.telemetry.metrics import KeyState, Metrics
from addon.text.retry_after import parse_retry_after
from policies.key_cooldown import FRESH, KeyRest, after_answer, next_key
from policies.model import Attempt, Provider

log = logging.getLogger("tollgate.platform_keys")


@dataclass(slots=True)
class _Key:
    """One key, at ``place`` of ``written`` ones.

    ``secret`` is what calls are given: another object from each rest on, by which an answer tells whether its call was
    sent before the rest began.
    """

    provider: str
    secret: SecretStr
    place: int = 0
    written: int = 0
    rest: KeyRest = FRESH

    def told(self, now_s: float) -> str:
        """What operators read of its rest."""
        left_s, status = math.ceil(self.rest.until_s - now_s), self.rest.status
        return f"{self.provider}: key {self.place} of {self.written} rests {left_s} s after {status}"


class PlatformKeys:
    """The platform's keys of one process."""

    def __init__(self, metrics: Metrics, clock: Clock = SYSTEM_CLOCK) -> None:
        self._metrics = metrics
        self._clock = clock
        self._keys: dict[tuple[str, SecretStr], _Key] = {}
        self._turns: dict[str, int] = {}

    def adopt(self, settings: Settings) -> None:
        """Know the keys of ``settings``: those that stay with their rests, the others not any more."""
        before, self._keys = self._keys, {}
        for name, provider in settings.providers.items():
            for secret, place in provider.key_places.items():
                key = before.get((name, secret)) or _Key(name, secret)
                key.place, key.written = place, provider.keys_written
                self._keys[name, secret] = key
        for name in sorted({name for name, _ in before} - {name for name, _ in self._keys}):
            _log_last_key_lost(settings.providers.get(name))
        self._turns = {name: turn for name, turn in self._turns.items() if name in settings.providers}
        self.measure()

    def choose(self, attempt: Attempt) -> Attempt:
        """Return a PAYG attempt with the key whose turn it is at its provider; any other as it is."""
        provider = attempt.model.provider
        if attempt.mode != "payg" or not provider.platform_keys:
            return attempt
        # A call may hold keys of earlier settings.
        known = [
            self._keys.get((provider.name, secret)) or _Key(provider.name, secret)
            for secret in provider.platform_keys
        ]
        turn = self._turns.get(provider.name, 0)
        at = next_key([key.rest for key in known], turn, self._clock.monotonic_s())
        self._turns[provider.name] = at + 1
        secret = known[at].secret
        return attempt if secret is attempt.secret else replace(attempt, secret=secret)

    def note(self, attempt: Attempt, status: int, retry_after: str | None) -> None:
        """Take note of what ``attempt``, as ``choose`` returned it, was answered: a status, and its ``Retry-After``."""
        key = self._keys.get((attempt.model.provider.name, attempt.secret))
        if key is None or attempt.mode != "payg":
            return
        now_s, before = self._clock.monotonic_s(), key.rest
        told_s = parse_retry_after(retry_after, self._clock.now())
        was_sent_before = attempt.secret is not key.secret
        key.rest = after_answer(before, now_s, status, told_s, was_sent_before=was_sent_before)
        if key.rest == before or not key.rest.lasts(now_s):
            return
        key.secret = SecretStr(key.secret.get_secret_value())
        if not before.lasts(now_s):
            log.warning("%s", key.told(now_s), extra={"event": "platform key rests"})

    def measure(self) -> None:
        """Set the gauge: what rests gets ready by itself."""
        now_s = self._clock.monotonic_s()
        counts: Counter[tuple[str, KeyState]] = Counter()
        for key in self._keys.values():
            rests = key.rest.lasts(now_s)
            counts[key.provider, "resting"] += rests
            counts[key.provider, "ready"] += not rests
        self._metrics.set_platform_keys(counts)

    def check(self) -> str:
        """Return which keys rest, how long and why, or "ok"."""
        now_s = self._clock.monotonic_s()
        return "; ".join(key.told(now_s) for key in self._keys.values() if key.rest.lasts(now_s)) or "ok"


def _log_last_key_lost(provider: Provider | None) -> None:
    """A provider that is gone, or takes no key any more, lacks none."""
    if provider and not provider.has_platform_key:
        log.error(
            "%s has lost its last platform key: its models are served with customers' own keys only",
            provider.name,
            extra={"event": "platform keys lost", "provider": provider.name},
        )
