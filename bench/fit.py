# SPDX-License-Identifier: Apache-2.0
"""Predictions of many models: does the twin say of a stream what the real library says, and how long does it take?

    python bench/fit.py                        # all models at both sizes, on n150
    python bench/fit.py --models vit,swin      # some of them
    python bench/fit.py --quick                # three models at one size
    python bench/fit.py --page                 # also write the table of docs/fit.md
    python bench/fit.py --max-batch            # the largest batch, as fit finds it and by bisection on the mock
    python bench/fit.py --tracer               # memory of the torch process for a model and one ten times as large
    python bench/fit.py --verb                 # wall and CPU seconds of the whole command on the mock, all starts in it

A row is one model at one size: the DRAM peak that each engine gives, and whether it fits. Exit 1 when a peak differs by
more than two percent or a verdict differs. Seconds are of one process each, the start of torch and ttnn left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

from ttmem import TtmemError  # noqa: E402
from ttmem.operators.tracing import keep_tracer  # noqa: E402
from ttmem.prediction import run_stream  # noqa: E402
from ttmem.prediction.answer import predict_request  # noqa: E402
from ttmem.prediction.lowering import build_stream  # noqa: E402
from ttmem.prediction.request import Request, find_demands  # noqa: E402

PAGE = ROOT / "docs" / "fit.md"
_BEGINS, _ENDS = "<!-- models: written by bench/fit.py --page -->", "<!-- end of models -->"
OWN = str(Path(__file__).resolve().with_name("ops_models.py"))
LARGEST_DIFFERENCE_PERCENT = 2.0
QUICK = ("vit", "resnet50", "bert")
VISION = {
    "vit": "hf:ViTConfig",
    "deit": "hf:DeiTConfig",
    "beit": "hf:BeitConfig",
    "dinov2": "hf:Dinov2Config",
    "clip_vision": "hf:CLIPVisionConfig",
    "siglip_vision": "hf:SiglipVisionConfig",
    "swin": "hf:SwinConfig",
    "swinv2": "hf:Swinv2Config",
    "convnext": "hf:ConvNextConfig",
    "convnextv2": "hf:ConvNextV2Config",
    "resnet50": "hf:ResNetConfig",
    "regnet": "hf:RegNetConfig",
    "mobilenetv2": "hf:MobileNetV2Config",
    "segformer": "hf:SegformerForSemanticSegmentation",
    "pvtv2": "hf:PvtV2Config",
    "yolos": "hf:YolosConfig",
    "yolo_like": f"{OWN}::yolo_like",
    "unet": f"{OWN}::unet",
}
TEXT = {
    "bert": "hf:BertConfig",
    "gpt2": "hf:GPT2Config",
    "distilbert": "hf:DistilBertConfig",
    "roberta": "hf:RobertaConfig",
    "t5": "hf:T5Config",
    "llama": "hf:LlamaConfig",
}
SIZES, LENGTHS = ((224, 224), (512, 512)), (128, 512)
LARGE = {"pvtv2": 2048, "swin": 2048, "resnet50": 2048, "regnet": 2048, "convnext": 2048}
"""Sides at which the largest batch is small, so that bisection on the mock ends."""
_SETS = [word for key, value in (("num_key_value_heads", 8), ("vocab_size", 128256), ("intermediate_size", 14336))
         for word in ("--set", f"{key}={value}")]  # fmt: skip
_LAYERS = {"llama": {"num_hidden_layers": 4}}


@dataclass(frozen=True, slots=True)
class Row:
    """One model at one size."""

    model: str
    size: str
    operations: int
    unsupported: int
    not_exact: int
    twin_bytes_per_bank: int
    mock_bytes_per_bank: int
    twin_fits: bool
    mock_fits: bool
    trace_seconds: float
    twin_seconds: float
    mock_seconds: float

    @property
    def difference_percent(self) -> float:
        return 100 * (self.twin_bytes_per_bank - self.mock_bytes_per_bank) / max(self.mock_bytes_per_bank, 1)

    @property
    def agrees(self) -> bool:
        return self.twin_fits == self.mock_fits and abs(self.difference_percent) <= LARGEST_DIFFERENCE_PERCENT


def requests(names: set[str] | None, board: str, *, quick: bool) -> list[tuple[str, str, Request]]:
    """Model, size in words, and what is asked."""
    listed = [
        (name, f"{height}x{width}", Request(target, board, engine="twin", size=(height, width)))
        for name, target in VISION.items()
        for height, width in SIZES[: 1 if quick else None]
    ]
    listed += [
        (name, str(length), Request(target, board, engine="twin", sequence=length, settings=_LAYERS.get(name, {})))
        for name, target in TEXT.items()
        for length in LENGTHS[: 1 if quick else None]
    ]
    return [one for one in listed if names is None or one[0] in names]


def measure(name: str, size: str, request: Request, mock: run_stream.Engine) -> Row:
    """The same stream on both engines."""
    started = time.perf_counter()
    stream = build_stream(request)
    traced = time.perf_counter()
    twin = run_stream.predict_stream(stream, request)
    played = time.perf_counter()
    real = run_stream.predict_stream(stream, replace(request, engine="mock"), mock)
    ended = time.perf_counter()
    return Row(
        name,
        size,
        len(stream.calls),
        len(real.operations.unsupported),
        twin.operations.bounded + twin.operations.unknown,
        find_demands(twin)["DRAM"].peak_bytes_per_bank,
        find_demands(real)["DRAM"].peak_bytes_per_bank,
        twin.fits,
        real.fits,
        traced - started,
        played - traced,
        ended - played,
    )


def largest_batches(names: list[str], board: str) -> int:
    """As ``--max batch`` says, and by halving on the mock alone; how many differ."""
    differences = 0
    for name in names:
        side = LARGE[name]
        request = Request(VISION[name], board, engine="mock", size=(side, side))
        started = time.perf_counter()
        said = predict_request(request, "batch").largest
        seconds = time.perf_counter() - started
        with run_stream.open_for_request(request) as mock:

            def fits(batch: int, asked: Request = request, mock: run_stream.Engine = mock) -> bool:
                one = replace(asked, batch=batch)
                return run_stream.predict_stream(build_stream(one), one, mock).fits

            low, high = 0, 1
            while fits(high):
                low, high = high, 2 * high
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle) else (low, middle)
        value, runs = (said.value, len(said.tried)) if said else (0, 0)
        differences += value != low
        print(
            f"{name:16} {side}x{side}  largest batch {value} ({runs} runs on the mock, {seconds:.1f} s),"
            f" by bisection {low}",
            flush=True,
        )
    return differences


def tracer_memory() -> None:
    """The most that the torch process held, one process for each depth: parameters must not show in it."""
    for layers in (12, 120):
        request = Request(VISION["vit"], engine="twin", settings={"num_hidden_layers": layers})
        parameters = build_stream(request).facts["parameters"]  # its tracer ends with the question
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        size_mb = int(str(parameters)) * 4 / 2**20
        print(
            f"vit of {layers} layers: {size_mb:,.0f} MB of float32 parameters, the tracer held {most:,.0f} MB at most"
        )


VERBS = {
    "ViT": (["hf:ViTConfig"], 5),
    "Swin": (["hf:SwinConfig"], 5),
    "ResNet-50": (["hf:ResNetConfig"], 5),
    "Llama-8B, traced, 2048 tokens": (["hf:LlamaConfig", *_SETS, "--seq", "2048"], 20),
    "Llama-8B by recipe, 4096 tokens": (["hf:LlamaConfig", *_SETS, "--context", "4096"], 20),
}
"""What is asked, and the seconds that it may take."""


def verbs() -> int:
    """The whole command, as a user starts it; CPU time is that of all its processes. How many took too much of it."""
    slow = 0
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); from ttmem.commands import main; sys.exit(main())"
    for name, (words, most_seconds) in VERBS.items():
        before, started = os.times(), time.perf_counter()
        options = ["--engine", "mock", "--no-store", "--no-advice", "-q"]
        subprocess.run([sys.executable, "-c", code, "fit", *words, *options], stdout=subprocess.DEVNULL, check=False)
        wall, after = time.perf_counter() - started, os.times()
        used = after.children_user - before.children_user + after.children_system - before.children_system
        slow += min(wall, used) > most_seconds  # alone on the machine the first, else the second
        print(f"{name:32} {wall:5.1f} s, {used:5.1f} s of CPU (at most {most_seconds} s)", flush=True)
    return slow


def table(rows: list[Row], board: str) -> str:
    """For the page."""
    agreeing = sum(row.agrees for row in rows)
    worst = max((abs(row.difference_percent) for row in rows), default=0.0)
    models = len({row.model for row in rows})
    lines = [
        f"{models} models, {len(rows)} rows on {board}: {agreeing} agree (peak within two percent, same verdict).",
        f"The largest difference is {worst:.2f} %.",
        "",
        "| model | size | operations | twin not exact | refused | twin MB/bank | mock MB/bank | difference | fits |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        verdict = "yes" if row.mock_fits else "no"
        verdict += "" if row.twin_fits == row.mock_fits else f" (twin: {'yes' if row.twin_fits else 'no'})"
        lines.append(
            f"| {row.model} | {row.size} | {row.operations} | {row.not_exact} | {row.unsupported} |"
            f" {row.twin_bytes_per_bank / 2**20:.3f} | {row.mock_bytes_per_bank / 2**20:.3f} |"
            f" {row.difference_percent:+.2f} % | {verdict} |"
        )
    return "\n".join(lines)


def write_page(rows: list[Row], board: str) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(_BEGINS)
    after = rest.partition(_ENDS)[2]
    PAGE.write_text(f"{before}{_BEGINS}\n{table(rows, board)}\n{_ENDS}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--rows", type=Path, help="keep the rows in this file, and do not measure those it has")
    parser.add_argument(
        "--max-batch", metavar="MODELS", nargs="?", const=",".join(LARGE), help="of " + ", ".join(LARGE)
    )
    parser.add_argument("--tracer", action="store_true", help="memory of the torch process")
    parser.add_argument("--verb", action="store_true", help="seconds of the whole command")
    given = parser.parse_args()
    if given.verb:
        return 1 if verbs() else 0
    if given.max_batch:
        with keep_tracer():
            return 1 if largest_batches(given.max_batch.split(","), given.board) else 0
    if given.tracer:
        tracer_memory()
        return 0
    names = set(given.models.split(",")) if given.models else set(QUICK) if given.quick else None
    known = [Row(**one) for one in json.loads(given.rows.read_text())] if given.rows and given.rows.exists() else []
    rows = list(known)
    asked = requests(names, given.board, quick=given.quick)
    with keep_tracer(), run_stream.open_for_request(Request("", given.board, engine="mock")) as mock:
        for name, size, request in asked:
            if any((row.model, row.size) == (name, size) for row in known):
                continue
            try:
                row = measure(name, size, request, mock)
            except TtmemError as error:
                print(f"{name:16} {size:>8}  {error}", flush=True)
                continue
            rows.append(row)
            mark = "" if row.agrees else "   DIFFERS"
            print(
                f"{row.model:16} {row.size:>8} {row.operations:6} twin {row.twin_bytes_per_bank:>12,}"
                f" mock {row.mock_bytes_per_bank:>12,} {row.difference_percent:+7.2f} %"
                f"  fits {row.twin_fits}/{row.mock_fits}, not exact {row.not_exact}, refused {row.unsupported}"
                f"  {row.trace_seconds:.1f} + {row.twin_seconds:.1f} / {row.mock_seconds:.1f} s{mark}",
                flush=True,
            )
            if given.rows:
                given.rows.write_text(json.dumps([asdict(one) for one in rows]))
    print(f"memory of this process at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    if given.page:
        write_page(rows, given.board)
    return 0 if all(row.agrees for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
