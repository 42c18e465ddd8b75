"""A model whose family accepts what a test chooses, and parts of a chat request."""

from typing import Any

from policies.family import Family
from policies.model import Model
from policies.prices import Prices
from policies.provider import Provider

MESSAGES = [{"role": "user", "content": "Hello"}]
NAMED = {"type": "function", "function": {"name": "f"}}
FREE = Prices(0, 0, 0)


def model_accepting(**accepts: Any) -> Model:
    provider = Provider("VENDOR", "https://vendor.example", "openai", ())
    return Model("slug", provider, "vendor-id", Family("tested", **accepts), FREE, FREE, 100, False, True)
