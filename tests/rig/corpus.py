"""Recorded traffic of real providers, read from the folder that TOLLGATE_CORPUS names."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("TOLLGATE_CORPUS", "")
needs_corpus = pytest.mark.skipif(not FOLDER, reason="TOLLGATE_CORPUS names no folder of recordings")


def read_corpus() -> list[dict[str, Any]]:
    """Every recorded exchange in the OpenAI chat shape."""
    files = sorted(Path(FOLDER).glob("*.openai_chat.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]
    assert found, f"no openai_chat recordings in {FOLDER}"
    return found
