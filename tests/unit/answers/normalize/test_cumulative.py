"""Only the new text of a message that repeats the whole answer so far is sent."""

from typing import Any

from rig.normalized import CALL, relayed


def cumulative(text: str, delta: Any = None, **more: Any) -> list[Any]:
    message = {"role": "assistant", "content": text}
    return [{"index": 0, "message": message, **({} if delta is None else {"delta": delta}), **more}]


def test_a_message_next_to_a_delta_is_left_out():
    sent = relayed(
        [
            cumulative("Hi", {"content": "Hi"}),
            cumulative("Hi you", {"content": " you"}),
            cumulative("Hi you", {}),
        ]
    )
    assert [one[0]["delta"].get("content") for one in sent] == ["Hi", " you", None]
    assert not any("message" in one[0] for one in sent)


def test_the_difference_between_cumulative_messages_is_sent():
    sent = relayed(
        [
            cumulative("Hi"),
            cumulative("Hi you"),
            cumulative("Hi you"),
            cumulative("Hi you!", {}, finish_reason="stop"),
        ]
    )
    assert [one[0]["delta"]["content"] for one in sent] == ["Hi", " you", "", "!"]
    assert sent[-1][0]["finish_reason"] == "stop"


def test_messages_next_to_empty_deltas_are_read():
    empty = {"role": "assistant", "content": ""}
    sent = relayed([cumulative("Hi", empty), cumulative("Hi you", empty)])
    assert [one[0]["delta"]["content"] for one in sent] == ["Hi", " you"]


def test_a_message_after_deltas_repeats_nothing():
    deltas = [[{"index": 0, "delta": {"content": text}}] for text in ("", "Hi", " you")]
    assert relayed([*deltas, cumulative("Hi you")])[-1][0]["delta"] == {}


def test_calls_of_cumulative_messages_are_sent_once():
    message = {"content": "", "tool_calls": [CALL]}
    sent = relayed([[{"index": 0, "message": message}], [{"index": 0, "message": message}]])
    assert sent[0][0]["delta"]["tool_calls"] == [{**CALL, "index": 0}]
    assert "tool_calls" not in sent[1][0]["delta"]
