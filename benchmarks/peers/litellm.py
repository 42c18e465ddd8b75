"""The proxy of LiteLLM with one master key and no database."""

import contextlib
import json
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import await_port, free_port, running
from benchmarks.traffic import Target

START_LIMIT_S: Final = 120.0
_COSTS: Final = "costs"
_CALLBACK: Final = """
from litellm.integrations.custom_logger import CustomLogger


class KeepCosts(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        with open({path!r}, "a") as file:
            file.write(repr(kwargs.get("response_cost") or 0.0) + "\\n")


keep_costs = KeepCosts()
"""


@contextlib.contextmanager
def serve(
    program: Path, folder: Path, models: Sequence[dict[str, Any]], *, keep_costs: bool = False
) -> Iterator[Target]:
    """Yield a proxy of ``models``. With ``keep_costs`` it writes the cost of each call: ``kept_costs_usd``."""
    key, port, config = f"sk-{secrets.token_hex(16)}", free_port(), folder / "config.yaml"
    callbacks = {"callbacks": ["callback.keep_costs"]} if keep_costs else {}
    settings = {
        "model_list": list(models),
        "general_settings": {"master_key": key},
        "litellm_settings": {"telemetry": False, "json_logs": True, **callbacks},
    }
    # JSON is YAML too.
    config.write_text(json.dumps(settings), encoding="utf-8")
    (folder / "callback.py").write_text(_CALLBACK.format(path=str(folder / _COSTS)), encoding="utf-8")
    quiet = {
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
    }
    command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with running(command, log=folder / "log", environment=quiet, home=folder) as process:
        await_port(process, port, START_LIMIT_S)
        yield Target("", process.pid, port, key)


def kept_costs_usd(folder: Path) -> list[float]:
    """Return the cost of each call so far."""
    kept = folder / _COSTS
    return [float(line) for line in kept.read_text(encoding="utf-8").split()] if kept.exists() else []
