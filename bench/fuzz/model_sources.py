# SPDX-License-Identifier: Apache-2.0
"""Sources of the verbs that predict, play again, test and compare: ``fit``, ``whatif``, ``tune``, ``sweep diff``."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import zstandard

from fuzz.kind import DATA, ROOT, Kind
from fuzz.mutations import mutated

_SAVED = (
    *("profile {} --no-store", "profile {} --no-store --json", "profile {} --no-store --llm", "explain {}"),
    *("profile {} --name x --html {}.html", "check {} --json", "check {} --max-l1 50%", "diff {} {} --json"),
    *("export {} --to visualizer -o {}.db", "export {} --to perfetto -o {}.out", "cb profile {}"),
)
_PLAYED = (
    *("tune {}", "tune {} --json", "tune {} --target fits --most 3", "tune {} --max-l1 10% --json"),
    *("whatif {} free:x@12", "whatif {} dtype:*=bfloat8_b --json", "whatif {} inplace:z@15 memory:z@15=DRAM"),
    *("whatif {} chunk:#3=4 order:weight=last region:L1_SMALL=0", "whatif {} board=p150 --name y"),
    *("whatif {} shard:x=height:64x512@8x1", "whatif {} shard:z=interleaved --board n300"),
)
_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    "quantization_config": None,
    "text_config": {"head_dim": 32, "sliding_window": 512, "layer_types": ["full_attention", "sliding_attention"]},
}
_FIT = "fit {} --engine twin --no-store"
_FIT_CONFIG = "fit {dir}/config.json --engine twin --no-store"
_LIST = b"{dir}/config.json --context 64\n{dir}/config.json --users 2 --phase decode # the second\n"
_RESULT = (
    '{{"id": "{id}", "op": "silu", "board": "n150", "engine": "twin", "memory": "L1", "layout": "tile", "status": '
    '"{status}", "needed_bytes": 4096, "bytes_per_bank": 64, "peak_bytes_per_bank": {peak}, "message": "Out of Memory: '
    'x", "seconds": 0.1, "shapes": [[1, 32, 64]]}}\n'
)
_EXPECTED = b'- op: silu\n  status: oom\n  memory: L1\n  shapes: [[1, 32, 64]]\n  reason: "known"\n'


def model_kinds() -> Iterator[Kind]:
    """All of them."""
    made = DATA / "fuzz"
    yield Kind("captured run", (made / "run.ttmem").read_bytes(), ".ttmem", (*_SAVED, *_PLAYED, *_PLAYED), change=saved)
    yield Kind("suite", (made / "suite.ttmem").read_bytes(), ".ttmem", (*_SAVED, *_PLAYED[:2]), change=saved)
    forms = (_FIT, f"{_FIT} --json", f"{_FIT} --board p150 --boards n150,n300")
    yield Kind("module", (made / "linear.mlir").read_bytes(), ".mlir", (*forms, "profile {} --no-store --json"))
    config = json.dumps(_CONFIG).encode()
    text = json.dumps({**_CONFIG, **_CONFIG["text_config"]}).encode()
    ways = (f"{_FIT} --context 128", f"{_FIT} --json --phase decode --users 2", f"{_FIT} --max context --users 2")
    more = (
        f"{_FIT} --recipe tt-transformers:performance",
        f"{_FIT} --board t3k --weights mlp=bfloat4_b,attn=bfloat8_b",
    )
    for name, content in (("configuration", config), ("text configuration", text)):
        yield Kind(name, content, ".json", (*ways, *more), file="config.json")
    recipes = ROOT / "src" / "ttmem" / "prediction" / "recipes"
    for name in ("generic.toml", "gemma4.toml", "tt-transformers+performance.toml"):
        commands = tuple(
            f"{_FIT_CONFIG} --recipe {{}} {more}" for more in ("", "--json", "--max context", "--board t3k")
        )
        yield Kind(f"recipe {name}", (recipes / name).read_bytes(), ".toml", commands, beside={"config.json": config})
    atlas = "fit --list {dir}/models.txt --engine twin -o {dir}/atlas --boards n150,p150"
    beside = {"config.json": config, "models.txt": _LIST}
    yield Kind(
        "list of models", _LIST, ".txt", (atlas, f"{atlas} --json"), file="models.txt", beside={"config.json": config}
    )
    yield Kind("journal of an atlas", _JOURNAL, ".jsonl", (atlas,), file="atlas/journal.jsonl", beside=beside)
    sides = [
        "".join(_RESULT.format(id=one, status=status, peak=peak) for one, status, peak in rows).encode()
        for rows in ((("1", "pass", 64), ("2", "oom", "null")), (("1", "oom", 128), ("3", "pass", 32)))
    ]
    commands = ("sweep diff {dir}/a {dir}/b", "sweep diff {dir}/b {dir}/a --fail-on growth:5% --json")
    yield Kind(
        "two sweeps", sides[0], ".jsonl",
        (*commands, "sweep report {dir}/a -o {dir}/r --json"),
        file="a/results.jsonl", beside={"b/results.jsonl": sides[1]},
    )  # fmt: skip


_JOURNAL = (
    b'{"key": "a", "row": {"model": "config.json", "board": "n150", "fits": true, '
    b'"engine": "twin", "dram_peak_percent": 12.5, "exact": 3, "seconds": 0.1}}\n'
    b'{"key": "b", "row": {"model": "config.json", "board": "p150", "fits": false, "dram_peak_percent": null}}\n'
)


# --- saved profiles: changed inside, and sealed again ----------------------------------------------------------------

_ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**63 - 1,
        -(2**63),
        1.5,
        float("nan"),
        float("inf"),
        "",
        "\x1b[31m\u202e",
        "x" * 3000,
    ),
    *([], {}, [[]], [-1], ["a"], {"a": 1}, b"", b"\xff" * 9, "n150", "p150", "DRAM", "nowhere", "1x1", "10x-4"),
)


def saved(chance: random.Random, content: bytes) -> bytes:
    """A saved profile whose digest is right and whose values are not; now and then only its bytes are changed."""
    from ttmem.profile import profile_file

    if chance.random() < 0.1:
        return mutated(chance, content)
    document = msgspec.msgpack.decode(profile_file._unseal(content, "")[1])
    for _ in range(chance.choice((1, 1, 2, 4))):
        _change(chance, document)
    packed = msgspec.msgpack.encode(document)
    payload = zstandard.ZstdCompressor(level=1).compress(packed)
    head = profile_file._HEADER.pack(
        profile_file._MAGIC,
        profile_file.SCHEMA_VERSION,
        len(payload),
        len(packed),
        profile_file._compute_digest(payload),
    )
    return head + payload


def _change(chance: random.Random, document: Any) -> None:
    """Walk down to some value and put another one there."""
    node = document
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = chance.choice(keys)
        below = node[key]
        if _is_column(below) and chance.random() < 0.9:
            node[key] = _column(chance, below)
            return
        if not isinstance(below, dict | list) or not below or chance.random() < 0.15:
            break
        node = below
    way = chance.random()
    if way < 0.15:
        if isinstance(node, dict):
            del node[key]
        else:
            node.insert(key, below)
    elif way < 0.5 and isinstance(below, int) and not isinstance(below, bool):
        node[key] = chance.choice((below + 1, below - 1, -below, below * 1000, below // 2, 0))
    else:
        node[key] = copy.deepcopy(chance.choice(_ODD))  # the lists among them are changed further


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and isinstance(value[2], bytes)


def _column(chance: random.Random, column: list[Any]) -> list[Any]:
    """A number of it, or its length, its type."""
    kind, shape, raw = column
    width = int(kind[2:]) if kind[2:].isdigit() else 1
    way = chance.random()
    if way < 0.75 and raw:
        at = chance.randrange(len(raw) // width) * width
        number = chance.choice((0, 1, -1, 2, -2, 7, 1000, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1))))
        number %= 1 << (8 * width)
        return [kind, shape, raw[:at] + number.to_bytes(width, "little") + raw[at + width :]]
    if way < 0.85:
        return [kind, [*shape[:-1], max(0, shape[-1] - 1)], raw[:-width]]
    return [chance.choice(("<i4", "<i8", "|u1", "<f8", "O", "")), chance.choice((shape, [], [0], [2**40], [-1])), raw]
