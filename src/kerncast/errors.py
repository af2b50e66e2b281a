"""The whole error tree.

::

    KerncastError                    every error that a user can cause or mend
    ├── InputError (ValueError)      bad usage or bad input: exit status 2
    │   ├── LaunchError              a launch file or a launch that no GPU can run
    │   ├── GPUError                 an unknown GPU or a faulty GPU file
    │   ├── CompileError             the user's source does not compile, or names no such kernel
    │   └── PTXSyntaxError           text that is not PTX
    ├── Interrupted                  the user has ended the work: exit status 130
    └── Refusal (RuntimeError)       understood, but not forecast: exit status 3 when nothing else is left
        ├── DoesNotCompileError      the source compiles for other architectures, not for this one
        ├── DoesNotFitError          a launch that needs more than a GPU has
        ├── UnsupportedError         an instruction or a feature that is not covered
        │   └── NotExecutedError     an instruction that is not executed: its kernel may be counted by its text
        ├── KernelFault              the user's kernel traps or reads outside its buffers
        │   ├── IllegalAddress       it reads or writes where it must not
        │   ├── AssertionFailed      a check of its own has failed
        │   └── DeviceLostError      a GPU that gave up while a kernel ran: it answers this process no more
        ├── BudgetExceededError      the kernel did not end within its budget of steps or memory
        │   └── MachineLimitError    this machine's clock or memory ended it: another one may get further
        └── MissingEvidenceError     a model needs a value that is unknown
"""

from typing import Self


class KerncastError(Exception):
    """The root: says what is wrong, where, and how to mend it, in one paragraph.

    >>> str(KerncastError("block is empty", where="launch.toml", cure="Give 1 to 3 numbers."))
    'launch.toml: block is empty. Give 1 to 3 numbers.'
    """

    exit_status = 1

    def __init__(self, what: str, *, where: str | None = None, cure: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.cure = cure

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        stop = "" if self.what.rstrip().endswith((".", "?", "!", ":")) else "."
        return f"{place}{self.what}{stop}" + (f" {self.cure}" if self.cure else "")

    def copied(self) -> Self:
        """Return the same error for keeping: the frames that raised this one hold the buffers of a launch."""
        return type(self)(self.what, where=self.where, cure=self.cure)


class Interrupted(KerncastError):  # noqa: N818  no fault of anything
    """The user has ended the work; what was found until then is told."""

    exit_status = 130


class InputError(KerncastError, ValueError):
    """Bad usage or bad input."""

    exit_status = 2


class LaunchError(InputError):
    """A launch file that cannot be read, or a launch that no GPU can run."""


class GPUError(InputError):
    """An unknown GPU, or a GPU file with a fault."""


class CompileError(InputError):
    """Source that does not compile, or that holds no such kernel."""


class PTXSyntaxError(InputError):
    """Text that is not PTX."""


class Refusal(KerncastError, RuntimeError):  # noqa: N818  a refusal is an answer, not a mishap
    """A launch that was understood but is not forecast."""

    exit_status = 3


class DoesNotCompileError(Refusal):
    """Source that compiles for other architectures, not for this one."""


class DoesNotFitError(Refusal):
    """A launch that needs more than a GPU has."""


class UnsupportedError(Refusal):
    """An instruction or a feature that is not covered."""


class NotExecutedError(UnsupportedError):
    """An instruction that is not executed; what its kernel does may be counted by its text all the same."""


class KernelFault(Refusal):
    """The user's kernel traps, or accesses memory that it does not own."""


class IllegalAddress(KernelFault):
    """A kernel that reads or writes where it must not."""


class AssertionFailed(KernelFault):
    """A kernel whose own check has failed."""


class DeviceLostError(KernelFault):
    """A GPU that gave up while a kernel ran: it answers this process no more."""


class BudgetExceededError(Refusal):
    """The kernel did not end within its budget of steps or memory."""


class MachineLimitError(BudgetExceededError):
    """The clock or the memory of this machine has ended it; another machine may get further."""


class MissingEvidenceError(Refusal):
    """A model needs a value that is unknown for this kernel or this GPU."""
