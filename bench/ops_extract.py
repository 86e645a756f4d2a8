# SPDX-License-Identifier: Apache-2.0
"""How long it takes to extract the operators of real models, and what comes out.

python bench/ops_extract.py             # 52 models at 224, 640 and 2176x3840
python bench/ops_extract.py --quick     # ViT, Swin, ResNet-50, SegFormer, DETR and a YOLO-like net, the same sizes
python bench/ops_extract.py --cases F   # also keep the cases

Needs an interpreter with torch (TTMEM_TORCH_PYTHON, this one, or the managed one of tools/torch_env.py); models whose
package is missing there are listed as such.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from ttmem.base.errors import MissingPartError, TtmemError
from ttmem.operators.case import Case, merge_cases, write_cases
from ttmem.operators.mapping import map_cases
from ttmem.operators.tracer.job import TraceJob
from ttmem.operators.tracing import SourceResult, find_torch_python, trace_all

SIZES = ((224, 224), (640, 640), (2176, 3840))
OWN = str(Path(__file__).resolve().with_name("ops_models.py"))
QUICK = ("vit", "swin", "resnet50", "segformer", "detr", "yolo_like")

VISION = {
    "vit": "ViTConfig",
    "deit": "DeiTConfig",
    "beit": "BeitConfig",
    "dinov2": "Dinov2Config",
    "dinov3_vit": "DINOv3ViTConfig",
    "clip_vision": "CLIPVisionConfig",
    "siglip_vision": "SiglipVisionConfig",
    "swin": "SwinConfig",
    "swinv2": "Swinv2Config",
    "convnext": "ConvNextConfig",
    "convnextv2": "ConvNextV2Config",
    "resnet50": "ResNetConfig",
    "regnet": "RegNetConfig",
    "mobilenetv2": "MobileNetV2Config",
    "efficientnet": "EfficientNetConfig",
    "mobilevit": "MobileViTConfig",
    "segformer": "SegformerForSemanticSegmentation",
    "pvtv2": "PvtV2Config",
    "dpt": "DPTForDepthEstimation",
    "depth_anything": "DepthAnythingForDepthEstimation",
    "detr": "DetrForObjectDetection",
    "yolos": "YolosConfig",
    "sam_vision": "SamVisionModel",
    "rtdetr": "RTDetrForObjectDetection",
    "mask2former": "Mask2FormerConfig",
}
TORCHVISION = {
    "vgg16": "vgg16",
    "densenet121": "densenet121",
    "tv_resnet18": "resnet18",
    "tv_mobilenet_v3": "mobilenet_v3_large",
    "tv_efficientnet_b0": "efficientnet_b0",
    "tv_deeplabv3": "deeplabv3_resnet50",
    "tv_swin_v2_t": "swin_v2_t",
    "tv_convnext_tiny": "convnext_tiny",
    "tv_shufflenet": "shufflenet_v2_x1_0",
}
TIMM = {
    "timm_darknet53": "darknet53",
    "timm_cspdarknet53": "cspdarknet53",
    "timm_hrnet_w18": "hrnet_w18",
    "timm_vovnet39": "ese_vovnet39b",
    "timm_ghostnet": "ghostnet_100",
    "timm_repvgg": "repvgg_a2",
    "timm_eva02": "eva02_tiny_patch14_224",
}
TEXT = {
    "llama": "LlamaConfig",
    "qwen3": "Qwen3Config",
    "qwen2": "Qwen2Config",
    "gemma2": "Gemma2Config",
    "gemma3": "Gemma3TextConfig",
    "mistral": "MistralConfig",
    "phi3": "Phi3Config",
    "gptneox": "GPTNeoXConfig",
    "gpt2": "GPT2Config",
}


def jobs(names: set[str] | None = None) -> list[tuple[str, TraceJob]]:
    """Every model at every size; text models with two layers and 128 tokens."""
    listed: list[tuple[str, TraceJob]] = []
    for size in SIZES:
        listed += [(name, TraceJob(f"hf:{config}", size=size)) for name, config in VISION.items()]
        for name, model in TORCHVISION.items():
            listed.append((name, TraceJob(f"{OWN}::torchvision_model", size=size, settings={"name": model})))
        for name, model in TIMM.items():
            function = "timm_sized" if "eva02" in model else "timm_model"
            listed.append((name, TraceJob(f"{OWN}::{function}", size=size, settings={"name": model})))
        listed += [(name, TraceJob(f"{OWN}::{name}", size=size)) for name in ("yolo_like", "unet")]
    for name, config in TEXT.items():
        key = "n_layer" if name == "gpt2" else "num_hidden_layers"
        listed.append((name, TraceJob(f"hf:{config}", settings={key: 2})))
    return [(name, job) for name, job in listed if names is None or name in names]


def trace_each(chosen: list[tuple[str, TraceJob]], workers: int) -> list[tuple[str, SourceResult]]:
    """As they come, so that the table grows; a model whose package is missing costs its own row."""
    found: list[tuple[str, SourceResult]] = []
    left = list(chosen)
    while left:
        done: set[int] = set()
        try:
            for number, trace in trace_all([job for _, job in left], workers=workers):
                done.add(number)
                found.append((left[number][0], trace))
                print(_row(left[number][0], trace), flush=True)
            return found
        except TtmemError as error:
            bad = next(i for i, (_, job) in enumerate(left) if i not in done and job.target == error.where)
            print(f"{left[bad][0]:20} {error}", flush=True)
            left = [one for i, one in enumerate(left) if i not in done and i != bad]
    return found


def _row(name: str, trace: SourceResult) -> str:
    if trace.refusal:
        return f"{name:20} {trace.size:>10}  refused: {trace.refusal[:90]}"
    operators = len({case.op for case in trace.cases})
    return (
        f"{name:20} {trace.size:>10} {(trace.parameters or 0) / 1e6:>8.1f} M {trace.calls:>6} calls "
        f"{operators:>3} operators {len(trace.cases):>4} cases {trace.seconds:>6.2f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Extract the operators of real models.")
    parser.add_argument("--quick", action="store_true", help="six models")
    parser.add_argument("--cases", type=Path, help="keep the cases in this file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        python = find_torch_python()
    except MissingPartError as error:
        print(f"not measured: {error} ({error.hint})")
        return 0
    print(f"tracing with {Path(python).name} on {options.jobs} processes")
    started = time.perf_counter()
    found = trace_each(jobs(set(QUICK) if options.quick else None), options.jobs)
    seconds = time.perf_counter() - started
    cases: list[Case] = merge_cases(case for _, trace in found for case in trace.cases)
    mapped = map_cases(cases)
    models = {name for name, trace in found if not trace.refusal}
    print(
        f"\n{len(models)} models, {sum(not trace.refusal for _, trace in found)} traces, {mapped.calls} calls, "
        f"{len(mapped.operators)} operators, {len(cases)} cases in {seconds:.0f} s; "
        f"{100 * mapped.covered_calls / max(mapped.calls, 1):.2f} % of the calls run on the device or are free there"
    )
    if options.cases:
        write_cases(options.cases, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
