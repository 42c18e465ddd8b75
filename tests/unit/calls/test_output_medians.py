"""How long the answers of a model usually are, of the last answers and of a bounded number of models."""

from dataclasses import replace

from msgspec import structs
from rig.routed_calls import MODELS, PLATFORM
from rig.stores import NOW

from addon.calls.output_medians import KEPT_ANSWERS, MAX_MODELS, OutputMedians
from policies.exchange import Exchange, UsageSource
from policies.model import Key, Workspace
from policies.route import Target
from policies.token_limits import LEAST_ANSWERS
from policies.usage import Usage

KEY = Key("ci", "0" * 64)
ACME = Workspace("acme", "Acme", "pro", (KEY,), tpm=1_000)
MODEL = MODELS["gpt"]


def answer(
    tokens: int | None, slug: str = "gpt", source: UsageSource = "provider", tpm: int | None = 1
) -> Exchange:
    target = Target(replace(MODEL, slug=slug), "payg", PLATFORM)
    ended = Exchange("a", NOW, 0.0, workspace=replace(ACME, tpm=tpm), key=KEY, target=target)
    return structs.replace(ended, usage=Usage(completion_tokens=tokens), usage_source=source)


def test_a_median_is_known_after_a_few_answers_and_follows_the_last_ones() -> None:
    medians = OutputMedians()
    for tokens in range(1, LEAST_ANSWERS):
        medians.note(answer(tokens))
    assert medians.find("gpt") is None
    medians.note(answer(1_000))
    assert medians.find("gpt") == 3
    for _ in range(KEPT_ANSWERS):
        medians.note(answer(70))
    assert medians.find("gpt") == 70
    assert medians.find("other") is None


def test_only_what_a_provider_counted_counts() -> None:
    medians = OutputMedians()
    for _ in range(LEAST_ANSWERS):
        for ended in (answer(9, source="estimated"), answer(None), answer(0)):
            medians.note(ended)
    assert medians.find("gpt") is None


def test_models_that_were_called_last_are_known() -> None:
    medians = OutputMedians()
    for number in range(MAX_MODELS + 1):
        for _ in range(LEAST_ANSWERS):
            medians.note(answer(5, f"model-{number}"))
    assert (medians.find("model-0"), medians.find(f"model-{MAX_MODELS}")) == (None, 5)
