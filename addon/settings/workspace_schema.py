"""The schema of a workspace file: one class a table.

``workspace_builder`` checks names that refer to other files. docs/configuration.md documents every key, and a test
checks that it does.
"""

from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from addon.settings.validation import Table, table_error
from addon.settings.value_types import (
    AlertPercents,
    Count,
    Distinct,
    KeyHash,
    Label,
    Listed,
    ModelPattern,
    Moment,
    Name,
    Secret,
    Text,
    Usd,
)
from policies.hosted_tools import HostedTool
from policies.model import Plan, Reset
from policies.routing_rules import HeuristicWhen
from policies.tags import TAG_NAME_IS, USER, is_tag
from policies.token_rate import MAX_TPM

MAX_RULES: Final = 1000
"""The most rules of a workspace: calls look at all of them."""
MAX_ALIASES: Final = 1000
"""The most aliases of a workspace."""
MAX_BUDGETS: Final = 8
"""The most budgets of a workspace: each call has a counter in each of them."""


def _round_down(value: object) -> object:
    """Each number below 1 counts as 1, also one with a fraction. Source: contract, "Limits"."""
    return 0 if isinstance(value, float) and value < 1 else value


type Rpm = Annotated[int, BeforeValidator(_round_down)]
type Tpm = Annotated[Count, Field(le=MAX_TPM)]
"""The largest bucket of a minute: of tokens, or of a budget's requests."""


class KeyTable(Table):
    """One ``[[keys]]`` of a workspace file. Once loaded, hashes are hex, moments UTC and ``spend_cap_usd`` nano-USD."""

    id: Name
    hash: KeyHash
    active: bool = True
    spend_cap_usd: Usd | None = None
    spend_reset: Reset = "never"
    request_cap: Count | None = None
    request_reset: Reset = "never"
    tpm: Tpm | None = None
    label: Label | None = None
    expires_at: Moment | None = None
    models: Annotated[Listed[ModelPattern], Field(min_length=1)] | None = None
    previous_hash: KeyHash | None = None
    previous_until: Moment | None = None

    @property
    def hashes(self) -> tuple[str, ...]:
        """The hashes of its secrets: ``hash``, then ``previous_hash`` if it is set."""
        return (self.hash,) if self.previous_hash is None else (self.hash, self.previous_hash)

    @model_validator(mode="after")
    def _check_previous(self) -> Self:
        if self.previous_hash is not None and self.previous_until is None:
            raise table_error("is required with previous_hash", "previous_until")
        if self.previous_hash is None and self.previous_until is not None:
            raise table_error("is required with previous_until", "previous_hash")
        if self.previous_hash == self.hash:
            raise table_error("is the same as hash", "previous_hash")
        return self


class ByokTable(Table):
    """One ``[byok.PROVIDER]`` of a workspace file."""

    secret: Secret
    routing: bool = False


class RuleTable(Table):
    """One ``[[rules]]`` of a workspace file."""

    keywords: Annotated[Listed[Text], Field(min_length=1)]
    model: str


class HeuristicTable(Table):
    """One ``[[heuristics]]`` of a workspace file."""

    when: HeuristicWhen
    model: str
    threshold_tokens: Count | None = None

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        is_needed = self.when == "prompt_tokens_above"
        if is_needed != (self.threshold_tokens is not None):
            reason = "is required" if is_needed else "is only for prompt_tokens_above"
            raise table_error(reason, "threshold_tokens")
        return self


class AliasTable(Table):
    """One ``[[aliases]]`` of a workspace file."""

    name: ModelPattern
    model: str


class BudgetTable(Table):
    """One ``[[budgets]]`` of a workspace file. Once loaded, ``spend_cap_usd`` is nano-USD."""

    of: Annotated[str, Field(alias="for")]
    spend_cap_usd: Usd | None = None
    spend_reset: Reset = "never"
    rpm: Tpm | None = None
    tpm: Tpm | None = None
    required: bool = False

    @field_validator("of")
    @classmethod
    def _check_of(cls, text: str) -> str:
        if text != USER and not is_tag(text):
            raise ValueError(f'must be "user", or "tag:NAME" with a NAME of {TAG_NAME_IS}')
        return text

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.spend_cap_usd is None and self.rpm is None and self.tpm is None:
            raise table_error("is required without rpm and tpm", "spend_cap_usd")
        return self


class WorkspaceTable(Table):
    """One workspace file. Once loaded, ``monthly_spend_cap_usd`` is nano-USD."""

    name: Text
    plan: Plan = "standard"
    rpm_override: Rpm | None = None
    tpm: Tpm | None = None
    monthly_spend_cap_usd: Usd | None = None
    overage_protection: bool = True
    default_model: str | None = None
    fallback_model: str | None = None
    context_fallback_model: str | None = None
    safety_net: bool = False
    alert_at_percent: AlertPercents = (80, 95, 100)
    hosted_tools: Distinct[HostedTool] = ()
    keys: Listed[KeyTable] = ()
    byok: dict[str, ByokTable] = {}
    rules: Annotated[Listed[RuleTable], Field(max_length=MAX_RULES)] = ()
    heuristics: Annotated[Listed[HeuristicTable], Field(max_length=MAX_RULES)] = ()
    aliases: Annotated[Listed[AliasTable], Field(max_length=MAX_ALIASES)] = ()
    budgets: Annotated[Listed[BudgetTable], Field(max_length=MAX_BUDGETS)] = ()
