"""Recorded requests of the Responses API: of the corpus, and of real clients in the folder TOLLGATE_AGENTS."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.corpus import read_corpus

AGENTS = os.environ.get("TOLLGATE_AGENTS", "")
needs_agents = pytest.mark.skipif(not AGENTS, reason="TOLLGATE_AGENTS names no folder of clients' requests")

STATEFUL = ("previous_response_id", "conversation", "prompt")


def corpus_requests() -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield the id of each recorded exchange, its request and the status of its answer."""
    for record in read_corpus("openai_responses"):
        if isinstance(request := record["request"], dict):
            yield record["id"], request, record["status"]


def client_requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of a client and each of its requests."""
    for file in sorted(Path(AGENTS).glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            if record["path"].endswith("/responses") and isinstance(record["request"], dict):
                yield file.stem, record["request"]


def wants_state(request: dict[str, Any]) -> bool:
    """Return whether a request needs what only a gateway with a store has."""
    items = request["input"] if isinstance(request.get("input"), list) else []
    has_reference = any(item.get("type") == "item_reference" for item in items)
    return has_reference or request.get("background") is True or any(request.get(name) for name in STATEFUL)
