"""The schema of the catalog's files: one class a table of providers, families and models.

``catalog_builder`` checks names that refer to other files. docs/configuration.md documents every key, and a test checks
that it does.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, TypeAdapter, model_validator

from addon.settings.family_schema import FamilyTable
from addon.settings.price_schema import AnyServiceTierName, ServedPricesTable
from addon.settings.price_time_schema import TimedPricesTable, check_complete, list_price_tables
from addon.settings.validation import Table, table_error
from addon.settings.value_types import (
    AwsName,
    BaseUrl,
    ChatPath,
    Count,
    Distinct,
    HeaderName,
    HeaderValue,
    Listed,
    Name,
    Price,
    ProviderName,
    Secret,
    SecretReference,
    Slug,
    Text,
)
from addon.text.aws_signature import find_region
from policies.hosted_tools import HostedTool
from policies.model import MAX_DEPLOYMENTS, Order, Serves
from policies.model_lacks import Lack
from policies.prices import MAX_SEARCHES
from policies.provider import Auth
from policies.token_rate import MAX_TPM

NO_COMPLETION_TOKENS: Final = 1
"""The catalog hard maximum of a model of embeddings, which makes no completion. Its output costs nothing."""

type QuotaHeaders = Annotated[Listed[tuple[HeaderName, HeaderName]], Field(max_length=8)]
"""The names of two headers each: what remains, and when it begins again."""
type Weight = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
type QuotaLimit = Annotated[Count, Field(le=MAX_TPM)]


class QuotaTable(Table):
    """What a vendor lets the platform's keys use of one place."""

    max_in_flight: QuotaLimit | None = None
    rpm: QuotaLimit | None = None
    tpm: QuotaLimit | None = None


class ProviderTable(Table):
    """One table of providers.toml."""

    base_url: BaseUrl | None = None
    dialect: Literal["openai", "anthropic", "gemini", "bedrock"]
    platform_key: Secret | None = None
    platform_keys: Annotated[Listed[Secret], Field(min_length=1)] | None = None
    auth: Auth | None = None
    aws_region: AwsName | None = None
    aws_service: AwsName = "bedrock"
    chat_path: ChatPath = "/chat/completions"
    responses_path: ChatPath = "/responses"
    headers: dict[HeaderName, HeaderValue] = {}
    custom_family: str | None = None
    service_tier: AnyServiceTierName | None = None
    request_quota_headers: QuotaHeaders | None = None
    token_quota_headers: QuotaHeaders | None = None
    builtin: bool = False

    @property
    def keys_by_path(self) -> dict[tuple[str | int, ...], SecretReference]:
        """The reference to each platform key by its path in this table, in the order of the file."""
        if self.platform_key is not None:
            return {("platform_key",): self.platform_key}
        return {("platform_keys", at): key for at, key in enumerate(self.platform_keys or ())}

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        for key in ("base_url", "platform_key", "platform_keys"):
            if self.builtin and getattr(self, key) is not None:
                raise table_error("must be absent: the gateway sets it for a builtin provider", key)
        if not self.builtin and self.base_url is None:
            raise table_error("is required", "base_url")
        return self

    @model_validator(mode="after")
    def _check_authentication(self) -> Self:
        for key in ("platform_key", "platform_keys"):
            if self.auth == "none" and getattr(self, key) is not None:
                raise table_error('must be absent with auth = "none"', key)
        if self.auth != "none" and not self.builtin and not self.keys_by_path:
            raise table_error("is required", "platform_key")
        for key in ("chat_path", "responses_path"):
            if self.dialect != "openai" and key in self.model_fields_set:
                raise table_error("is only for the dialect openai", key)
        if self.custom_family is not None and (self.auth == "none" or self.builtin):
            raise table_error("is only for providers that take customers' keys", "custom_family")
        return self

    @model_validator(mode="after")
    def _check_signature(self) -> Self:
        for key in ("aws_region", "aws_service"):
            if self.auth != "aws_sigv4" and key in self.model_fields_set:
                raise table_error('is only for auth = "aws_sigv4"', key)
        if self.auth == "aws_sigv4" and self.region is None:
            raise table_error("is required: base_url names no region", "aws_region")
        return self

    @property
    def region(self) -> str | None:
        """The region of signatures: the stated one, else that in ``base_url``."""
        return self.aws_region or find_region(urlsplit(self.base_url or "").hostname or "")

    @model_validator(mode="after")
    def _check_platform_keys(self) -> Self:
        if self.platform_key is not None and self.platform_keys is not None:
            raise table_error("must be absent when platform_keys is there", "platform_key")
        references = self.platform_keys or ()
        for at, reference in enumerate(references):
            if reference in references[:at]:
                raise table_error("names the same secret as an earlier one", "platform_keys", at)
        return self


