# SPDX-License-Identifier: Apache-2.0
"""One option, one meaning: what has the same name in two verbs is the same thing."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from ttmem.commands.options import RegistryName, choose_one, combine_options, folder_option, words_option
from ttmem.commands.program import cli


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        ctx = click.Context(command, **command.context_settings)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from _commands(child, (*path, name))


COMMANDS = dict(_commands(cli))


def declared(option: str) -> dict[str, click.Parameter]:
    """Every verb that has the option, with its declaration."""
    return {path: param for path, command in COMMANDS.items() for param in command.params if option in param.opts}


@pytest.mark.parametrize("option", ["--board", "--dtype", "--layout", "--memory", "--release", "--op", "--baseline"])
def test_names_out_of_a_registry_know_their_words_in_every_verb(option: str) -> None:
    found = declared(option)
    assert found
    for path, param in found.items():
        assert isinstance(param.type, RegistryName), path
        assert param.type.words() or option == "--baseline", path


OWN = ("ops", "fit")


@pytest.mark.parametrize("option", ["-q", "--no-store", "--run", "--rank", "--card", "--no-programs", "--engine"])
def test_the_same_option_is_declared_the_same(option: str) -> None:
    found = {path: param.to_info_dict() for path, param in declared(option).items()}
    # fit chooses an engine by itself where none is named, ops knows one more
    meanings = {(str(about["type"]), about["help"]) for path, about in found.items() if path.split()[0] not in OWN}
    assert len(meanings) == 1, found


def test_every_answer_in_json_is_asked_for_alike() -> None:
    found = declared("--json")
    assert len(found) > 15
    assert all(isinstance(param, click.Option) and param.is_flag for param in found.values())
    assert all("JSON" in str(param.to_info_dict()["help"]) for param in found.values())


def test_several_options_as_one_keep_their_order_and_their_words() -> None:
    @click.command()
    @combine_options(
        words_option("--board", "boards", metavar="BOARD,..", help="Boards."),
        folder_option("Where to."),
    )
    def command(boards: tuple[str, ...], folder: object) -> None:
        click.echo(f"{boards} {folder}")

    assert [param.name for param in command.params] == ["boards", "folder"]
    done = CliRunner().invoke(command, ["--board", "n150, p150", "--board", "t3k", "-o", "out"])
    assert done.output == "('n150', 'p150', 't3k') out\n"
    assert CliRunner().invoke(command, []).exit_code == 2


def test_exclusive_flags() -> None:
    assert choose_one(json=False, llm=True) == "llm"
    assert choose_one(json=False, llm=False) is None
    with pytest.raises(click.UsageError, match="choose one of --json and --llm"):
        choose_one(json=True, llm=True)
