"""The values that decisions use: models and workspaces. All are frozen.

Money is in integers: prices in micro-USD (10⁻⁶ USD) per million tokens, costs in nano-USD (10⁻⁹ USD).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import SecretStr

from policies.aliases import Aliases
from policies.allowed_models import AllowedModels
from policies.family import Family
from policies.place_quota import PlaceQuota
from policies.price_set import PriceSet
from policies.price_times import TimedPrices, find_in_force, list_timed_prices
from policies.prices import MAX_SEARCHES, Prices
from policies.provider import Provider
from policies.routing_rules import Heuristic, KeywordRule
from policies.utc_time import format_utc

Plan = Literal["standard", "pro"]
Mode = Literal["payg", "byok"]
Reset = Literal["never", "daily", "weekly", "monthly"]
Order = Literal["sticky", "first", "cheapest", "fastest"]
Serves = Literal["chat", "embeddings"]

_NO_ALIASES: Final = Aliases()
_NO_ENTRIES: Final[Mapping[Any, Any]] = MappingProxyType({})

RESPONSES: Final = "responses"
"""The dialect of the Responses API, which some providers of the dialect ``openai`` speak, too."""

MAX_DEPLOYMENTS: Final = 15
"""How many further places may serve a model."""


@dataclass(frozen=True, slots=True)
class Model:
    """One catalog row at one place, or a model outside the catalog that is called with a customer's own key.

    ``deployments`` are the further places that serve the row, and ``order`` chooses among them. Each has the row's
    retail prices, and wholesale prices of its own. ``weight`` is a place's share, 0 for none while others can serve.
    ``quota`` is what its vendor lets the platform's keys use of this place.

    ``max_completion_tokens`` is the catalog hard maximum of the contract, None outside the catalog. ``context_window``
    is the most tokens of prompt and completion together, None where the catalog does not say. With ``cost``
    ``"reported"``, the wholesale cost is the one that the provider reports; ``markup_percent`` is for that.
    ``price_set`` is made of the prices and of what else decides a cost.
    ``max_searches`` is how many searches of one call its provider may charge for. ``hosted_tools`` are those of the
    provider's tools that may run; where there are any, nothing else searches.
    ``wholesale`` and ``retail`` hold where none of ``timed`` does. ``aliases`` are further names of the row.
    ``dialect`` is the wire shape of its calls: that of the provider, or ``"responses"`` where its family has no other.
    ``prefers_responses``: calls with tools and reasoning go to the provider's Responses API (see ``dialect_choice``).
    ``serves`` is which calls it takes, None outside the catalog, where that is not known.
    """

    slug: str
    provider: Provider
    upstream_model_id: str
    family: Family
    wholesale: Prices
    retail: Prices
    max_completion_tokens: int | None
    byok_only: bool
    active: bool
    context_window: int | None = None
    cost: Literal["computed", "reported"] = "computed"
    markup_percent: Decimal = Decimal(0)
    lacks: frozenset[str] = frozenset()
    timed: tuple[TimedPrices, ...] = ()
    max_searches: int = MAX_SEARCHES
    hosted_tools: frozenset[str] = frozenset()
    order: Order = "sticky"
    weight: int = 1
    deployments: tuple["Model", ...] = field(default=(), repr=False)
    has_siblings: bool = False
    quota: PlaceQuota | None = None
    aliases: tuple[str, ...] = field(default=(), repr=False)
    dialect: str = ""
    prefers_responses: bool = False
    serves: Serves | None = "chat"
    price_set: PriceSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.family.responses_only:
            object.__setattr__(self, "family", self.family.over_responses)
        if not self.dialect:
            own = RESPONSES if self.family.responses_only else self.provider.dialect
            object.__setattr__(self, "dialect", own)
        beside = self.family.reasoning_beside_completion
        price_set = PriceSet(self.wholesale, self.retail, self.markup_percent, self.cost, beside)
        object.__setattr__(self, "price_set", price_set)

    @property
    def over_responses(self) -> "Model":
        """Return the same place as its calls to the Responses API see it."""
        return replace(self, dialect=RESPONSES, family=self.family.over_responses, prefers_responses=False)

    @property
    def max_unasked_searches(self) -> int:
        """How many searches its provider may charge for in a call that asks for none of its tools."""
        return 0 if self.hosted_tools else self.max_searches

    @property
    def without_reasoning_details(self) -> "Model":
        """Return the same place as calls see it whose encrypted reasoning it can't read."""
        details, family = frozenset({"reasoning_details"}), self.family
        drops, extra = family.message_drops | details, family.message_extra - details
        return replace(self, family=replace(family, message_drops=drops, message_extra=extra))

    @property
    def places(self) -> tuple["Model", ...]:
        """The places that serve the row, in the order of models.toml. A further place has only itself."""
        return (self, *self.deployments)

    def place_at(self, provider: str, upstream_model_id: str | None = None) -> "Model | None":
        """Return the first place at a provider, of this id if one is given, None where there is none."""
        for place in self.places:
            if place.provider.name == provider and upstream_model_id in (None, place.upstream_model_id):
                return place
        return None

    @property
    def place(self) -> str:
        """The name of this place: no other one of the row has it."""
        return f"{self.provider.name}/{self.upstream_model_id}"

    @property
    def deployment(self) -> str | None:
        """The name of this place where the row has several, else None."""
        return self.place if self.has_siblings else None

    def at(self, moment: datetime) -> "Model":
        """Return the model with the prices that hold at ``moment``, and no others."""
        return self.with_prices(find_in_force(self.timed, moment)) if self.timed else self

    def with_prices(self, in_force: TimedPrices | None) -> "Model":
        """Return the model with one of its ``timed`` prices, or with those that have no time, and no others."""
        priced = in_force or self
        return replace(self, wholesale=priced.wholesale, retail=priced.retail, timed=())

    def list_wholesale(self) -> dict[str, int | None]:
        """Return all wholesale prices by their keys of models.toml."""
        return list_timed_prices(self.wholesale, [(one.place, one.wholesale) for one in self.timed])

    def list_retail(self) -> dict[str, int | None]:
        """Return all retail prices by their keys of models.toml."""
        return list_timed_prices(self.retail, [(one.place, one.retail) for one in self.timed])

    @property
    def needs_own_key(self) -> bool:
        """Whether it is served with customers' own keys only: by its row, or because no place has a platform key."""
        return self.byok_only or not any(place.provider.has_platform_key for place in self.places)

    def with_provider(self, providers: Mapping[str, Provider]) -> "Model":
        """Return the model with the providers of its places replaced by those of the same name."""
        deployments = tuple([place.with_provider(providers) for place in self.deployments])
        return replace(self, provider=providers[self.provider.name], deployments=deployments)


