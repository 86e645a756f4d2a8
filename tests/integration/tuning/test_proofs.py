# SPDX-License-Identifier: Apache-2.0
"""``ttmem tune --verify``: what is run, what a run proves, and what becomes of an edit that breaks the script."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path

import pytest

import ttmem
from support.captured_scripts import HEAD, Capture
from support.command_line import call
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.profile import profile_file

pytestmark = pytest.mark.oracle
_GENERATED = '''
CODE = """
first = make(1, 1, 4096, 2048, memory=L1)
second = ttnn.relu(first)
third = ttnn.relu(second)
fourth = ttnn.relu(third)
fifth = ttnn.relu(fourth)
sixth = ttnn.relu(fifth)
{then}
"""
exec(compile(CODE, "made.py", "exec"), globals())
'''
"""No source says that ``first`` is read again, and the captured run ended before that."""
_LAST = "a, b, c, d, e = (make(1, 1, 4096, 2048, memory=L1) for _ in range(5))\nz = ttnn.gelu(e)\n"
_SMALL = "x = make(1, 1, 1024, 1024)\ny = ttnn.gelu(x)\nz = ttnn.relu(y)\n"


def stored(body: str, *words: str) -> str:
    """The script as 'ttmem run' captured and stored it; its name."""
    Path("script.py").write_text(HEAD + textwrap.dedent(body))
    call("run", "script.py", "--name", "captured", *words)
    return "captured"


def test_an_edit_that_breaks_the_script_is_given_up_for_the_next(capture: Capture) -> None:
    # GIVEN a run whose cheapest edit frees a tensor that is read behind the failure, which the run never came to
    profile = capture(_GENERATED.format(then="seventh = ttnn.add(first, sixth)"))
    # WHEN it is tuned with a proof
    tuned = ttmem.tune(profile, target="fits", verify=True, output=2)
    # THEN that edit was tried and is not among the answer's, which fits
    assert tuned.verified is not None
    (dropped,) = tuned.verified.dropped
    assert dropped.edit not in map(str, (one.edit for one in tuned.applied))
    assert dropped.reason.startswith("the script ended with RuntimeError")
    assert (tuned.verified.agrees, tuned.verified.reason, tuned.reached) == (True, "", True)


@pytest.mark.parametrize(
    ("then", "end"),
    [
        ("import os, signal\nfirst.is_allocated() or os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import time\nfirst.is_allocated() or time.sleep(600)", "TimeoutExpired"),
        ("first.is_allocated() or unknown_name", "NameError"),
        ("import sys\nfirst.is_allocated() or sys.exit(7)", "SystemExit"),
    ],
)
def test_a_run_that_ends_otherwise_proves_nothing(capture: Capture, then: str, end: str) -> None:
    # GIVEN a run in which nothing can be changed but what the script cannot do without
    profile = capture(_GENERATED.format(then=then).replace("2048, memory=L1)", "2048, memory=L1)\nkept = first"))
    # WHEN it is tuned with a proof
    tuned = ttmem.tune(profile, target="fits", verify=True, timeout=30, output=2)
    # THEN the edit is not said to keep its promise
    assert tuned.verified is not None
    if tuned.verified.dropped:
        assert end in tuned.verified.dropped[0].reason
    else:
        assert tuned.verified.agrees is not True
        assert end in tuned.verified.reason


def test_an_end_of_the_scripts_own_is_not_a_want_of_memory(capture: Capture) -> None:
    # GIVEN a script that checks values, which a mock does not have
    profile = capture(f"{_SMALL}assert False, 'PCC nan'\n")
    profile_file.save(profile, Path("checked.ttmem"))
    # WHEN its peaks are asked for, and a target that it reaches
    changed = json.loads(call("whatif", "checked.ttmem", "free:x", "--json").out)
    tuned = call(
        "tune", "checked.ttmem", "--target", "fits", "--verify", "--script", "script.py", "--json", timeout=200
    )
    # THEN it fits, and its end is reported
    line = len((HEAD + _SMALL).splitlines()) + 1
    sentence = f"the script ended with AssertionError at script.py:{line} (not memory)"
    assert (changed["after"]["fits"], changed["after"]["ended"], changed["first_failure"]) == (True, sentence, None)
    answer = json.loads(tuned.out)
    assert (tuned.code, answer["reached"], answer["before"]["fits"], answer["verified"]["agrees"]) == (
        0,
        True,
        True,
        True,
    )
    done = call("whatif", "checked.ttmem", "free:x")
    assert done.code == 0
    assert f"fits as far as it ran; {sentence}" in " ".join(done.out.split())


def test_the_proof_of_a_run_whose_last_call_failed(capture: Capture) -> None:
    # GIVEN a run that ended at its last line, so that no operation comes behind the failure
    profile = capture(_LAST)
    # WHEN that call is served
    changed = ttmem.whatif(profile, ["memory:z=DRAM"])
    tuned = ttmem.tune(profile, target="fits", verify=True, output=2)
    # THEN its result is in the promise, and the proof agrees
    assert changed.after.fits
    assert changed.after.dram_peak_bytes_per_bank >= 4096 * 2048 * 2 // 12
    assert tuned.reached
    assert tuned.verified is not None
    assert (tuned.verified.agrees, tuned.verified.reason) == (True, "")
    assert tuned.after.dram_peak_bytes_per_bank == tuned.verified.dram_peak_bytes_per_bank
    assert tuned.after.l1_peak_bytes_per_bank == tuned.verified.l1_peak_bytes_per_bank


@pytest.mark.parametrize("then", ["", "y = ttnn.relu(z)\n"])
def test_an_end_of_the_scripts_own_behind_the_failure_gives_no_edit_up(capture: Capture, then: str) -> None:
    # GIVEN a run that ended out of memory before it came to a check of values, which a mock does not have
    profile = capture(f"{_LAST}{then}assert False, 'PCC nan'\n")
    # WHEN it is tuned with a proof
    tuned = ttmem.tune(profile, target="fits", verify=True, output=2)
    # THEN memory is enough, no edit is to blame, and the end is reported: behind it nothing is proven
    assert tuned.reached
    assert tuned.verified is not None
    assert (tuned.verified.fits, tuned.verified.agrees, tuned.verified.dropped) == (True, None, ())
    assert tuned.verified.reason.startswith("the script ended with AssertionError at script.py:")
    assert tuned.document().to_json()["after"]["fits"] is True


def test_the_patch_has_figures_of_its_own(capture: Capture) -> None:
    # GIVEN edits of which one is no text: a tensor that has another name in the function that makes it
    profile = capture("""
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
    """)
    profile_file.save(profile, Path("names.ttmem"))
    answer = json.loads(call("tune", "names.ttmem", "--max-dram", "1KiB", "--patch", "smaller.diff", "--json").out)
    plain = json.loads(call("tune", "names.ttmem", "--max-dram", "1KiB", "--json").out)
    # THEN 'patched' is the run with the others, as the mock says, and null where no patch was asked for
    assert plain["patched"] is None
    assert {one["in_patch"] for one in answer["edits"]} == {True, False}
    assert answer["patched"]["DRAM"]["peak_bytes_per_bank"] > answer["after"]["DRAM"]["peak_bytes_per_bank"]
    subprocess.run(["patch", "-p1", "-i", "smaller.diff"], check=True, capture_output=True)
    again = run_script("script.py", settings=RunSettings(), output=2).profile.to_json()["memories"]
    assert again["DRAM"]["peak_bytes_per_bank"] == answer["patched"]["DRAM"]["peak_bytes_per_bank"]
    shown = call("tune", "names.ttmem", "--max-dram", "1KiB", "--patch", "again.diff").out
    assert "the patch alone: DRAM" in " ".join(shown.split())


def test_a_patch_without_edits_is_not_written(capture: Capture) -> None:
    profile_file.save(capture(_SMALL), Path("small.ttmem"))
    done = call("tune", "small.ttmem", "--target", "fits", "--patch", "smaller.diff")
    assert done.code == 0
    assert not Path("smaller.diff").exists()
    assert "was not written" in done.err


def test_a_saved_profile_does_not_choose_what_runs(capture: Capture) -> None:
    # GIVEN a file of unknown origin that names a script and arguments
    profile = capture("from pathlib import Path\nPath('it_ran').touch()\n" + _SMALL)
    profile_file.save(profile, Path("foreign.ttmem"))
    Path("it_ran").unlink()
    # THEN nothing is run, whether it is read as a file or under the name that it was stored under
    call("profile", "foreign.ttmem", "--name", "copied")
    for source in ("foreign.ttmem", "copied"):
        done = call("tune", source, "--verify")
        assert (done.code, done.out) == (2, "")
        assert "does not choose which script is run" in done.err
        assert "--script script.py" in done.err
        assert not Path("it_ran").exists()
    # WHEN the user names it
    done = call("tune", "foreign.ttmem", "--verify", "--script", "script.py one 'two three'", timeout=200)
    assert (done.code, Path("it_ran").exists()) == (0, True)
    assert "--verify runs: script.py one 'two three'" in done.err
    for script in ("", "'", "nosuch.py"):
        assert call("tune", "foreign.ttmem", "--verify", "--script", script).code == 2


@pytest.mark.usefixtures("with_ttnn")
def test_what_this_user_captured_is_run_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTMEM_HOME", str(tmp_path / "home"))
    name = stored(_SMALL, "--", "--batch", "4")
    done = call("tune", name, "--verify", timeout=200)
    assert done.code == 0, done.err
    assert "--verify runs: script.py --batch 4" in done.err


def test_a_loop_of_links_in_the_place_of_the_script(capture: Capture) -> None:
    profile_file.save(capture(_LAST), Path("last.ttmem"))
    Path("script.py").unlink()
    Path("other.py").symlink_to("script.py")
    Path("script.py").symlink_to("other.py")
    for words in (
        (),
        ("--target", "fits"),
        ("--patch", "p.diff"),
        ("--verify",),
        ("--verify", "--script", "script.py"),
    ):
        done = call("tune", "last.ttmem", *words)
        assert done.code in (0, 1, 2)
        assert "internal error" not in done.err
        assert "Traceback" not in done.err


def test_a_second_crash_at_the_same_line_is_no_end_of_the_scripts_own(tmp_path: Path) -> None:
    # GIVEN a script that runs out of L1, and reads two of its tensors afterwards where no name shows it
    script = tmp_path / "model.py"
    script.write_text(_READS_BY_FRAME)
    # WHEN edits are proven
    tuned = ttmem.tune(ttmem.run(str(script)).profile, target="fits", verify=True)
    # THEN a free of either, which ends in a crash at the same line, is given up
    assert tuned.verified is not None
    assert {one.edit.partition("@")[0] for one in tuned.verified.dropped} >= {"free:a", "free:b"}
    assert not any(str(step.applied.edit).startswith(("free:a@", "free:b@")) for step in tuned.steps)
    assert (tuned.verified.agrees, tuned.reached) == (True, True)


_READS_BY_FRAME = """\
import inspect

import ttnn

device = ttnn.open_device(device_id=0)


def make():
    shape = ttnn.Shape([1, 1, 4096, 2048])
    return ttnn.allocate_tensor_on_device(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


def use(name):
    return ttnn.relu(inspect.currentframe().f_back.f_locals[name], memory_config=ttnn.DRAM_MEMORY_CONFIG)


def main():
    a = make()
    b = ttnn.relu(a)
    c = ttnn.relu(b)
    d = ttnn.exp(c)
    e = ttnn.exp(d)
    f = ttnn.abs(e)
    use("a")
    use("b")


main()
"""
