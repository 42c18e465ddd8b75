"""The template of workers: a process that has imported the modules of a worker, and forks workers.

The import takes most of a second of processor time, and most of a worker's memory. Forked workers share both.

The supervisor forks the template when it has no thread, no event loop and no socket, because a fork copies them in the
middle of their work. The template never has any. A worker begins them after its fork, as in a new interpreter.

| process | what it is |
|---|---|
| supervisor | the parent of the template. It becomes the parent of each worker, so it has their exit status |
| template | forks each worker by a process in between, which ends at once. It blocks the signals that end a gateway |
| worker | gets its number, environment and descriptors from the supervisor, as a new interpreter would |

When there is no template, or it has ended, a worker is a new interpreter.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from addon.runtime.deadline import within
from addon.runtime.process_options import set_process_option
from addon.serve.signals import END_SIGNALS
from addon.serve.template_process import NO_PID, NUMBER_BYTES, has_one_thread, run_template
from addon.settings.conf_schema import ProxyConf
from addon.store.backends import find_store_modules

_ANSWER_S: Final = 30.0
"""How long a fork may take. The first one waits until the template has imported its modules."""
_ENDED: Final = "the template of workers has ended"
_ADOPT_ORPHANS: Final = 36
"""PR_SET_CHILD_SUBREAPER: become the parent of each process below this one whose parent ends."""


class ForkedWorker:
    """A forked worker, with the part of ``asyncio.subprocess.Process`` that is used of a worker."""

    def __init__(self, pid: int, stdin: asyncio.WriteTransport) -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None
        self._ended = asyncio.Event()
        # It becomes readable when the process ends. Source: pidfd_open(2).
        self._descriptor = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._note_end)

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.stdin.close()
        self._ended.set()

    async def wait(self) -> int:
        """Wait for the end. Return the exit status, which is negative for a signal."""
        await self._ended.wait()
        assert self.returncode is not None  # noqa: S101  (set before the event)
        return self.returncode

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self._send(signal.SIGKILL)

    def _send(self, signum: signal.Signals) -> None:
        # Until its status is read, no other process can get its number.
        if self.returncode is None:
            os.kill(self.pid, signum)


class WorkerTemplate:
    """The template, in the supervisor."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self._channel = channel
        self._one_at_a_time = asyncio.Lock()

    async def start(
        self, number: int, environment: Mapping[str, str], descriptors: Sequence[int]
    ) -> ForkedWorker:
        """Fork the worker of this number. Raises OSError when the template can't, or is gone."""
        reading, writing = os.pipe()
        try:
            async with self._one_at_a_time:
                pid = await self._fork(number, environment, [reading, *descriptors])
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        loop = asyncio.get_running_loop()
        stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writing, "wb", 0))
        try:
            return ForkedWorker(pid, stdin)
        except OSError:
            stdin.close()
            raise

    async def _fork(self, number: int, environment: Mapping[str, str], descriptors: Sequence[int]) -> int:
        loop = asyncio.get_running_loop()
        order = json.dumps([number, dict(environment)]).encode()
        # Only now: the supervisor would never reap the orphans of operators' own policies.
        set_process_option(_ADOPT_ORPHANS, 1)
        try:
            async with within(_ANSWER_S):
                socket.send_fds(self._channel, [b"\n"], list(descriptors))
                await loop.sock_sendall(self._channel, len(order).to_bytes(NUMBER_BYTES) + order)
                answer = await loop.sock_recv(self._channel, NUMBER_BYTES)
        except BaseException as error:
            # Else it might fork the worker later, and its answer would be about another one.
            self._kill()
            if isinstance(error, TimeoutError):
                raise OSError(f"the template of workers gave no answer within {_ANSWER_S:g} s") from None
            if isinstance(error, OSError):
                raise OSError(_ENDED) from error
            raise
        finally:
            set_process_option(_ADOPT_ORPHANS, 0)
        if not answer:
            raise OSError(_ENDED)
        if (pid := int.from_bytes(answer)) == NO_PID:
            raise OSError("the template of workers can't fork")
        return pid

    def close(self) -> None:
        """End the template. Its workers go on."""
        self._kill()
        os.waitpid(self.pid, 0)

    def _kill(self) -> None:
        # Its number is not free before ``close`` has read its status.
        self._channel.close()
        os.kill(self.pid, signal.SIGKILL)


def find_modules(conf: ProxyConf) -> list[str]:
    """Return the modules that each worker imports, some of them only when it starts."""
    found = ["addon.serve.worker", *find_store_modules(conf), "cryptography.fernet"]
    # The built-in sandbox is an HTTP server. ``auto`` may turn it on.
    return [*found, "addon.runtime.local_http", "tornado.platform.asyncio"] if conf.sandbox.enabled else found


@contextmanager
def worker_template(conf: ProxyConf) -> Iterator[WorkerTemplate | None]:
    """Give a template for the workers of this process, or None where the system does not allow it.

    Call this before there is a thread. In each worker this exits, and never gives a value.
    """
    if not _can_have_template():
        yield None
        return
    modules, (ours, theirs) = find_modules(conf), socket.socketpair()
    # Only a blocked signal is kept for the worker that is forked during it. An ignored one would be lost.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    pid = os.fork()
    if not pid:
        ours.close()
        sys.exit(run_template(theirs, modules, mask))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    theirs.close()
    ours.setblocking(False)
    template = WorkerTemplate(pid, ours)
    try:
        yield template
    finally:
        template.close()


def _can_have_template() -> bool:
    """Return whether this process may fork, and may become the parent of the workers."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        # A process that ignores SIGCHLD gets no exit status.
        has_status = signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
        return has_status and has_one_thread() and set_process_option(_ADOPT_ORPHANS, 0)
    except (AttributeError, OSError):
        return False
