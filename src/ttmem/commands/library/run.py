# SPDX-License-Identifier: Apache-2.0
"""``ttmem.run``: a ttnn script on a mock board or a card, and what it did to the memory."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from ttmem.engines.interpreters import chosen_python
from ttmem.engines.run_script import CapturedRun, RunSettings, Supervision, run_script


def run(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    board: str = "n150",
    card: bool = False,
    name: str | None = None,
    python: str | None = None,
    ttnn: str | None = None,
    l1_small: int | None = None,
    trace_region: int | None = None,
    timeout: float | None = None,
    programs: bool = True,
    values: bool = False,
    output: int | None = None,
    own_session: bool = False,
    supervise: Supervision = lambda _: nullcontext(),
) -> CapturedRun:
    """Run the user's own, unedited script in a process of its own and capture its memory.

    The result holds its ``profile``, whose failure is the script's, and its exit ``status``. ``python`` is an
    interpreter that has ttnn, ``ttnn`` a release that ``ttmem device install`` made, ``l1_small`` and ``trace_region``
    are bytes, ``timeout`` seconds; ``programs=False`` saves the time to measure what programs need in L1. A mock
    computes no values: once the script has read some, comparisons that ttmem knows succeed and are counted
    (``skipped_comparisons``), unless ``values`` keeps them. ``output`` is a descriptor for what the script prints,
    ``own_session`` and ``supervise`` are for callers that pass signals on.
    """
    settings = RunSettings(
        board=board,
        card=card,
        python=chosen_python(python, ttnn),
        l1_small_bytes=l1_small,
        trace_region_bytes=trace_region,
        timeout_seconds=timeout,
        measure_programs=programs,
        keep_values=values,
    )
    return run_script(
        script, arguments, settings=settings, name=name, output=output, own_session=own_session, supervise=supervise
    )
