"""Who reaches the page: whoever knows the token, by a loopback name."""

import asyncio
from typing import Any

from kerncast.web.server import Guard


def test_a_websocket_needs_the_token_and_the_origin() -> None:
    reached: list[str] = []

    async def inside(scope: Any, _receive: Any, _send: Any) -> None:
        reached.append(scope["path"])

    async def ask(path: str, **headers: str) -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await Guard(inside, "secret", 80)({"type": "websocket", "path": path, "headers": raw}, receive, send)
        return sent

    refused = [{"type": "websocket.close", "code": 1008}]
    assert asyncio.run(ask("/secret/ws", host="127.0.0.1:80", origin="http://127.0.0.1:80")) == []
    assert asyncio.run(ask("/ws", host="127.0.0.1:80")) == refused
    assert asyncio.run(ask("/secret/ws", host="127.0.0.1:80", origin="http://evil.example")) == refused
    assert asyncio.run(ask("/secret/ws", host="evil.example:80")) == refused
    assert asyncio.run(ask("/secret/ws")) == refused
    assert reached == ["/secret/ws"]
