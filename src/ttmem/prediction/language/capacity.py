# SPDX-License-Identifier: Apache-2.0
"""How many users of how long a context fit: searched on the twin, with the calls of two layers.

All layers make and free the same buffers, so two of them show the peak; the cache and the weights are those of all.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ttmem.engines.engine import EngineSettings
from ttmem.engines.twin import TwinEngine
from ttmem.failures.outcome import PASS, UNSUPPORTED
from ttmem.prediction.language.configuration import config_of
from ttmem.prediction.language.stream import layout_of, pass_of
from ttmem.prediction.largest import QUANTITIES, Found, Tried, largest
from ttmem.prediction.request import Capacity, CapacityPoint, Request

_USERS = (1, 2, 4, 8, 16, 32)
_LAYERS = 2


def capacity_of(request: Request) -> Capacity:
    """What else would fit, per chip as the request splits the model."""
    config = config_of(request)
    asked = layout_of(request, config)
    # Who asks for more than the model was made for is not told that it ends there.
    positions = asked.dimensions.positions if asked.context <= asked.dimensions.positions else None
    settings = EngineSettings(
        board=request.board,
        l1_small_bytes=request.l1_small_bytes,
        trace_region_bytes=request.trace_region_bytes,
    )
    with TwinEngine(settings) as engine:

        def context_for(users: int, begin: int) -> Found:
            what = QUANTITIES["context"]
            given = replace(request, users=users, sequence=None)
            return largest(lambda value: _tried(engine, what.on(given, value), config, value), what, begin, positions)

        what = QUANTITIES["users"]
        given = replace(request, context=asked.context)
        users = largest(lambda value: _tried(engine, what.on(given, value), config, value), what, asked.users)
        found: dict[int, Found] = {}
        begin = asked.context * asked.users
        for count in sorted({*_USERS, asked.users}):
            found[count] = context_for(count, begin // count)
            begin = max(found[count].value, 1) * count  # the cache is nearly all that grows
    points = tuple(CapacityPoint(count, one.value, one.is_limit) for count, one in found.items())
    return Capacity(asked.users, asked.context, users.value, found[asked.users].value, points)


def _tried(engine: TwinEngine, request: Request, config: Mapping[str, Any], value: int) -> Tried:
    layout = layout_of(request, config)
    steps = [resident.step for resident in layout.residents()]
    for call in pass_of(layout, _LAYERS)[0]:
        steps += [*call.steps, *({"free": name, "force": False} for name in call.frees)]
    outcome = engine.ask(steps, stop=True)
    fits = outcome.status in (PASS, UNSUPPORTED)  # what the twin does not judge is L1's, not DRAM's
    return Tried(value, fits, outcome.peak_bytes_per_bank["DRAM"], layout.scope.names["bank_bytes"])
