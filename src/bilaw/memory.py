"""The C library's memory: kept between passes, rather than given back to the system and asked for again.

Large activations (32 MiB: a batch of 128 at 64 channels of 32 x 32) are by default mapped anew on every pass, and every
page of them is faulted in again. Kept, they cost nothing the second time.
"""

from __future__ import annotations

import ctypes
import os
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt's names for them, in malloc.h
LARGEST = 2_000_000_000  # bytes; both settings are C ints
LARGEST_ONCE = 32 << 20  # all that older versions of glibc accept


def keep_freed() -> bool:
    """Let glibc keep what is freed, for the rest of this process, and tell whether it does.

    It is for a process of our own, hence called by the command line and never by an import. The process then holds on
    to its peak until it ends. Where the user has settings for the allocator, or it is not glibc's, nothing is done.
    """
    own = "GLIBC_TUNABLES" in os.environ or any(name.startswith("MALLOC_") for name in os.environ)
    if own or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # The one without the other would be worse than nothing: either ends glibc's own adjustment of both.
    kept = any(mallopt(MMAP_THRESHOLD, size) == 1 for size in (LARGEST, LARGEST_ONCE))
    return kept and bool(mallopt(TRIM_THRESHOLD, LARGEST) == 1)
