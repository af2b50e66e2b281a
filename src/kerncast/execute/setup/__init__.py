"""Preparing a launch: memory, arguments, and the check that its PTX can be executed."""

from kerncast.execute.setup.arena import Arena, Touched
from kerncast.execute.setup.arguments import ELEMENT_DTYPES, BoundArgument, bind_arguments, fill_argument
from kerncast.execute.setup.layout import Program, link
from kerncast.execute.setup.prepare import linked_program
from kerncast.execute.setup.state import Setting
from kerncast.execute.setup.supported import check_supported

__all__ = [
    "ELEMENT_DTYPES", "Arena", "BoundArgument", "Program", "Setting", "Touched", "bind_arguments",
    "check_supported", "fill_argument", "link", "linked_program",
]  # fmt: skip
