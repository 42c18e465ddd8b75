"""Each sample of the benchmark counts for one area of a call."""

from pathlib import Path

import pytest

from benchmarks.stack_sampler import _OWN, area_of

ROOT = Path(__file__).parents[3]
LOOP = ("selectors", "asyncio.base_events", "asyncio.runners", "addon.commands.serve", "click.core")


@pytest.mark.parametrize(
    ("stack", "area"),
    [
        (LOOP, "wire"),
        (("addon.text.http1_body", "addon.wire.http1", *LOOP), "wire"),
        (("addon.upstream.pool", "addon.calls.relay", *LOOP), "wire"),
        (("mitmproxy.proxy.layer", "addon.hop_stream", *LOOP), "wire"),
        (("re", "addon.hop_wire", *LOOP), "wire"),
        (("addon.calls.reservation", *LOOP), "logic"),
        (("addon.hop_by_hop_of_another_name", *LOOP), "logic"),
        (("contextlib", "addon.books", *LOOP), "logic"),
        (("addon.deadline", "addon.calls.attempt_runner", *LOOP), "wire"),
        (("policies.spend", "addon.store.sqlite", *LOOP), "policies"),
        (("json.encoder", "addon.chat", *LOOP), "JSON"),
        (("pydantic.main", "addon.chat", *LOOP), "JSON"),
        (("json.encoder", "json", "addon.log", "logging", "addon.books", *LOOP), "log"),
        (("json.encoder", "addon.store.outbox", *LOOP), "store"),
        (("sqlite3", "addon.store.sqlite", *LOOP), "store"),
        (("heapq",), "other"),
    ],
)
def test_the_innermost_module_with_an_area_decides_and_json_counts_for_whom_it_is_made(
    stack: tuple[str, ...], area: str
):
    assert area_of(iter(stack)) == area


def test_each_module_of_this_checkout_that_has_an_area_exists() -> None:
    names = [name for members in _OWN.values() for name in members]
    assert [name for name in names if not list(ROOT.glob(f"{name.replace('.', '/')}*"))] == []
