"""What the allocator of C keeps of memory that was freed.

glibc keeps it for later, and the larger the blocks that a process has freed, the larger those that
it keeps: up to 32 MiB each. Another allocator has no such option, and is left alone.
"""

import ctypes

# As <malloc.h> has it.
_MMAP_THRESHOLD = -3
# Vectors of the networks for images have more (bytes).
LARGE = 4 * 2**20


def keep_nothing_large() -> None:
    """Gives blocks of `LARGE` bytes back as they are freed, from now on.

    Each is new memory then, whose pages take time: not for tasks that pull and push, whose vectors
    come and go (1.4 times the processor time for the Nature network's).
    """
    if set_option := getattr(ctypes.CDLL(None), "mallopt", None):
        set_option(_MMAP_THRESHOLD, LARGE)
