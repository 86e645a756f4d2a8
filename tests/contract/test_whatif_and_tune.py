# SPDX-License-Identifier: Apache-2.0
"""``ttmem whatif`` and ``ttmem tune`` as they are typed: answers, exit codes, patches that are applied and run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ttmem
from support.captured_scripts import HEAD, Capture, captured
from support.command_line import call
from ttmem.engines.interpreters import Interpreter
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.profile import profile_file
from ttmem.profile.model import Profile
from ttmem.tuning.captured_run import read_captured_run
from ttmem.tuning.edited_run import start_edits
from ttmem.tuning.figures import compute_figures

pytestmark = pytest.mark.oracle

MODEL = """
class Block:
    def __init__(self):
        self.weight = make(1, 1, 1024, 1024)

    def __call__(self, x):
        hidden = ttnn.matmul(x, self.weight)
        active = ttnn.gelu(hidden)
        for _ in range(2):
            scaled = ttnn.multiply(active, active)
        return ttnn.add(scaled, x)


blocks = [Block(), Block()]
start = make(1, 1, 1024, 1024)
states = [start]
for block in blocks:
    state = block(states[-1])
    states.append(state)
wide = make(1, 2, 1024, 1024, memory=L1)
small = ttnn.sum(wide, dim=1)
last = ttnn.softmax(states[-1], dim=-1)
ttnn.close_device(device)
"""


@pytest.fixture(scope="module")
def captured_model(
    ttnn_interpreter: Interpreter, engines_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Profile]:
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("TTMEM_HOME", str(engines_home))
        patch.setenv("TTMEM_TTNN_PYTHON", ttnn_interpreter.path)
        profile = captured(MODEL)
    profile_file.save(profile, folder / "model.ttmem")
    return folder, profile


@pytest.fixture
def model(
    captured_model: tuple[Path, Profile], with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Profile:
    """In a folder of its own, where a patch may be applied."""
    folder, profile = captured_model
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return profile


def test_whatif_says_what_changes_and_stores_it(model: Profile, tmp_path: Path) -> None:
    done = call("whatif", "model.ttmem", "free:hidden@17", "memory:wide=DRAM", "--name", "changed", "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["schema"] == "ttmem.whatif/1"
    assert [one["edit"] for one in answer["edits"]] == ["free:hidden@17", "memory:wide=DRAM"]
    assert answer["edits"][0]["tensors"] == 2  # of both blocks
    assert answer["after"]["L1"]["peak_bytes_per_bank"] < answer["before"]["L1"]["peak_bytes_per_bank"]
    assert answer["first_failure"] is None
    # the stored run is one like any other
    compared = json.loads(call("diff", "model.ttmem", "changed", "--json").out)
    peak = answer["after"]["L1"]["peak_bytes_per_bank"]
    assert compared["memories"]["L1"]["after"] == peak
    assert "before" in call("whatif", "model.ttmem", "free:hidden@17").out


def test_an_option_says_the_same_as_its_edit(model: Profile) -> None:
    written = {
        ("--free-early", "hidden@17"): "free:hidden@17",
        ("--inplace", "active"): "inplace:active",
        ("--memory", "wide=DRAM"): "memory:wide=DRAM",
        ("--dtype", "weights=bfloat8_b"): "dtype:weights=bfloat8_b",
        ("--shard", "wide=height:32x1024@8x8"): "shard:wide=height:32x1024@8x8",
        ("--chunk", "gelu@18:4"): "chunk:gelu@18=4",
        ("--order", "wide=first"): "order:wide=first",
        ("--region", "TRACE=1048576"): "region:TRACE=1048576",
        ("--board", "p150"): "board=p150",
    }
    for words, edit in written.items():
        done = call("whatif", "model.ttmem", *words, "--json")
        assert json.loads(done.out) == json.loads(call("whatif", "model.ttmem", edit, "--json").out)
    together = [("--free-early", "hidden@17"), ("--memory", "wide=DRAM"), ("--chunk", "gelu@18:4"), ("--board", "p150")]
    done = call("whatif", "model.ttmem", *(word for pair in together for word in pair), "--json")
    assert [one["edit"] for one in json.loads(done.out)["edits"]] == [written[pair] for pair in together]
    for words in (("--chunk", "gelu@18"), ("--memory", "wide"), ("--free-early", "nobody")):
        done = call("whatif", "model.ttmem", *words)
        assert (done.code, done.out) == (2, "")


def test_a_trace_region_without_a_trace_is_given_back(
    with_ttnn: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a device whose trace region leaves too little for the tensors, and a program that captures no trace
    monkeypatch.chdir(tmp_path)
    head = HEAD.replace("device_id=0", "device_id=0, trace_region_size=11 * 1024**3")
    profile = captured("x = make(1, 32, 4096, 4096)\ny = ttnn.relu(x)\nz = ttnn.relu(y)\n", head=head)
    # THEN that is what is found and what is to be changed, as the mock says
    found = ttmem.tune(profile, target="fits", verify=True, output=2)
    assert [(one.kind, one.memory) for one in found.findings] == [("unused-region", "TRACE")]
    assert [str(one.edit) for one in found.applied] == ["region:TRACE=0"]
    assert found.reached and found.verified is not None and found.verified.agrees  # noqa: PT018
    assert "trace_region_size=0)" in found.patch().text


def test_an_edit_that_means_nothing_is_bad_input(model: Profile) -> None:
    for edit, said in {
        "free:hiden@17": "did you mean hidden",
        "free:hidden@3": "it is at script.py:17",
        "memory:wide=SRAM": "unknown memory",
        "inplace:small": "no input of its operation",
        "chunk:#999=2": "they are #0",
        "chunk:#1=x": "chunk:#47=4",
        "region:L9=0": "region:L1_SMALL=0",
        "shard:wide=odd": "height:64x512@8x8",
        "board=n15o": "n15o",
        "order:small=last": "only uploads",
        "dtype:active=float32": "change its inputs",
    }.items():
        with pytest.raises(ttmem.TtmemError) as raised:
            ttmem.whatif(model, [edit])
        assert said in f"{raised.value} {raised.value.hint}"
    done = call("whatif", "model.ttmem", "free:hiden@17")
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err


def test_every_kind_of_edit_gives_a_run(model: Profile) -> None:
    edits = [
        "inplace:active",
        "dtype:*.weight=bfloat8_b",
        "shard:wide=height:32x1024@8x8",
        "order:wide=first",
        "region:TRACE=1048576",
        "board=p150",
    ]
    for edit in edits:
        found = ttmem.whatif(model, [edit])
        assert found.after.fits
        assert found.profile().to_json()["operations"] == model.to_json()["operations"]
    bounded = {edit: ttmem.whatif(model, [edit]).applied[0].confidence for edit in edits}
    assert bounded["board=p150"] == "bounded"
    assert bounded["inplace:active"] == bounded["order:wide=first"] == "exact"


def test_a_patch_applies_and_the_patched_script_has_the_promised_peak(model: Profile, tmp_path: Path) -> None:
    # GIVEN edits that are plain text
    words = ("--max-dram", "1000KiB", "--patch", "smaller.diff", "--json", "--verify", "--script", "script.py")
    done = call("tune", "model.ttmem", *words, timeout=200)
    assert "--verify runs: script.py" in done.err
    answer = json.loads(done.out)
    assert answer["verified"]["agrees"], answer
    # WHEN the patch is applied and the script is run
    patch = tmp_path / "smaller.diff"
    assert "+++ b/script.py" in patch.read_text()
    subprocess.run(["patch", "-p1", "-i", str(patch)], cwd=tmp_path, check=True, capture_output=True)
    compile((tmp_path / "script.py").read_text(), "script.py", "exec")
    again = run_script("script.py", settings=RunSettings(), output=2)
    # THEN its peaks are the promised ones
    if not answer["not_in_patch"]:
        memories = again.profile.to_json()["memories"]
        assert memories["DRAM"]["peak_bytes_per_bank"] == answer["after"]["DRAM"]["peak_bytes_per_bank"]
    assert again.status == 0


@pytest.mark.usefixtures("with_ttnn")
@pytest.mark.parametrize(
    ("example", "wanted"),
    [
        ("out_of_memory.py", {"target": "fits", "verify": True}),
        ("out_of_memory_fixed.py", {"max_l1": "35%"}),
        ("transformer_block.py", {"max_l1": "60%"}),
    ],
)
def test_the_patch_of_an_example_applies_and_runs_with_the_promised_peak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str, wanted: dict[str, Any]
) -> None:
    # GIVEN an example of this repository, in a checkout of its own
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    script = shutil.copy(Path(__file__).parents[2] / "examples" / example, "examples")
    profile = run_script(script, settings=RunSettings(), output=2).profile
    # WHEN it is tuned, and the patch is applied
    tuned = ttmem.tune(profile, output=2, **wanted)
    patch = tuned.patch()
    assert (tuned.reached, patch.left_out) == (True, ())
    Path("smaller.diff").write_text(patch.text)
    subprocess.run(["git", "apply", "smaller.diff"], check=True, capture_output=True)
    compile(Path(script).read_text(), script, "exec")
    # THEN it runs, as full as was promised to the byte
    again = run_script(script, settings=RunSettings(), output=2)
    assert again.status == 0
    after = compute_figures(start_edits(read_captured_run(again.profile)))
    assert after.dram_peak_bytes_per_bank == tuned.after.dram_peak_bytes_per_bank
    assert after.l1_peak_bytes_per_bank == tuned.after.l1_peak_bytes_per_bank
    assert after.peak("L1") <= tuned.after.peak("L1") < tuned.before.peak("L1")


def test_a_target_that_cannot_be_reached_is_told(model: Profile) -> None:
    done = call("tune", "model.ttmem", "--max-dram", "1KiB", "--json")
    assert done.code == 1
    assert json.loads(done.out)["reached"] is False
    assert "not reached" in call("tune", "model.ttmem", "--max-dram", "1KiB").out


def test_sources_without_events_are_refused() -> None:
    done = call("tune", "docs/examples/transformer-five-runs.log.gz")
    assert done.code == 2
    assert "Traceback" not in done.err


def test_an_edit_that_lowers_no_peak_is_not_listed_where_the_limit_is_out_of_reach(capture: Capture) -> None:
    # GIVEN a run that takes far more than the limit whatever is edited
    body = """
    a, b, c = (make(1, 1, 1024, 2048) for _ in range(3))
    d = ttnn.relu(ttnn.add(ttnn.add(a, b), c))
    e = ttnn.relu(ttnn.add(d, a))
    """
    profile = capture(body)
    tuned = ttmem.tune(profile, max_dram="1KiB")
    assert not tuned.reached
    # THEN without any one of its edits a peak is higher
    edits = [str(step.applied.edit) for step in tuned.steps]
    assert edits
    for one in edits:
        rest = [other for other in edits if other != one]
        without = ttmem.whatif(profile, rest).after if rest else tuned.before
        assert (without.peak("DRAM"), without.peak("L1")) > (tuned.after.peak("DRAM"), tuned.after.peak("L1"))
