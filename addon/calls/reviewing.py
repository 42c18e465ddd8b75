"""What operators' own policies are told of a call's next attempt. No I/O."""

from functools import cache, partial

from addon.calls.call_state import Call
from policies.request_facts import request_facts
from policies.review import ReviewedCall, reviewed_messages
from policies.sanitize import choices_sent


def reviewed_call(call: Call) -> ReviewedCall:
    """Return the next attempt of a routed call as policies see it."""
    chat, exchange = call.chat, call.exchange
    attempt, (workspace, key) = exchange.next_attempt, exchange.caller
    model = attempt.model
    messages = reviewed_messages(chat.fields["messages"])
    facts = request_facts(chat.model, chat.fields)
    return ReviewedCall(
        workspace=workspace.id,
        plan=workspace.plan,
        key_id=key.id,
        end_user=chat.end_user,
        requested_model=chat.model,
        model_slug=model.slug,
        provider=model.provider.name,
        mode=attempt.mode,
        is_fallback=attempt.is_fallback,
        decided_by=exchange.routed.decided_by,
        stream=chat.stream,
        requested_cap_tokens=chat.requested_cap,
        choices=choices_sent(chat.fields, model.family),
        messages=messages,
        last_user_text=next((said.text for said in reversed(messages) if said.role == "user"), ""),
        has_images=facts.has_images,
        has_tools=facts.has_tools,
        wants_json=facts.wants_json,
        prompt_tokens=cache(partial(chat.prompt_tokens, model.family)),
    )