class DeploymentTable(QuotaTable, ServedPricesTable):
    """``[["slug".deployments]]``: a further place that serves a model. What it leaves out is as the model has it."""

    provider: str
    upstream_model_id: Text
    family: str | None = None
    dialect: Literal["responses"] | None = None
    weight: Weight = 1
    max_completion_tokens: Count | None = None
    context_window: Count | None = None

    @property
    def has_own_prices(self) -> bool:
        """Whether it states any price, or that it has no tiers or service tiers."""
        return bool(self.stated) or not self.model_fields_set.isdisjoint(("tiers", "service_tiers"))


class PlaceTable(Table):
    """Where a model is, and what it accepts."""

    provider: str
    upstream_model_id: Text
    family: str
    dialect: Literal["responses"] | None = None


class ModelTable(QuotaTable, TimedPricesTable, PlaceTable):
    """One table of models.toml."""

    input_price_per_m: Price
    max_completion_tokens: Count | None = None
    context_window: Count | None = None
    max_searches: Annotated[int, Field(ge=0, le=1_000, strict=True)] = MAX_SEARCHES
    hosted_tools: Distinct[HostedTool] = ()
    lacks: Distinct[Lack] = ()
    cost: Literal["computed", "reported"] = "computed"
    byok_only: bool = False
    active: bool = True
    serves: Serves = "chat"
    aliases: Distinct[Slug] = ()
    order: Order = "sticky"
    weight: Weight = 1
    deployments: Annotated[Listed[DeploymentTable], Field(max_length=MAX_DEPLOYMENTS)] = ()

    @property
    def most_completion_tokens(self) -> int:
        """The catalog hard maximum. One that serves chat states it."""
        return self.max_completion_tokens or NO_COMPLETION_TOKENS

    @model_validator(mode="after")
    def _check_serves(self) -> Self:
        for key in ("output_price_per_m", "max_completion_tokens"):
            if self.serves == "chat" and getattr(self, key) is None:
                raise table_error("is required", key)
            if self.serves == "embeddings" and getattr(self, key) is not None:
                raise table_error('must be absent with serves = "embeddings"', key)
        return self

    @model_validator(mode="after")
    def _check_deployments(self) -> Self:
        """Check that no two places are one, and that their prices are complete."""
        places = [(self.provider, self.upstream_model_id)]
        for at, table in enumerate(self.deployments):
            place = (table.provider, table.upstream_model_id)
            if place in places:
                raise table_error(
                    "names the same place as an earlier one", "deployments", at, "upstream_model_id"
                )
            places.append(place)
            if table.has_own_prices:
                check_complete(self, table, "deployments", at, named="upstream_model_id")
        for key in ("order", "weight"):
            if key in self.model_fields_set and not self.deployments:
                raise table_error("is only for a model with deployments", key)
        return self

    @model_validator(mode="after")
    def _check_hosted_tools(self) -> Self:
        if self.hosted_tools and not self.per_search_price_per_m:
            raise table_error("needs per_search_price_per_m: what a search costs", "hosted_tools")
        return self

    @model_validator(mode="after")
    def _check_context_window(self) -> Self:
        for path, table in _list_places(self):
            window = table.context_window or self.context_window
            most = table.max_completion_tokens or self.most_completion_tokens
            if window is not None and window < most:
                reason = f"must be at least max_completion_tokens, which is {most}: raise it, or lower that"
                raise table_error(reason, *path, "context_window")
        return self

    @model_validator(mode="after")
    def _check_reach(self) -> Self:
        """Check that each tier is met by prompts that fit into the window."""
        for path, table in list_price_tables(self):
            for at, tier in enumerate(table.tiers):
                if self.context_window is not None and tier.above_prompt_tokens > self.context_window:
                    reason = (
                        f"is above context_window, which is {self.context_window}: lower it, or raise that"
                    )
                    raise table_error(reason, *path, "tiers", at, "above_prompt_tokens")
        return self


def _list_places(
    table: ModelTable,
) -> Iterator[tuple[tuple[str | int, ...], ModelTable | DeploymentTable]]:
    """Yield the table of each place of a model, with its path."""
    yield (), table
    for at, deployment in enumerate(table.deployments):
        yield ("deployments", at), deployment


PROVIDERS_FILE = TypeAdapter(dict[ProviderName, ProviderTable])
FAMILIES_FILE = TypeAdapter(dict[Name, FamilyTable])
MODELS_FILE = TypeAdapter(dict[Slug, ModelTable])
