"""What two vendors charge, written by hand from public pages. Tollgate's catalog is compared with it.

So nothing here may come from the catalog. Sources, read on 2026-11-23:

- gpt-5.4: $2.50, cached $0.25, output $15, and flex at half of it (community.openai.com/t/1375800; cached flex is $0.13
  in LiteLLM's map). Above 272,000 input tokens twice the input and one and a half times the output, for the whole call,
  flex too (developers.openai.com/api/docs/models/gpt-5.4-pro).
- claude-haiku-5-5: each of the ten rates, for the whole call, by the prompt with what the cache reads and writes
  (github.com/kurofune/claudit, release 1.9.2, checked against platform.claude.com/docs/en/about-claude/pricing).
"""

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one call, each once, or what each kind of them costs in nano-USD a token."""

    plain: int = 0
    cached: int = 0
    written_5m: int = 0
    written_1h: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All that was sent."""
        return self.plain + self.cached + self.written_5m + self.written_1h


@dataclass(frozen=True, slots=True)
class PriceList:
    """The rates of a service up to a number of prompt tokens, and above it."""

    bound: int
    up_to: Tokens
    above: Tokens

    def cost_nanousd(self, tokens: Tokens) -> int:
        """Return what a call costs. All of these rates are whole nano-USD, so nothing is rounded."""
        rates = self.above if tokens.prompt > self.bound else self.up_to
        return sum(getattr(tokens, kind.name) * getattr(rates, kind.name) for kind in fields(Tokens))


GPT: Final = "gpt-5.4"
CLAUDE: Final = "claude-haiku-5-5"

PRICES: Final = MappingProxyType(
    {
        (GPT, "default"): PriceList(
            272_000,
            Tokens(plain=2_500, cached=250, output=15_000),
            Tokens(plain=5_000, cached=500, output=22_500),
        ),
        (GPT, "flex"): PriceList(
            272_000,
            Tokens(plain=1_250, cached=130, output=7_500),
            Tokens(plain=2_500, cached=250, output=11_250),
        ),
        (CLAUDE, "standard"): PriceList(
            100_000,
            Tokens(plain=100, cached=10, written_5m=125, written_1h=200, output=500),
            Tokens(plain=500, cached=50, written_5m=625, written_1h=1_000, output=2_500),
        ),
    }
)
"""By model and service tier, in nano-USD a token: $1 a million is 1,000."""
