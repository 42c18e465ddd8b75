"""What operators may write: one schema a table for proxy.conf, the catalog files and the workspace files.

Each rule that needs only its own table stands here; names that must exist elsewhere are ``addon/settings_facts.py``'s.
docs/configuration.md documents every key, and a test holds it to that.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from addon.settings_io import nearest
from addon.settings_types import (
    AbsolutePath,
    BaseUrl,
    ChatPath,
    Count,
    DottedPath,
    Enabled,
    HeaderName,
    HeaderValue,
    KeyHash,
    Listed,
    Name,
    OptionalPath,
    Percent,
    Port,
    Price,
    ProviderName,
    Range,
    Ratio,
    RedisUrl,
    Seconds,
    Secret,
    Slug,
    Text,
    Tokens,
    Usd,
    Words,
    only,
)
from policies.facts import (
    Auth,
    CapField,
    Estimator,
    HeuristicWhen,
    Plan,
    Reset,
    ResponseFormatForm,
    ResponseFormatSent,
    ToolChoiceForm,
    ToolChoiceSent,
)

_DEFAULT = Estimator()


def _fault(reason: str, *path: str | int) -> PydanticCustomError:
    """A fault of a key below the table that is being checked."""
    # The reason goes through a placeholder because a key may hold braces itself.
    return PydanticCustomError("fault", "{reason}", {"reason": reason, "path": path})


class Table(BaseModel):
    """A TOML table: no unknown keys, no conversions, no changes."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _knows_its_keys(cls, table: Any) -> Any:
        for key in table if isinstance(table, Mapping) else ():
            if key not in cls.model_fields:
                raise _fault(f"unknown key{nearest(key, cls.model_fields)}", key)
        return table


class Listen(Table):
    """``[listen]``: the public port."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    tls_certificate: OptionalPath = None
    drain_timeout_s: Annotated[float, Field(ge=0)] = 30


class Admin(Table):
    """``[admin]``: health and readiness."""

    host: Text = "127.0.0.1"
    port: Port = 8081


class Paths(Table):
    """``[paths]``: absolute once loaded, the defaults too."""

    model_config = ConfigDict(validate_default=True)

    catalog: AbsolutePath = Path("catalog_data")
    workspaces: AbsolutePath = Path("policies/workspaces")
    database: AbsolutePath = Path("var/tollgate.db")


class State(Table):
    """``[state]``: where limits and spend are kept."""

    backend: Literal["sqlite", "redis"] = "sqlite"
    redis_url: RedisUrl = SecretStr("redis://127.0.0.1:6379/0")


class Limits(Table):
    """``[limits]``: what one workspace and one request may take."""

    standard_rpm: Count = 60
    pro_rpm: Count = 120
    max_request_bytes: Count = 33_554_432


class Upstream(Table):
    """``[upstream]``: how long and how much to take from a provider."""

    connect_timeout_s: Seconds = 5
    first_byte_timeout_s: Seconds = 120
    idle_timeout_s: Seconds = 60
    max_response_bytes: Count = 67_108_864


class Billing(Table):
    """``[billing]``: from wholesale to retail."""

    markup_percent: Percent = Decimal(4)


class Sandbox(Table):
    """``[sandbox]``: the built-in upstream."""

    enabled: Enabled = "auto"


class Policies(Table):
    """``[policies]``: operators' own policy modules."""

    extra: Annotated[Listed[Text], only(())] = ()


