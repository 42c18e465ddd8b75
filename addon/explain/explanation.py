"""The explanation of a call as values: its attempts, with what decides each, and what ends it."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from addon.explain.following import Following
from addon.explain.places import LeftOut
from addon.text.errors import ErrorAnswer
from policies.field_change import FieldChange
from policies.route import Target
from policies.spend import Denial
from policies.token_limits import TokenLimit

Step = Literal["size", "key", "body", "routing", "policies", "limits", "request"]


@dataclass(frozen=True, slots=True)
class Refused:
    """The error that the client would get, and the step that refuses. ``why`` is for the operator only."""

    step: Step
    answer: ErrorAnswer
    why: str | None = None


CAP_NAMES: Final = ("client", "policies", "catalog", "window", "budget")
"""The caps of ``Caps`` that may be sent, in the order in which equal ones win."""


@dataclass(slots=True)
class Caps:
    """The caps on completion tokens, None for no cap. ``sent`` goes upstream, and ``won`` names the cap that it is."""

    client: int | None = None
    policies: int | None = None
    catalog: int | None = None
    window: int | None = None
    budget: int | None = None
    sent: int | None = None

    @property
    def won(self) -> str | None:
        """The name of the cap that is sent, or the first of equal ones."""
        return next(
            (name for name in CAP_NAMES if self.sent is not None and getattr(self, name) == self.sent), None
        )


@dataclass(slots=True)
class ExplainedAttempt:
    """One attempt, up to the step that refuses it. ``limits`` are rows of ``store.money.reports.report``.

    ``tokens`` are those that the call takes of its limits of tokens a minute, None where it takes none.
    ``body`` is the body that is sent. ``url`` is None for a builtin provider. ``reasons`` say why it is at its place in
    the list, and ``following`` what would follow each failure. ``is_native`` says whether the body goes as its client
    wrote it; None for a chat request.
    """

    target: Target
    caps: Caps
    prompt_nanousd: int | None = None
    hold_nanousd: int | None = None
    tokens: int | None = None
    limits: list[dict[str, Any]] = field(default_factory=list)
    fields: tuple[FieldChange, ...] = ()
    is_native: bool | None = None
    url: str | None = None
    body: dict[str, Any] | None = None
    denial: Denial | None = None
    refused: Refused | None = None
    reasons: tuple[str, ...] = ()
    following: tuple[Following, ...] = ()


@dataclass(slots=True)
class Explanation:
    """The explanation of one call. ``refused`` ends the call before anything is sent.

    ``error_on_failure`` is the error that the client gets where attempts fail and no other one can be made. None: it
    gets the failure of the first. ``no_fallback_reason`` says why nothing follows the places of the model. ``left_out``
    are places that no attempt is made at. ``unknown`` says what decides in the running gateway and is not known here.
    ``budget_rates`` are the limits a minute of the call's user and tags.
    """

    limit_rpm: int
    overage_protection: bool
    workspace_tpm: int | None = None
    key_tpm: int | None = None
    api: str = "chat"
    budget_rates: tuple[TokenLimit, ...] = ()
    requested_model: str | None = None
    stream: bool = False
    decided_by: str | None = None
    attempts: list[ExplainedAttempt] = field(default_factory=list)
    refused: Refused | None = None
    error_on_failure: ErrorAnswer | None = None
    no_fallback_reason: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    unknown: tuple[str, ...] = ()
