"""The shipped family of each recording, by its provider and the prefix of the model's name."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from rig.configuration import ROOT
from rig.recorded_prompts import Record, model_of

REASONING = ("gpt-5", "o1", "o3", "o4")
OR_TOOLS = ("gpt-5.2", "gpt-5.4")
CLAUDE_WITHOUT_SAMPLING = ("claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5")
# The aliases as they were in the year of the recordings.
GEMINI_2 = ("gemini-1", "gemini-2", "gemini-flash-", "gemini-live-2", "gemini-pro")

# (vendor of the tables, provider of the recordings, prefix of the model's name, family). The first match counts.
DIRECT = (
    ("Azure OpenAI", "azure_openai", ("deepseek", "mai-ds"), "azure-foundry"),
    ("Azure OpenAI", "azure_openai", "grok", "grok"),
    ("Azure OpenAI", "azure_openai", OR_TOOLS, "openai-optional-reasoning-or-tools"),
    ("Azure OpenAI", "azure_openai", REASONING, "openai-reasoning"),
    ("Azure OpenAI", "azure_openai", "", "openai-chat"),
    ("Azure Foundry", "azure_foundry", "claude", "claude-sampling"),
    ("Azure Foundry", "azure_foundry", "grok", "grok"),
    ("Azure Foundry", "azure_foundry", "", "openai-reasoning"),
    ("OpenAI", "openai", OR_TOOLS, "openai-optional-reasoning-or-tools"),
    ("OpenAI", "openai", "gpt-5.1", "openai-optional-reasoning"),
    ("OpenAI", "openai", "gpt-5-chat", "openai-chat"),
    ("OpenAI", "openai", REASONING, "openai-reasoning"),
    ("OpenAI", "openai", "", "openai-chat"),
    ("Anthropic", "anthropic", CLAUDE_WITHOUT_SAMPLING, "claude"),
    ("Anthropic", "anthropic", ("claude-opus-4-6", "claude-sonnet-4-6"), "claude-4-6"),
    ("Anthropic", "anthropic", "", "claude-sampling"),
    ("Bedrock, Claude", "bedrock", ("us.anthropic", "eu.anthropic", "anthropic"), "claude-sampling"),
    ("Google", "google", GEMINI_2, "gemini-2"),
    ("Google", "google", "", "gemini"),
    ("Vertex", "vertex", "claude", "claude-sampling"),
    ("Vertex", "vertex", GEMINI_2, "gemini-2"),
    ("Vertex", "vertex", "", "gemini"),
    ("Mistral", "mistral", "mistral-small", "mistral-reasoning"),
    ("Mistral", "mistral", "", "mistral"),
    ("Groq", "groq", "", "groq"),
    ("DeepSeek", "deepseek", "", "deepseek"),
    ("xAI", "xai", "", "grok"),
    ("Cohere", "cohere", "", "cohere"),
    ("Cerebras", "cerebras", "", "cerebras"),
    ("Z.ai", "zai", "", "glm"),
    ("Together", "together", "", "together"),
)

OTHERS = {
    "bedrock": "bedrock-openai",
    "fireworks": "fireworks",
    "huggingface": "huggingface",
    "llamacpp": "llamacpp",
    "local": "vllm",
    "moonshot": "kimi",
    "ollama": "ollama",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "vercel_gateway": "openrouter",
    "pydantic_gateway": "claude-sampling",
}
"""Providers without an estimate by vendor: routers, and self-hosted servers."""

PLAIN = "openai-chat"
"""The family of an OpenAI-compatible provider without its own family."""


def direct_family(record: Record) -> tuple[str, str] | None:
    """Return the vendor and the family of a recording of a direct vendor."""
    for vendor, provider, names, family in DIRECT:
        if record["provider"] == provider and model_of(record).startswith(names):
            return vendor, family
    return None


def family_name(record: Record) -> str:
    """Return the shipped family of a recording, or ``PLAIN`` if there is none."""
    if record["api"] == "openai_responses":
        return "openai-codex"  # the one family all of whose calls go to that API
    if record["api"] == "anthropic_messages" and record["provider"] == "local":
        return "claude-sampling"
    if record["api"] == "openai_chat" and record["provider"] == "google":
        return "vertex"
    direct = direct_family(record) if record["request"] else _by_provider(record)
    named = direct[1] if direct else OTHERS.get(record["provider"], PLAIN)
    if record["api"] == "bedrock_converse" and direct is None:
        named = "bedrock-nova" if "amazon.nova" in record["url_path"] else "bedrock-converse"
    return named if named in shipped_families() else PLAIN


def _by_provider(record: Record) -> tuple[str, str] | None:
    """Return the family by the provider. Without its request a recording may have the model only in its path."""
    return direct_family({**record, "request": {}})


@cache
def shipped_families() -> dict[str, Any]:
    """Return the tables of ``catalog_data/families.toml``."""
    return tomllib.loads(Path(ROOT / "catalog_data" / "families.toml").read_text(encoding="utf-8"))
