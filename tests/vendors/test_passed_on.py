"""Calls whose refusal by a vendor reaches the client, because no rule of a family can mend them."""

import pytest
from rig.built_requests import active_models
from rig.large import sampled
from rig.vendor_cases import PASSED_ON
from rig.vendor_matrix import hold

FROM = {
    "ends with the assistant": {"ANTHROPIC", "GOOGLE", "MISTRAL", "BEDROCK"},
    "user after tool": set(),
    "system after tool": set(),
    "only a system message": {"ZAI"},
    "begins with the assistant": {"BEDROCK"},
    "empty assistant": {"MISTRAL", "MOONSHOT"},
    "empty user": {"COHERE", "MOONSHOT", "ZAI"},
    "two users": set(),
    "unanswered call": {"OPENAI", "ANTHROPIC", "GOOGLE", "DEEPSEEK", "MOONSHOT", "BEDROCK"},
    "tool name with a dot": {"OPENAI", "ANTHROPIC", "GROQ", "DEEPSEEK", "COHERE", "MOONSHOT", "BEDROCK"},
    "tool name with a digit first": {"GOOGLE", "COHERE", "MOONSHOT"},
    "130 tools": {"OPENAI", "GROQ", "DEEPSEEK", "MOONSHOT"},
    "schema without an object at its top": {"OPENAI", "ANTHROPIC", "DEEPSEEK", "MOONSHOT"},
    "JSON mode without the word": {"OPENAI", "DEEPSEEK"},
    "stop of 40 bytes": {"MOONSHOT"},
}


@sampled(every=5)
@pytest.mark.parametrize("case", PASSED_ON)
def test_these_vendors_refuse_it(case: str) -> None:
    cells = [hold(model, case, PASSED_ON) for model in active_models()]
    assert {cell.provider for cell in cells if cell.result == "refused there"} == FROM[case]
