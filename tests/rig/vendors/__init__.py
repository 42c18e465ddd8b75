"""Vendors as strict as they are: one table for each API, written from their own pages and from public threads."""

from collections.abc import Mapping

from rig.vendors.anthropic import ANTHROPIC
from rig.vendors.bedrock import BEDROCK, BEDROCK_OPENAI
from rig.vendors.cerebras import CEREBRAS
from rig.vendors.cohere import COHERE
from rig.vendors.deepseek import DEEPSEEK
from rig.vendors.fireworks import FIREWORKS
from rig.vendors.gemini import GEMINI
from rig.vendors.groq import GROQ
from rig.vendors.minimax import MINIMAX
from rig.vendors.mistral import MISTRAL
from rig.vendors.moonshot import MOONSHOT
from rig.vendors.openai import OPENAI
from rig.vendors.openai_responses import OPENAI_RESPONSES
from rig.vendors.openrouter import OPENROUTER
from rig.vendors.rules import Vendor
from rig.vendors.together import TOGETHER
from rig.vendors.xai import XAI
from rig.vendors.xai_responses import XAI_RESPONSES
from rig.vendors.zai import ZAI

VENDORS: Mapping[str, Vendor] = {
    "OPENAI": OPENAI,
    "ANTHROPIC": ANTHROPIC,
    "GOOGLE": GEMINI,
    "MISTRAL": MISTRAL,
    "GROQ": GROQ,
    "DEEPSEEK": DEEPSEEK,
    "XAI": XAI,
    "TOGETHER": TOGETHER,
    "FIREWORKS": FIREWORKS,
    "COHERE": COHERE,
    "CEREBRAS": CEREBRAS,
    "MOONSHOT": MOONSHOT,
    "ZAI": ZAI,
    "MINIMAX": MINIMAX,
    "OPENROUTER": OPENROUTER,
    "BEDROCK": BEDROCK,
    "BEDROCK_OPENAI": BEDROCK_OPENAI,
}
"""By the name of the provider in the catalog."""

RESPONSES: Mapping[str, Vendor] = {"OPENAI": OPENAI_RESPONSES, "XAI": XAI_RESPONSES}
"""The same for those of its calls that go to the Responses API."""


def find_vendor(provider: str, path: str) -> Vendor:
    """Return the table of the API that a request to ``path`` of a provider goes to."""
    is_responses = path.partition("?")[0].endswith("/responses")
    return RESPONSES[provider] if is_responses else VENDORS[provider]
