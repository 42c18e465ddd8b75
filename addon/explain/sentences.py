"""The sentences of an explanation, as the command and the console show them."""

from collections.abc import Iterator

from addon.explain.explanation import ExplainedAttempt, Explanation, Refused
from addon.explain.following import Following
from addon.text.errors import ErrorAnswer
from policies.budgets import describe_value, parse_scope
from policies.retry import LEAST_WAIT_S, MOST_ADVISED_WAIT_S, MOST_WAIT_S
from policies.route import Target
from policies.token_limits import Unit

_KEYS = {"payg": "the platform's key", "byok": "the workspace's own key"}


def describe_call(workspace: str, key_id: str, explanation: Explanation) -> str:
    """Return who asks for what, without a full stop."""
    asked = explanation.requested_model or "no model"
    form = "streamed" if explanation.stream else "whole"
    return f"{workspace}/{key_id} asks for {asked}, {form}"


def name_attempt(number: int, attempt: ExplainedAttempt) -> str:
    """Return the title of an attempt: its number, model and provider."""
    model = attempt.target.model
    when = {1: "", 2: ", if the first fails"}.get(number, ", if those before fail")
    place = f" ({model.upstream_model_id})" if model.has_siblings else ""
    return f"Attempt {number}{when}: {model.slug} at {model.provider.name}{place}"


def describe_mode(target: Target) -> str:
    """Return the mode of an attempt, and whose key is sent."""
    key = "no key" if target.model.provider.auth == "none" else _KEYS[target.mode]
    return f"{target.mode} ({key})"


def describe_way(attempt: ExplainedAttempt) -> Iterator[str]:
    """Yield how a request of another API than chat gets to the provider."""
    if attempt.is_native is not None:
        yield "way: native, as the client wrote it" if attempt.is_native else "way: through chat"


def describe_refusal(refused: Refused) -> str:
    """Return the step that refuses, the error that the client gets, and the reason for the operator."""
    why = f" ({refused.why})" if refused.why else ""
    return f"by the {refused.step}: {_describe_error(refused.answer)}{why}"


def describe_tokens(explanation: Explanation) -> str | None:
    """Return the limits of tokens a minute, and what the call takes of them; None without any."""
    limits = {"the workspace": explanation.workspace_tpm, "the key": explanation.key_tpm}
    named = [f"{tpm:,} of {owner}" for owner, tpm in limits.items() if tpm is not None]
    named += _describe_rates(explanation, "tokens")
    taken = [one.tokens for one in explanation.attempts if one.tokens is not None]
    if not named:
        return None
    return ", ".join(named) + (f"; the call takes {taken[0]:,}" if taken else "")


def describe_requests(explanation: Explanation) -> str | None:
    """Return the limits of requests a minute of the call's users and tags, None without any."""
    return ", ".join(_describe_rates(explanation, "requests")) or None


def _describe_rates(explanation: Explanation, unit: Unit) -> Iterator[str]:
    for one in explanation.budget_rates:
        if one.unit == unit:
            yield f"{one.per_minute:,} of {describe_value(parse_scope(one.scope).budget, one.value)}"


def describe_following(number: int, attempt: ExplainedAttempt) -> Iterator[tuple[str, str]]:
    """Yield failures of an attempt that have the same consequence, and what it is."""
    named: dict[str, list[str]] = {}
    for one in attempt.following:
        named.setdefault(_describe_then(number, one), []).append(one.failure)
    for then, failures in named.items():
        yield ", ".join(failures), then


def _describe_then(number: int, following: Following) -> str:
    match following.then:
        case "retry":
            return (
                f"the same place once more, after {LEAST_WAIT_S:g} to {MOST_WAIT_S:g} s"
                f" or what the vendor asks for, up to {MOST_ADVISED_WAIT_S} s"
            )
        case "attempt":
            return f"{following.model_slug} at {following.place}"
        case "refusal":
            return "the client gets the refusal below"
        case "failure":
            return f"the client gets {'this failure' if number == 1 else 'the failure of the first'}"


def describe_left_out(explanation: Explanation) -> Iterator[str]:
    """Yield the places that no attempt is made at, and what is not known here."""
    for one in explanation.left_out:
        yield f"Not tried: {one.model_slug} at {one.place}, because {one.reason}."
    yield from explanation.unknown


def describe_end(explanation: Explanation) -> Iterator[str]:
    """Return what follows a failure of the first attempt. Nothing does where the call is refused before."""
    if explanation.refused:
        return
    if explanation.no_fallback_reason:
        what = "There is no second attempt" if len(explanation.attempts) == 1 else "Nothing else follows"
        yield f"{what}: {explanation.no_fallback_reason}."
    if explanation.error_on_failure:
        failed = "the first attempt fails" if len(explanation.attempts) < 3 else "the attempts fail"
        yield f"If {failed}, the client gets: {_describe_error(explanation.error_on_failure)}"


def _describe_error(error: ErrorAnswer) -> str:
    param = f", param {error.param}" if error.param else ""
    return f"{error.status} {error.code}{param}: {error.message}"
