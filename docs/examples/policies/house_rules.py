"""Allow some models only for some keys, and refuse messages with confidential words."""

from policies.keywords import compile_keywords
from policies.refusal import Refusal
from policies.review import ReviewedCall

# By workspace and key. A key that is not listed may use every model.
ALLOWED_MODELS = {
    ("acme", "ci"): {"gpt-4o-mini"},
    ("acme", "support"): {"gpt-4o-mini", "claude-haiku-4-5"},
}
# Whole words in any case, as in keyword rules.
BANNED = compile_keywords(("project falcon", "geheim"))


def review(call: ReviewedCall) -> None:
    allowed = ALLOWED_MODELS.get((call.workspace, call.key_id))
    if allowed is not None and call.model_slug not in allowed:
        models = ", ".join(sorted(allowed))
        raise Refusal("byok_required", f"This key may use these models only: {models}.", "model")
    if any(BANNED.find_in(message.text.casefold()) for message in call.messages):
        raise Refusal("validation_failed", "A message has a confidential word.", "messages")
