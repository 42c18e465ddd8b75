"""Providers of every dialect that lead any agent through a task: the vendor asks for a tool call, step by step.

The agent works in a folder with ``note.txt``, which has a word that no request begins with. The vendor learns the word
from the result of a tool, has the agent write it to ``copy.txt``, and says it at the end. So a task that ends well was
carried both ways by the agent, the gateway and the vendor's own shape, with reasoning in each answer. A vendor refuses
what its table refuses.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rig.agent_wires import STREAMS, TITLE, WIRES, WORD, Call, Turn, Wire
from rig.scripts import USAGE, Received, Script, whole
from rig.vendors import find_vendor
from rig.vendors.rules import refusal


class AgentVendors:
    """A behaviour of ``Upstream``. The first part of a path chooses the vendor (``strict_vendors.base_url``).

    ``steps`` are the calls of each answer of the task but the last. ``refusals`` are the vendors' refusals,
    ``missing_tools`` the tools of ``steps`` that an agent did not offer, ``forgotten`` the reasoning of earlier answers
    that was not in a request. ``failures`` are the answers to the next requests of the task, and with ``uses_all`` an
    answer has all the tokens that its request allows.
    """

    def __init__(self) -> None:
        self.steps: Sequence[Sequence[Call]] = ()
        self.refusals: list[Any] = []
        self.missing_tools: list[str] = []
        self.answered = 0
        self.forgotten: set[str] = set()
        self._told: list[str] = []
        self.failures: list[Script] = []
        self.uses_all = False
        self._lock = threading.Lock()

    def lead(self, *steps: Sequence[Call]) -> None:
        """Begin a new task."""
        with self._lock:
            self.steps = steps
            self.refusals, self.missing_tools, self.answered = [], [], 0
            self.failures, self.uses_all = [], False
            self.forgotten, self._told = set(), []

    def __call__(self, request: Received) -> Script:
        path = request.target.partition("?")[0]
        if path.endswith("/count_tokens"):
            return whole({"input_tokens": 20})
        body = request.json()
        if refused := refusal(find_vendor(path.split("/")[2], path), request.target, request.body):
            status, said = refused
            self.refusals.append(said)
            return whole(said, status)
        return self._answer(path, body)

    def _answer(self, path: str, body: Any) -> Script:
        streams = body.get("stream") is True
        for end, plain in STREAMS.items():
            if path.endswith(end):
                path, streams = path.removesuffix(end) + plain, True
        self.answered += 1
        wire = next(wire for end, wire in WIRES.items() if path.endswith(end))
        return self._said(wire, body, streams=streams)

    def _said(self, wire: Wire, body: Any, *, streams: bool) -> Script:
        tools = dict(wire.tools(body))
        usage = USAGE
        if self.uses_all:
            prompt, used = len(json.dumps(body)) // 2, body.get("max_tokens", 0)
            usage = {"prompt_tokens": prompt, "completion_tokens": used, "total_tokens": prompt + used}
        if not tools:
            return wire.write(Turn(0, (), TITLE, USAGE), body, streams)
        with self._lock:
            if self.failures:
                return self.failures.pop(0)
        if len(tools) == 1:
            [name] = tools
            return wire.write(Turn(0, (Call(name, json.loads(TITLE)),), "", USAGE), body, streams)
        results = [json.dumps(result) for result in wire.results(body)]
        number = self._number(len(results))
        found = WORD.search(" ".join(results))
        word = found[0] if found else "nothing"
        step = self.steps[number] if number < len(self.steps) else ()
        calls = [call.otherwise if call.otherwise and call.name not in tools else call for call in step]
        fitted = [_fitted(call, word, tools.get(call.name)) for call in calls]
        self.missing_tools += [call.name for call in calls if call.name not in tools]
        text = "I look." if fitted else f"It says {word}."
        turn = Turn(number, fitted, text, usage)
        script = wire.write(turn, body, streams)
        with self._lock:
            if number == 0:  # a new conversation
                self._told = []
            written = json.dumps(body)
            self.forgotten.update(mark for mark in self._told if mark not in written)
            mark = wire.mark(turn)
            if any(isinstance(step, bytes) and mark.encode() in step for step in script):
                self._told.append(mark)
        return script

    def _number(self, results: int) -> int:
        """Return how many steps are done, by the number of results."""
        done = 0
        for number, calls in enumerate(self.steps):
            done += len(calls)
            if results < done:
                return number
        return len(self.steps)


def _fitted(call: Call, word: str, takes_text: bool | None) -> Call:
    """Put the word into a call. A tool that takes free text is a function with one string in the other dialects."""
    given = _with_word(call.given, word)
    return Call(call.name, {"input": given} if isinstance(given, str) and not takes_text else given)


def _with_word(value: Any, word: str) -> Any:
    if isinstance(value, str):
        return value.replace("{word}", word)
    if isinstance(value, Mapping):
        return {name: _with_word(inner, word) for name, inner in value.items()}
    return value
