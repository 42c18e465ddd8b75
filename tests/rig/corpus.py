"""Recorded traffic of real providers, from the folder TOLLGATE_CORPUS."""

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

type Recorded = Mapping[str, Any]

FOLDER = os.environ.get("TOLLGATE_CORPUS", "")
needs_corpus = pytest.mark.skipif(not FOLDER, reason="TOLLGATE_CORPUS names no folder of recordings")

DIALECTS = {
    "openai_chat": "openai",
    "anthropic_messages": "anthropic",
    "gemini_generate": "gemini",
    "bedrock_converse": "bedrock",
    "openai_responses": "responses",
}
"""The dialect of each recorded API. The other APIs have none."""


def read_corpus(*apis: str) -> list[dict[str, Any]]:
    """Return the recorded exchanges of these APIs (by default, of the OpenAI chat shape) in a fixed order."""
    return [record for api in apis or ("openai_chat",) for record in _read(f"*.{api}.jsonl")]


def read_whole_corpus() -> list[dict[str, Any]]:
    """Return the recorded exchanges of all APIs in a fixed order."""
    return list(_read("*.jsonl"))


def recorded_files(*apis: str) -> list[str]:
    """Return the names of the files with the recorded exchanges of these APIs."""
    found = [file.name for api in apis for file in sorted(Path(FOLDER).glob(f"*.{api}.jsonl"))]
    assert found, f"no recordings of {apis} in {FOLDER}"
    return found


def read_recorded_file(name: str, every: int = 1) -> list[dict[str, Any]]:
    """Return the recorded exchanges of one file, or one of so many, the first among them."""
    lines = [line for line in (Path(FOLDER) / name).read_text("utf-8").split("\n") if line]
    return [json.loads(line) for line in lines[::every]]


@cache
def _read(pattern: str) -> tuple[dict[str, Any], ...]:
    lines = [
        line for file in sorted(Path(FOLDER).glob(pattern)) for line in file.read_text("utf-8").split("\n")
    ]
    found = tuple(json.loads(line) for line in lines if line)
    assert found, f"no recordings {pattern} in {FOLDER}"
    return found