@dataclass(frozen=True, slots=True)
class Key:
    """One API key of a workspace. Only the SHA-256 of its secret (``hash``, in hex) is stored.

    | field | is |
    |---|---|
    | ``tpm`` | the most tokens a minute of its calls, None for no limit |
    | ``models`` | the models that it may use, None for all |
    | ``expires_at`` | the moment from which it is refused, in UTC |
    | ``previous_hash`` | the hash of its secret before the last rotation |
    | ``previous_until`` | the moment from which that secret is refused, in UTC |
    """

    id: str
    hash: str
    active: bool = True
    spend_cap_nanousd: int | None = None
    spend_reset: Reset = "never"
    request_cap: int | None = None
    request_reset: Reset = "never"
    tpm: int | None = None
    label: str | None = None
    expires_at: datetime | None = None
    models: AllowedModels | None = None
    previous_hash: str | None = None
    previous_until: datetime | None = None

    def why_refused(self, now: datetime) -> str | None:
        """Return why the key is refused at ``now``, None where it is not: words for operators that follow its name."""
        if not self.active:
            return "is not active"
        if self.expires_at is not None and now >= self.expires_at:
            return f"expired at {format_utc(self.expires_at)}"
        return None


@dataclass(frozen=True, slots=True)
class Credential:
    """One secret of a key, by its hash. ``is_previous``: it is from before the last rotation of the key.

    ``needs_check``: the key, or this secret, is or will be refused. Two credentials are equal whatever else is in their
    workspaces: otherwise a comparison of all credentials would compare all keys of a workspace for each of its keys.
    """

    workspace: "Workspace" = field(compare=False)
    key: Key
    hash: str
    is_previous: bool = False
    needs_check: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        needs_check = self.is_previous or not self.key.active or self.key.expires_at is not None
        object.__setattr__(self, "needs_check", needs_check)

    def why_refused(self, now: datetime) -> str | None:
        """Return why the secret is refused at ``now``, as ``Key.why_refused``."""
        until = self.key.previous_until
        if self.is_previous and until is not None and now >= until:
            return f"had this secret until {format_utc(until)}"
        return self.key.why_refused(now)


@dataclass(frozen=True, slots=True)
class Byok:
    """The customer's own key for one provider. ``variable`` is the environment variable that has it, if one has."""

    secret: SecretStr | None
    routing: bool
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """What each value of a field of requests may spend in a period, and use in a minute. None for no limit.

    ``of`` is ``user`` or ``tag:NAME``. ``is_required``: a call without the field is refused.
    """

    of: str
    spend_cap_nanousd: int | None
    spend_reset: Reset = "never"
    is_required: bool = False
    rpm: int | None = None
    tpm: int | None = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """The settings of one customer, which the contract's Dashboard would have.

    ``tpm`` is the most tokens a minute of its calls, None for no limit.
    ``states_overage_protection``: whether its file sets ``overage_protection``, or the default applies.
    ``alert_at_percent``: which used parts of a budget are worth an alert, ascending.
    ``hosted_tools``: which tools of providers its calls may run.
    ``credentials`` are the secrets of all keys.
    """

    id: str
    name: str
    plan: Plan
    keys: tuple[Key, ...]
    rpm_override: int | None = None
    tpm: int | None = None
    monthly_spend_cap_nanousd: int | None = None
    overage_protection: bool = True
    states_overage_protection: bool = True
    default_model: str | None = None
    fallback_model: str | None = None
    context_fallback_model: str | None = None
    safety_net: bool = False
    alert_at_percent: tuple[int, ...] = (80, 95, 100)
    hosted_tools: frozenset[str] = frozenset()
    byok: Mapping[str, Byok] = _NO_ENTRIES
    rules: tuple[KeywordRule, ...] = ()
    heuristics: tuple[Heuristic, ...] = ()
    budgets: tuple[Budget, ...] = ()
    aliases: Aliases = _NO_ALIASES
    credentials: tuple[Credential, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Made once: a reload goes through those of all workspaces.
        object.__setattr__(self, "credentials", tuple(self._make_credentials()))

    def _make_credentials(self) -> Iterator[Credential]:
        for key in self.keys:
            yield Credential(self, key, key.hash)
            if key.previous_hash is not None:
                yield Credential(self, key, key.previous_hash, is_previous=True)

    def routed_key(self, provider: Provider) -> Byok | None:
        """Return the customer's own key for ``provider`` if its routing is on, else None."""
        byok = self.byok.get(provider.name)
        return byok if byok and byok.routing else None
