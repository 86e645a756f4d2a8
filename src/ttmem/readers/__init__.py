# SPDX-License-Identifier: Apache-2.0
"""One file per kind of evidence; which kind a source is, is seen from its content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ttmem._lazy import lazy_names
from ttmem.profile import Profile
from ttmem.readers.byte_source import Progress, TruncatedSourceError, chunks, open_bytes


def read(
    source: str | Path,
    *,
    name: str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    mlir: Sequence[str | Path] = (),
) -> Profile:
    """The Profile in a source: a runtime log (plain, .gz, .zst, ``-``), a saved profile, an .mlir file, a graph
    capture, a ttnn-visualizer report, tt-metal's memory reports or ttrt's memory results.

    ``mlir`` names module dumps that belong to the log but lie in files of their own; ``jobs`` bounds the processes
    that read a large log (None: as many as pay off).
    """
    from ttmem.profile.storage import is_saved_profile, load

    name = name or default_name(source)
    if str(source) != "-":
        from ttmem.readers._captures import read_captured_file, read_folder

        if Path(source).is_dir():
            return read_folder(Path(source), name=name)
        head = _head(source)
        if is_saved_profile(head):
            return load(Path(source))
        if captured := read_captured_file(source, head, name=name):
            return captured
        if _is_module(source, head):
            from ttmem.readers.mlir.file import read_mlir_file

            return read_mlir_file(source, name=name)
    from ttmem.readers.mlir.file import read_arguments
    from ttmem.readers.runtime_log.reader import read_runtime_log

    arguments = [argument for path in mlir for argument in read_arguments(path)[0]]
    return read_runtime_log(source, name=name, jobs=jobs, progress=progress, modules=arguments)


def default_name(source: str | Path) -> str:
    """The report's name when none is given: the file's stem without what every log is called."""
    if str(source) == "-":
        return "stdin"
    from ttmem.readers._captures import captured_name

    if captured := captured_name(Path(source)):
        return captured
    stem = Path(source).name
    for suffix in (".gz", ".zst", ".log", ".txt", ".mlir", ".ttmem"):
        stem = stem.removesuffix(suffix)
    return stem.removesuffix("_profile") or "log"


def _head(source: str | Path) -> bytes:
    stream, _, where = open_bytes(source)
    with stream:
        try:
            return next(iter(chunks(stream, where, limit=65536)), b"")
        except TruncatedSourceError:
            return b""


def _is_module(source: str | Path, head: bytes) -> bool:
    """A file that starts like MLIR text; logs that contain module dumps start with log lines."""
    if Path(source).suffix == ".mlir":
        return True
    lines = [line for line in head.split(b"\n")[:50] if line.strip() and not line.startswith(b"//")]
    return bool(lines) and lines[0].startswith((b"module @", b"module attributes", b"#loc", b"#dram", b"#ttnn"))


__getattr__ = lazy_names(__name__, {"follow": "runtime_log._follow"})  # only one verb follows a log

__all__ = ["default_name", "read"]
