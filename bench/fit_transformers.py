# SPDX-License-Identifier: Apache-2.0
"""The recipes of tt_transformers against its own code: resident bytes and the prefill's peak, on the mock.

    python bench/fit_transformers.py CHECKOUT --python PYTHON [--only "8B-Instruct t3k"]

CHECKOUT is a tt-metal; PYTHON has ttnn, torch and what the checkout's models import. Its code runs unedited, with
random weights: one or two layers and a vocabulary of 12,288, where small buffers weigh most, or all of a model. What a
recipe keeps free, and trace regions, which are not opened here, are left out of both sides. Exit 1 when a resident
figure is off by more than 0.1 % or a peak by more than 0.9 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from fit_limits import KEPT_FREE, TRACE_REGION, needed_bytes_per_bank  # noqa: E402
from ttmem.base import toml  # noqa: E402
from ttmem.hardware import BOARDS  # noqa: E402
from ttmem.prediction.language.stream import build_language_stream  # noqa: E402
from ttmem.prediction.request import Request  # noqa: E402

VOCABULARY = 12288
RESIDENT_PERCENT, PEAK_PERCENT = 0.1, 0.9
DRIVER = """
import json, os, sys, tempfile
import torch
import ttnn
from models.tt_transformers.tt.common import PagedAttentionConfig
from models.tt_transformers.tt.generator import Generator
from models.tt_transformers.tt.model import Transformer
from models.tt_transformers.tt.model_config import DecodersPrecision, ModelArgs

asked = json.loads(os.environ["TTMEM_FIT_ASKED"])
name = asked["model"]
folder = os.path.join(tempfile.mkdtemp(), name)
os.mkdir(folder)
with open(os.path.join(folder, "config.json"), "w") as file:
    json.dump(asked["config"], file)
ModelArgs.LOCAL_HF_PARAMS[name] = folder
if asked["chips"] > 1:
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
mesh = ttnn.open_mesh_device(ttnn.MeshShape(*asked["mesh"]))
types = getattr(DecodersPrecision, asked["recipe"])
arguments = ModelArgs(
    mesh, instruct=True, dummy_weights=True, max_batch_size=1, max_seq_len=asked["tokens"],
    optimizations=lambda model: types(model.n_layers, model.model_name),
)
layers = arguments.n_layers if asked["layers"] is None else asked["layers"]
arguments.n_layers = 1  # weights of one layer serve all: what is stored follows from their shapes
arguments.is_mixture_of_experts = "num_local_experts" in asked["config"]
state = arguments.load_state_dict()
for key in [key for key in state if key.startswith("layers.0.")]:
    state |= {key.replace("layers.0.", f"layers.{number}."): state[key] for number in range(1, layers)}
