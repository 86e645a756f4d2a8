# SPDX-License-Identifier: Apache-2.0
"""The whole question: what buffers does this code declare, do they fit, and do its kernels keep the rules?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.circular_buffers.scan.cpp import expressions as cpp
from ttmem.circular_buffers.scan.cpp.arithmetic import ENUMERATORS, Value, format_of
from ttmem.circular_buffers.scan.cpp.syntax import parser
from ttmem.circular_buffers.scan.files import find_files, scan_files
from ttmem.circular_buffers.scan.host.programs import ProgramTotals, programs_of
from ttmem.circular_buffers.scan.link_host_and_kernels import join
from ttmem.circular_buffers.scan.model import (
    ERROR,
    NOTE,
    WARNING,
    Declaration,
    FileScan,
    KernelFigures,
    ScanFinding,
    Skipped,
    expressions_in,
)
from ttmem.circular_buffers.scan.rules import L1Space, check_joined, check_kernel, check_program
from ttmem.hardware import MemoryMap


@dataclass(frozen=True, slots=True)
class Scan:
    """Everything found under a path."""

    path: str
    files: int
    declarations: tuple[Declaration, ...]
    sites: tuple[Declaration, ...]
    programs: tuple[ProgramTotals, ...]
    kernels: tuple[KernelFigures, ...]
    findings: tuple[ScanFinding, ...]
    skipped: tuple[Skipped, ...]
    broken: tuple[str, ...]
    """Files with a part that could not be understood."""
    bindings: cpp.Bindings
    memory_map: MemoryMap | None
    l1_tensor_bytes: int
    unused_bindings: tuple[str, ...]
    """Names that occur in no size, count or condition: perhaps misspelt."""

    def count(self, severity: str) -> int:
        return sum(1 for one in self.findings if one.severity == severity)


def scan(
    path: str | Path,
    *,
    bindings: cpp.Bindings = cpp.NO_BINDINGS,
    memory_map: MemoryMap | None = None,
    l1_tensor_bytes: int = 0,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scan:
    """Read every C++ file below a path and answer for all of them together."""
    parser()
    found = scan_files(find_files(Path(path)), jobs=jobs, progress=progress)
    return assess(str(path), found, bindings=bindings, memory_map=memory_map, l1_tensor_bytes=l1_tensor_bytes)


def assess(
    path: str,
    files: Sequence[FileScan],
    *,
    bindings: cpp.Bindings = cpp.NO_BINDINGS,
    memory_map: MemoryMap | None = None,
    l1_tensor_bytes: int = 0,
) -> Scan:
    """Programs and findings from what the files say."""
    declarations = _drop_used_helpers([one for scanned in files for one in scanned.declarations])
    programs = programs_of(declarations, bindings, memory_map)
    findings: list[ScanFinding] = []
    for scanned in files:
        if scanned.kernel is not None:
            findings += check_kernel(scanned.kernel, bindings)
    for program in programs:
        findings += check_program(program, L1Space(memory_map, l1_tensor_bytes))
    for joined in join(files, programs, bindings):
        findings += check_joined(joined)
    return Scan(
        path=path,
        files=len(files),
        declarations=tuple(declarations),
        sites=tuple(site for scanned in files for site in scanned.sites),
        programs=tuple(programs),
        kernels=tuple(scanned.kernel.figures for scanned in files if scanned.kernel is not None),
        findings=tuple(_once(findings)),
        skipped=tuple(scanned.skipped for scanned in files if scanned.skipped is not None),
        broken=tuple(scanned.file for scanned in files if scanned.broken),
        bindings=bindings,
        memory_map=memory_map,
        l1_tensor_bytes=l1_tensor_bytes,
        unused_bindings=tuple(sorted(bindings.keys() - names_in(declarations, files))) if bindings else (),
    )


def names_in(declarations: Sequence[Declaration], files: Sequence[FileScan]) -> set[str]:
    """Everything that `--bind` could name."""
    pending: list[cpp.Expression | None] = []
    for one in declarations:
        pending += [one.total, one.page, one.format, one.index, one.repeats]
        pending += [condition.expression for condition in one.conditions]
        pending += [one.borrowed_if.expression] if one.borrowed_if is not None else []
    for scanned in files:
        pending += expressions_in(scanned.kernel.trace) if scanned.kernel is not None else []
        for use in scanned.kernel_uses:
            pending += [*(use.compile_time_args or ()), *(value for _, value in use.named_args)]
    names: set[str] = set()
    for node in cpp.every_node(cpp.Items(tuple(one for one in pending if one is not None))):
        if isinstance(node, cpp.NamedValue):
            names.update(cpp.names_of(node.name) if node.name.endswith(")") else (node.name,))
        elif isinstance(node, cpp.Symbol):
            names.update(cpp.names_of(node.text))
    return names


def _drop_used_helpers(declarations: Sequence[Declaration]) -> list[Declaration]:
    """A helper that other files call is there where they call it; on its own it is no program."""
    used = {one.site for one in declarations if one.trail}
    return [one for one in declarations if one.trail or one.site not in used]


def _once(findings: Sequence[ScanFinding]) -> list[ScanFinding]:
    """A kernel that several programs use is reported once per line and rule; errors first at equal places."""
    kept: dict[tuple[str, str, int], ScanFinding] = {}
    rank = {severity: position for position, severity in enumerate((ERROR, WARNING, NOTE))}
    for one in sorted(findings, key=lambda one: (one.file, one.line, rank[one.severity], one.rule, one.message)):
        kept.setdefault((one.rule, one.file, one.line), one)
    return list(kept.values())


def parse_bindings(texts: Sequence[str]) -> dict[str, Value]:
    """`name=value`: numbers (`64`, `0x40`, `2K`), `true`, `false`, data types (`bfloat16`) and layouts (`TILE`)."""
    bindings: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or not value:
            raise BadInputError(f"--bind {text}: not of the form name=value", hint="for example --bind num_tiles=64")
        bindings[name] = _binding(name, value)
    return bindings


def _binding(name: str, text: str) -> Value:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return int(lowered == "true")
    scale = {"k": 1 << 10, "m": 1 << 20}.get(lowered[-1:], 1)
    try:
        return int(lowered[:-1] if scale > 1 else lowered, 0) * scale
    except ValueError:
        pass
    last = text.rpartition("::")[2]
    if format_of(last) is None and last not in ENUMERATORS:
        raise BadInputError(
            f"--bind {name}={text}: neither a number nor a name that sizes depend on",
            hint="values are like 64, 0x40, 2K, true, bfloat16, TILE or DRAM",
        )
    return last
