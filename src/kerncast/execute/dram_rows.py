"""How many rows of DRAM an access to some sectors opens.

A row lies in one channel, and neighbouring pieces of memory lie in different channels: 16 rows of 2 KiB hold 32 KiB
together, in pieces of 256 bytes that a hash spreads over them. Where n such pieces are touched, 16 (1 - (15/16)^n) of
the rows are expected to be opened.
Source: GPGPU-Sim's tested configurations (667834cf): a channel each 256 bytes, rows of 2 KiB per channel; 16 stands for
the 8 to 32 channels of today's GPUs. Fails when: strides camp on one channel in spite of the hash.
"""

import numpy as np
import numpy.typing as npt

from kerncast.kernel_profile import SECTOR_BYTES

PIECE_BYTES = 256
_ROWS = 16
_REGION_PIECES = _ROWS * 2048 // PIECE_BYTES
_SECTORS_PER_PIECE = PIECE_BYTES // SECTOR_BYTES


def opened_rows(touched: npt.NDArray[np.bool_]) -> float:
    """Return how many rows are expected to be opened for sectors that are accessed at about the same time.

    ``touched`` has one truth value per sector, of whole pieces. It is read eight sectors at a time.
    """
    pieces = np.flatnonzero(touched.view(np.uint64))
    in_region = np.bincount(pieces // _REGION_PIECES)
    return float(_ROWS * (1 - (1 - 1 / _ROWS) ** in_region).sum())


assert np.dtype(np.uint64).itemsize == _SECTORS_PER_PIECE
