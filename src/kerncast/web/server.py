"""VERB serve: the page on a loopback address, behind a token that nobody can guess."""

import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncast.errors import InputError

if TYPE_CHECKING:
    import uvicorn

ADDRESS = "127.0.0.1"
_TOKEN_BYTES = 24
_POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline';"
    " connect-src 'self' ws://{host}; frame-ancestors 'none'; form-action 'none'; base-uri 'self'"
)
_NOT_HERE = b"403: this page is opened by the address that kerncast serve prints, with its token.\n"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets through what begins with the token and names this host: pages of others cannot reach this one.

    The token is the first part of every path, of WebSockets too. ``Host`` must be a loopback name, or a page
    whose name was bound to 127.0.0.1 afterwards could ask (DNS rebinding); ``Origin``, where a browser sends it, must
    be this page.
    """

    application: Application
    token: str
    port: int

    @property
    def address(self) -> str:
        """The address to open."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse with 403."""
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
        elif not self._is_ours(scope):
            await _refuse(scope, receive, send)
        else:
            inner = dict(scope) | {"root_path": f"/{self.token}"}
            await self.application(inner, receive, lambda message: send(self._with_policy(message)))

    def _is_ours(self, scope: Scope) -> bool:
        head, _, _ = scope["path"].removeprefix("/").partition("/")
        if not hmac.compare_digest(head.encode("utf-8", "replace"), self.token.encode()):
            return False
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == "host"]
        origins = [value for name, value in headers if name == "origin"]
        known = {f"{ADDRESS}:{self.port}", f"localhost:{self.port}"}
        return len(hosts) == 1 and hosts[0] in known and all(each == f"http://{hosts[0]}" for each in origins)

    def _with_policy(self, message: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if message["type"] != "http.response.start":
            return message
        policy = _POLICY.format(host=f"{ADDRESS}:{self.port} ws://localhost:{self.port}")
        added = {
            b"content-security-policy": policy.encode(),
            b"referrer-policy": b"no-referrer",
            b"x-content-type-options": b"nosniff",
            b"cross-origin-resource-policy": b"same-origin",
        }
        kept: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
        return {**message, "headers": [*(each for each in kept if each[0].lower() not in added), *added.items()]}


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(_NOT_HERE)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": _NOT_HERE})


def bound(port: int) -> socket.socket:
    """Return a socket on the loopback address; raises InputError where the port is taken."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((ADDRESS, port))
    except (OSError, OverflowError) as error:
        found.close()
        reason = error.strerror if isinstance(error, OSError) else "there is no such port"
        cure = "Choose another --port; 0 takes any that is free."
        raise InputError(f"port {port} cannot be used ({reason})", cure=cure) from None
    return found


def serve(listening: socket.socket, ready: Callable[[str], None], include: Sequence[Path] = ()) -> None:
    """Serve the page until interrupted; ``ready`` gets its address once it answers.

    ``include``: folders whose headers sources may include.
    """
    import uvicorn  # noqa: PLC0415  of the extra web
    from fastapi import FastAPI  # noqa: PLC0415

    from kerncast.web.page import add_page  # noqa: PLC0415

    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_page(application, include)
    guard = Guard(application, secrets.token_urlsafe(_TOKEN_BYTES), listening.getsockname()[1])
    settings = uvicorn.Config(
        guard, log_level="warning", access_log=False, ws_max_size=2**24, timeout_graceful_shutdown=1, lifespan="on"
    )
    _server(settings, lambda: ready(guard.address)).run(sockets=[listening])


def _server(settings: "uvicorn.Config", ready: Callable[[], None]) -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415

    class Server(uvicorn.Server):
        """Tells when it answers."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Start, and say so."""
            await super().startup(sockets)
            ready()

    return Server(settings)
