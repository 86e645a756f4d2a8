# SPDX-License-Identifier: Apache-2.0
"""Whatever the file holds, a scan ends with an answer."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.planted_mistakes import COMPUTE, READER, host
from support.scan_sources import DATA, scan_folder, write_program
from ttmem.circular_buffers.scan import files
from ttmem.circular_buffers.scan.files import scan_files, scan_text
from ttmem.circular_buffers.scan.model import FileScan, Skipped
from ttmem.circular_buffers.scan.scanning import assess
from ttmem.hardware import open_board
from ttmem.reports import cb_scan

SOURCES = [path.read_text() for path in sorted(DATA.rglob("*.cpp"))] + [host((0, 2), (16, 2)), READER, COMPUTE]
PIECES = [
    "{",
    "}",
    "(",
    ")",
    ";",
    ",",
    "<",
    ">",
    "?",
    ":",
    "~",
    "!",
    "'",
    '"',
    "...",
    "/*",
    "*/",
    "//",
    "return",
    "void",
    "MAIN",
    "x++",
    "0x",
    "1e400",
    "1/0",
    "1%0",
    "1<<99",
    "sizeof(",
    "auto",
    "x=",
    "[&](auto...a){",
    "template<typename>",
    "CircularBufferConfig(",
    "CBDescriptor{",
    "DataflowBufferSpec{",
    ".total_size=1",
    "x.y=",
    "create_cb(",
    "cb_push_back(",
    "for(;;)",
    "switch(x){case",
    "kernel_main(){",
    'R"(',
    "if(n)",
    "else",
    "7",
    "n",
    "x",
    "\n#if X or not Y\n",
    "\n#else\n",
    "\n#endif\n",
    "\\\n",
]


def everything(text: bytes) -> None:
    """Scan, judge and report."""
    found = assess(".", [scan_text(text, "any.cpp", {})], bindings={"n": 3}, memory_map=open_board("p150"))
    cb_scan.build_document(found)
    cb_scan.render_sarif(found)
    cb_scan.render_terminal(found)


@examples(120)
@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_heaps_of_tokens(pieces: list[str]) -> None:
    everything(" ".join(["void kernel_main() { CircularBufferConfig c;", *pieces]).encode())


@examples(80)
@given(st.sampled_from(SOURCES), st.randoms(use_true_random=False))
def test_programs_with_pieces_torn_out_and_doubled(source: str, chance: random.Random) -> None:
    lines = source.splitlines(keepends=True)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(lines))
        if chance.random() < 0.5:
            del lines[at]
        else:
            lines.insert(chance.randrange(len(lines)), lines[at][: chance.randrange(len(lines[at]) + 1)])
    everything("".join(lines).encode())


@examples(40)
@given(st.binary(max_size=300))
def test_bytes_that_are_no_text(content: bytes) -> None:
    everything(b"void kernel_main() { CBDescriptor{.total_size = 1};" + content)


@pytest.mark.parametrize(
    "code",
    [
        "void f(uint32_t n) { auto c = CircularBufferConfig(" + "(" * 900 + "n" + ")" * 900 + ", {}); }",
        "void f(uint32_t n) { auto c = CircularBufferConfig(" + "n + " * 3000 + "n, {}); }",
        "void f(uint32_t x0) {\n"
        + "".join(f"uint32_t x{i} = x{i - 1} + x{i - 1};\n" for i in range(1, 400))
        + "auto c = CircularBufferConfig(x399, {});\n}",
        "".join(f"int f{i}(int x) {{ return f{i + 1}(x) + f{i + 1}(x) + f{i + 1}(x); }}\n" for i in range(30))
        + "void g(int n) { auto c = CircularBufferConfig(f0(n), {}); }",
        "void kernel_main() {" + "if (a) {" * 300 + "cb_push_back(0, 1);" + "}" * 300 + "}",
    ],
    ids=["parentheses", "a long sum", "doubling", "a tree of calls", "nested ifs"],
)
def test_deep_nesting_and_long_chains_end(code: str, tmp_path: Path) -> None:
    (tmp_path / "deep.cpp").write_text(code)
    found = scan_folder(tmp_path)
    cb_scan.build_document(found)
    cb_scan.render_terminal(found)
    assert len(found.declarations) + len(found.kernels) + len(found.skipped) >= 1


def test_files_that_cannot_be_read_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    write_program(tmp_path, {"host.cpp": host((0, 2)), "empty.cpp": "", "latin.hpp": "// caf\xe9\n"})
    (tmp_path / "binary.cpp").write_bytes(b"\x7fELF\0\0\0CircularBufferConfig(1, {})")
    (tmp_path / "gone.cpp").symlink_to(tmp_path / "nowhere")
    found = scan_folder(tmp_path)
    assert [(Path(one.file).name, one.reason) for one in found.skipped] == [
        ("binary.cpp", "not a text file"),
        ("gone.cpp", "No such file or directory"),
    ]
    assert len(found.declarations) == 1


def test_side_by_side_gives_the_same_as_one_by_one(tmp_path: Path) -> None:
    for number in range(60):
        write_program(
            tmp_path / f"op{number:02}", {"host.cpp": host((0, number + 1), (16, 2)), "kernels/reader.cpp": READER}
        )
    write_program(tmp_path, {"buffers.hpp": (DATA / "helpers" / "buffers.hpp").read_text()})
    write_program(tmp_path, {"factory.cpp": (DATA / "helpers" / "factory.cpp").read_text()})
    paths = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    seen: list[tuple[int, int]] = []
    alone = scan_files(paths, jobs=1)
    together = scan_files(paths, jobs=2, progress=lambda done, total: seen.append((done, total)))
    documents = [cb_scan.build_document(assess(".", found)) for found in (alone, together)]
    assert documents[0] == documents[1]
    total = sum(path.stat().st_size for path in paths)
    assert seen[-1] == (total, total)


def many_files(folder: Path) -> list[Path]:
    for number in range(80):
        write_program(folder, {f"op{number:02}.cpp": host((0, number + 1), (16, 2))})
    return sorted(folder.glob("*.cpp"))


@pytest.mark.slow
def test_a_file_on_which_the_reader_dies_costs_nothing_but_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a child that dies whenever it is asked about one of the files
    paths = many_files(tmp_path)
    asked = files._Child.ask

    def dies(child: files._Child, batch: Sequence[Path]) -> list[FileScan] | None:
        if paths[30] in batch:
            child._process.kill()
        return asked(child, batch)

    monkeypatch.setattr(files._Child, "ask", dies)
    # WHEN all are scanned side by side
    found = scan_files(paths, jobs=2)
    # THEN that file is named, and every other one is read
    assert [one.file for one in found] == [str(path) for path in paths]
    assert [one.skipped for one in found if one.skipped] == [Skipped(str(paths[30]), "the reader died on it")]
    assert all(one.declarations for one in found if not one.skipped)


def test_an_interruption_ends_the_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[files._Child] = []
    start = files._Child.start

    def noted(child: files._Child) -> None:
        started.append(child)
        start(child)

    monkeypatch.setattr(files._Child, "start", noted)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan_files(many_files(tmp_path), jobs=2, progress=interrupt)
    assert len(started) == 2
    assert all(child._process.poll() is not None for child in started)


@pytest.mark.skipif(
    not os.environ.get("TTMEM_TT_METAL"), reason="SCAN NOT TRIED ON A WHOLE CHECKOUT: set TTMEM_TT_METAL"
)
def test_a_whole_checkout_is_read() -> None:
    root = Path(os.environ["TTMEM_TT_METAL"]) / "ttnn" / "cpp"
    found = scan_folder(root)
    assert found.skipped == ()
    assert found.count("error") == 0, "shipping kernels work"
