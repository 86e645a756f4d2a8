# SPDX-License-Identifier: Apache-2.0
"""Edits as text, in statements of every form: the patch applies, is Python, and the script keeps the promise then."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

import ttmem
from support.captured_scripts import Capture
from ttmem.engines.run_script import RunSettings, ScriptRun, run_script
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.edited_run import start_edits
from ttmem.tuning.figures import compute_figures
from ttmem.tuning.patch import Patch, build_patch

pytestmark = pytest.mark.oracle

FORMS = """
    late = make(1, 2, 512, 512)  # comes down with its comment
    a, b = make(1, 1, 512, 512), make(1, 2, 512, 512)
    s, t = ttnn.sum(a, dim=1), ttnn.sum(b, dim=1)
    c = make(1, 1, 512, 512); d = ttnn.sum(c, dim=1)
    if (e := make(1, 1, 256, 512)) is not None:
        f = ttnn.sum(input_tensor=e, dim=1)
    g = make(1, 1, 256, 256) if f is not None else None
    h = ttnn.relu(g); i = ttnn.gelu(input_tensor=h)
    low = ttnn.zeros([1, 1, 256, 256], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, L1)
    cut = ttnn.zeros([1, 1, 512, 256], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=L1)
    j = ttnn.add(ttnn.relu(cut, memory_config=DRAM), ttnn.exp(cut, memory_config=DRAM))
    k = ttnn.exp(ttnn.relu(low, memory_config=DRAM), memory_config=L1)
    z = ttnn.relu(late)
    """
EDITS = {
    "free:a": "ttnn.deallocate(a)",
    "free:b": "ttnn.deallocate(b)",
    "free:c": "ttnn.deallocate(c)",
    "free:e": "ttnn.deallocate(e)",
    "inplace:i": "i = ttnn.gelu(input_tensor=h, output_tensor=h)",
    "memory:low=DRAM": "ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)",
    "memory:k=DRAM": "ttnn.relu(low, memory_config=DRAM), memory_config=ttnn.DRAM_MEMORY_CONFIG)",
    "shard:cut=height:64x256@8x1": "create_sharded_memory_config((64, 256), ttnn.CoreGrid(x=8, y=1)",
    "order:late=last": "late = make(1, 2, 512, 512)  # comes down",
}


def test_statements_of_every_form_are_patched_and_keep_the_promise(capture: Capture) -> None:
    # GIVEN a program that names tensors in tuples, on shared lines, in conditions and as plain arguments
    profile = capture(FORMS)
    # WHEN edits of most kinds are written as a patch, and it is applied
    answer = ttmem.whatif(profile, list(EDITS))
    found = build_patch(answer.draft.history, answer.applied)
    added = [line for line in found.text.splitlines() if line.startswith("+")]
    assert found.left_out == ()
    assert [edit for edit, text in EDITS.items() if not any(text in line for line in added)] == []
    again = _applied(found)
    # THEN it runs with the peaks that were promised
    assert again.status == 0
    after = compute_figures(start_edits(read_captured_run(again.profile)))
    assert after.dram_peak_bytes_per_bank == answer.after.dram_peak_bytes_per_bank
    assert after.l1_peak_bytes_per_bank == answer.after.l1_peak_bytes_per_bank
    assert after.l1_peak_with_programs_bytes_per_core == answer.after.l1_peak_with_programs_bytes_per_core


def _applied(found: Patch) -> ScriptRun:
    Path("smaller.diff").write_bytes(found.text.encode())
    subprocess.run(["git", "apply", "smaller.diff"], check=True, capture_output=True)
    return run_script("script.py", settings=RunSettings(), output=2)


def test_what_is_not_plain_text_is_left_out(capture: Capture) -> None:
    profile = capture("""
    first = make(1, 1, 512, 512)
    size = 512
    other = make(1, 1, size, 512)
    size = 256
    x = ttnn.relu(first)
    y = ttnn.exp(ttnn.gelu(x))
    z = ttnn.add(ttnn.relu(x), other)
    """)
    for edit in (
        "chunk:exp=2",  # more than a line
        "order:other=last",  # another size by then, and the statement does something before
        "memory:first=L1",  # the helper makes others, too
    ):
        answer = ttmem.whatif(profile, [edit])
        found = build_patch(answer.draft.history, answer.applied)
        assert (found.text, found.left_out) == ("", (edit,))
        assert found.hunks[edit].why_not


def test_nothing_is_written_over_what_is_freed_or_not_in_tiles(capture: Capture) -> None:
    profile = capture("""
    x = make(1, 1, 512, 512)
    y = ttnn.exp(x)
    z = ttnn.relu(y)
    rows = make(1, 1, 512, 512, layout=ttnn.ROW_MAJOR_LAYOUT)
    more = ttnn.add(rows, rows)
    sum = ttnn.add(more, rows)
    """)
    assert ttmem.whatif(profile, ["inplace:z"]).applied[0].confidence == "exact"
    for edits in (["free:y", "inplace:z"], ["inplace:y", "free:y", "inplace:sum"], ["inplace:sum"]):
        with pytest.raises(ttmem.TtmemError, match="changes nothing"):
            ttmem.whatif(profile, edits)


def test_edits_of_one_of_several_devices_are_made_on_that_one(capture: Capture) -> None:
    # GIVEN two devices at work in turn, of which the second holds more than it needs
    body = """
    import ttnn

    small, large = ttnn.open_device(device_id=0), ttnn.open_device(device_id=1)

    def make(device, *shape):
        return ttnn.zeros(list(shape), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)

    s = make(small, 1, 1, 256, 256)
    big = make(large, 1, 8, 512, 512)
    t = ttnn.relu(s)
    half = ttnn.sum(big, dim=1)
    x = make(large, 1, 4, 512, 512)
    u = ttnn.relu(t)
    y = ttnn.gelu(x)
    z = ttnn.exp(y)
    ttnn.close_device(small)
    ttnn.close_device(large)
    """
    profile = capture(textwrap.dedent(body), head="", board="n300")
    # THEN the promise is kept on that device
    found = ttmem.tune(profile, most=1, verify=True, output=2)
    assert [str(one.edit) for one in found.applied] == ["free:big@10"]
    assert found.verified is not None
    assert found.verified.agrees
    assert found.verified.dram_peak_bytes_per_bank == found.after.dram_peak_bytes_per_bank
    assert found.after.dram_peak_bytes_per_bank < found.before.dram_peak_bytes_per_bank
