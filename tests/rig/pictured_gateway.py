"""A gateway with forty days of believable calls of fictitious companies, for the pictures of the docs."""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import tomlkit

from addon.settings.settings import Settings, load_settings
from addon.store.money.sqlite.recount import write_counters
from addon.store.money.sqlite.store import SqliteStore
from policies.model import Model
from policies.utc_time import format_utc
from rig.configuration import ROOT, key_hash, new_key

DAYS = 40
SEED = 17
PASSWORD = "the password of the pictures"

ENVIRONMENT = {
    "CONSOLE_PASSWORD": PASSWORD,
    **{f"{name}_API_KEY": "not-a-real-key" for name in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL", "GROQ")},
    "TESSERA_OPENAI_KEY": "not-a-real-key-of-tessera",
}


@dataclass(frozen=True)
class Company:
    """A fictitious company: its workspace, the number of its calls in a day, its models with weights, and its keys."""

    workspace: str
    name: str
    calls_a_day: float
    growth: float
    models: dict[str, int]
    keys: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    prompt_tokens: int
    completion_tokens: int


COMPANIES = (
    Company(
        "northlight-legal",
        "Northlight Legal",
        150,
        0.012,
        {"claude-sonnet-5-5": 5, "claude-haiku-5-5": 3, "gpt-6-sol": 2},
        {
            "contracts": {"label": "Contract review", "spend_cap_usd": "60", "spend_reset": "monthly"},
            "search": {"label": "Search in case files", "request_cap": 200, "request_reset": "daily"},
        },
        {"plan": "pro", "monthly_spend_cap_usd": "150", "default_model": "claude-sonnet-5-5"},
        9000,
        900,
    ),
    Company(
        "harbor-freight-lines",
        "Harbor Freight Lines",
        220,
        0.004,
        {"gpt-5.4-mini": 6, "gpt-oss-120b-groq": 3},
        {
            "tracking": {"label": "Parcel tracking", "spend_cap_usd": "12", "spend_reset": "monthly"},
            "drivers": {"label": "App of the drivers"},
        },
        {"plan": "standard", "default_model": "gpt-5.4-mini", "fallback_model": "gpt-oss-120b-groq"},
        2200,
        350,
    ),
    Company(
        "maple-grove-schools",
        "Maple Grove Schools",
        90,
        0.01,
        {"gemini-3.8-flash": 7, "mistral-medium-latest": 2},
        {"homework": {"label": "Homework helper", "spend_cap_usd": "1.5", "spend_reset": "daily"}},
        {"plan": "standard", "monthly_spend_cap_usd": "20"},
        3000,
        700,
    ),
    Company(
        "tessera-games",
        "Tessera Games",
        130,
        0.02,
        {"gpt-6-sol": 3, "claude-haiku-5-5": 4, "gemini-3.8-flash": 2},
        {
            "dialogue": {"label": "Dialogue of characters", "spend_cap_usd": "10", "spend_reset": "monthly"},
            "nightly": {"label": "Nightly tests", "models": ["claude-haiku-*"]},
        },
        {"plan": "pro", "byok": {"OPENAI": {"secret": "env:TESSERA_OPENAI_KEY", "routing": True}}},
        4000,
        500,
    ),
)

REFUSALS = {
    "northlight-legal": ("search", {"rate_limit_exceeded": 26, "validation_failed": 7}),
    "harbor-freight-lines": ("tracking", {"payment_required": 41, "rate_limit_exceeded": 9}),
    "maple-grove-schools": ("homework", {"payment_required": 12, "model_not_found": 3}),
    "": ("", {"invalid_api_key": 18}),
}

CREDITS = {"harbor-freight-lines": (15, 10), "maple-grove-schools": (20, 15)}
"""The credits of the wallets, in USD: at the beginning, and a week ago."""

_COLUMNS = (
    *("id", "created_at", "workspace", "key_id", "requested_model", "model_slug", "provider"),
    *("upstream_model_id", "mode", "fallback", "attempts", "stream", "status", "error_code", "finish_reason"),
    *("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "usage_source"),
    *("wholesale_nanousd", "retail_nanousd", "first_byte_ms", "duration_ms", "end_user"),
)


def write_files(folder: Path) -> Path:
    """Write the files of the operator. Return the path of proxy.conf."""
    shutil.copytree(ROOT / "catalog_data", folder / "catalog_data")
    workspaces = folder / "policies" / "workspaces"
    workspaces.mkdir(parents=True)
    for company in COMPANIES:
        keys = [{"id": name, "hash": key_hash(new_key()), **table} for name, table in company.keys.items()]
        settings = {key: value for key, value in company.settings.items() if key != "byok"}
        file = {"name": company.name, **settings, "keys": keys, "byok": company.settings.get("byok", {})}
        (workspaces / f"{company.workspace}.toml").write_text(tomlkit.dumps(file), "utf-8")
    conf = folder / "proxy.conf"
    admin = {"host": "127.0.0.1", "port": 0, "console_password": "env:CONSOLE_PASSWORD"}
    paths = {"catalog": "catalog_data", "workspaces": "policies/workspaces", "database": "var/tollgate.db"}
    sections = {
        "listen": {"host": "127.0.0.1"},
        "admin": admin,
        "paths": paths,
        "sandbox": {"enabled": False},
    }
    conf.write_text(tomlkit.dumps(sections), "utf-8")
    return conf


def write_ledger(conf: Path, now: datetime) -> None:
    """Write the ledger of the last ``DAYS`` days."""
    settings = load_settings(conf, ENVIRONMENT)
    ledger = conf.parent / "var" / "tollgate.db"
    ledger.parent.mkdir()
    asyncio.run(SqliteStore(ledger).close())
    draw = random.Random(SEED)
    rows = sorted(_calls(settings, now, draw), key=lambda row: row[1])
    with closing(sqlite3.connect(ledger)) as connection, connection:
        places = ", ".join("?" * len(_COLUMNS))
        connection.executemany(f"INSERT INTO usage ({', '.join(_COLUMNS)}) VALUES ({places})", rows)
        connection.executemany(
            "INSERT INTO refusals (hour, workspace, key_id, code, count) VALUES (?, ?, ?, ?, ?)",
            _refusals(now, draw),
        )
        connection.executemany("INSERT INTO wallet_entries VALUES (?, ?, ?, ?, ?)", _entries(rows, now))
        write_counters(connection)


def _calls(settings: Settings, now: datetime, draw: random.Random) -> Iterator[Sequence[Any]]:
    number = 0
    for company in COMPANIES:
        for hour in range(DAYS * 24):
            begin = now - timedelta(hours=DAYS * 24 - hour)
            count = company.calls_a_day / 24 * _busyness(begin) * (1 + company.growth) ** (hour / 24)
            for _ in range(int(count + draw.random())):
                number += 1
                moment = begin + timedelta(seconds=draw.uniform(0, 3600))
                yield _call(f"req_7d41c09be2f5a86{number:09x}", moment, company, settings, draw)


def _busyness(moment: datetime) -> float:
    """Return how many calls an hour has, next to the mean: few at night and at the weekend."""
    work = 0.25 if moment.weekday() >= 5 else 1.25
    return work * (0.3, 0.2, 0.3, 1.2, 1.7, 1.9, 1.6, 0.8)[moment.hour // 3]


def _call(
    call_id: str, moment: datetime, company: Company, settings: Settings, draw: random.Random
) -> Sequence[Any]:
    slug = draw.choices(list(company.models), list(company.models.values()))[0]
    model = settings.models[slug]
    is_own = model.provider.name in company.settings.get("byok", {})
    key = draw.choices(list(company.keys), range(len(company.keys) + 1, 1, -1))[0]
    stream = draw.random() < 0.6
    prompt = int(company.prompt_tokens * draw.lognormvariate(0, 0.6)) + 20
    completion = int(company.completion_tokens * draw.lognormvariate(0, 0.5)) + 5
    cached = int(prompt * draw.choice((0, 0, 0.3, 0.6)))
    status, code, finish = 200, None, "stop"
    attempts, fallback = 1, 0
    if (chance := draw.random()) < 0.012:
        status, code, finish = draw.choice(
            (
                (502, "upstream_error", None),
                (429, "upstream_rate_limited", None),
                (504, "upstream_timeout", None),
            )
        )
        prompt = completion = cached = None
    elif chance < 0.03:
        attempts, fallback = 2, int("fallback_model" in company.settings)
    elif chance < 0.04:
        finish = "length"
    first = int(draw.lognormvariate(6.1, 0.45) * (1.6 if slug.startswith("claude-s") else 1))
    duration = first + int((completion or 0) * draw.uniform(6, 14))
    wholesale, retail = (0, 0) if is_own or prompt is None else _cost(model, prompt, completion, cached)
    return (
        *(call_id, format_utc(moment), company.workspace, key, slug, slug, model.provider.name),
        *(model.upstream_model_id, "byok" if is_own else "payg", fallback, attempts, int(stream), status),
        *(code, finish, prompt, completion, prompt and prompt + completion, cached),
        *("none" if prompt is None else "provider", wholesale, retail),
        *(None if prompt is None else first, duration, f"user-{draw.randrange(400):03d}"),
    )


def _cost(model: Model, prompt: int, completion: int, cached: int) -> tuple[int, int]:
    """Return the cost at both prices, in nano-USD."""
    wholesale, retail = (
        (prompt - cached) * prices.input_microusd_per_mtok
        + cached * prices.cached_input_microusd_per_mtok
        + completion * prices.output_microusd_per_mtok
        for prices in (model.wholesale, model.retail)
    )
    return wholesale // 1000, retail // 1000


def _refusals(now: datetime, draw: random.Random) -> Iterator[Sequence[Any]]:
    for workspace, (key, codes) in REFUSALS.items():
        for code, count in codes.items():
            hours = {draw.randrange(20) for _ in range(4)}
            for hour in hours:
                moment = format_utc(now - timedelta(hours=hour))[:13]
                yield moment, workspace, key, code, max(1, count // len(hours))


def _entries(rows: Sequence[Sequence[Any]], now: datetime) -> Iterator[Sequence[Any]]:
    place = {name: number for number, name in enumerate(_COLUMNS)}
    for workspace, amounts in CREDITS.items():
        for days, amount in zip((DAYS, 7), amounts, strict=True):
            moment = format_utc(now - timedelta(days=days))
            reference = f"invoice-{2026 * 1000 + amount + days}"
            yield f"{workspace}/{reference}", moment, workspace, amount * 10**9, reference
    for row in rows:
        if row[place["workspace"]] in CREDITS and (cost := row[place["retail_nanousd"]]):
            yield row[0], row[1], row[place["workspace"]], -cost, "call"
