"""Some keys may use some models only, and no message may speak of what must not leave the house."""

from policies.keywords import compile_keywords
from policies.refusal import Refusal
from policies.review import ReviewedCall

# By workspace and key. A key that does not stand here may use every model.
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
        raise Refusal("validation_failed", "A message speaks of what must not leave the house.", "messages")
