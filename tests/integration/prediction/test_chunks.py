# SPDX-License-Identifier: Apache-2.0
"""Operations in pieces: the values are those of the whole, the memory stays under the limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.prediction.scripts import on_mock, with_torch
from ttmem import TtmemError
from ttmem.engines.interpreters import Interpreter
from ttmem.operators.tracing import find_torch_python
from ttmem.prediction.chunk_rules import ChunkedCall, ChunkError, find_rule


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter that has torch."""
    try:
        return find_torch_python()
    except TtmemError as error:
        pytest.skip(f"NO VALUES WERE COMPARED: {error}; run 'python tools/torch_env.py', or set TTMEM_TORCH_PYTHON")


_VALUES = """
    import json, torch, ttmem
    from torch.nn import functional as F
    torch.manual_seed(0)
    x, y, w = torch.randn(4, 6, 40, 48), torch.randn(4, 6, 40, 48), torch.randn(48, 70)
    row, bias, q = torch.randn(48), torch.randn(70), torch.randn(2, 6, 40, 16)
    calls = [
        (torch.relu, [x], {}, (0, 1, 2, 3, -1)),
        (torch.add, [x, y], {}, (0, 1, 2, 3)),
        (torch.mul, [x, row], {}, (0, 1, 2, 3)),
        (torch.where, [x > 0, x, y], {}, (0, 2)),
        (torch.clamp, [x], {"min": 0.0}, (0, 3)),
        (torch.matmul, [x, w], {}, (0, 1, -2, -1)),
        (torch.matmul, [x, y.transpose(-1, -2)], {}, (0, 1, 2, 3)),
        (F.linear, [x, w.T, bias], {}, (0, 1, 2, 3)),
        (torch.softmax, [x], {"dim": -1}, (0, 1, 2)),
        (torch.softmax, [x, 1], {}, (0, 2, 3)),
        (F.layer_norm, [x, [48]], {"weight": row, "bias": row}, (0, 1, 2)),
        (torch.cat, [[x, y], 1], {}, (0, 2, 3)),
        (torch.sum, [x], {"dim": 1}, (0, 2, 3)),
        (torch.sum, [x], {"dim": (1, 3), "keepdim": True}, (0, 2)),
        (torch.mean, [x, -1], {}, (0, 1, 2)),
        (torch.max, [x, 2], {}, (0, 1, 3)),
        (torch.max, [x, y], {}, (0, 3)),
        (torch.cumsum, [x, 1], {}, (0, 2, 3)),
        (F.scaled_dot_product_attention, [q, q, q], {}, (0, 1)),
        (F.embedding, [torch.randint(0, 40, (6, 10)), torch.randn(40, 16)], {}, (0, 1, 2)),
    ]
    told = []
    for function, arguments, options, dimensions in calls:
        whole = function(*arguments, **options)
        for dimension in dimensions:
            lists = [value if type(value) is list else [value] for value in (*arguments, *options.values())]
            held = sum(one.nbytes for given in lists for one in given if isinstance(one, torch.Tensor))
            run = ttmem.chunked(function, dim=dimension, limit=2 * held - 1)
            made = run(*arguments, **options)
            both = list(zip(made, whole)) if isinstance(whole, tuple) else [(made, whole)]
            same = all(a.shape == b.shape and torch.allclose(a, b, atol=1e-5) for a, b in both)
            told.append([function.__name__, dimension, run.last.chunks, same])
    refused = []
    for function, arguments, options, dimension in [
        (torch.softmax, [x], {"dim": -1}, -1), (torch.sum, [x], {"dim": 1}, 1), (torch.sum, [x], {}, 0),
        (torch.cat, [[x, y], 1], {}, 1), (F.layer_norm, [x, [40, 48]], {}, 2), (torch.cumsum, [x, 1], {}, 1),
        (F.scaled_dot_product_attention, [q, q, q], {}, 2), (torch.fft.fft, [x], {}, 0), (torch.relu, [x], {}, 7),
    ]:
        try:
            ttmem.chunked(function, dim=dimension, limit="1KB")(*arguments, **options)
            refused.append("done")
        except ttmem.TtmemError as error:
            refused.append(error.message)
    own = ttmem.chunked(lambda a: a * 2, limit="200KB", rule="elementwise")
    print(json.dumps([told, refused, bool((own(x) == x * 2).all()), own.last.chunks]))
"""


