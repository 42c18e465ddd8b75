"""Token estimates, for answers whose provider never said how many tokens it used."""

# OpenAI's rule of thumb for English text: help.openai.com, "What are tokens and how to count them?"
CHARS_PER_TOKEN = 4


def estimate_tokens(chars: int) -> int:
    """Tokens of a text of ``chars`` characters, rounded up."""
    return -(-chars // CHARS_PER_TOKEN)
