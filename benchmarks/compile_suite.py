"""Compile every launch of the suite for every architecture that a compiler from a wheel makes code for.

Too slow for the tests, which do it for the 16 kernels of the published study. Prints what fails; exits 1 then.
"""

import sys
from pathlib import Path

from kerncast.bench.plan import suite_subjects
from kerncast.compile import CompileRequest, compile_request
from kerncast.errors import CompileError
from kerncast.measurements import Protocol

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.helpers.programs import every_architecture  # noqa: E402  the tests' own list


def main() -> None:
    """Print how many kernels compile, and every failure."""
    architectures = every_architecture()
    launches = {(s.launch.source, s.launch.kernel, s.launch.defines): s.launch for s in suite_subjects(Protocol())}
    failures = []
    for number, launch in enumerate(launches.values(), 1):
        print(f"\r{number} of {len(launches)}", end="", file=sys.stderr, flush=True)
        try:
            compile_request(CompileRequest(launch.source, architectures, launch.kernel, launch.defines))
        except CompileError as error:
            failures.append(str(error))
    print("\r", end="", file=sys.stderr)
    print(
        f"{len(launches)} kernels and template instances for {len(architectures)} architectures: {len(failures)} fail"
    )
    print("\n".join(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
