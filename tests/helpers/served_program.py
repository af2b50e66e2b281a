"""Programs in C with a server of the virtual GPU beside them, in this process."""

import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kerncast.device.running import Shared
from kerncast.device.server import serve
from tests.helpers.device_program import shared_for
from tests.helpers.runtime_libraries import libraries

_ROOM = 2**30


def run_served(program: Path, folder: Path, arguments: Sequence[str] = ()) -> tuple[str, Shared]:
    """Run a program until it ends; returns what it printed, and what its server has kept."""
    name, shared = f"kerncast-test-{secrets.token_hex(8)}", shared_for(folder)
    shared.settings = replace(shared.settings, room_bytes=_ROOM)
    over, ends = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener, over, shared), daemon=True)
        thread.start()
        environment = {
            **os.environ, "KERNCAST_SERVER": name, "KERNCAST_ROOM": str(_ROOM), "LD_LIBRARY_PATH": str(libraries()),
            "LD_PRELOAD": str(libraries() / "libkerncast_device.so"),
        }  # fmt: skip
        done = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        os.write(ends, b"over")
        thread.join(30)
    shared.capture.close()
    for each in (over, ends):
        os.close(each)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, shared
