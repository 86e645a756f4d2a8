# SPDX-License-Identifier: Apache-2.0
"""A log that is still being written ends as the same profile as the finished file."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from support.examples import examples
from support.same_profile import meaning
from ttmem.base.errors import BadInputError
from ttmem.profile.model import Profile
from ttmem.readers import follow
from ttmem.readers.runtime_log import reader
from unit.readers.some_logs import some_logs
from unit.readers.test_same_profile import WHOLE, cut


class Clock:
    """Time that passes only while the reader waits; each wait lets the writer take one step."""

    def __init__(self, steps: Iterator[object]) -> None:
        self.steps = steps
        self.now = 1000.0
        self.done = False

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.done = self.done or next(self.steps, "end") == "end"


def followed(
    path: Path,
    steps: Iterator[object],
    monkeypatch: pytest.MonkeyPatch,
    updates: Callable[[Profile], None] | None = None,
) -> Profile:
    clock = Clock(steps)
    with monkeypatch.context() as patched:
        patched.setattr(reader, "time", clock)
        return follow(path, name="run", stop=lambda: clock.done, on_update=updates)


def append(path: Path, pieces: list[bytes]) -> Iterator[None]:
    for piece in pieces:
        with path.open("ab") as file:
            file.write(piece)
        yield


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(WHOLE)), places=st.lists(st.integers(0, 1 << 20), max_size=12))
def test_a_file_written_in_pieces(
    name: str, places: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.log"
    path.unlink(missing_ok=True)
    assert meaning(followed(path, append(path, cut(some_logs()[name], places)), monkeypatch)) == WHOLE[name]


def test_updates_tell_the_story_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    content = some_logs()["generated"]
    pieces = [content[at : at + 2000] for at in range(0, len(content), 2000)]
    counts: list[int] = []
    final = followed(path, append(path, pieces), monkeypatch, lambda profile: counts.append(len(profile.timelines[0])))
    assert counts == sorted(counts)
    assert len(counts) > 3
    assert counts[0] < counts[-1] <= len(final.timelines[0])


def test_a_rotated_file_is_read_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a first log that is renamed away, and for a while no file at all
    path = tmp_path / "run.log"

    def steps() -> Iterator[None]:
        yield from append(path, cut(some_logs()["generated"], [5000]))
        path.rename(tmp_path / "run.log.1")
        yield
        yield from append(path, cut(some_logs()["hand-made"], [100, 4000]))

    assert meaning(followed(path, steps(), monkeypatch)) == WHOLE["hand-made"]


def test_a_truncated_file_is_read_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"

    def steps() -> Iterator[None]:
        yield from append(path, cut(some_logs()["generated"], [5000]))
        path.write_bytes(b"")
        yield
        yield from append(path, cut(some_logs()["hand-made"], [100, 4000]))

    assert meaning(followed(path, steps(), monkeypatch)) == WHOLE["hand-made"]


def test_a_file_emptied_and_filled_again_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a second run that has already written more than the first when the reader looks again
    path = tmp_path / "run.log"

    def steps() -> Iterator[None]:
        yield from append(path, [some_logs()["hand-made"]])
        path.write_bytes(some_logs()["generated"])
        yield

    assert len(some_logs()["generated"]) > len(some_logs()["hand-made"])
    assert meaning(followed(path, steps(), monkeypatch)) == WHOLE["generated"]


def test_a_file_replaced_by_one_of_the_same_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    content = some_logs()["hand-made"]
    other = content[:-4] + b"end\n"

    def steps() -> Iterator[None]:
        yield from append(path, [other])
        path.unlink()
        path.write_bytes(content)
        yield

    assert meaning(followed(path, steps(), monkeypatch)) == WHOLE["hand-made"]


def test_nothing_new_for_a_while_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(some_logs()["hand-made"])
    clock = Clock(iter(range(1000)))
    monkeypatch.setattr(reader, "time", clock)
    assert meaning(follow(path, name="run", idle_seconds=3.0)) == WHOLE["hand-made"]
    assert 1003 <= clock.now < 1005


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(some_logs()["hand-made"])

    def steps() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    assert meaning(followed(path, steps(), monkeypatch)) == WHOLE["hand-made"]


def test_a_packed_file_cannot_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(some_logs()["hand-made"]))
    with pytest.raises(BadInputError, match="a packed file cannot be followed"):
        follow(path, name="run")


def test_a_folder_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be read"):
        follow(tmp_path, name="run")


def test_a_file_that_never_comes_is_diagnosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInputError, match="is empty"):
        followed(tmp_path / "run.log", iter([None, None]), monkeypatch)
