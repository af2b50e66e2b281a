"""VERB run: hand questions to the warm process, and hear its answers until they end or nobody wants them any more."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path

from kerncast.child_process import environment_of_children
from kerncast.typed_json import from_json, to_json
from kerncast.web.questions import (
    Answer,
    Asked,
    CompiledTold,
    Done,
    ForecastTold,
    LaunchesTold,
    LinesTold,
    PictureTold,
    Problem,
    ReportTold,
)

#: Wall time of one question, all answers together.
MOST_SECONDS = 40.0
_KINDS: dict[str, type[Answer]] = {
    each.__name__: each
    for each in (CompiledTold, Done, ForecastTold, LaunchesTold, LinesTold, PictureTold, Problem, ReportTold)
}  # fmt: skip
#: One answer is a line; the largest is a report with its pictures.
_LONGEST_ANSWER = 64 * 2**20
#: Questions that are worked on at the same time; further ones wait.
_MOST_AT_ONCE = max(4, os.cpu_count() or 1)
_TOO_LONG = Problem(
    f"stopped after {MOST_SECONDS:.0f} s: this page gives no question more time",
    "Use a smaller problem, or ask kerncast predict, which waits for longer.",
    is_endless=True,
)
_ENDED = Problem("the process that worked on it has ended", "Change the source, or ask again.")


class Workshop:
    """The warm process of one server, and the questions that it works on."""

    def __init__(self, include: Sequence[Path] = ()) -> None:
        self.include = tuple(include)
        """folders whose headers sources may include"""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._is_warm = False
        self._starting: asyncio.Lock = asyncio.Lock()
        self._free = asyncio.Semaphore(_MOST_AT_ONCE)

    @property
    def is_warm(self) -> bool:
        """Whether a question is worked on at once."""
        return self._is_warm

    async def start(self) -> None:
        """Start the process unless it runs, and wait until it is warm."""
        async with self._starting:
            if self._process is not None and self._process.poll() is None:
                return
            self.close()
            self._folder = tempfile.TemporaryDirectory(prefix="kerncast-", ignore_cleanup_errors=True)
            ours, its = socket.socketpair()
            with its:
                self._process = subprocess.Popen(  # noqa: ASYNC220, S603  a module of ours, which starts at once
                    [sys.executable, "-P", "-m", "kerncast.web.warm", self._folder.name, *map(str, self.include)],
                    stdin=its.fileno(),
                    env=environment_of_children(),
                )
            ours.setblocking(False)
            self._socket = ours
            self._is_warm = bool(await asyncio.get_running_loop().sock_recv(ours, 1))

    def close(self) -> None:
        """End the process, and whatever works for it."""
        self._is_warm = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def answers(self, asked: Asked) -> AsyncGenerator[Answer, None]:
        """Yield what there is to say; whoever stops listening ends the work."""
        async with self._free:
            await self.start()
            reader, writer = await asyncio.open_connection(sock=self._handed_over(), limit=_LONGEST_ANSWER)
            end = time.monotonic() + MOST_SECONDS
            try:
                writer.write(json.dumps(to_json(asked)).encode() + b"\n")
                async for answer in _heard(reader, end):
                    yield answer
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    def _handed_over(self) -> socket.socket:
        """Return our end of a socket whose other end the warm process has."""
        assert self._socket is not None
        ours, its = socket.socketpair()
        with its:
            socket.send_fds(self._socket, [b"q"], [its.fileno()])
        ours.setblocking(False)
        return ours


async def _heard(reader: asyncio.StreamReader, end: float) -> AsyncGenerator[Answer, None]:
    said = False
    while True:
        try:
            line = await asyncio.wait_for(reader.readline(), end - time.monotonic())
        except TimeoutError:
            yield _TOO_LONG
            return
        except (ValueError, ConnectionError):
            line = b""
        if not line:
            if not said:
                yield _ENDED
            return
        message = json.loads(line)
        kind = _KINDS[message["kind"]]
        said = said or kind in {ForecastTold, ReportTold, Problem}
        yield from_json(kind, message["data"])
