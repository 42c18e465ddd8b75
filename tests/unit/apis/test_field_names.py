"""What a client is told about its request is in the words of its own API."""

import pytest

from addon.apis.field_names import rename_field, rename_in_refusal
from policies.refusal import Refusal

NAMES = {"stop": "stop_sequences", "tools.parameters": "tools.input_schema", "user": "metadata.user_id"}
SOURCES = {"messages": ("system", "messages.0", "messages.0"), "tools": ("tools.2",)}


@pytest.mark.parametrize(
    ("path", "renamed"),
    [
        ("stop", "stop_sequences"),
        ("stop.1", "stop_sequences.1"),
        ("tools.parameters", "tools.input_schema"),
        ("tools.0.function.parameters", "tools.2"),
        ("tools.1.type", "tools"),
        ("temperature", "temperature"),
        ("messages", "messages"),
        ("messages.name", "messages.name"),
        ("messages.0", "system"),
        ("messages.2.content.1.image_url.url", "messages.0"),
        ("messages.3.content", "messages"),
        ("", ""),
    ],
)
def test_a_field_has_its_name_in_the_other_api(path: str, renamed: str):
    assert rename_field(path, NAMES, SOURCES) == renamed


def test_without_sources_a_message_has_the_name_of_all():
    assert rename_field("messages.3.content", {"messages": "input"}) == "input"


@pytest.mark.parametrize(
    ("given", "words", "param"),
    [
        (
            Refusal("validation_failed", "stop: No.", "stop", retry_after_s=1),
            "stop_sequences: No.",
            "stop_sequences",
        ),
        (
            Refusal("validation_failed", "messages.1.content.0: No.", "messages.1.content.0"),
            "messages.0: No.",
            "messages.0",
        ),
        (Refusal("validation_failed", "No stop.", "stop"), "No stop.", "stop_sequences"),
        (Refusal("bad_request", "stop: No."), "stop: No.", None),
    ],
)
def test_a_refusal_names_the_field_of_the_other_api(given: Refusal, words: str, param: str | None):
    renamed = rename_in_refusal(given, NAMES, SOURCES)
    assert (renamed.code, renamed.message, renamed.param) == (given.code, words, param)
    assert renamed.retry_after_s == given.retry_after_s
