"""The counts of a chat answer for APIs of which every answer has counts. Pure."""

from typing import Final

from policies.usage import Usage

CHARS_PER_TOKEN: Final = 4
"""Of an answer whose provider counts nothing."""


def known_count(count: int | None) -> int | None:
    """Return a count, None where there is none or a number that is none."""
    return None if count is None or count < 0 else count


def output_tokens(usage: Usage, chars: int) -> int:
    """Return all tokens of an answer, an estimate from its length ``chars`` where the provider does not count them.

    Where the sum says that reasoning is beside the completion, it is added.
    """
    completion, thought = known_count(usage.completion_tokens), known_count(usage.reasoning_tokens)
    prompt, total = known_count(usage.prompt_tokens), known_count(usage.total_tokens)
    if completion is None:
        return -(-chars // CHARS_PER_TOKEN)
    if not thought or prompt is None or total is None:
        return completion
    return completion + thought if prompt + completion + thought == total else completion
