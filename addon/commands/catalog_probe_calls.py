"""Cheap real calls to models, through a gateway of the command's own on a loopback port.

The calls take the same way as those of clients: the same limits, holds, keys of providers and rows of the ledger.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from addon.apis.chat.request import parse_chat_request
from addon.runtime.listening import base_url, bind
from addon.settings.api_keys import hash_key, make_key
from addon.settings.settings import Settings
from addon.store.backends import find_ledger
from addon.store.money.reports.calls_by_id import find_call
from addon.text.masking import mask_credentials
from policies.model import Credential, Key, Model, Workspace
from policies.money import PICOUSD_PER_NANOUSD
from policies.prices import Prices
from policies.spend import compute_max_cost

if TYPE_CHECKING:
    from httpx import AsyncClient, Response

    from addon.calls.in_flight import InFlightCalls

KEY_ID: Final = "catalog-probe"
"""The key of the calls in the ledger. Its secret exists only in this process."""

CAP_TOKENS: Final = 256
"""Enough for a word after some reasoning: vendors answer 400 where a smaller cap ends in the middle of it."""

CALL_TIMEOUT_S: Final = 120.0
_HOST: Final = "127.0.0.1"
_MAX_MESSAGE: Final = 300

type Result = Literal["ok", "failed", "skipped", "not called"]


@dataclass(frozen=True, slots=True)
class Probe:
    """One call, or the reason why a model got none. Other values than these are None where no call was made.

    ``cap_tokens`` is the cap that was asked for, ``cap_accepted`` whether the vendor took it: None where its status
    does not say. ``usage`` is where the counted tokens come from, as in the ledger.
    """

    slug: str
    call: str | None
    result: Result
    note: str | None = None
    status: int | None = None
    latency_ms: int | None = None
    cap_tokens: int | None = None
    cap_accepted: bool | None = None
    usage: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    wholesale_nanousd: int | None = None
    retail_nanousd: int | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that may be made. ``most_nanousd`` is its highest cost, at wholesale or at retail."""

    model: Model
    stream: bool
    body: bytes
    cap_tokens: int
    most_nanousd: int

    @property
    def kind(self) -> str:
        """The word for it in the output."""
        return "streamed" if self.stream else "whole"


def plan_calls(models: Iterable[Model], *, full_cap: bool) -> list[PlannedCall]:
    """Return a whole and a streamed call for each model. With ``full_cap``, its catalog's maximum goes out."""
    return [_plan(model, stream, full_cap=full_cap) for model in models for stream in (False, True)]


def why_skipped(model: Model) -> str | None:
    """Return why a model can't be called with the platform's own key, None where it can."""
    provider = model.provider
    if not model.active:
        return "not active"
    if provider.builtin:
        return "built in: no vendor serves it"
    if model.serves != "chat":
        return "it makes embeddings, and a probe is a chat call"
    if model.byok_only:
        return "served with customers' own keys only"
    if not provider.has_platform_key:
        unset = ", ".join(provider.unset_variables)
        return f"{provider.name} has no platform key" + (f" ({unset} is not set)" if unset else "")
    return None


def _plan(model: Model, stream: bool, *, full_cap: bool) -> PlannedCall:
    model = model.at(datetime.now(UTC))
    largest = model.max_completion_tokens or CAP_TOKENS
    cap_tokens = largest if full_cap else min(CAP_TOKENS, largest)
    fields: dict[str, Any] = {
        "model": model.slug,
        "messages": [{"role": "user", "content": "Reply with the word ok."}],
        "stream": stream,
    }
    if not full_cap:
        fields["max_tokens"] = cap_tokens
    body = json.dumps(fields).encode()
    costs = [_most_nanousd(model, prices, body, cap_tokens) for prices in (model.wholesale, model.retail)]
    return PlannedCall(model, stream, body, cap_tokens, max(costs))


