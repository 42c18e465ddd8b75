"""Narrow the answers of some keys: a number of tokens for all choices of a call together."""

from policies.review import Narrowing, ReviewedCall

# By workspace and key. A key that is not listed is not narrowed.
ANSWER_TOKENS = {
    ("acme", "trial"): 256,
    ("acme", "ci"): 2_000,
}


def review(call: ReviewedCall) -> Narrowing | None:
    tokens = ANSWER_TOKENS.get((call.workspace, call.key_id))
    if tokens is None:
        return None
    return Narrowing(max_completion_tokens=max(tokens // call.choices, 1))
