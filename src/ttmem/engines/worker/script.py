# SPDX-License-Identifier: Apache-2.0
"""Runs the user's own script, unedited, with the recorder between script and library.

The script ends as it would without us. So all that is used after it is bound before (a script may replace ``os.write``
or ``json.dumps``), and a fault of the recording never changes the script's status.
"""

import contextlib
import io
import json
import pkgutil
import runpy
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from os import getpid
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from . import protocol
from .comparisons import Comparisons
from .library import Library
from .open_devices import OpenOptions
from .process import die_with_parent, show_environment
from .protocol import EventPipe
from .recorder import Recorder

_excepthook = sys.excepthook
_LONGEST_CHAIN = 20


def main(words: list[str]) -> int:
    """Run ``script SETTINGS FILE ARGUMENTS...`` with settings as JSON; messages go to the descriptor named there."""
    settings: dict[str, Any] = json.loads(words[0])
    file, arguments = words[1], words[2:]
    die_with_parent(settings["parent"])
    send = EventPipe(settings["events"])
    # TMPDIR leads the library's leftovers to a folder that is removed; the script's own files belong elsewhere.
    tempfile.tempdir = settings["temporary"]
    library = Library()
    show_environment(settings["environment"])
    send({"hello": protocol.VERSION, "ttnn": library.version})
    options = OpenOptions(**settings["open"])
    recorder = Recorder(
        library, send, options=options, measure_programs=settings["measure"], edits=settings.get("edits", ())
    )
    recorder.install()
    comparisons = Comparisons(library.ttnn, _limit_to_process(lambda skipped: send({"skipped": skipped})))
    if not settings["values"]:
        recorder.on_result = comparisons.reads.notice_call
        comparisons.install()
    status, error, chain, ended = _run(file, arguments, comparisons)
    with contextlib.suppress(Exception):
        recorder.finish()
    with contextlib.suppress(Exception):
        send({"exit": status, "error": error, "chain": chain, "ended": ended})
    with contextlib.suppress(Exception):
        comparisons.uninstall()
        recorder.uninstall()
    return status


def _limit_to_process(tell: Callable[[int], None]) -> Callable[[int], None]:
    """Ignore comparisons in forked children of the script."""
    process = getpid()
    return lambda skipped: tell(skipped) if getpid() == process else None


def _run(
    file: str, arguments: list[str], comparisons: Comparisons
) -> tuple[int, str, list[str], dict[str, Any] | None]:
    """Return the exit status of a plain interpreter, the text of an uncaught error, those of all errors that led to it,
    and the abnormal end (None for a normal one)."""
    sys.argv = [file, *arguments]
    folder = str(Path(file).resolve().parent)
    sys.path.insert(0, folder)
    try:
        _run_main(file)
    except SystemExit as leaving:
        status = _find_exit_status(leaving)
        return status, "", _list_causes(leaving), _describe_end(leaving, file) if status else None
    except KeyboardInterrupt as interrupt:
        _print_error(file)
        return 128 + signal.SIGINT, "KeyboardInterrupt", [], _describe_end(interrupt, file)
    except BaseException as error:
        status = _print_error(file)
        end = {**_describe_end(error, file), "not_judged": comparisons.excuse(error)}
        return status, f"{protocol.get_type_name(error)}: {protocol.format_error(error)}", _list_causes(error), end
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
    return 0, "", [], None


_replaced: list[Any] = []
"""The former ``__main__``: its variables are lost without it."""


def _run_main(file: str) -> None:
    """Run the file as ``__main__``, like the interpreter. ``runpy`` restores things afterwards and fails where the
    script changed them: ``sys.argv = None``, ``sys.modules.clear()``."""
    if pkgutil.get_importer(file) is not None:  # a folder or an archive with a __main__
        runpy.run_path(file, run_name="__main__")
        return
    module = ModuleType("__main__")
    vars(module).update({"__file__": file, "__builtins__": sys.modules["builtins"], "__cached__": None})
    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = module
    exec(_compile_file(file), vars(module))  # the purpose of this job


def _compile_file(file: str) -> CodeType:
    with io.open_code(str(Path(file).resolve())) as stream:
        compiled: CodeType | None = pkgutil.read_code(stream)
        stream.seek(0)
        return compiled or compile(stream.read(), file, "exec", dont_inherit=True)


def _describe_end(error: BaseException, file: str) -> dict[str, str]:
    """Describe the error that ended the script, with the innermost line of the script that led to it."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if isinstance(error, SyntaxError) and error.filename == file and error.lineno:
        lines = [error.lineno]
    location = f"{file}:{lines[-1]}" if lines else ""
    return {"error": protocol.get_type_name(error), "message": protocol.format_error(error), "location": location}


def _list_causes(error: BaseException | None) -> list[str]:
    texts: list[str] = []
    while error is not None and len(texts) < _LONGEST_CHAIN:
        texts.append(protocol.format_typed_error(error))
        error = error.__cause__ or error.__context__
    return texts


def _find_exit_status(leaving: SystemExit) -> int:
    """Return the status that the interpreter takes from ``sys.exit``: a number that is no C long is -1."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF if -(1 << 63) <= leaving.code < 1 << 63 else 0xFF
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{leaving.code}\n")
    return 1


def _print_error(file: str) -> int:
    """Print an error like a plain interpreter, without our frames, or through the script's own ``sys.excepthook``;
    return the exit status."""
    kind, error, frames = sys.exc_info()
    while frames is not None and frames.tb_frame.f_code.co_filename != file:
        frames = frames.tb_next
    if kind is None or error is None:
        return 1
    try:
        if sys.excepthook is not _excepthook:
            sys.excepthook(kind, error, frames)
            return 1
    except SystemExit as leaving:
        return _find_exit_status(leaving)
    except Exception:
        frames = sys.exc_info()[2]
    with contextlib.suppress(Exception):
        printed = traceback.TracebackException(kind, error, frames)
        _drop_own_frames(printed)
        sys.stderr.write("".join(printed.format()))
    return 1


def _drop_own_frames(printed: traceback.TracebackException) -> None:
    ours = str(Path(__file__).resolve().parent)
    printed.stack[:] = [frame for frame in printed.stack if not frame.filename.startswith(ours)]
    for deeper in (printed.__cause__, printed.__context__):
        if deeper is not None:
            _drop_own_frames(deeper)
