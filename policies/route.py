"""``Route``: the targets that a call is sent to, each a model with a key. Pure."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from pydantic import SecretStr

from policies.model import Mode, Model
from policies.price_times import find_in_force
from policies.refusal import Refusal


@dataclass(frozen=True)
class Target:
    """The model that an attempt calls, and the key that it sends.

    ``secret`` is sent to the model's provider only, and is empty where this takes no key. ``is_fallback``: it replaces
    a target that failed. ``platform_key`` is the place of a platform's key in the operator's list, from 1, once it is
    chosen. Many calls share one target.
    """

    model: Model
    mode: Mode
    secret: SecretStr
    is_fallback: bool = False
    platform_key: int | None = None

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """The texts of this target that no error, log line or ledger row may contain."""
        secret = self.secret.get_secret_value()
        parts = secret.split(":") if self.model.provider.auth == "aws_sigv4" else ()
        return (secret, *parts) if secret else ()

    @property
    def has_alternative(self) -> bool:
        """Whether the same model may be called at another place, or with another platform key."""
        return self.model.has_siblings or (self.mode == "payg" and len(self.model.provider.platform_keys) > 1)

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Values that follow from this target alone, made once, by what they are made for. They may contain its secret.

        They are no part of the target's text, and die with it. A copy with another secret has none of them.
        """
        return {}

    def with_platform_key(self, secret: SecretStr, number: int) -> "Target":
        """Return the target with a platform key: the same one each time, until ``secret`` is another object."""
        if secret is self.secret and number == self.platform_key:
            return self
        name = ("platform_key", number)
        made = self.kept.get(name)
        if made is None or made.secret is not secret:
            made = self.kept[name] = replace(self, secret=secret, platform_key=number)
        return made

    @cached_property
    def over_responses(self) -> "Target":
        """The target of calls that go to the Responses API of the same place."""
        return replace(self, model=self.model.over_responses)

    def at(self, moment: datetime) -> "Target":
        """Return the target with the prices that hold at ``moment``: the same one as long as they do."""
        if not self.model.timed:
            return self
        in_force = find_in_force(self.model.timed, moment)
        name = ("prices", in_force and in_force.place)
        made = self.kept.get(name)
        if made is None:
            made = self.kept[name] = replace(self, model=self.model.with_prices(in_force))
        return made


MAX_ATTEMPTS: Final = 3
"""How many attempts a call may make, where proxy.conf does not say."""


@dataclass(frozen=True, slots=True)
class Route:
    """The targets that a call may be sent to, in their order, and the name of the rule that chose the model.

    The places of the model come first. Those of the fallback model, or the platform's places of the Safety Net, follow.
    ``no_fallback_reason`` says why nothing follows the model's own places, for operators. ``fallback_refusal`` is what
    the client gets once the attempts have failed, where the model forbids the Safety Net. ``long_prompt_targets`` only
    follow a prompt that was too long. ``has_choice``: several targets are places of one model with keys of the same
    owner, so that each call has an order of its own. ``has_quota``: any target is at a place with a quota.
    """

    targets: tuple[Target, ...]
    decided_by: str
    no_fallback_reason: str | None = None
    fallback_refusal: Refusal | None = None
    max_attempts: int = MAX_ATTEMPTS
    long_prompt_targets: tuple[Target, ...] = ()
    has_choice: bool = field(init=False, repr=False, compare=False)
    has_quota: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        counts = (
            len(listed) - len({(target.model.slug, target.mode) for target in listed})
            for listed in (self.targets, self.long_prompt_targets)
        )
        object.__setattr__(self, "has_choice", any(counts))
        every = (*self.targets, *self.long_prompt_targets)
        with_quota = [one for one in every if one.model.quota is not None]
        object.__setattr__(self, "has_quota", bool(with_quota))

    @property
    def has_safety_net(self) -> bool:
        """Whether the Safety Net is on for the first attempt, even if the model forbids it."""
        is_own = self.targets[0].mode == "byok"
        return is_own and (self.targets[-1].mode == "payg" or self.fallback_refusal is not None)