arguments.n_layers = layers
blocks = PagedAttentionConfig(block_size=64, max_num_blocks=asked["tokens"] // 64)
model = Transformer(
    args=arguments, mesh_device=mesh, dtype=ttnn.bfloat8_b, state_dict=state,
    weight_cache_path=None, paged_attention_config=blocks,
)
held = ttnn.get_memory_view(mesh, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
with open(os.environ["TTMEM_FIT_RESIDENT"], "w") as file:
    file.write(str(held))
generator = Generator([model], [arguments], mesh, processor=None, tokenizer=None)
table = torch.arange(blocks.max_num_blocks, dtype=torch.int32).reshape(1, -1)
prompt = torch.zeros((1, asked["tokens"]), dtype=torch.int64)
cache = [layer.attention.layer_past for layer in model.layers]
generator.prefill_forward_text(
    prompt, page_table=table, kv_cache=[cache], prompt_lens=[asked["tokens"]], enable_trace=False
)
"""


@dataclass(frozen=True)
class Case:
    """A model that the formulas were not made from, or more of one that they were."""

    model: str
    board: str
    recipe: str
    tokens: int
    layers: int | None = 1
    """None: all that the model has."""
    vocabulary: int | None = VOCABULARY
    """None: the model's own."""
    sizes: str = ""
    """The model's entry in fit_limits.toml, where the checkout has no configuration of it."""

    def config(self, checkout: Path) -> dict[str, Any]:
        if self.sizes:
            known = toml.loads((ROOT / "bench" / "fit_limits.toml").read_text(encoding="utf-8"))["models"][self.sizes]
            config = {**_UNSAID, **{key: value for key, value in known.items() if key != "from_memory"}}
            config["architectures"] = [ARCHITECTURES[config["model_type"]]]
        else:
            file = checkout / "models" / "tt_transformers" / "model_params" / self.model / "config.json"
            config = json.loads(file.read_text())
        config |= {"vocab_size": self.vocabulary or config["vocab_size"]}
        return config | {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}


_UNSAID = {"max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "hidden_act": "silu"}
ARCHITECTURES = {"qwen2": "Qwen2ForCausalLM", "mixtral": "MixtralForCausalLM", "qwen3": "Qwen3ForCausalLM"}
CASES = (
    Case("Mistral-7B-Instruct-v0.3", "n150", "accuracy", 4096),
    Case("Qwen2.5-32B-Instruct", "n300", "performance", 2048),
    Case("Qwen3-32B", "t3k", "accuracy", 2048),
    Case("Qwen2.5-7B-Instruct", "n300", "performance", 4096, sizes="Qwen2.5-7B"),
    Case("Llama-3.2-1B-Instruct", "p150", "performance", 4096, 2),
    Case("Llama-3.1-70B-Instruct", "t3k", "performance", 2048, 2),
    Case("Mixtral-8x7B-Instruct-v0.1", "t3k", "performance", 2048, 1, sizes="Mixtral-8x7B"),
    Case("Llama-3.1-8B-Instruct", "p150x4", "performance", 4096, 2),
    Case("Llama-3.1-8B-Instruct", "galaxy", "performance", 2048, 1),
    Case("Llama-3.2-1B-Instruct", "n150", "performance", 4096, None, None),
    Case("Llama-3.2-3B-Instruct", "n300", "accuracy", 4096, None, None),
    Case("Llama-3.1-8B-Instruct", "t3k", "performance", 4096, None, None),
)


def measured(case: Case, checkout: Path, python: str) -> tuple[int, int]:
    """Resident and peak bytes per bank of the checkout's code."""
    with tempfile.TemporaryDirectory() as folder:
        script, told = Path(folder) / "driver.py", Path(folder) / "resident"
        script.write_text(DRIVER, encoding="utf-8")
        chips = BOARDS.find(case.board).chips
        asked = {"model": case.model, "recipe": case.recipe, "tokens": case.tokens, "layers": case.layers}
        asked |= {"config": case.config(checkout), "chips": chips, "mesh": [8, 4] if chips == 32 else [1, chips]}
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(checkout)]),
            "HF_MODEL": case.model,
            "HF_HUB_OFFLINE": "1",
            "MAX_PREFILL_CHUNK_SIZE": "128",
            "TTMEM_FIT_ASKED": json.dumps(asked),
            "TTMEM_FIT_RESIDENT": str(told),
        }
        command = ["run", "--board", case.board, "--python", python, "--json", "--no-store", str(script)]
        done = subprocess.run(
            [sys.executable, "-m", "ttmem", *command], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        peak = json.loads(done.stdout)["memories"]["DRAM"]["peak_bytes_per_bank"]
        return int(told.read_text()), int(peak)


def predicted(case: Case, checkout: Path) -> tuple[int, int]:
    """The same of the recipe."""
    config = case.config(checkout)
    if case.layers is not None:
        config["num_hidden_layers"] = case.layers
    request = Request(
        case.model,
        case.board,
        recipe=f"tt-transformers:{case.recipe}",
        context=case.tokens,
        prefill_chunk=1 << 17,
        l1_small_bytes=0,
    )
    stream = build_language_stream(request, config)
    staying, fullest = needed_bytes_per_bank(stream, request.board, without=[KEPT_FREE, TRACE_REGION])
    return staying, staying + fullest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--python", required=True)
    parser.add_argument("--only", default="", help="rows of the table that contain this")
    arguments = parser.parse_args()
    is_off = False
    print("| model | board | recipe | layers | tokens | resident MB/bank | recipe | prefill peak MB/bank | recipe |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for case in CASES:
        if arguments.only not in f"{case.model} {case.board} {case.recipe} {case.layers or 'all'}":
            continue
        try:
            real = measured(case, arguments.checkout, arguments.python)
        except RuntimeError as error:
            print(f"{case}: {error}", file=sys.stderr, flush=True)
            is_off = True
            continue
        ours = predicted(case, arguments.checkout)
        off = [100 * (mine - theirs) / theirs for theirs, mine in zip(real, ours, strict=True)]
        is_off = is_off or abs(off[0]) > RESIDENT_PERCENT or abs(off[1]) > PEAK_PERCENT
        row = f"{real[0] / 1e6:.3f} | {off[0]:+.3f} % | {real[1] / 1e6:.3f} | {off[1]:+.3f} %"
        depth = case.layers or case.config(arguments.checkout)["num_hidden_layers"]
        print(f"| {case.model} | {case.board} | {case.recipe} | {depth} | {case.tokens:,} | {row} |", flush=True)
    return 1 if is_off else 0


if __name__ == "__main__":
    sys.exit(main())
