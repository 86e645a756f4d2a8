# SPDX-License-Identifier: Apache-2.0
"""``tt-memory-profiler``: the child's output, log and status, whatever happens to it."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import FIVE_RUNS, Result, call, command_line, environment, start
from ttmem.commands.tt_memory_profiler import build_child_environment


def profiler(*arguments: object, **options: object) -> Result:
    return call(*arguments, program="tt-memory-profiler", **options)


def script(text: str, name: str = "model.py") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def the_log() -> Path:
    (log,) = Path("logs").glob("*/*.log")
    return log


@pytest.fixture
def model() -> Path:
    """A model whose output is a runtime log."""
    Path("output.log").write_bytes(gzip.decompress(FIVE_RUNS.read_bytes()))
    return script("import sys; sys.stdout.write(open('output.log').read()); sys.exit(5)", "my model.py")


def test_log_keeps_output_and_status() -> None:
    script("import sys\nprint('out', *sys.argv[1:])\nsys.stderr.write('err\\n')\nsys.exit(7)")
    done = profiler("--log", "model.py", "--batch", "4", "--help", "--", "x y")
    assert done.code == 7
    assert done.out == "out --batch 4 --help -- x y\nerr\n"
    assert the_log().read_text() == done.out
    folder = the_log().parent
    assert folder.name.startswith("model_20")
    assert the_log().name == "model_profile.log"
    assert f"next: tt-memory-profiler --analyze {the_log()}" in done.err
    assert "no operation and no memory state" in done.err
    assert "TT_RUNTIME_MEMORY_LOG_LEVEL=operation" in done.err


def test_a_log_with_runtime_lines_is_not_doubted(model: Path) -> None:
    assert "warning" not in profiler("--log", model).err


def test_a_command_after_two_dashes_is_run_without_a_shell() -> None:
    done = profiler("--log", "--name", "echo", "--", "printf", "%s|", "a b", "$HOME", "; exit 3", "*")
    assert (done.code, done.out) == (0, "a b|$HOME|; exit 3|*|")
    assert the_log().name == "echo_profile.log"


def test_the_model_is_named_after_the_script_also_in_a_command() -> None:
    script("pass", "test_bert.py")
    profiler("--log", "--", sys.executable, "test_bert.py::test_x", "-s")
    assert the_log().name == "test_bert_profile.log"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, 137), (signal.SIGSEGV, 139), (signal.SIGTERM, 143)])
def test_a_killed_child_is_128_plus_the_signal(number: signal.Signals, status: int) -> None:
    script(f"import os; print('before', flush=True); os.kill(os.getpid(), {int(number)})")
    done = profiler("--log", "model.py")
    assert (done.code, done.out) == (status, "before\n")
    assert the_log().read_text() == "before\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--log", "missing.py"], "no such script 'missing.py'"),
        (["missing.py"], "no such script 'missing.py'"),
        (["--log", "--", "no-such-command-at-all"], "no-such-command-at-all: cannot run it: No such file or directory"),
        (
            ["--log", "--python", "nowhere/python", "model.py"],
            "nowhere/python: cannot run it: No such file or directory",
        ),
        (["--log", "--analyze", "model.py"], "choose one of --log and --analyze"),
        (["--log", "-o", "x", "model.py"], "-o goes with --visualize; the log has its own place under ./logs"),
        (["--nonsense", "model.py"], "No such option"),
        (["--log"], "Missing argument"),
        (["--log", "--name", "../x", "model.py"], "'../x' cannot be the name of a report"),
    ],
)
def test_a_failure_of_the_profiler_itself_is_125(arguments: list[str], message: str) -> None:
    script("print('ran')")
    done = profiler(*arguments)
    assert (done.code, done.out) == (125, "")
    assert done.err.splitlines()[-2 if "hint" in done.err else -1].startswith(
        ("tt-memory-profiler: error: " + message,)
    ), done.err


def test_a_place_without_room_for_logs_is_125() -> None:
    script("print('ran')")
    Path("logs").touch()
    done = profiler("--log", "model.py")
    assert (done.code, done.out) == (125, "")


def test_the_child_gets_what_a_full_profile_needs() -> None:
    script("import os; print(*(f'{k}={v}' for k, v in sorted(os.environ.items()) if k[:2] == 'TT'), sep='\\n')")
    clean = {k: v for k, v in environment().items() if not k.startswith("TT")}
    done = profiler("--log", "model.py", env=clean)
    assert done.out.splitlines() == [
        "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG",
        "TTXLA_LOGGER_LEVEL=DEBUG",
        "TT_RUNTIME_MEMORY_LOG_LEVEL=operation",
    ]


def test_the_users_own_settings_win_and_are_mentioned() -> None:
    child, notes = build_child_environment(
        {"TTXLA_LOGGER_LEVEL": "INFO", "TT_RUNTIME_MEMORY_LOG_LEVEL": "any", "PATH": "/bin"}
    )
    assert child == {
        "TTXLA_LOGGER_LEVEL": "INFO",
        "TT_RUNTIME_MEMORY_LOG_LEVEL": "any",
        "TTMLIR_RUNTIME_LOGGER_LEVEL": "DEBUG",
        "PYTHONUNBUFFERED": "1",
        "PATH": "/bin",
    }
    assert notes == ["TTXLA_LOGGER_LEVEL=INFO is kept as you set it (DEBUG is what a full profile needs)"]


def test_a_log_file_of_the_runtime_is_no_detour() -> None:
    child, notes = build_child_environment({"TTMLIR_RUNTIME_LOGGER_FILE": "/elsewhere.log"})
    assert "TTMLIR_RUNTIME_LOGGER_FILE" not in child
    assert len(notes) == 1
    assert "TTMLIR_RUNTIME_LOGGER_FILE=/elsewhere.log is unset" in notes[0]


def test_two_runs_in_one_second_get_two_folders() -> None:
    script("print('x')")
    for _ in range(3):
        assert profiler("--log", "model.py", "-q").code == 0
    assert len(list(Path("logs").glob("*/model_profile.log"))) == 3


def test_quiet_shows_nothing_and_logs_everything() -> None:
    script("print('x')")
    assert profiler("--log", "-q", "model.py") == Result(0, "", "")
    assert the_log().read_text() == "x\n"


def test_large_output_passes_whole() -> None:
    script("import sys\nfor i in range(200_000): print(i, 'x' * 20)")
    done = profiler("--log", "model.py")
    assert done.code == 0
    assert done.out == "".join(f"{i} {'x' * 20}\n" for i in range(200_000))
    assert the_log().read_text() == done.out


def test_output_that_is_no_text_is_kept_byte_for_byte() -> None:
    script("import sys; sys.stdout.buffer.write(bytes(range(256)))")
    profiler("--log", "model.py", text=False)
    assert the_log().read_bytes() == bytes(range(256))


def test_a_reader_that_goes_away_does_not_stop_the_child() -> None:
    script("for i in range(100_000): print(i)\nraise SystemExit(4)")
    child = start("--log", "model.py", program="tt-memory-profiler", stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.wait(timeout=60) == 4
    assert the_log().read_text().endswith("\n99999\n")


def wait_for(text: str, stream: object) -> None:
    for line in stream:  # type: ignore[attr-defined]
        if text in line:
            return


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_child_and_its_own_ending_is_kept(number: signal.Signals) -> None:
    # GIVEN a child that cleans up when it is asked to stop
    script(
        "import signal, sys, time\n"
        "def stop(number, frame): print('cleaning up', flush=True); sys.exit(42)\n"
        f"signal.signal({int(number)}, stop)\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    profiling = start("--log", "model.py", program="tt-memory-profiler")
    wait_for("ready", profiling.stdout)
    # WHEN the profiler is told to stop
    profiling.send_signal(number)
    out, err = profiling.communicate(timeout=60)
    # THEN
    assert (profiling.returncode, out) == (42, "cleaning up\n")
    assert "Traceback" not in err
    assert the_log().read_text() == "ready\ncleaning up\n"


def test_ctrl_c_at_a_terminal_reaches_the_child_once() -> None:
    # GIVEN the profiler in the foreground of a terminal, and a child that counts its interrupts
    script(
        "import signal, sys, time\n"
        "count = []\n"
        "signal.signal(signal.SIGINT, lambda *_: count.append(1))\n"
        "print('ready', flush=True)\n"
        "while not count: time.sleep(0.05)\n"
        "time.sleep(0.5)\n"
        "print('interrupts:', len(count), flush=True)\nsys.exit(42)"
    )
    in_a_terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    terminal = subprocess.Popen(
        [sys.executable, "-c", in_a_terminal, *command_line("--log", "model.py", program="tt-memory-profiler")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    assert terminal.stdin is not None
    assert terminal.stdout is not None
    seen = b""
    while b"ready" not in seen:
        seen += terminal.stdout.read(4096)
    # WHEN Ctrl-C is typed
    terminal.stdin.write(b"\x03")
    seen += terminal.stdout.read()
    # THEN
    assert terminal.wait(timeout=60) == 42
    assert the_log().read_text() == "ready\ninterrupts: 1\n"
    assert b"Traceback" not in seen
    terminal.stdin.close()
    terminal.stdout.close()


def test_ctrl_c_of_an_ordinary_script_is_130() -> None:
    script("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    profiling = start("--log", "model.py", program="tt-memory-profiler")
    wait_for("ready", profiling.stdout)
    profiling.send_signal(signal.SIGINT)
    profiling.communicate(timeout=60)
    assert profiling.returncode == 130


def test_a_background_process_that_keeps_the_pipe_does_not_hold_us() -> None:
    script(
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(p.pid)\nsys.exit(3)"
    )
    done = profiler("--log", "model.py")  # it would run into the time that a call may take
    assert done.code == 3
    os.kill(int(done.out), signal.SIGKILL)


def test_do_it_all(model: Path, home: Path) -> None:
    # WHEN no mode is named THEN the script runs, its story is told, its status is kept
    done = profiler(model)
    assert done.code == 5
    page = home / "reports" / "my_model" / "my_model_report.html"
    assert done.out.splitlines()[-1] == str(page)
    assert "DRAM" in done.out
    assert "MemoryView" not in done.out, "the child's own output is no answer"
    assert "MemoryView" in done.err
    assert "ttmem-report" in page.read_text()
    assert the_log().name == "my_model_profile.log"


def test_do_it_all_with_a_log_without_device_lines(home: Path) -> None:
    script("print('no device here')\nraise SystemExit(6)")
    done = profiler("model.py")
    assert (done.code, done.out) == (6, "")
    assert "tt-memory-profiler: error: logs/" in done.err
    assert "TT_RUNTIME_DEBUG=ON" in done.err, "what to switch on"
    script("print('no device here')")
    assert profiler("model.py").code == 125, "not the status of success"
    assert not home.exists()


def test_analyze(home: Path) -> None:
    done = profiler("--analyze", FIVE_RUNS)
    assert done.code == 0
    assert "DRAM" in done.out
    assert (home / "reports" / "transformer-five-runs").is_dir()
    assert "stored as 'transformer-five-runs'" in done.err


def test_visualize_a_log_and_a_stored_name(home: Path) -> None:
    page = home / "reports" / "transformer-five-runs" / "transformer-five-runs_report.html"
    for source in (FIVE_RUNS, "transformer-five-runs"):
        assert profiler("--visualize", source).out == f"{page}\n"
        assert "ttmem-report" in page.read_text()
    assert profiler("--visualize", "-o", "page.html", "transformer-five-runs").out == "page.html\n"
    assert "ttmem-report" in Path("page.html").read_text()


def test_visualize_where_nothing_can_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = environment(TTMEM_HOME=str(tmp_path / "file"))
    done = profiler("--visualize", FIVE_RUNS, env=env)
    assert (done.code, done.out) == (0, "transformer-five-runs_report.html\n")
    again = profiler("--visualize", FIVE_RUNS, env=env)
    assert again.code == 2, "an auto-named page is never overwritten"


@pytest.mark.parametrize("mode", ["--analyze", "--visualize"])
def test_without_a_child_the_ordinary_exit_codes_hold(mode: str) -> None:
    done = profiler(mode, "nowhere.log")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("tt-memory-profiler: error: no such file or stored report 'nowhere.log'")
    assert profiler(mode, "a", "b").code == 2
