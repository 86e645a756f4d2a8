# SPDX-License-Identifier: Apache-2.0
"""TTNN modules as text, in a file or a log."""

from ttmem.base.lazy import lazy_names
from ttmem.readers.byte_source import Head

KIND = "mlir-module"
TITLE = "module dump (.mlir)"
_STARTS = (b"module @", b"module attributes", b"#loc", b"#dram", b"#ttnn")


def sniff(head: Head) -> bool:
    """A file that starts like MLIR text; logs that contain module dumps start with log lines."""
    if head.is_folder or head.path is None:
        return False
    lines = [line for line in head.content.split(b"\n")[:50] if line.strip() and not line.startswith(b"//")]
    return head.path.suffix == ".mlir" or (bool(lines) and lines[0].startswith(_STARTS))


__getattr__ = lazy_names(__name__, {"read": "module_dump"})
