"""Calls with failing providers. Each call has its own workspace, wallet, providers and keys.

The calls share nothing, so all can run at once, and each counter counts only one call.
"""

import json
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

import httpx

from rig.bounds import BOUND_S
from rig.configuration import SURE_TO_RESEND, model, new_key, provider, workspace
from rig.evidence import Asked, Evidence, LedgerTables, fill_wallets
from rig.faults import FaultyPort
from rig.gateway import Gateway
from rig.scripts import CLOSE, RESET, Received, Script, ordinary, whole
from rig.service_accounts import key_file, pem, rsa_key
from rig.situation import ROLES, Place, Role, Situation
from rig.upstream import Upstream

type Found = Mapping[tuple[str, ...], Evidence]

PATH = "/v1/chat/completions"
AT_ONCE = 8
SECRET = re.compile(r"fake-(\w+)-key-(\d+)-x{20}")
_PLATFORM_KEYS: tuple[tuple[Place, Role], ...] = (("first", "platform"), ("second", "fallback"))


class Situations:
    """The providers of all situations, and the calls to the gateway."""

    def __init__(self, situations: Iterable[Situation], upstream: Upstream) -> None:
        self.all = list(situations)
        assert len({one.name for one in self.all}) == len(self.all), "two situations of one name"
        self._by_number = {one.number: one for one in self.all}
        self._upstream = upstream
        self._ports: dict[str, FaultyPort] = {}
        self._alone: dict[int, Upstream] = {}
        self._asked: dict[int, list[Asked]] = {one.number: [] for one in self.all}
        self._stale: dict[int, list[Asked]] = {one.number: [] for one in self.all}
        self._keys = {one.number: new_key() for one in self.all}

    @contextmanager
    def providers_running(self, good: ssl.SSLContext, bad: ssl.SSLContext) -> Iterator[None]:
        """Run the failing ports, one for each kind. A situation that repairs its port has its own port.

        A situation that is alone also has its own port.
        """
        with ExitStack() as running:
            for one in self.all:
                if one.fault.port and self._port_name(one) not in self._ports:
                    port = running.enter_context(FaultyPort(one.fault.port, good, bad))
                    port.behave(self._behave)
                    self._ports[self._port_name(one)] = port
                if one.is_alone:
                    self._alone[one.number] = running.enter_context(Upstream())
                    self._alone[one.number].behave(self._behave)
            self._upstream.behave(self._behave)
            yield
            others = (*self._ports.values(), *self._alone.values())
            assert [other.failures for other in others if other.failures] == []

    # The configuration of the gateway.

    def settings(self) -> dict[str, Any]:
        providers, models, workspaces, environment = {}, {}, {}, {}
        for one in self.all:
            for place, role in _PLATFORM_KEYS:
                auth = {"auth": "google_service_account"} if place == "first" and one.has_accounts else {}
                providers[one.provider(place)] = provider(
                    self._base_url(one, place), platform_key=f"env:{self._variable(one, role)}", **auth
                )
            models[one.slug("first")] = _model(one, "first", "1", "10") | dict(one.first)
            models[one.slug("second")] = _model(one, "second", "3", "50") | dict(one.second)
            workspaces[one.workspace_id] = self._workspace(one)
            environment |= {
                self._variable(one, role): self._reference(one, role)
                for role in ROLES
                if role not in one.unset
            }
        return {
            "program": SURE_TO_RESEND,
            "providers": providers,
            "models": models,
            "workspaces": workspaces,
            "environment": environment,
        }

    def _workspace(self, one: Situation) -> dict[str, Any]:
        secret = f"env:{self._variable(one, 'customer')}"
        settings = {
            "plan": "standard",
            "overage_protection": True,
            "monthly_spend_cap_usd": "100",
            "byok": {one.provider(place): {"secret": secret, "routing": True} for place in one.own_keys},
            **({"fallback_model": one.slug(one.fallback)} if one.fallback else {}),
            **one.workspace,
        }
        made = workspace(("ci", self._keys[one.number], True), **settings)
        # With a cap of one call, a second attempt that counts as a call would be refused.
        made["keys"][0] |= {"request_cap": 1 + one.spends_before, "spend_cap_usd": "50"} | dict(one.key)
        return made

    @staticmethod
    def _variable(one: Situation, role: Role) -> str:
        return f"TEST_{role.upper()}_{one.number:03}"

    def _reference(self, one: Situation, role: Role) -> str:
        if not one.has_accounts or role == "fallback":
            return one.secret(role)
        token_uri = f"http://127.0.0.1:{self._upstream.port}/{one.number}/token/{role}"
        return key_file(token_uri, private_key=pem(rsa_key(role)))

    @staticmethod
    def _port_name(one: Situation) -> str:
        return f"{one.fault.port} {one.number}" if one.is_repaired else str(one.fault.port)

    def _base_url(self, one: Situation, place: Place) -> str:
        origin = f"http://127.0.0.1:{self._alone.get(one.number, self._upstream).port}"
        if place == "first" and one.fault.port:
            port = self._ports[self._port_name(one)]
            origin = f"{'https://localhost' if port.is_secure else 'http://127.0.0.1'}:{port.port}"
        return f"{origin}/{one.number}/{place}"

    # The behaviour of the providers.

    def _behave(self, request: Received) -> Script:
        _, number, place, *rest = request.target.split("/")
        one = self._by_number[int(number)]
        if place == "token":
            return self._grant(one, "customer" if rest == ["customer"] else "platform")
        everything = json.dumps(request.headers) + request.target + request.body.decode()
        keys = sorted({(role, int(of)) for role, of in SECRET.findall(everything)})
        attempt: Asked = (place, keys)
        script = self._script(one, attempt, request)
        # A kept connection may close at any time. The gateway then repeats its request on a new one.
        is_stale = request.nth > 1 and script[0] in (CLOSE, RESET)
        (self._stale if is_stale else self._asked)[one.number].append(attempt)
        return script

    def _script(self, one: Situation, attempt: Asked, request: Received) -> Script:
        if attempt == ("first", [(one.first_role, one.number)]) and one.fault.script:
            return one.fault.script(request)
        is_spent_before = one.spends_before and not self._asked[one.number]
        return ordinary(request) if is_spent_before else one.then(request)

    def _grant(self, one: Situation, role: Role) -> Script:
        """Return an access token. The request for the second attempt's token also repairs the port."""
        is_first = role == one.first_role
        if is_first and one.fault.has_no_token:
            return whole({"error": "invalid_grant", "error_description": "The account is no more."}, 400)
        if not is_first and one.is_repaired:
            self._ports[self._port_name(one)].repair()
        return whole({"access_token": one.secret(role), "expires_in": 3600})

    # The calls.

    def meet(self, gateway: Gateway) -> Found:
        """Make all calls, each on its own connection. Return the evidence of each by name."""
        self.fill_wallets(gateway)
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(
            base_url=gateway.url, limits=limits, timeout=BOUND_S * 3, trust_env=False
        ) as client:
            for one in self.all:
                if one.spends_before:
                    spent = self._call(client, one, model=one.slug("second"), stream=False)
                    assert spent.status_code == 200, spent.text
                    gateway.wait_for_row(spent.headers["x-request-id"])
            answers = self._call_all(client)
        return self.gather(gateway, answers)

    def _call_all(self, client: httpx.Client) -> dict[tuple[str, ...], httpx.Response]:
        """Make ``AT_ONCE`` calls at a time. Calls that wait for a timeout don't count and start between the others."""
        waiting = [one for one in self.all if one.waits]
        others = (one for one in self.all if not one.waits)
        with ThreadPoolExecutor(AT_ONCE) as pool, ThreadPoolExecutor(len(waiting) or 1) as patient:

            def start(one: Situation) -> Future[httpx.Response] | httpx.Response:
                return patient.submit(self._call, client, one) if one.waits else self._call(client, one)

            in_turn = [one for first in waiting for one in (first, *islice(others, 2))] + list(others)
            started = {one.name: pool.submit(start, one) for one in in_turn}
            made = {name: future.result() for name, future in started.items()}
            return {name: one.result() if isinstance(one, Future) else one for name, one in made.items()}

    def _call(self, client: httpx.Client, one: Situation, **changes: Any) -> httpx.Response:
        return client.post(PATH, json=self.body(one) | changes, headers=self.headers(one))

    def body(self, one: Situation) -> dict[str, Any]:
        """Return the body of the client's request."""
        return {
            "model": one.slug("first"),
            "messages": [{"role": "user", "content": "hello"}],
            "stream": one.stream,
            "max_tokens": 200,
        }

    def headers(self, one: Situation) -> dict[str, str]:
        """Return the headers of the client's request."""
        return {"Authorization": f"Bearer {self._keys[one.number]}", "Content-Type": "application/json"}

    def gather(self, gateway: Gateway, answers: Mapping[tuple[str, ...], httpx.Response]) -> Found:
        """Wait for all expected rows. Return the evidence of the answered calls."""
        called = [one for one in self.all if one.name in answers]
        ids = {answers[one.name].headers["x-request-id"] for one in called if one.is_booked}
        gateway.wait_until(lambda: ids <= {row["id"] for row in gateway.ledger_rows()})
        tables = LedgerTables(gateway)
        return {one.name: self._evidence(tables, one, answers[one.name]) for one in called}

    def _evidence(self, tables: LedgerTables, one: Situation, answer: httpx.Response) -> Evidence:
        return tables.evidence(one.workspace_id, answer, self._asked[one.number], self._stale[one.number])

    def fill_wallets(self, gateway: Gateway) -> None:
        """Credit all wallets."""
        fill_wallets(gateway, {one.workspace_id: one.wallet_usd for one in self.all if one.wallet_usd})


def _model(one: Situation, place: Place, input_price: str, output_price: str) -> dict[str, Any]:
    return model(
        provider=one.provider(place),
        upstream_model_id=f"vendor/{place}",
        input_price_per_m=input_price,
        output_price_per_m=output_price,
        max_completion_tokens=1_000,
    )
