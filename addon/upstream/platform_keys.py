"""The platform's keys of one process. A conversation has one of a provider's keys, and another one while that rests.

The state of a key is of this process only. Output shows only its provider and its place in the operator's list, never
the key. ``policies.key_cooldown`` decides how long a key rests, and no call is refused because its keys rest.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from addon.runtime.clock import SYSTEM_CLOCK, Clock
from addon.settings.settings import Settings
from addon.telemetry.metrics import KeyState, Metrics
from addon.text.retry_after import parse_retry_after
from addon.upstream.place_quotas import PlaceQuotas
from addon.upstream.place_rests import PlaceRests
from policies.affinity import distance
from policies.key_cooldown import READY, Cooldown, after_answer, choose_index
from policies.provider import Provider
from policies.route import Target

log = logging.getLogger("tollgate.platform_keys")


@dataclass(slots=True)
class _Key:
    """One key, at ``place`` of ``written`` ones in the operator's list.

    Calls get ``secret``, which becomes another object when a cooldown begins. So an answer shows whether its call was
    sent before that.
    """

    provider: str
    secret: SecretStr
    name: str = ""
    place: int = 0
    written: int = 0
    cooldown: Cooldown = READY

    def describe(self, now_s: float) -> str:
        """Return its cooldown in words, for operators."""
        left_s, status = math.ceil(self.cooldown.until_s - now_s), self.cooldown.status
        return f"{self.provider}: key {self.place} of {self.written} rests {left_s} s after {status}"


class PlatformKeys:
    """The platform's keys of one process."""

    def __init__(self, metrics: Metrics, clock: Clock = SYSTEM_CLOCK) -> None:
        self._metrics = metrics
        self._clock = clock
        self._keys: dict[tuple[str, SecretStr], _Key] = {}
        self._of_provider: dict[str, tuple[tuple[SecretStr, ...], list[_Key]]] = {}
        """By provider: the keys as the settings have them, and as they are used here."""
        self.rests = PlaceRests(clock)
        """What vendors' own signals say, by place, of a platform key or of a workspace with its own key."""
        self.quotas = PlaceQuotas(clock)
        """How much of the quotas of places is in use."""
        self._has_cooldowns = False
        """A key rests, or has not succeeded since it did."""

    def use_settings(self, settings: Settings) -> None:
        """Use the keys of ``settings``. Keys that stay keep their cooldown; the others are forgotten."""
        before, self._keys = self._keys, {}
        for name, provider in settings.providers.items():
            for secret, key_name in zip(provider.platform_keys, provider.platform_key_names, strict=True):
                key = before.get((name, secret)) or _Key(name, secret)
                key.name, key.written = key_name, provider.keys_written
                key.place = provider.key_places[secret]
                self._keys[name, secret] = key
        for name in sorted({name for name, _ in before} - {name for name, _ in self._keys}):
            _log_last_key_lost(settings.providers.get(name))
        self._of_provider = {
            name: (provider.platform_keys, [self._keys[name, secret] for secret in provider.platform_keys])
            for name, provider in settings.providers.items()
        }
        self._note_cooldowns()
        self.quotas.use_models(settings.models.values())
        self.measure()

    def choose(self, target: Target, find_affinity: Callable[[], bytes]) -> Target:
        """Return a PAYG target with the key of its conversation; any other target unchanged.

        ``find_affinity`` is asked where there are several keys.
        """
        provider = target.model.provider
        if target.mode != "payg" or not provider.platform_keys:
            return target
        secrets, known = self._of_provider.get(provider.name, ((), []))
        places: Mapping[SecretStr, int] = {}
        if secrets is not provider.platform_keys:  # A call may have keys of earlier settings.
            places = provider.key_places
            known = [
                self._keys.get((provider.name, secret)) or _Key(provider.name, secret, name)
                for secret, name in zip(provider.platform_keys, provider.platform_key_names, strict=True)
            ]
        if len(known) == 1:
            chosen = known[0]
        else:
            affinity = find_affinity()
            distances = [distance(affinity, key.name.encode(), 1) for key in known]
            now_s, place = self._clock.monotonic_s(), target.model.place
            until_s = [max(key.cooldown.until_s, self.rests.until_s(place, key.secret)) for key in known]
            chosen = known[choose_index(until_s, distances, now_s)]
        return target.with_platform_key(chosen.secret, places.get(chosen.secret, chosen.place))

    @property
    def has_rests(self) -> bool:
        """Whether any key, or any place, may rest."""
        return self._has_cooldowns or bool(self.rests)

    def is_resting(self, target: Target, workspace: str) -> bool:
        """Return whether the vendor is known to refuse ``target`` now, with each key that it could be called with."""
        model, now_s = target.model, self._clock.monotonic_s()
        if target.mode != "payg":
            return self.rests.until_s(model.place, workspace) > now_s
        keys = [
            (secret, self._keys.get((model.provider.name, secret))) for secret in model.provider.platform_keys
        ]
        return bool(keys) and all(
            (key is not None and key.cooldown.is_active(now_s))
            or self.rests.until_s(model.place, secret) > now_s
            for secret, key in keys
        )

    def note_quota(self, target: Target, workspace: str, rest_s: float) -> None:
        """Note for how long the vendor's quota is used up for ``target``, as ``choose`` returned it."""
        caller = workspace if target.mode != "payg" else target.secret
        self.rests.note(target.model.place, caller, rest_s)

    def record_answer(self, target: Target, status: int, retry_after: str | None) -> None:
        """Record the answer to ``target``, as ``choose`` returned it: its status and its ``Retry-After``."""
        if status < 400 and not self._has_cooldowns:
            return
        key = self._keys.get((target.model.provider.name, target.secret))
        if key is None or target.mode != "payg":
            return
        now_s, before = self._clock.monotonic_s(), key.cooldown
        retry_after_s = parse_retry_after(retry_after, self._clock.now())
        was_sent_before = target.secret is not key.secret
        key.cooldown = after_answer(before, now_s, status, retry_after_s, was_sent_before=was_sent_before)
        self._note_cooldowns()
        if key.cooldown == before or not key.cooldown.is_active(now_s):
            return
        key.secret = SecretStr(key.secret.get_secret_value())
        if not before.is_active(now_s):
            log.warning("%s", key.describe(now_s), extra={"event": "platform key rests"})

    def _note_cooldowns(self) -> None:
        self._has_cooldowns = any(key.cooldown != READY for key in self._keys.values())

    def measure(self) -> None:
        """Set the gauge of resting and ready keys. A key gets ready without any event, so this is called regularly."""
        self.rests.forget_ended()
        now_s = self._clock.monotonic_s()
        counts: Counter[tuple[str, KeyState]] = Counter()
        for key in self._keys.values():
            rests = key.cooldown.is_active(now_s)
            counts[key.provider, "resting"] += rests
            counts[key.provider, "ready"] += not rests
        self._metrics.set_platform_keys(counts)

    def check(self) -> str:
        """Return the keys that rest, with time and reason, or "ok"."""
        now_s = self._clock.monotonic_s()
        return (
            "; ".join(key.describe(now_s) for key in self._keys.values() if key.cooldown.is_active(now_s))
            or "ok"
        )


def _log_last_key_lost(provider: Provider | None) -> None:
    """Log it, unless the provider is gone or needs no key any more."""
    if provider and not provider.has_platform_key:
        log.error(
            "%s has lost its last platform key: its models are served with customers' own keys only",
            provider.name,
            extra={"event": "platform keys lost", "provider": provider.name},
        )
