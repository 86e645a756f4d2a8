# SPDX-License-Identifier: Apache-2.0
"""Code that ``tune`` prints, typed as it is printed: the script runs to its end with the promised peak."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

import ttmem
from support.captured_scripts import Capture
from support.examples import examples
from support.typed_programs import script
from ttmem.engines.run_script import RunSettings, ScriptRun, run_script
from ttmem.profile.model import Profile
from ttmem.tuning.apply_edit import compute_effect
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.edited_run import start_edits
from ttmem.tuning.edits import FREE, Edit
from ttmem.tuning.figures import Figures, compute_figures
from ttmem.tuning.groups import list_groups, name_group
from ttmem.tuning.patch import Patch, build_patch

pytestmark = pytest.mark.oracle
EXAMPLES = int(os.environ.get("TTMEM_ORACLE_CASES") or 2)
_SETTINGS = RunSettings(measure_programs=False)


def peaks(found: Figures) -> tuple[int, int]:
    """DRAM and L1."""
    return found.dram_peak_bytes_per_bank, found.l1_peak_bytes_per_bank


def typed(text: str, patched: Patch) -> str:
    """A script with the lines that the edits print, from the last to the first."""
    lines = text.splitlines(keepends=True)
    for hunk in sorted(patched.hunks.values(), key=lambda one: -one.line):
        if hunk.inserted:
            lines.insert(hunk.line, f"{hunk.inserted}\n")
    return "".join(lines)


def frees(profile: Profile) -> tuple[Patch, Figures]:
    """All frees that can be written, and the peaks that they promise together."""
    run = read_captured_run(profile)
    draft, chosen = start_edits(run), []
    for group in list_groups(run):
        try:
            applied = compute_effect(draft, Edit(FREE, *name_group(run, group)), (group,))
        except ttmem.TtmemError:
            continue  # it is freed there already
        if not build_patch(run, [applied]).left_out:
            chosen.append(applied)
            draft = applied.apply_to(draft)
    return build_patch(run, chosen), compute_figures(draft)


def run_again(arguments: tuple[str, ...] = ()) -> ScriptRun:
    return run_script("script.py", list(arguments), settings=_SETTINGS, output=2)


def test_printed_frees_of_random_programs_run_as_promised(capture: Capture) -> None:
    @examples(EXAMPLES, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        # GIVEN programs that name tensors in every way, and run differently with an argument
        text = script(random.Random(seed), 6)
        profile = capture(text, head="")
        other = run_again(("other",))
        # WHEN every free that can be written is, as it is printed
        found, promised = frees(profile)
        Path("smaller.diff").write_text(found.text)
        if not found.text:
            return
        assert os.system("git apply smaller.diff") == 0
        assert found.left_out == ()
        # THEN the run that was captured ends as before, with the promised peaks, and another run ends as before
        again = run_again()
        assert again.status == 0, (seed, found.text)
        assert peaks(compute_figures(start_edits(read_captured_run(again.profile)))) == peaks(promised), (
            seed,
            found.text,
        )
        assert run_again(("other",)).status == other.status, (seed, found.text)

    check()


FORMS = {
    "rebound in a loop": (
        """
        def main():
            x = make(1, 1, 1024, 1024)
            kept = []
            for _ in range(4):
                x = ttnn.gelu(x)
                kept.append(x)

        main()
        """,
        ["previous_x = x", "ttnn.deallocate(previous_x)"],
    ),
    "rebound once": (
        """
        x = make(1, 4, 1024, 1024)
        kept = [x]
        x = ttnn.gelu(x)
        y = ttnn.relu(x)
        """,
        ["previous_x = x", "ttnn.deallocate(previous_x)"],
    ),
    "after the loop that reads it": (
        """
        def main():
            x = make(1, 4, 1024, 1024)
            for _ in range(2):
                y = ttnn.relu(x)
            z = ttnn.relu(y)
            z = ttnn.relu(z)

        main()
        """,
        ["    ttnn.deallocate(x)"],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_printed_can_be_typed(capture: Capture, name: str) -> None:
    body, code = FORMS[name]
    # GIVEN a script with a tensor that is freed late, or never
    profile = capture(body)
    before = read_captured_run(profile)
    group = list_groups(before)[0]
    what = ttmem.whatif(profile, [str(Edit(FREE, *name_group(before, group)))])
    # WHEN its free is printed
    found = build_patch(before, what.applied)
    (hunk,) = found.hunks.values()
    assert [line[1:].strip() for line in hunk.text().splitlines() if line[0] == "+"] == [one.strip() for one in code]
    if len(code) == 1:
        assert hunk.inserted == code[0]
        Path("script.py").write_text(typed(Path("script.py").read_text(), found))
    else:
        assert not hunk.inserted  # one line alone would free the new value
        Path("smaller.diff").write_text(found.text)
        assert os.system("git apply smaller.diff") == 0
    # THEN it runs to its end, with the promised peak
    again = run_again()
    assert again.status == 0
    assert peaks(compute_figures(start_edits(read_captured_run(again.profile)))) == peaks(what.after)
    assert peaks(what.after) < peaks(what.before)


NOT_WRITTEN = {
    "a name of another function": (
        """
        def block(h):
            inner = ttnn.gelu(h)
            return inner

        def main():
            h = make(1, 4, 1024, 1024)
            outer = block(h)
            y = ttnn.sum(outer, dim=1)
            z = make(1, 4, 1024, 1024)
            z = ttnn.gelu(z)

        main()
        """,
        "inner",
    ),
    "weights in a dictionary": (
        """
        def load():
            weights = {}
            for key in ("a", "b"):
                weights[key] = make(1, 4, 1024, 1024)
            return weights

        def model(weights, x):
            y = ttnn.add(x, weights["a"])
            z = ttnn.add(y, weights["b"])
            return ttnn.gelu(z)

        def main():
            weights = load()
            for _ in range(2):
                out = model(weights, make(1, 4, 1024, 1024))

        main()
        """,
        "weights",
    ),
    "one value or another": (
        """
        import sys

        def choose(x):
            return x if len(sys.argv) > 5 else ttnn.relu(x)

        def main():
            x = make(1, 4, 1024, 1024)
            y = choose(x)
            z = ttnn.sum(y, dim=1)
            w = make(1, 4, 1024, 1024)
            z = ttnn.gelu(w)
            z = ttnn.exp(x)

        main()
        """,
        "y",
    ),
}


@pytest.mark.parametrize("name", NOT_WRITTEN)
def test_what_no_line_can_do_is_not_printed_as_code(capture: Capture, name: str) -> None:
    body, tensor = NOT_WRITTEN[name]
    profile = capture(body)
    for answer in (ttmem.tune(profile), ttmem.tune(profile, max_dram="1KiB")):
        for edit in answer.document().edits:
            if edit.kind == FREE and edit.tensor.startswith(tensor):
                assert edit.code is None
                assert not edit.in_patch
                assert edit.why_not_in_patch
                assert edit.change.startswith("free `")
                assert "weights" not in tensor  # nor proposed: the next call needs them


def test_what_the_source_reads_later_is_no_candidate(capture: Capture) -> None:
    # GIVEN a clash with what a later line still reads
    profile = capture("""
    b = ttnn.zeros([1, 1, 2048, 4096], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=L1)
    c = ttnn.zeros([1, 1, 2048, 10240], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=L1)
    d = ttnn.softmax(c, dim=-1, memory_config=DRAM)
    e = ttnn.relu(b)
    """)
    # THEN what is proposed is another kind of edit, which the source allows
    found = ttmem.tune(profile, target="fits", verify=True, output=2)
    kinds = {one.edit.kind for one in found.applied}
    assert not any(one.edit.kind == FREE and one.edit.target == "b" for one in found.applied)
    assert kinds == {"memory"}
    assert found.reached
    assert found.patch().left_out == ()


def test_nothing_is_written_over_what_a_container_keeps_and_a_line_reads(capture: Capture) -> None:
    profile = capture("""
    class Holder:
        pass

    def main(holder):
        x = make(1, 4, 1024, 1024)
        kept = [x]
        y = ttnn.gelu(x)
        holder.last = y
        z = ttnn.relu(y)
        named = {"z": z}
        w = ttnn.exp(z)
        if len(kept) > 5:
            print(ttnn.relu(kept[0]), ttnn.relu(holder.last), ttnn.relu(named["z"]))

    main(Holder())
    """)
    for answer in (ttmem.tune(profile), ttmem.tune(profile, max_dram="1KiB")):
        assert not [str(one.edit) for one in answer.applied if one.edit.kind in ("inplace", FREE)]


def test_every_edit_says_whether_it_is_in_the_patch(capture: Capture) -> None:
    profile = capture("""
    def main():
        x = make(1, 4, 1024, 1024)
        y = ttnn.gelu(x)
        z = ttnn.sum(y, dim=1)
        w = make(1, 4, 1024, 1024)
        w = ttnn.gelu(w)
        if w is None:
            print(y)

    main()
    """)
    answer = ttmem.tune(profile, max_dram="1KiB").document()
    assert answer.edits
    for edit in answer.edits:
        assert edit.in_patch == (edit.edit not in answer.not_in_patch) == (not edit.why_not_in_patch)
        assert bool(edit.hunk) or not edit.in_patch
        assert edit.code is None or f"+{edit.code}" in edit.hunk.splitlines()


def test_what_is_certain_comes_before_what_saves_more(capture: Capture) -> None:
    # GIVEN a clash with two tensors, either of which may move to DRAM; of the larger one nothing can be promised
    profile = capture("""
    b = ttnn.to_memory_config(make(1, 1, 512, 10240), L1)
    c = make(1, 1, 512, 9216, memory=L1)
    d = ttnn.softmax(c, dim=-1, memory_config=DRAM)
    e = ttnn.relu(b, memory_config=DRAM)
    """)
    (unknown,) = (one.confidence for one in ttmem.whatif(profile, ["memory:b=DRAM"]).applied)
    assert unknown == "unknown"
    # THEN the other one is proposed, and proven
    found = ttmem.tune(profile, target="fits", verify=True, output=2)
    assert [str(one.edit) for one in found.applied] == ["memory:c@13=DRAM"]
    assert found.reached
    assert found.verified is not None
    assert found.verified.agrees


def test_what_is_looked_up_moves_with_the_indices(capture: Capture) -> None:
    # GIVEN an embedding of indices in L1, whose result is there too
    profile = capture("""
    shape = ttnn.Shape([4, 1024])
    indices = ttnn.allocate_tensor_on_device(shape, ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT, device, L1)
    table = make(4096, 512, layout=ttnn.ROW_MAJOR_LAYOUT)
    words = ttnn.embedding(indices, table, layout=ttnn.TILE_LAYOUT)
    out = ttnn.relu(words)
    """)
    # WHEN the indices move to DRAM
    what = ttmem.whatif(profile, ["memory:indices=DRAM"])
    Path("smaller.diff").write_text(build_patch(read_captured_run(profile), what.applied).text)
    assert os.system("git apply smaller.diff") == 0
    # THEN the result does, and all that follows it, as promised
    again = run_again()
    assert again.status == 0
    assert what.applied[0].confidence == "exact"
    assert peaks(compute_figures(start_edits(read_captured_run(again.profile)))) == peaks(what.after)
    assert what.after.l1_peak_bytes_per_bank == 0


def test_nothing_is_promised_of_a_convolution_whose_input_moves(capture: Capture) -> None:
    # GIVEN a convolution of a tensor in L1, which is sharded there, and sliced when it comes from DRAM
    profile = capture("""
    x = make(1, 1, 4096, 64, memory=L1, layout=ttnn.ROW_MAJOR_LAYOUT)
    weight = ttnn.zeros([64, 64, 3, 3], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
    sizes = {"in_channels": 64, "out_channels": 64, "batch_size": 1, "input_height": 64, "input_width": 64}
    more = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)}
    y = ttnn.conv2d(input_tensor=x, weight_tensor=weight, device=device, **sizes, **more)
    """)
    what = ttmem.whatif(profile, ["memory:x=DRAM"])
    assert [one.confidence for one in what.applied] == ["unknown"]
