"""Options that more than one command takes: each is declared once."""

from pathlib import Path
from typing import Annotated

import typer

# The launch of a source, and how it is compiled.
Grid = Annotated[str | None, typer.Option(help="Blocks of a .cu's launch: X[,Y[,Z]].")]
Block = Annotated[str | None, typer.Option(help="Threads per block: X[,Y[,Z]].")]
SharedBytes = Annotated[int, typer.Option(help="Dynamic shared memory in bytes.")]
Arguments = Annotated[list[str] | None, typer.Option(help="NAME=VALUE, in the order of the parameters.")]
Defines = Annotated[list[str] | None, typer.Option("--define", "-D", help="NAME=VALUE macro.")]
IncludeFolders = Annotated[list[Path] | None, typer.Option("--include", "-I", help="Folder of headers.")]
Standard = Annotated[str | None, typer.Option(help="Version of C++: c++11, c++14, c++17 (default) or c++20.")]
FastMath = Annotated[bool, typer.Option("--use-fast-math", help="Compile with fast, less exact mathematics.")]
Globals = Annotated[
    list[str] | None, typer.Option("--global", help="NAME=VALUE of a __constant__ or __device__ variable.")
]

# What the models of average-case times learn from.
GPUName = Annotated[str | None, typer.Option(help="Only launches on this GPU, by its name in the data.")]
TimeColumn = Annotated[str | None, typer.Option(help="Column of the times, where there are several.")]
KeepOutliers = Annotated[bool, typer.Option("--keep-outliers", help="Keep outliers among repeats.")]

# What is printed, and where it goes.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Out = Annotated[Path | None, typer.Option(help="Write what would be printed to a file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
