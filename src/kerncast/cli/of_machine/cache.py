"""kerncast cache: what is remembered of earlier compilations, and where."""

from typing import Annotated

import typer

from kerncast.cli.shared.options import AsJson
from kerncast.cli.shared.output import emit_json, stdout_console


def command(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every entry.")] = False,
    json_: AsJson = False,
) -> int:
    """Show the cache of compiled kernels, or clear it."""
    from kerncast.compile.cache import cache_report  # noqa: PLC0415
    from kerncast.report.as_json import SCHEMA_VERSION, cache_object  # noqa: PLC0415
    from kerncast.report.files.toolchain import cache_lines  # noqa: PLC0415

    removed = _clear() if clear else None
    report = cache_report()
    if json_:
        emit_json({"schema_version": SCHEMA_VERSION, **cache_object(report), "removed": removed})
    else:
        console = stdout_console()
        for line in cache_lines(report, removed):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def _clear() -> int:
    from kerncast.compile.cache import Store, cache_place  # noqa: PLC0415
    from kerncast.errors import InputError  # noqa: PLC0415

    place = cache_place()
    if place.folder is None:
        return 0
    store = Store(place.folder, place.most_bytes)
    if not store.is_ours() and store.is_there():
        raise InputError(
            "is not a cache that kerncast made, so nothing in it is removed",
            where=str(place.folder),
            cure="Name the right folder by KERNCAST_CACHE, or remove this one by hand.",
        )
    return store.clear()
