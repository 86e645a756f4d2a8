# SPDX-License-Identifier: Apache-2.0
"""A model with fake parameters: shapes and types, no data."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .graph import GraphRecorder
from .job import TraceJob, TracerError
from .pytrees import map_tensors
from .recording import CallRecorder

_CPU = torch.device("cpu")
_DECLARATIONS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_kept: list[Any] = []
"""The declarations end with the object that made them."""


def make_torchvision_importable() -> None:
    """Replace torchvision's compiled part where it does not fit the installed torch, as with CPU builds.

    Its Python files refer to two operators while they are imported; declaring those is enough for every model without
    boxes to build and to run on fake tensors. Models that really call them are refused when they do.
    """
    if _kept or "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for declaration in _DECLARATIONS:
            library.define(declaration)
        _kept.append(library)
    except Exception:  # whatever else is wrong with it shows when a model imports it
        return


def build(load: Callable[[], Any], *, on_meta: bool = True) -> Any:
    """Call the user's function so that parameters take no memory where it allows for that."""
    if on_meta:
        with contextlib.suppress(Exception), torch.device("meta"):
            return load()
    return load()


def make_fake(model: Any, mode: Any) -> dict[int, Any]:
    """Replace every parameter and buffer; the fakes by identity, for they are the model's weights.

    Building inside the fake mode fails for models that compute numbers from tensors while they are built, and moving
    a built model into it is refused; replacing what is in the modules' tables works for all that were tried.
    """
    fakes: dict[int, Any] = {}
    done: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if id(tensor) not in done:  # tied weights stay one tensor
            made = FakeTensor(mode, tensor.detach().to("meta"), _CPU)
            done[id(tensor)] = (tensor, made)
            fakes[id(made)] = made
        return done[id(tensor)][1]

    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None and not isinstance(tensor, FakeTensor):
                    table[name] = fake(tensor)
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.device.type == "meta" and not isinstance(value, FakeTensor):
                object.__setattr__(module, name, fake(value))
    return fakes


def fake_inputs(value: Any, mode: Any) -> Any:
    """The same structure with fakes in place of tensors; a tensor without data counts as on the CPU."""
    return map_tensors(value, lambda tensor: FakeTensor(mode, tensor.detach().to("meta"), _CPU))


@contextlib.contextmanager
def module_paths(model: Any, recorder: CallRecorder) -> Iterator[None]:
    """Keep the recorder told of which module runs."""
    handles = []
    for name, module in model.named_modules():
        label = name or type(module).__name__

        def enter(_: Any, __: Any, label: str = label) -> None:
            recorder.path.append(label)

        def leave(_: Any, __: Any, ___: Any) -> None:
            recorder.path.pop()

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def check_traceable(model: Any) -> None:
    """Opaque modules that torch can run and a trace cannot follow."""
    for name, module in model.named_modules():
        where = f"'{name}'" if name else "the model"
        if isinstance(module, torch.jit.ScriptModule):
            raise TracerError(f"{where} is scripted (torch.jit): return the module as it was before")
        if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
            raise TracerError(f"{where} gets its size from its first input ({type(module).__name__}): give it one")


def run(model: Any, inputs: Any, job: TraceJob) -> dict[str, Any]:
    """Record of a forward pass."""
    # Autograd would keep tensors alive, and training mode would add dropout.
    model.eval()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = make_fake(model, mode)
    recorder = GraphRecorder(fakes, job) if job.as_graph else CallRecorder(fakes)
    given = fake_inputs(inputs, mode)
    if isinstance(recorder, GraphRecorder):
        recorder.name_parameters(model)
        recorder.name_inputs(given)
    positional, named = (), {}
    if isinstance(given, Mapping):
        named = {str(name): value for name, value in given.items()}
    else:
        positional = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    watched = module_paths(model, recorder)
    with torch.no_grad(), mode, watched, _attention(job.eager_attention), _lower_to_aten(), _converting(), recorder:
        results = model(*positional, **named)
    done = {"graph": recorder.graph(results)} if isinstance(recorder, GraphRecorder) else {"cases": recorder.cases()}
    return {**done, "calls": recorder.calls, "told": recorder.stand_ins.remarks()}


@contextlib.contextmanager
def _lower_to_aten() -> Iterator[None]:
    """Layers as operators: the CPU has recurrent layers and attention blocks in one call each, no other device does."""
    was = torch._C._get_mkldnn_enabled(), torch.backends.mha.get_fastpath_enabled()
    torch._C._set_mkldnn_enabled(False)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(was[0])
        torch.backends.mha.set_fastpath_enabled(was[1])


@contextlib.contextmanager
def _converting() -> Iterator[None]:
    """A model that converts its parts while it runs: torch would swap fakes in place, and none that is watched."""

    def apply(module: Any, change: Callable[[Any], Any], recurse: bool = True) -> Any:
        for child in module.children() if recurse else ():
            apply(child, change)
        for table in (module._parameters, module._buffers):
            table.update({name: change(tensor) for name, tensor in table.items() if tensor is not None})
        return module

    was, torch.nn.Module._apply = torch.nn.Module._apply, apply
    try:
        yield
    finally:
        torch.nn.Module._apply = was


@contextlib.contextmanager
def _attention(eager: bool) -> Iterator[None]:
    """Attention as matrix products and a softmax, or as one fused operator: their memory differs a hundredfold."""
    if not eager:
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        yield
