"""The template of workers, in the supervisor: one that hangs is ended."""

import os
import socket

import pytest
from rig.bounds import BOUND_S

from addon.serve import worker_template
from addon.serve.worker_template import WorkerTemplate


def start_sleeping() -> int:
    return os.posix_spawn("/bin/sleep", ["sleep", str(BOUND_S)], {})


async def test_a_template_that_hangs_is_ended_and_the_reason_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_template, "_ANSWER_S", 0.01)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    template = WorkerTemplate(start_sleeping(), ours)
    descriptors = os.listdir("/proc/self/fd")
    with theirs, pytest.raises(OSError, match="gave no answer within"):
        await template.start(1, {}, [])
    with pytest.raises(OSError, match="has ended"):
        await template.start(1, {}, [])
    assert len(os.listdir("/proc/self/fd")) == len(descriptors) - 2
    template.close()
