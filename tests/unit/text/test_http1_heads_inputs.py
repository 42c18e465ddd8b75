"""Each input of ``rig.http1_inputs`` has the status, or the answer, of its table."""

from rig.http1_inputs import AnswerInput, answer_inputs, request_inputs

from addon.text.http1_body import MAX_OVERHEAD_BYTES, BodyReader
from addon.text.http1_heads import (
    MAX_HEAD_BYTES,
    MAX_HEAD_LINES,
    ContentLengthError,
    HttpSyntaxError,
    find_head_end,
    keeps_alive,
    parse_request_head,
    parse_response_head,
    request_framing,
    response_framing,
    skip_blank_lines,
)


def serve(raw: bytes) -> tuple[list[int], bool]:
    """Return the statuses for the requests of a connection, by their syntax, and whether it ends with the last."""
    statuses: list[int] = []
    at = 0
    while (start := skip_blank_lines(raw, at)) < len(raw) or start - at > MAX_OVERHEAD_BYTES:
        try:
            end = find_head_end(raw, start)
            is_long = (len(raw) if end < 0 else end) - start > MAX_HEAD_BYTES
            if (
                is_long
                or start - at > MAX_OVERHEAD_BYTES
                or raw.count(b"\n", start, max(end, 0)) > MAX_HEAD_LINES
            ):
                return [*statuses, 431], True
            assert end > 0
            head = parse_request_head(raw[start:end])
            framing = request_framing(head)
            if head.method != "POST":
                return [*statuses, 405], False
            reader = BodyReader(framing)
            reader.feed(raw[end:])
        except ContentLengthError:
            return [*statuses, 413], True
        except HttpSyntaxError:
            return [*statuses, 400], True
        assert reader.is_done
        statuses.append(200 if "authorization" in head.headers else 401)
        if not keeps_alive(head):
            return statuses, True
        at = len(raw) - len(reader.rest)
    return statuses, False


def test_each_request_gets_the_status_of_the_table():
    wrong = []
    for one in request_inputs():
        statuses, closes = serve(one.raw)
        if tuple(statuses) != one.statuses or one.closes not in (None, closes):
            wrong.append((one.name, statuses, closes))
    assert not wrong


def test_the_inputs_have_unique_names():
    for inputs in (request_inputs(), answer_inputs()):
        assert len({one.name for one in inputs}) == len(inputs)


def relay(raw: bytes, *, closed: bool) -> tuple[bytes, bool]:
    """Return the body of the final answer in ``raw``, and whether its connection may serve another request."""
    at = 0
    for _ in range(17):
        end = find_head_end(raw, at)
        if (len(raw) if end < 0 else end) - at > MAX_HEAD_BYTES:
            raise HttpSyntaxError("a long head")
        if end < 0 and closed:
            raise HttpSyntaxError("no head")
        assert end > 0
        head = parse_response_head(raw[at:end])
        framing = response_framing(head, "POST")
        at = end
        if head.status == 101:
            raise HttpSyntaxError("an upgrade")
        if head.status >= 200:
            reader = BodyReader(framing)
            body = reader.feed(raw[at:])
            if closed:
                reader.end()
            assert reader.is_done
            return body, keeps_alive(head) and not framing.until_close and not reader.rest
    raise HttpSyntaxError("no final answer")


def is_read_as_expected(given: AnswerInput) -> bool:
    try:
        body, is_reusable = relay(given.raw, closed=given.provider_closes)
    except HttpSyntaxError:
        return given.status == 502
    if given.status == 502:
        return body == b""
    return (body, is_reusable) == (b"{}", given.is_reusable)


def test_each_answer_is_relayed_or_refused_as_in_the_table():
    assert not [one.name for one in answer_inputs(b"{}") if not is_read_as_expected(one)]
