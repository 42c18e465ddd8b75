"""The schema of families.toml: one class a table. docs/configuration.md documents every key, and a test checks that."""

from typing import Annotated, Any

from pydantic import Field

from addon.settings.validation import Table
from addon.settings.value_types import Count, DottedPath, Listed, Range, Ratio, Text, Tokens, Words
from policies.family import (
    CapField,
    Estimator,
    ReasoningSummary,
    ResponseFormatForm,
    ResponseFormatSent,
    StrictTools,
    ThinkingType,
    ToolChoiceForm,
    ToolChoiceSent,
)

_DEFAULT = Estimator()


class EstimatorTable(Table):
    """``[FAMILY.estimator]``: how the provider counts tokens."""

    base_tokens: Tokens = _DEFAULT.base_tokens
    tokens_per_message: Tokens = _DEFAULT.tokens_per_message
    letters_per_token: Ratio = _DEFAULT.letters_per_token
    marks_per_token: Ratio = _DEFAULT.marks_per_token
    other_bytes_per_token: Ratio = _DEFAULT.other_bytes_per_token
    tools_tokens: Tokens = _DEFAULT.tools_tokens
    tokens_per_image: Tokens = _DEFAULT.tokens_per_image
    completion_chars_per_token: Ratio = _DEFAULT.completion_chars_per_token


class ResponsesTable(Table):
    """``[FAMILY.responses]``: what replaces the family's own rules for calls that go to the Responses API."""

    drops: Words | None = None
    extra: Words | None = None
    conflicts: dict[Text, Words] | None = None
    implies: dict[Text, dict[Text, Any]] | None = None
    values: dict[Text, dict[Text, Text]] | None = None
    message_extra: Words | None = None
    reasoning_summary: ReasoningSummary | None = None

    @property
    def stated(self) -> dict[str, Any]:
        """The rules that it states."""
        return {key: getattr(self, key) for key in self.model_fields_set}


class FamilyTable(Table):
    """One table of families.toml. What it leaves out is accepted as in the contract."""

    cap_field: CapField = "max_tokens"
    cap_within_window: bool = False
    max_whole_completion_tokens: Count | None = None
    drops: Words = frozenset()
    clamps: dict[Text, Range] = {}
    renames: dict[Text, Text] = {}
    extra: Words = frozenset()
    stop_limit: Count | None = None
    n_limit: Count | None = None
    asks_stream_usage: bool = True
    reasoning_beside_completion: bool = False
    uncapped_completion_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    reasons_unseen: bool = False
    tokens_per_s: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] = 0
    conflicts: dict[Text, Words] = {}
    implies: dict[Text, dict[Text, Any]] = {}
    values: dict[Text, dict[Text, Text]] = {}
    message_extra: Words = frozenset()
    message_drops: Words = frozenset()
    message_renames: dict[Text, Text] = {}
    roles: dict[Text, Text] = {"developer": "system"}
    late_system_role: Text | None = None
    one_system_message: bool = False
    tool_result_media: bool = False
    joins_text_parts: bool = False
    needs_reasoning_content: bool = False
    separates_results: bool = False
    tool_choices: dict[ToolChoiceForm, ToolChoiceSent] = {}
    response_formats: dict[ResponseFormatForm, ResponseFormatSent] = {}
    tool_call_id_chars: Annotated[int, Field(ge=4, le=64)] | None = None
    tool_call_id_limit: Annotated[int, Field(ge=32)] | None = None
    tool_types: Listed[Text] = ("function", "custom")
    think_tags: bool = False
    effort_budgets: dict[Text, Tokens] = {}
    thinking_types: Listed[ThinkingType] = ()
    effort_off: dict[Text, Any] = {}
    refused_values: dict[DottedPath, Listed[Text]] = {}
    strict_tools: StrictTools = "any"
    tool_schema_keys: Listed[Text] = ()
    default_effort: Text | None = None
    responses_only: bool = False
    cached_tokens_at: Listed[DottedPath] = ()
    reasoning_tokens_at: Listed[DottedPath] = ()
    estimator: EstimatorTable = EstimatorTable()
    responses: ResponsesTable = ResponsesTable()