def _most_nanousd(model: Model, prices: Prices, body: bytes, cap_tokens: int) -> int:
    most = compute_max_cost(
        prices,
        parse_chat_request(body).prompt_tokens(model.family),
        cap_tokens,
        1,
        is_protected=True,
        uncapped_tokens=model.family.uncapped_completion_tokens,
        max_searches=model.max_unasked_searches,
    )
    return most.prompt_nanousd - (-most.token_picousd * cap_tokens // PICOUSD_PER_NANOUSD)


async def probe(
    settings: Settings, workspace: Workspace, planned: Iterable[PlannedCall], bound_nanousd: int
) -> list[Probe]:
    """Make the calls one by one, and stop before one whose highest cost would pass ``bound_nanousd``.

    Of each call, the dearer of wholesale and retail counts. One without a row yet counts as its highest cost.
    """
    waiting, done, spent_nanousd = list(planned), [], 0
    async with _gateway(settings, workspace) as gateway:
        while waiting and spent_nanousd + waiting[0].most_nanousd <= bound_nanousd:
            call = waiting.pop(0)
            made = await gateway.make(call)
            done.append(made)
            costs = (made.wholesale_nanousd, made.retail_nanousd)
            spent_nanousd += max((cost for cost in costs if cost is not None), default=call.most_nanousd)
    left = (Probe(call.model.slug, call.kind, "not called", "the bound is reached") for call in waiting)
    return [*done, *left]


class _Gateway:
    """A running gateway of this process, and a client of it."""

    def __init__(self, settings: Settings, client: "AsyncClient", in_flight: "InFlightCalls") -> None:
        self._conf = settings.conf
        self._client = client
        self._in_flight = in_flight

    async def make(self, call: PlannedCall) -> Probe:
        """Make one call, and read its row."""
        from httpx import HTTPError

        failed = Probe(call.model.slug, call.kind, "failed", cap_tokens=call.cap_tokens)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                answer = await self._client.post("/v1/chat/completions", content=call.body)
                await self._in_flight.idle.wait()
        except TimeoutError:
            return replace(failed, note=f"no whole answer within {CALL_TIMEOUT_S:g} s")
        except HTTPError as error:
            return replace(failed, note=f"the answer broke off ({type(error).__name__})")
        call_id = answer.headers.get("x-request-id", "")
        row = self._read_row(call_id)
        return _judge(replace(failed, id=call_id, status=answer.status_code), answer, row)

    def _read_row(self, call_id: str) -> dict[str, Any] | None:
        """Return the row of a call."""
        with find_ledger(self._conf).read() as ledger:
            found = find_call(ledger, call_id)
        return found[0].records()[0] if found else None


def _judge(made: Probe, answer: "Response", row: dict[str, Any] | None) -> Probe:
    """Return what the answer of a call and its row say."""
    message = _find_error(answer.text)
    if row is None:
        return replace(made, note=message or "its row is not in the ledger yet")
    status = row["status"]
    read = replace(
        made,
        status=status,
        latency_ms=row["duration_ms"],
        cap_accepted=True if status == 200 else False if status in (400, 422) else None,
        usage=row["usage_source"],
        **{name: row[name] for name in ("prompt_tokens", "completion_tokens")},
        **{name: row[name] for name in ("wholesale_nanousd", "retail_nanousd")},
    )
    if status != 200 or row["error_code"]:
        return replace(read, note=": ".join(filter(None, (row["error_code"], message))))
    if row["usage_source"] != "provider":
        return replace(read, note="the answer has no usage, so its cost is estimated")
    return replace(read, result="ok")


def _find_error(text: str) -> str | None:
    """Return the message of an error: of a whole answer, or of the event that ended a stream."""
    pieces = [text, *(line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))]
    return next(filter(None, map(_error_in, pieces)), None)


def _error_in(piece: str) -> str | None:
    try:
        found = json.loads(piece)
    except ValueError:
        return None
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict):
        return None
    return mask_credentials(str(error.get("message")))[:_MAX_MESSAGE]


@asynccontextmanager
async def _gateway(settings: Settings, workspace: Workspace) -> AsyncIterator[_Gateway]:
    """Start a gateway on a free loopback port, for one key that nothing but this process knows."""
    # Imported here, because the other commands of the group need neither mitmproxy nor a client.
    import httpx

    from addon.serve.server import serving

    secret = make_key()
    used = _settings_for(settings, workspace, secret)
    listening = bind(_HOST, 0)
    try:
        async with serving(used) as server:
            await server.accept([listening])
            headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
            url = base_url(_HOST, listening.getsockname()[1])
            async with httpx.AsyncClient(
                base_url=url, headers=headers, timeout=CALL_TIMEOUT_S, trust_env=False
            ) as client:
                yield _Gateway(used, client, server.gateway.lifecycle().deps.in_flight)
    finally:
        listening.close()


def _settings_for(settings: Settings, workspace: Workspace, secret: str) -> Settings:
    """Return the settings of that gateway: one workspace and key, the platform's keys, one attempt, plain HTTP.

    The hold is always for the whole cost, and nobody gets an alert twice.
    """
    key = Key(KEY_ID, hash_key(secret))
    alone = replace(
        workspace, keys=(key,), overage_protection=True, fallback_model=None, safety_net=False, byok={}
    )
    listen = settings.conf.listen.model_copy(update={"tls_certificate": None, "workers": 1})
    return replace(
        settings,
        conf=settings.conf.model_copy(update={"listen": listen}),
        workspaces=MappingProxyType({workspace.id: alone}),
        keys=MappingProxyType({key.hash: Credential(alone, key, key.hash)}),
        alert_target=None,
        sandbox_enabled=False,
    )
