"""Room on the disk for a segment before it is written: `preallocate`.

Blocks are reserved behind the end of the file, and its size stays what was written. So nothing that looks at sizes
(recovery, readers, other tools) has to know of it, unlike files that are made long and hold zeros until they are
filled. Where the system or the file system cannot do that, nothing is reserved.
"""

from __future__ import annotations

import errno
import logging
import os

_KEEP_SIZE = 1
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

logger = logging.getLogger("tidelog.storage")


def reserve_blocks(fd: int, size_bytes: int) -> None:
    """Reserve the first bytes of a file; OSError when the disk has no room for them."""
    import ctypes  # Only nodes that preallocate pay for it.

    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    except (OSError, AttributeError):
        logger.warning("preallocate has no effect: the system has no fallocate")
        return
    if fallocate(fd, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size_bytes)) == 0:
        return
    code = ctypes.get_errno()
    if code not in _UNSUPPORTED:
        raise OSError(code, os.strerror(code))
    logger.warning("preallocate has no effect: %s", os.strerror(code))
