"""CRC32C, varints, buffers and compression: bytes in, bytes out.

Pure. May use `model`. Whatever it decodes may come from anyone, so every size is checked before memory is taken.
"""
