"""NOUN Recording: what a program did on the virtual GPU, with the memory that its launches saw."""

from kerncast.recording.contents import CHUNK_BYTES, ContentsWriter, chunks_of, read_contents
from kerncast.recording.recording import (
    EVENT,
    LAUNCH,
    Code,
    Direction,
    EventKind,
    Group,
    KeptLaunch,
    Kernel,
    LibraryCall,
    Recording,
    SourceFile,
    Waited,
)
from kerncast.recording.recording_files import read_recording, write_recording

__all__ = [
    "CHUNK_BYTES", "EVENT", "LAUNCH", "Code", "ContentsWriter", "Direction", "EventKind", "Group", "KeptLaunch",
    "Kernel", "LibraryCall", "Recording", "SourceFile", "Waited", "chunks_of", "read_contents", "read_recording",
    "write_recording",
]  # fmt: skip
