"""The recording of a call: bounded, without credentials, and only while an addon handles flows."""

import inspect
from types import SimpleNamespace

import pytest
from mitmproxy.addonmanager import AddonManager
from mitmproxy.options import Options
from rig.configuration import ROOT

from addon.gateway.flows.observed_stream import ObservedStream
from addon.gateway.flows.recording import (
    MAX_BODY_BYTES,
    MAX_BYTES_IN_MEMORY,
    RecordedBody,
    Recording,
    RecordingBudget,
    shown_fields,
    shown_target,
)
from addon.gateway.flows.shown_calls import FLOW_HOOKS, MAX_SHOWN_AT_ONCE, Viewers
from addon.text.http_heads import Headers, RequestHead
from addon.wire.stream import Stream

KEY = "tg_" + "4dK9" * 10


@pytest.mark.parametrize(
    ("sizes", "kept", "is_cut"),
    [
        ((), 0, False),
        ((MAX_BODY_BYTES,), MAX_BODY_BYTES, False),
        ((MAX_BODY_BYTES, 0), MAX_BODY_BYTES, False),
        ((MAX_BODY_BYTES, 1), MAX_BODY_BYTES, True),
        ((MAX_BODY_BYTES - 1, 5, 5), MAX_BODY_BYTES, True),
        ((3 * MAX_BODY_BYTES,), MAX_BODY_BYTES, True),
    ],
)
def test_a_body_is_kept_up_to_its_bound(sizes: tuple[int, ...], kept: int, is_cut: bool) -> None:
    budget = RecordingBudget()
    body = RecordedBody(budget)
    for size in sizes:
        body.add(b"x" * size)
    assert (len(body.content()), body.is_cut, budget.bytes) == (kept, is_cut, kept)
    body.forget()
    assert budget.bytes == 0


def test_all_bodies_share_one_budget_and_give_it_back() -> None:
    budget = RecordingBudget(max_bytes=10)
    first, second, third = (RecordedBody(budget) for _ in range(3))
    first.add(b"123456")
    second.add(b"123456")
    assert (second.content(), second.is_cut) == (b"1234", True)
    third.add(b"1")
    assert (third.content(), third.is_cut) == (b"", True)
    first.forget()
    first.add(b"after its call was shown")
    second.add(b"what was cut gets no rest")
    assert (first.content(), second.content(), budget.bytes) == (b"", b"1234", 4)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("authorization", f"Bearer {KEY}", "Bearer ***"),
        ("authorization", f"bearer   {KEY}", "bearer ***"),
        ("authorization", KEY, "***"),
        ("authorization", f"Token {KEY}", "***"),
        ("authorization", "", "***"),
        ("proxy-authorization", "Basic dXNlcjpwYXNzd29yZA==", "Basic ***"),
        ("cookie", "session=1234", "***"),
        ("x-api-key", "anything", "***"),
        ("x-note", f"my key is {KEY}", "my key is ***"),
        ("content-type", "application/json", "application/json"),
    ],
)
def test_no_credential_of_a_head_is_shown(name: str, value: str, shown: str) -> None:
    assert shown_fields([(name, value)]) == [(name, shown)]


def test_no_credential_of_a_target_is_shown() -> None:
    assert shown_target(f"/v1/models?key={KEY}&limit=3") == "/v1/models?key=***&limit=3"


def test_notes_name_the_missing_parts_of_a_recording() -> None:
    recording = Recording(RequestHead("POST", "/", "1.1", Headers()), RecordingBudget())
    assert recording.notes() == ["request body not read to its end"]
    recording.is_request_whole = True
    assert recording.notes() == []
    recording.answer_body.add(b"x" * (MAX_BODY_BYTES + 1))
    assert recording.notes() == ["response body cut off here"]


def test_the_page_on_operating_names_the_bounds() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    each, together = MAX_BODY_BYTES >> 20, MAX_BYTES_IN_MEMORY >> 20
    assert f"keeps {each} MiB of each body, and {together} MiB of all calls in flight" in page
    assert f"Beyond {MAX_SHOWN_AT_ONCE:,} calls" in page


def test_an_observed_stream_forwards_every_method_of_a_stream() -> None:
    able = {name for name, _ in inspect.getmembers(Stream) if not name.startswith("_")}
    assert able <= vars(ObservedStream).keys()


@pytest.fixture
def addons() -> AddonManager:
    """mitmproxy's list of addons, without one."""
    commands = SimpleNamespace(collect_commands=lambda _: None)
    return AddonManager(SimpleNamespace(options=Options(), commands=commands))


@pytest.mark.parametrize("hook", FLOW_HOOKS)
def test_addons_that_come_and_go_are_noticed(addons: AddonManager, hook: str) -> None:
    viewers = Viewers(addons)
    bystander = type("Bystander", (), {"name": "bystander"})()
    viewer = type("Viewer", (), {"name": "viewer", hook: lambda *_: None})()
    nested = type("Nest", (), {"name": "nest", "addons": [viewer]})()
    assert not viewers.are_present()
    addons.add(bystander)
    assert not viewers.are_present()
    addons.add(viewer)
    assert viewers.are_present()
    addons.remove(viewer)
    assert not viewers.are_present()
    addons.add(nested)
    assert viewers.are_present()


def test_an_addon_in_the_place_of_another_is_noticed(addons: AddonManager) -> None:
    """A script that is saved again is loaded again, under its old name."""
    viewers = Viewers(addons)
    before = type("Before", (), {"name": "script"})()
    after = type("After", (), {"name": "script", "response": lambda *_: None})()
    addons.add(before)
    assert not viewers.are_present()
    addons.remove(before)
    addons.add(after)
    assert viewers.are_present()
