"""Many calls at once against a running gateway. Each has its own name, which the ledger and the upstream see."""

import asyncio
import json
import random
import ssl
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from rig.bounds import BOUND_S
from rig.scripts import Received, Script, completion, stream_of, whole

PATH = "/v1/chat/completions"


@dataclass
class Outcome:
    """The outcome of the calls: answers by name, and the names of calls without an answer."""

    answers: dict[str, httpx.Response] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(answer.status_code for answer in self.answers.values())

    @property
    def whole(self) -> set[str]:
        """The names of the calls with a complete answer."""
        return {
            name
            for name, answer in self.answers.items()
            if answer.status_code == 200
            and (answer.text.startswith("{") or answer.text.endswith("data: [DONE]\n\n"))
        }

    def of_status(self, status: int) -> list[httpx.Response]:
        return [answer for answer in self.answers.values() if answer.status_code == status]


def sized_calls(count: int, model: str, seed: int = 7, **body: Any) -> dict[str, dict[str, Any]]:
    """Return ``count`` chat bodies of different sizes. The name of each is its ``user``."""
    dice = random.Random(seed)
    made = {}
    for number in range(count):
        name = f"caller-{seed}-{number}"
        text = "word " * dice.randint(1, 300)
        asked = {"model": model, "user": name, "messages": [{"role": "user", "content": text}]}
        made[name] = asked | {"max_tokens": dice.randint(1, 2_000)} | body
    return made


def run_calls(urls: Iterable[str], key: str, calls: dict[str, dict[str, Any]], at_once: int) -> Outcome:
    """Make all ``calls``, ``at_once`` in flight, over all ``urls`` and new connections."""
    return asyncio.run(_run(list(urls), key, calls, at_once))


async def _run(urls: list[str], key: str, calls: dict[str, dict[str, Any]], at_once: int) -> Outcome:
    outcome = Outcome()
    waiting = list(calls.items())
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Loading certificates takes time.

    async def caller(number: int) -> None:
        # A client of its own: a shared pool looks at all its connections for each call, which takes seconds of CPU.
        async with httpx.AsyncClient(
            base_url=urls[number % len(urls)],
            headers={"Authorization": f"Bearer {key}"},
            timeout=BOUND_S,
            trust_env=False,
            verify=no_tls,
        ) as client:
            while waiting:
                name, body = waiting.pop()
                try:
                    outcome.answers[name] = await client.post(PATH, json=body)
                except httpx.TransportError:
                    outcome.unanswered.add(name)

    await asyncio.gather(*(caller(number) for number in range(at_once)))
    return outcome


def as_dear_as_allowed(request: Received) -> Script:
    """Answer with all allowed tokens, and one prompt token for four bytes, whole or as a stream."""
    body = request.json()
    cap = body.get("max_completion_tokens") or body["max_tokens"]
    prompt = len(json.dumps(body["messages"])) // 4
    usage = {"prompt_tokens": prompt, "completion_tokens": cap, "total_tokens": prompt + cap}
    return stream_of("hel", "lo", usage=usage) if body.get("stream") else whole(completion(usage=usage))
