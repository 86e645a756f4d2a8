# SPDX-License-Identifier: Apache-2.0
"""CPU time of whole commands for n, 2n and 4n tensors: alive, named, as arguments, edited, in one loop.

    python bench/growth.py [--quick] [--folder FOLDER]

Each row is the growth per doubling, so a machine's speed does not matter; the limit is 2.3. Runs are real ones on the
mock, their captures are kept in FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from measure import Row, print_table, run

MOST_PER_DOUBLING = 2.3
_TYPE = "tensor<64x64xbf16, #a>"
_MODULE = """\
#dram = #ttnn.buffer_type<dram>
#a = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x2x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
module @m attributes {ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>} {
  ttcore.device_module {
    builtin.module @m {
"""
_PARAMETER = '{ttcore.argument_type = #ttcore.argument_type<parameter>, ttir.name = "NAME"}'
_OPEN = """\
import ttnn
device = ttnn.open_device(device_id=0)
x = ttnn.zeros([1, 1, 256, 1024], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
"""


def _module(arguments: str, body: str, results: str, returned: str, before: str = "") -> str:
    return (
        f"{_MODULE}{before}      func.func @main({arguments}) -> ({results}) {{\n{body}\n"
        f"        return {returned} : {results} loc(unknown)\n      }}\n    }}\n  }}\n}}\n"
    )


def _relu(result: object, operand: str) -> str:
    return f'        %{result} = "ttnn.relu"({operand}) : ({_TYPE}) -> {_TYPE} loc(unknown)'


def _argument(name: str, value: str) -> str:
    return f"{value}: {_TYPE} {_PARAMETER.replace('NAME', name)}"


def many_arguments(n: int) -> str:
    arguments = ", ".join(_argument(f"w{i}", f"%arg{i}") for i in range(n))
    free = '        "ttnn.deallocate"(%{}) <{{force = false}}> : ({}) -> () loc(unknown)'
    body = "\n".join(f"{_relu(i, f'%arg{i}')}\n{free.format(i, _TYPE)}" for i in range(n))
    return _module(arguments, f"{body}\n{_relu(n, '%arg0')}", _TYPE, f"%{n}")


def many_results(n: int) -> str:
    body = "\n".join(_relu(i, "%arg0") for i in range(n))
    values = ", ".join(f"%{i}" for i in range(n))
    return _module(_argument("w", "%arg0"), body, ", ".join([_TYPE] * n), values)


def many_constants(n: int) -> str:
    types, values = ", ".join([_TYPE] * n), ", ".join(f"%{i}" for i in range(n))
    made = "\n".join(_relu(i, "%arg0") for i in range(n))
    function = (
        f"      func.func private @made(%arg0: {_TYPE}) -> ({types}) {{\n{made}\n"
        f"        return {values} : {types} loc(unknown)\n      }}\n"
    )
    body = f"        %0:{n} = ttcore.load_cached(@made, [%arg0]) : ({_TYPE}) -> ({types}) loc(unknown)\n"
    return _module(_argument("w", "%arg0"), body + _relu(1, "%0#0"), _TYPE, "%1", function)


def a_list(n: int) -> str:
    return f"{_OPEN}kept = [ttnn.relu(x) for _ in range({n})]\n"


def names(n: int) -> str:
    return _OPEN + "".join(f"x{i} = ttnn.relu(x)\n" for i in range(n))


def a_chain(n: int) -> str:
    return f"{_OPEN}x0 = x\n" + "".join(f"x{i + 1} = ttnn.relu(x{i})\n" for i in range(n))


def a_dictionary(n: int) -> str:
    made = "".join(f"kept['x{i}'] = ttnn.relu(x)\n" for i in range(n))
    return f"{_OPEN}kept = {{}}\n{made}" + "".join(f"y = ttnn.relu(kept['x{i}'])\n" for i in range(n))


def one_name(n: int) -> str:
    return _OPEN + "x = ttnn.relu(x)\n" * n


def a_loop(n: int) -> str:
    return f"{_OPEN}for _ in range({n}):\n    y = ttnn.add(x, x)\n    ttnn.deallocate(x)\n    x = y\n"


MODULES = {"arguments": many_arguments, "results alive": many_results, "constants of one function": many_constants}
SCRIPTS = {
    "alive in a list": a_list,
    "alive by name": names,
    "alive in a chain": a_chain,
    "alive in a dictionary": a_dictionary,
    "one name rebound": one_name,
    "one loop": a_loop,
}
EDITS = {"whatif free:x*": ("whatif", "free:x*"), "whatif dtype:*": ("whatif", "dtype:*=bfloat8_b"), "tune": ("tune",)}


def rows(folder: Path, *, quick: bool) -> list[Row]:
    """Fits of modules, runs of scripts, edits of those runs."""
    smallest = 500 if quick else 2000
    home = {"TTMEM_HOME": str((folder / "home").resolve())}
    ttmem = [sys.executable, "-m", "ttmem"]
    found: list[Row] = []

    def seconds(*words: str, allowed: bool = False) -> float:
        line = [*ttmem, *words]
        if allowed:  # 1 and 2 are answers too: does not fit, nothing to change
            line = [sys.executable, "-c", _ANY_ANSWER, *line]
        return run(line, repeat=1, env=home).cpu_seconds

    def grown(what: str, measure: Callable[[int], float]) -> None:
        once, twice, four = (measure(smallest * times) for times in (1, 2, 4))
        found.append(Row(f"{what}: {once:.1f}, {twice:.1f}, {four:.1f} s", four / twice, "x", MOST_PER_DOUBLING))
        print(found[-1], file=sys.stderr, flush=True)

    for name, module in MODULES.items():

        def fitted(n: int, module: Callable[[int], str] = module, name: str = name) -> float:
            path = folder / f"{name.split()[0]}{n}.mlir"
            path.write_text(module(n))
            return seconds("fit", str(path), "--engine", "twin", "--no-store")

        grown(f"fit, {name}", fitted)
    for name, script in SCRIPTS.items():

        def ran(n: int, script: Callable[[int], str] = script, name: str = name) -> float:
            path = folder / f"growth-{name.split()[-1]}{n}.py"
            path.write_text(script(n))
            return seconds("run", str(path), "--no-programs", "--name", path.stem)

        grown(f"run, {name}", ran)
        for title, words in EDITS.items():

            def edited(n: int, words: tuple[str, ...] = words, name: str = name) -> float:
                return seconds(words[0], f"growth-{name.split()[-1]}{n}", *words[1:], allowed=True)

            grown(f"{title}, {name}", edited)
    return found


_ANY_ANSWER = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode not in (0, 1, 2))"


if __name__ == "__main__":
    raise SystemExit(print_table(rows, about=__doc__, quick_means="a quarter of the tensors"))
