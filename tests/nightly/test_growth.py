# SPDX-License-Identifier: Apache-2.0
"""Time grows with the size of a source and with nothing else, whatever the source is made of.

CPU time of a forked process, without its start; ratios of the same run. The long version is ``make fuzz``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

import growth
from fuzz.children import Child, Limits
from fuzz.patterns import KNOWN, RESULTS, Pattern, draw
from ttmem.base.home import home_folder

_BYTES = 150_000
_NOISE_SECONDS = 0.15
_MOST_SECONDS = 4.0
_LIMITS = Limits(cpu_seconds=30)
VERBS = {"profile": ("profile", "--no-store", "--json"), "explain": ("explain", "--json")}
FOLLOW = ("profile", "--no-store", "--json", "--follow", "--idle", "0.01")
"""Reads in other portions than ``profile`` does."""


def _seconds(child: Child, verb: Sequence[str], path: Path) -> float:
    ran = child.run([*(word.replace("{}", str(path.with_suffix(".out"))) for word in verb), path], limits=_LIMITS)
    assert ran.code in (0, 2), (ran.code, ran.err[-300:])
    assert b"internal error" not in ran.err, ran.err
    return ran.cpu_seconds


def _check(
    child: Child, verb: Sequence[str], pattern: Pattern, folder: Path, ending: str = ".log", *, size: int = _BYTES
) -> None:
    """Twice the input at most 2.3 times the time; a second and third look where another process disturbed the first."""
    half, whole = folder / f"half{ending}", folder / f"whole{ending}"
    half.write_bytes(pattern.text(size))
    whole.write_bytes(pattern.text(2 * size))
    halves, wholes = [], []
    for _ in range(3):
        halves.append(_seconds(child, verb, half))
        wholes.append(_seconds(child, verb, whole))
        if min(wholes) <= min(2.3 * min(halves) + _NOISE_SECONDS, _MOST_SECONDS):
            return
    pytest.fail(f"{' '.join(verb)} took {min(halves):.2f} s, and {min(wholes):.2f} s for twice as much of {pattern}")


@pytest.mark.parametrize("name", KNOWN)
def test_known_patterns(child: Child, name: str, tmp_path: Path) -> None:
    for verb in VERBS.values():
        _check(child, verb, KNOWN[name], tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_random_patterns(child: Child, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    _check(child, VERBS[chance.choice(list(VERBS))], draw(chance), tmp_path)


@pytest.mark.parametrize("name", ["submits", "different failures", "memory views on one line", "programs left open"])
def test_a_log_that_is_followed(child: Child, name: str, tmp_path: Path) -> None:
    _check(child, FOLLOW, KNOWN[name], tmp_path)


def test_a_page_of_runs_that_each_keep_something(child: Child, tmp_path: Path) -> None:
    """What all runs before left is there in each: to follow every run would take the square of their number."""
    _check(child, ("profile", "--name", "page", "--html", "{}"), KNOWN["a constant in every run"], tmp_path)


def test_modules_of_a_log(child: Child, tmp_path: Path) -> None:
    module = "module @m{i} {{\nfunc.func @main(%arg0: tensor<4x4xbf16>) -> tensor<4x4xf32> {{\n  return\n}}\n}}"
    pattern = Pattern("MLIR Module ttnn:", "", "", 1, (module, "END OF MLIR MODULE"))
    # At this size it shows when the number of a line is counted from the beginning.
    _check(child, ("fit", "--engine", "twin", "--no-store"), pattern, tmp_path, size=4 * _BYTES)


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_a_sweep(child: Child, name: str, tmp_path: Path) -> None:
    ending, pattern = RESULTS[name]
    _check(child, ("sweep", "report", "--json", "-o", "{}"), pattern, tmp_path, ending)


_MODULE = """\
#dram = #ttnn.buffer_type<dram>
#a = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x2x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
module @m attributes {{ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>}} {{
  ttcore.device_module {{
    builtin.module @m {{
      func.func @main(%arg0: {t} {{ttcore.argument_type = #ttcore.argument_type<input>, ttir.name = "x"}}) -> {t} {{
{body}
        return %{last} : {t} loc(unknown)
      }}
    }}
  }}
}}
"""


def _chain(length: int) -> str:
    """A module of operations, each on the result of the one before, and nothing is freed."""
    t = "tensor<64x64xbf16, #a>"
    inputs = ["%arg0", *(f"%{number}" for number in range(length))]
    body = "\n".join(f'        %{n} = "ttnn.relu"({inputs[n]}) : ({t}) -> {t} loc(unknown)' for n in range(length))
    return _MODULE.format(t=t, body=body, last=length - 1)


@pytest.mark.parametrize("edit", ["dtype:*=bfloat8_b", "memory:*=L1", "free:*"])
def test_an_edit_of_every_tensor_of_a_long_run(child: Child, edit: str, tmp_path: Path) -> None:
    # GIVEN predicted runs of 1,000 and 2,000 operations, where every tensor's form follows the one before
    for length in (1_000, 2_000):
        path = tmp_path / f"chain{length}.mlir"
        path.write_text(_chain(length))
        ran = child.run(["fit", str(path), "--engine", "twin", "--name", f"chain{length}"], limits=_LIMITS)
        assert ran.code == 0, ran.err
    # WHEN an edit means all of them, THEN it takes a moment: the first 1,000 took six seconds
    for length in (1_000, 2_000):
        ran = child.run(["whatif", f"chain{length}", edit, "--json"], limits=_LIMITS)
        assert ran.code in (0, 1, 2), ran.err
        assert b"internal error" not in ran.err
        assert ran.cpu_seconds < 2.5


def _grows_slowly(child: Child, words: Sequence[str], half: str, whole: str) -> None:
    """Twice the tensors at most 2.3 times the time; another look where another process disturbed the first."""
    halves, wholes = [], []
    for _ in range(3):
        for name, seconds in ((half, halves), (whole, wholes)):
            ran = child.run([word.replace("{}", name) for word in words], limits=_LIMITS)
            assert ran.code in (0, 1), (ran.code, ran.err[-300:])
            seconds.append(ran.cpu_seconds)
        if min(wholes) <= 2.3 * min(halves) + _NOISE_SECONDS:
            return
    pytest.fail(f"{' '.join(words)} took {min(halves):.2f} s, and {min(wholes):.2f} s for twice as many tensors")


@pytest.mark.parametrize("name", growth.MODULES)
def test_many_tensors_of_a_module(child: Child, name: str, tmp_path: Path) -> None:
    for count in (1_500, 3_000):
        (tmp_path / f"{count}.mlir").write_text(growth.MODULES[name](count))
    _grows_slowly(child, ["fit", str(tmp_path / "{}.mlir"), "--engine", "twin", "--no-store"], "1500", "3000")


@pytest.mark.usefixtures("ttnn_interpreter")
@pytest.mark.parametrize("name", ["alive by name", "alive in a chain", "alive in a dictionary", "one name rebound"])
def test_many_tensors_of_a_script(child: Child, name: str, tmp_path: Path) -> None:
    # GIVEN runs of the real library in which as many tensors are alive as the script has lines
    home = child.folder / "home"
    home.mkdir(exist_ok=True)
    if not (home / "device").exists():
        (home / "device").symlink_to(home_folder() / "device")
    for count in (500, 1_000):
        script = tmp_path / f"many{count}.py"
        script.write_text(growth.SCRIPTS[name](count))
        ran = child.run(["run", str(script), "--no-programs", "--name", f"{name.split()[-1]}{count}"], limits=_LIMITS)
        assert ran.code == 0, ran.err
    # WHEN each of them is edited THEN the time grows as the number of tensors
    for words in growth.EDITS.values():
        run = f"{name.split()[-1]}{{}}"
        _grows_slowly(child, [words[0], run, *words[1:]], "500", "1000")
