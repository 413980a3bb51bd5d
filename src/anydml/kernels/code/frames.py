"""The bytes of stack that machine code takes, read from its instructions."""

from __future__ import annotations

import struct

from anydml.kernels.code.llvm import binding

BEYOND = 1 << 32  # for code that probes its frame page by page
_SUB_RSP, _SUB_RSP_RAX = b"\x48\x81\xec", b"\x48\x29\xc4"  # for frames from 128 bytes on; after a call that probes


def taken(code: bytes, architecture: str) -> int:
    """An upper bound of the bytes of all frames in an object file: other bytes that look like such an instruction count too.

    On x86, frames of less than 128 bytes are not counted.
    """
    sections = binding().object_file.ObjectFileRef.from_data(code).sections()
    texts = [bytes(section.data()) for section in sections if section.is_text()]
    return sum(_of_aarch64(text) if architecture == "aarch64" else _of_x86(text) for text in texts)


def _of_x86(text: bytes) -> int:
    found, at = 0, text.find(_SUB_RSP)
    while at >= 0:
        if at + 7 <= len(text):
            found += struct.unpack_from("<I", text, at + 3)[0]
        at = text.find(_SUB_RSP, at + 1)
    return found + BEYOND if _SUB_RSP_RAX in text else found


def _of_aarch64(text: bytes) -> int:
    """sub sp, sp, #n, whose n may be shifted by 12 bits; and sub sp, sp, of a register."""
    found = 0
    for (word,) in struct.iter_unpack("<I", text[: len(text) // 4 * 4]):
        if word & 0xFF8003FF == 0xD10003FF:
            found += (word >> 10 & 0xFFF) << (12 if word & 1 << 22 else 0)
        elif word & 0xFFE003FF == 0xCB2003FF:
            found += BEYOND
    return found
