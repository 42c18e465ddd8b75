"""Places of one model that often fail, in three dialects, and what each of them counts for itself.

A request is known by the name in its prompt. How a place answers it depends on that name and on how often the place
was asked, so it is the same in each run.
"""

import asyncio
import json
import random
import re
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from rig import anthropic_answers, native_responses
from rig.configuration import ROOT, model, provider
from rig.scripts import (
    RESET,
    UNTIL_CLIENT_LEAVES,
    Ending,
    Gate,
    Received,
    Script,
    Step,
    chunked,
    completion,
    event,
    stream_of,
    whole,
)

MODEL, SPARE = "three", "spare"
PRICES = {"A/a": (1000, 4000), "B/b": (500, 3000), "C/c": (2000, 5000), "S/s": (2000, 8000)}
"""The wholesale prices of a token of prompt and answer in nano-USD. All places of ``MODEL`` sell at those of A."""
DEAD = "DEAD/dead"
"""A place that refuses connections."""
ENDS = {"429": 6, "500": 6, "503": 6, "reset": 4, "empty": 2, "cut": 4, "silent": 1, "slow": 6, "fine": 65}
"""How often each answer comes, in percent."""
SERVED = ("slow", "fine")
NAME = re.compile(rb"call-\d+-\d+")
FAMILIES = ROOT / "catalog_data" / "families.toml"


class Pause(Gate):
    """A vendor that takes its time."""

    async def passed(self) -> None:
        await asyncio.sleep(0.2)


def _usd(nanousd: int) -> str:
    return f"{nanousd / 1000:g}"


def _priced(deployment: str) -> dict[str, str]:
    of_prompt, of_answer = PRICES[deployment]
    return {"input_price_per_m": _usd(of_prompt), "output_price_per_m": _usd(of_answer)}


def flaky_settings(base_url: str, dead_url: str, *, mixed: bool) -> dict[str, Any]:
    """Return providers and models: three places with the weights 3, 2, 1, a dead one, and a fallback at S.

    ``mixed`` gives B the dialect ``anthropic``, and C ``responses`` for calls in that API.
    """
    providers = {name: provider(base_url) for name in "ACS"}
    providers["B"] = provider(base_url, dialect="anthropic" if mixed else "openai")
    providers["DEAD"] = provider(dead_url)
    at_b = {"family": "claude-sampling"} if mixed else {}
    at_c = {"family": "openai-reasoning-or-tools", "dialect": "responses"} if mixed else {}
    deployments = [
        {"provider": "B", "upstream_model_id": "b", "weight": 2, **_priced("B/b"), **at_b},
        {"provider": "C", "upstream_model_id": "c", "weight": 1, **_priced("C/c"), **at_c},
        {"provider": "DEAD", "upstream_model_id": "dead", "weight": 1},
    ]
    first = {"provider": "A", "upstream_model_id": "a", "weight": 3, "deployments": deployments}
    return {
        "providers": providers,
        "models": {
            MODEL: model(**first, **_priced("A/a")),
            SPARE: model(provider="S", upstream_model_id="s", **_priced("S/s")),
        },
    }


@dataclass(frozen=True)
class Seen:
    """A request that reached a place, and what the place counts for it if it serves it."""

    name: str
    place: str
    end: str
    prompt_tokens: int
    completion_tokens: int

    @property
    def wholesale_nanousd(self) -> int:
        of_prompt, of_answer = PRICES[self.place]
        return self.prompt_tokens * of_prompt + self.completion_tokens * of_answer


class FlakyPlaces:
    """The behaviour of all places that answer. Read ``seen`` when no call is in flight."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: Received) -> Script:
        body = request.json()
        found = NAME.search(request.body)
        assert found
        name, place = found[0].decode(), f"{body['model'].upper()}/{body['model']}"
        with self._lock:
            self._asked[name] += 1
            dice = random.Random(f"{name} {self._asked[name]}")
            (end,) = dice.choices(list(ENDS), list(ENDS.values()))
            caps = ("max_completion_tokens", "max_output_tokens", "max_tokens")
            cap = next(body[field] for field in caps if body.get(field))
            seen = Seen(name, place, end, request.body.count(b"word") + 5, cap)
            self.seen.append(seen)
        return _script(request, seen, dice)


def _script(request: Received, seen: Seen, dice: random.Random) -> Script:
    if seen.end.isdigit():
        waits = [("Retry-After", "1")] if dice.random() < 0.3 else []
        error = {"type": "error", "error": {"type": "server_error", "message": "busy", "code": "busy"}}
        return whole(error, int(seen.end), waits)
    if seen.end == "reset":
        return (RESET,)
    if seen.end == "silent":
        return (Pause(), RESET) if not request.json().get("stream") else (UNTIL_CLIENT_LEAVES,)
    answer = _answer(request, seen)
    if seen.end == "empty":
        return whole(b"")
    if seen.end == "cut":
        return _cut(answer)
    return (*answer[:1], Pause(), *answer[1:]) if seen.end == "slow" else answer


def _cut(answer: Script) -> tuple[Step | Ending, ...]:
    if len(answer) == 1 and isinstance(answer[0], bytes):
        return (answer[0][:-20], RESET)
    # The head, and the first pieces of the stream.
    return (*answer[: len(answer) // 2], Pause(), RESET)


def _answer(request: Received, seen: Seen) -> Script:
    streams = bool(request.json().get("stream"))
    if request.target.endswith("/messages"):
        return _message(seen, streams=streams)
    if request.target.endswith("/responses"):
        counts = {"input_tokens": seen.prompt_tokens, "output_tokens": seen.completion_tokens}
        usage = native_responses.USAGE | counts | {"total_tokens": sum(counts.values())}
        usage["input_tokens_details"] = {"cached_tokens": 0}
        usage["output_tokens_details"] = {"reasoning_tokens": 0}
        made = native_responses.response(native_responses.message("hello"), to=request.json(), usage=usage)
        return native_responses.script(made, streams=streams)
    usage = {
        "prompt_tokens": seen.prompt_tokens,
        "completion_tokens": seen.completion_tokens,
        "total_tokens": seen.prompt_tokens + seen.completion_tokens,
    }
    return stream_of("hel", "lo", usage=usage) if streams else whole(completion(usage=usage))


def _message(seen: Seen, *, streams: bool) -> Script:
    said = {"type": "text", "text": "hello"}
    usage = {"input_tokens": seen.prompt_tokens, "output_tokens": seen.completion_tokens}
    if not streams:
        return whole(anthropic_answers.answer(said, usage=usage))
    started = usage | {"output_tokens": 1}
    events = anthropic_answers.events(
        said, usage={"output_tokens": usage["output_tokens"]}, start=started, pieces=2
    )
    return chunked(*(_typed(one) for one in events))


def _typed(payload: dict[str, Any]) -> bytes:
    return f"event: {payload['type']}\n".encode() + event(json.loads(json.dumps(payload)))
