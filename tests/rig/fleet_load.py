"""Real clients of a fleet, which call all its gateways while a test breaks and mends what is behind them."""

import asyncio
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Self

import httpx

from rig.bounds import BOUND_S
from rig.load import PATH

AT_ONCE = 4
"""How many clients call each gateway at the same time."""
MOST_CALLS = 20_000
BROKEN_OFF = -1
_PAUSE_S, _PAUSE_AFTER_AN_ERROR_S = 0.03, 0.15
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client saw. The ``status`` is 0 without an answer, and may be ``BROKEN_OFF``."""

    name: str
    workspace: str
    gateway: int
    began_s: float
    ended_s: float
    status: int
    text: str

    @property
    def is_failure(self) -> bool:
        """Whether the fleet could not do its work."""
        return self.status <= 0 or self.status >= 500


class Load:
    """Clients that call until the block ends. ``urls`` are the gateways', ``keys`` the workspaces' API keys.

    Each call has a name, its ``user``. ``answers`` grows.
    """

    def __init__(self, urls: Sequence[str], keys: Mapping[str, str], model: str, seed: int = 7) -> None:
        self.answers: list[Answer] = []
        self.in_flight: dict[str, int] = {}
        """The gateways of the calls that have no answer yet."""
        self._urls, self._keys, self._model = list(urls), dict(keys), model
        self._dice = random.Random(seed)
        self._grew = threading.Condition()
        self._is_over = threading.Event()
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="clients", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join(BOUND_S)
        assert not self._thread.is_alive(), "a client still waits for an answer"
        if kind is None and self._errors:
            raise self._errors[0]

    def wait_for_answers(self, number: int, wanted: Callable[[Answer], bool] = lambda _: True) -> float:
        """Wait until so many wanted answers have come from now on. Return the time of the last (monotonic)."""
        begun = len(self.answers)
        found: list[Answer] = []

        def has_come() -> bool:
            found[:] = [one for one in self.answers[begun:] if wanted(one)][:number]
            return len(found) == number or bool(self._errors)

        with self._grew:
            has_come = self._grew.wait_for(has_come, BOUND_S)
        assert not self._errors, self._errors
        assert has_come, f"{len(found)} of {number} answers; the last: {self.answers[-3:]}"
        return found[-1].ended_s

    def wait_for_served(self, number: int, gateway: int | None = None) -> float:
        """Wait until a gateway, or all together, have served so many calls from now on."""
        return self.wait_for_answers(
            number, lambda one: one.status == 200 and (gateway is None or one.gateway == gateway)
        )

    def statuses(self) -> Counter[int]:
        return Counter(one.status for one in self.answers)

    def first_served_s(self, gateway: int, since_s: float) -> float:
        """Return when a gateway served the first call that began since a moment (monotonic)."""
        return min(
            one.ended_s
            for one in self.answers
            if one.gateway == gateway and one.status == 200 and one.began_s >= since_s
        )

    def last_failure_s(self) -> float:
        """Return when the last call failed (monotonic), or minus infinity."""
        return max((one.ended_s for one in self.answers if one.is_failure), default=float("-inf"))

    def _run(self) -> None:
        try:
            asyncio.run(self._call_all())
        except BaseException as error:  # noqa: BLE001  (it is raised at the end of the block)
            self._errors.append(error)
            with self._grew:
                self._grew.notify_all()

    async def _call_all(self) -> None:
        no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Loading certificates takes time.
        callers = [
            self._call_on(gateway, url, no_tls)
            for gateway, url in enumerate(self._urls)
            for _ in range(AT_ONCE)
        ]
        await asyncio.gather(*callers)

    async def _call_on(self, gateway: int, url: str, no_tls: ssl.SSLContext) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=BOUND_S, trust_env=False, verify=no_tls) as client:
            while not self._is_over.is_set() and len(self.answers) < MOST_CALLS:
                answer = await self._call(gateway, client)
                with self._grew:
                    self.answers.append(answer)
                    self._grew.notify_all()
                await asyncio.sleep(_PAUSE_AFTER_AN_ERROR_S if answer.is_failure else _PAUSE_S)

    async def _call(self, gateway: int, client: httpx.AsyncClient) -> Answer:
        number = next(_NUMBERS)
        workspace = list(self._keys)[number % len(self._keys)]
        name, began_s = f"caller-{number}", time.monotonic()
        headers = {"Authorization": f"Bearer {self._keys[workspace]}"}
        status, text = 0, ""
        self.in_flight[name] = gateway
        try:
            async with client.stream("POST", PATH, json=self._body(name), headers=headers) as answer:
                status = BROKEN_OFF
                text = (await answer.aread()).decode()
                status = answer.status_code
        except httpx.TransportError:
            pass
        del self.in_flight[name]
        return Answer(name, workspace, gateway, began_s, time.monotonic(), status, text[:300])

    def _body(self, name: str) -> dict[str, Any]:
        text = "word " * self._dice.randint(1, 300)
        return {
            "model": self._model,
            "user": name,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": self._dice.randint(1, 2_000),
            "stream": self._dice.random() < 1 / 3,
        }
