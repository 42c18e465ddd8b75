"""A settled call to count, and the metrics page read back as Prometheus reads it."""

from datetime import UTC, datetime
from typing import Any

from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from policies.call_stages import Stage
from policies.exchange import Exchange
from policies.family import Family
from policies.model import Key, Model, Workspace
from policies.prices import Prices
from policies.provider import Provider
from policies.route import Target
from policies.usage import Usage
from rig.ledger import route_fields

PRICES = Prices(1, 1, 1)
TESTER = Provider("TESTER", "https://example.invalid", "openai", ())
MODEL = Model("tester-large", TESTER, "large-2026", Family("chat"), PRICES, PRICES, 100, False, True)
CATALOG = {"tester-large"}
SECRET = "not-a-real-secret"
KEY = Key("key-of-acme", "0" * 64)
EXCHANGE = Exchange(
    id="call-0",
    created_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    started_s=1.0,
    stage=Stage.SETTLED,
    workspace=Workspace("acme", "Acme Corporation", "standard", (KEY,)),
    key=KEY,
    requested_model="what the client wrote",
    end_user="somebody at acme",
    **route_fields(Target(MODEL, "payg", SecretStr(SECRET))),
    status=200,
    usage=Usage(10, 5, 15, cached_tokens=4, reasoning_tokens=2),
    usage_source="provider",
    wholesale_nanousd=1_500_000_000,
    retail_nanousd=1_560_000_000,
    first_byte_s=1.2,
)

type Samples = dict[str, dict[frozenset[tuple[str, str]], float]]


def read(rendered: tuple[str, bytes]) -> Samples:
    """Return every sample by its name and its labels."""
    content_type, body = rendered
    assert content_type.startswith("text/plain; version=0.0.4")
    found: Samples = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            assert labels not in found.setdefault(sample.name, {}), f"twice: {sample}"
            found[sample.name][labels] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name][frozenset(labels.items())]


def exchange_by(model: Model = MODEL, mode: Any = "payg", **changes: Any) -> Exchange:
    return structs.replace(EXCHANGE, **route_fields(Target(model, mode, SecretStr(SECRET))) | changes)
