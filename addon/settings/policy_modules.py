"""Operators' own policy modules: ``policies/NAME.py`` next to proxy.conf, as a ``Policy``.

Each is compiled from its file into its own namespace and never imported. So it can't shadow a module of the gateway,
and an edit takes effect. Each process compiles it from the same text. Source: docs/policies.md.
"""

import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Final

from addon.settings.errors import SettingsError, join_key_path
from addon.settings.sources import Sources
from policies.review import Policy

OWN_MODULES: Final = frozenset(
    {
        *(
            "affinity",
            "aliases",
            "alert_rules",
            "allowed_models",
            "attempt_ends",
            "budget_forecast",
            "call_stages",
            "budgets",
            "circuit_breaker",
            "completion_cap",
            "dialect_choice",
            "estimate",
            "exchange",
            "fallback",
            "family",
        ),
        *(
            "field_change",
            "field_rules",
            "fleet_files",
            "function_tools",
            "hosted_tools",
            "model_lacks",
            "model_names",
            "key_claims",
            "key_cooldown",
            "key_models",
            "keywords",
            "large_text",
            "ledger_row",
            "limits",
        ),
        *(
            "media",
            "messages",
            "model",
            "money",
            "place_order",
            "place_quota",
            "place_speed",
            "places",
            "plausible_usage",
            "price_set",
            "price_times",
            "prices",
            "provider",
            "refusal",
            "request_facts",
            "resend",
            "retention",
            "retry",
            "review",
            "served_calls",
        ),
        *(
            "route",
            "route_refusals",
            "route_table",
            "routing",
            "routing_rules",
            "sanitize",
            "schema_prompt",
            "settings_warnings",
            "spend",
            "tags",
            "token_bucket",
            "token_limits",
            "token_rate",
            "trace_context",
            "usage",
            "utc_time",
        ),
    }
)
"""The modules of the core. An operator's module can't have one of these names: it may be in the same folder."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_PLAIN: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_OPEN_ENDED: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


@dataclass(frozen=True, slots=True)
class PolicyModule(Policy):
    """A policy with its source. Two with the same ``source`` and ``file`` are the same policy."""

    source: bytes = field(repr=False)
    file: Path


def check_name(name: str) -> str:
    """Return ``name`` if a policy module may have it. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            'must be the name of a file in policies/, without ".py": letters, digits and "_", at most 64, '
            "not beginning with a digit"
        )
    if name in OWN_MODULES:
        raise ValueError(f'"{name}" is one of the gateway\'s own modules')
    return name


def load_policies(names: Iterable[str], conf_file: Path, sources: Sources) -> tuple[PolicyModule, ...]:
    """Return the policies that ``[policies] extra`` names, in its order. Raises ``SettingsError``."""
    folder = conf_file.absolute().parent / "policies"
    policies = []
    for index, name in enumerate(names):
        file = folder / f"{name}.py"
        try:
            source = sources.read(file)
        except SettingsError as error:
            raise SettingsError(conf_file, join_key_path("policies", "extra", index), str(error)) from None
        policies.append(compile_policy(name, source, file))
    return tuple(policies)


def compile_policy(name: str, source: bytes, file: Path) -> PolicyModule:
    """Return the policy that ``source``, the content of ``file``, defines. Raises ``SettingsError``."""
    module = ModuleType(f"operators_policies.{name}")
    module.__file__ = str(file)
    _run(module, source, file)
    return PolicyModule(name, _find_review(module, file), source, file)


def _run(module: ModuleType, source: bytes, file: Path) -> None:
    try:
        code = compile(source, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _error(file, error.lineno, f"is not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise _error(file, None, "is not Python that can be compiled") from None
    # A data class looks up its module while it is created. Later nothing needs it there.
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)  # noqa: S102  (the operator has configured this code to run)
    # A module that calls exit() is an error of its file, and must not end a gateway that reloads. The error's message
    # may hold a secret, so do not repeat it.
    except BaseException as error:  # noqa: BLE001
        line = _last_line(file, error.__traceback__)
        raise _error(file, line, f"raises {type(error).__name__} when it is loaded") from None
    finally:
        sys.modules.pop(module.__name__, None)


def _find_review(module: ModuleType, file: Path) -> FunctionType:
    review = module.__dict__.get("review")
    if not isinstance(review, FunctionType):
        raise _error(file, None, "has no function review(call)")
    code = review.__code__
    if code.co_flags & _NOT_PLAIN:
        raise _error(
            file, code.co_firstlineno, "review must be a plain function, not async and not a generator"
        )
    if (code.co_argcount, code.co_kwonlyargcount, code.co_flags & _OPEN_ENDED) != (1, 0, 0):
        raise _error(file, code.co_firstlineno, "review must take exactly one argument, the call")
    return review


def _error(file: Path, line: int | None, reason: str) -> SettingsError:
    return SettingsError(file, "", reason if line is None else f"line {line}: {reason}")


def _last_line(file: Path, traceback: TracebackType | None) -> int | None:
    """Return the line of ``file`` that ran last, the innermost one."""
    line = None
    while traceback:
        if traceback.tb_frame.f_code.co_filename == str(file):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
