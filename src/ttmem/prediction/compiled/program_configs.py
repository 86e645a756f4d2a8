# SPDX-License-Identifier: Apache-2.0
"""How the compiler wants a program to be dealt out over cores and computed, as the library's own objects."""

from collections.abc import Mapping
from typing import Any

from ttmem.prediction.compiled.activations import fused_activation

_GRID = "compute_with_storage_grid_size"
_NAMES = {"per_core_m": "per_core_M", "per_core_n": "per_core_N"}
_PRODUCTS = (
    ("mcast_in0", "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig"),
    ("transpose_mcast", "ttnn.MatmulMultiCoreReuseMultiCastProgramConfig"),
    (_GRID, "ttnn.MatmulMultiCoreReuseProgramConfig"),
    ("per_core_m", "ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig"),
)
"""What a configuration has and those below it have not, and its class."""
_UNSAID = ("hop_cores", "sub_core_grids")
"""Sets of cores that are empty where the compiler writes them."""
_FIDELITIES = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}


def product_config(said: Any) -> dict[str, Any] | None:
    """``#ttnn.matmul_multi_core_reuse..._program_config`` of ``matmul`` and ``linear``."""
    if not isinstance(said, Mapping):
        return None
    made = next((name for sign, name in _PRODUCTS if sign in said), None)
    return None if made is None else {"new": made, "kwargs": _options(said)}


def attention_config(said: Any) -> dict[str, Any] | None:
    """``#ttnn.sdpa_program_config``."""
    if not isinstance(said, Mapping) or _GRID not in said:
        return None
    return {"new": "ttnn.SDPAProgramConfig", "kwargs": _options(said)}


def kernel_config(said: Any) -> dict[str, Any] | None:
    """``#ttnn.device_compute_kernel_config``; all architectures take the same object."""
    if not isinstance(said, Mapping):
        return None
    options: dict[str, Any] = {
        key: value for key, value in said.items() if key != "math_fidelity" and isinstance(value, bool)
    }
    if said.get("math_fidelity") in _FIDELITIES:
        options["math_fidelity"] = {"attribute": f"ttnn.MathFidelity.{_FIDELITIES[said['math_fidelity']]}"}
    return {"new": "ttnn.WormholeComputeKernelConfig", "kwargs": options}


def _options(said: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, value in said.items():
        if key in _UNSAID or value is None:
            continue
        if key == _GRID:
            options[key] = {"tuple": value}
        elif key == "fused_activation":
            if activation := fused_activation(value):
                options[key] = activation
        else:
            options[_NAMES.get(key, key)] = value
    return options