class ProxyConf(Table):
    """proxy.conf, paths absolute."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    paths: Paths
    state: State = State()
    limits: Limits = Limits()
    upstream: Upstream = Upstream()
    billing: Billing = Billing()
    sandbox: Sandbox = Sandbox()
    policies: Policies = Policies()

    @model_validator(mode="before")
    @classmethod
    def _has_paths(cls, table: Any) -> Any:
        # Default paths depend on the conf file's folder, so even absent ones pass through the schema.
        return {"paths": {}, **table}

    @model_validator(mode="after")
    def _keeps_admin_private(self) -> Self:
        if self.admin.port and (self.admin.host, self.admin.port) == (self.listen.host, self.listen.port):
            raise _fault("must differ from listen.port", "admin", "port")
        return self


class ProviderTable(Table):
    """One table of providers.toml."""

    base_url: BaseUrl | None = None
    dialect: Literal["openai", "anthropic", "gemini"]
    platform_key: Secret | None = None
    auth: Auth | None = None
    chat_path: ChatPath = "/chat/completions"
    headers: dict[HeaderName, HeaderValue] = {}
    builtin: bool = False

    @model_validator(mode="after")
    def _says_where_it_is(self) -> Self:
        for key in ("base_url", "platform_key"):
            if self.builtin and getattr(self, key) is not None:
                raise _fault("is filled in by the gateway for a builtin provider", key)
        if not self.builtin and self.base_url is None:
            raise _fault("is required", "base_url")
        return self

    @model_validator(mode="after")
    def _says_how_it_is_asked(self) -> Self:
        if self.auth == "none" and self.platform_key is not None:
            raise _fault('must be absent where auth = "none"', "platform_key")
        if self.auth != "none" and not self.builtin and self.platform_key is None:
            raise _fault("is required", "platform_key")
        if self.dialect != "openai" and "chat_path" in self.model_fields_set:
            raise _fault("belongs to the dialect openai only", "chat_path")
        return self


class EstimatorTable(Table):
    """``[FAMILY.estimator]``: how its provider counts tokens."""

    base_tokens: Tokens = _DEFAULT.base_tokens
    tokens_per_message: Tokens = _DEFAULT.tokens_per_message
    letters_per_token: Ratio = _DEFAULT.letters_per_token
    marks_per_token: Ratio = _DEFAULT.marks_per_token
    other_bytes_per_token: Ratio = _DEFAULT.other_bytes_per_token
    tools_tokens: Tokens = _DEFAULT.tools_tokens
    tokens_per_image: Tokens = _DEFAULT.tokens_per_image
    completion_chars_per_token: Ratio = _DEFAULT.completion_chars_per_token


class FamilyTable(Table):
    """One table of families.toml; what is absent is accepted as the contract states it."""

    cap_field: CapField = "max_tokens"
    drops: Words = frozenset()
    clamps: dict[Text, Range] = {}
    renames: dict[Text, Text] = {}
    extra: Words = frozenset()
    stop_limit: Count | None = None
    n_limit: Count | None = None
    asks_stream_usage: bool = True
    reasoning_beside_completion: bool = False
    uncapped_completion_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    conflicts: dict[Text, Words] = {}
    implies: dict[Text, dict[Text, Any]] = {}
    values: dict[Text, dict[Text, Text]] = {}
    message_extra: Words = frozenset()
    message_drops: Words = frozenset()
    message_renames: dict[Text, Text] = {}
    roles: dict[Text, Text] = {"developer": "system"}
    late_system_role: Text | None = None
    joins_text_parts: bool = False
    needs_reasoning_content: bool = False
    tool_choices: dict[ToolChoiceForm, ToolChoiceSent] = {}
    response_formats: dict[ResponseFormatForm, ResponseFormatSent] = {}
    tool_call_id_chars: Annotated[int, Field(ge=4, le=64)] | None = None
    think_tags: bool = False
    effort_budgets: dict[Text, Tokens] = {}
    cached_tokens_at: Listed[DottedPath] = ()
    reasoning_tokens_at: Listed[DottedPath] = ()
    estimator: EstimatorTable = EstimatorTable()


class ModelTable(Table):
    """One table of models.toml. Prices are micro-USD per million tokens once loaded."""

    provider: str
    upstream_model_id: Text
    family: str
    input_price_per_m: Price
    output_price_per_m: Price
    cached_input_price_per_m: Price | None = None
    cache_write_price_per_m: Price | None = None
    max_completion_tokens: Count
    byok_only: bool = False
    active: bool = True


class KeyTable(Table):
    """One ``[[keys]]`` of a workspace file. ``hash`` is hex, ``spend_cap_usd`` nano-USD once loaded."""

    id: Name
    hash: KeyHash
    active: bool = True
    spend_cap_usd: Usd | None = None
    spend_reset: Reset = "never"
    request_cap: Count | None = None
    request_reset: Reset = "never"


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
    def _has_a_threshold_where_one_counts(self) -> Self:
        counts = self.when == "prompt_tokens_above"
        if counts != (self.threshold_tokens is not None):
            reason = "is required" if counts else "belongs to prompt_tokens_above only"
            raise _fault(reason, "threshold_tokens")
        return self


class WorkspaceTable(Table):
    """One workspace file. ``monthly_spend_cap_usd`` is nano-USD once loaded."""

    name: Text
    plan: Plan = "standard"
    rpm_override: Count | None = None
    monthly_spend_cap_usd: Usd | None = None
    overage_protection: bool = False
    default_model: str | None = None
    fallback_model: str | None = None
    safety_net: bool = False
    keys: Listed[KeyTable] = ()
    byok: dict[str, ByokTable] = {}
    rules: Listed[RuleTable] = ()
    heuristics: Listed[HeuristicTable] = ()


PROVIDERS_FILE = TypeAdapter(dict[ProviderName, ProviderTable])
FAMILIES_FILE = TypeAdapter(dict[Name, FamilyTable])
MODELS_FILE = TypeAdapter(dict[Slug, ModelTable])