def test_values_are_those_of_the_whole_and_what_would_change_them_is_refused(torch_python: str) -> None:
    told, refused, own_same, own_chunks = with_torch(_VALUES, torch_python)
    assert len(told) > 50
    assert [one for one in told if not one[3]] == []
    assert {one[2] > 1 for one in told} == {True}
    assert "done" not in refused
    assert "looks along dimension -1" in refused[0]
    assert "reduces dimension 1" in refused[1]
    assert "no rule says" in refused[7]
    assert own_same
    assert own_chunks > 1


_MEMORY = """
    up = lambda piece: tensor(*piece.shape)
    peaks = []
    def down(made):
        peaks.append(held())
        return numpy.zeros(tuple(made.shape), numpy.float32)
    x, w = numpy.zeros((4, 16, 256, 256), numpy.float32), numpy.zeros((1, 1, 256, 256), numpy.float32)
    for function, arguments, options, dimension in [
        (ttnn.relu, [x], {}, 1), (ttnn.add, [x, w], {}, 1), (ttnn.matmul, [x, w], {}, -2),
        (ttnn.softmax, [x], {"dim": -1}, 1), (ttnn.concat, [[x, x], -1], {}, 1), (ttnn.layer_norm, [x], {}, 1),
    ]:
        limit = 1 << 19
        run = ttmem.chunked(function, dim=dimension, limit=limit, device=device, upload=up, download=down)
        peaks.clear()
        made = run(*arguments, **options)
        last = run.last.chunks
        told[run._name] = [list(made.shape), last, max(peaks) <= limit, max(peaks) / limit, held()]
    big = tensor(1, 64, 1024, 1024)
    def way(order, **more):
        run = ttmem.chunked(ttnn.relu, dim=1, order=order, **more)
        made = run(big)
        return [run.last.name, run.last.chunks, len(run.last.refused), str(getattr(made, "dtype", made))]
    told["ways"] = [
        way(("L1", "DRAM")), way(("L1", "bfloat8_b")), way(("L1", "chunks")),
        way(("L1", "DRAM", "host"), limit=held() + 1000, host=lambda given: "on the host"),
    ]
    run = ttmem.chunked(ttnn.softmax, dim=1, limit=held() + 1000)
    try:
        run(big, dim=-1)
    except ttmem.TtmemError as error:
        told["nothing"] = [error.exit_code, "whole" in error.message, "not even in 64 pieces" in error.message]
    told["left"] = held()
"""


def test_pieces_stay_under_the_limit_and_leave_nothing_behind(
    tmp_path: Path, with_ttnn: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, _ = on_mock(_MEMORY, tmp_path, monkeypatch)
    for name in ("ttnn.relu", "ttnn.add", "ttnn.matmul", "ttnn.softmax", "ttnn.concat", "ttnn.layer_norm"):
        shape, chunks, is_under, share, left = told[name]
        assert shape == ([4, 16, 256, 512] if name == "ttnn.concat" else [4, 16, 256, 256])
        assert chunks > 1
        assert is_under
        assert share > 0.5 or chunks <= 8, name  # the fewest: one piece fewer would be over it
        assert left == 0
    assert [one[:3] for one in told["ways"]] == [
        ["DRAM", 1, 1],
        ["bfloat8_b", 1, 1],
        ["chunks", 1, 1],
        ["host", 1, 2],
    ]
    assert told["nothing"] == [1, True, True]


def _cut(name: str, shapes: list[tuple[int, ...]], dimension: int, *values: Any, **options: Any) -> Any:
    return find_rule(name)(ChunkedCall(name, shapes, [""] * len(shapes), values, options), dimension)


def test_rules_say_which_tensors_are_cut() -> None:
    assert _cut("ttnn.add", [(4, 1, 32), (8, 32)], 1).tensors == ((1, 0),)
    assert _cut("ttnn.matmul", [(4, 64, 32), (32, 96)], -1).tensors == ((1, 1),)
    assert _cut("ttnn.linear", [(4, 64, 32), (32, 96), (1, 96)], -1).tensors == ((1, 1), (2, 1))
    assert _cut("ttnn.sum", [(4, 6, 8)], 2, dim=1).result_dimension == -1
    assert _cut("ttnn.sum", [(4, 6, 8)], 0, dim=1).result_dimension == -2
    with pytest.raises(ChunkError, match="transposes"):
        _cut("ttnn.matmul", [(64, 32), (96, 32)], 0, transpose_b=True)
    with pytest.raises(ChunkError, match="nothing to cut"):
        _cut("ttnn.relu", [(1, 32)], 0)
    with pytest.raises(ChunkError, match="no rule 'odd'"):
        find_rule("f", "odd")
