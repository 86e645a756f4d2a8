# SPDX-License-Identifier: Apache-2.0
"""Tools out of verbs: what a command declares is what an agent sees, and what an agent says stays a value."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.commands.mcp import is_for_people
from ttmem.commands.mcp_server.tools import Parameter, Tool, VerbFailedError, build_command_line, list_tools
from ttmem.commands.options import check_output_path
from ttmem.commands.program import cli

TOOLS = {tool.name: tool for tool in list_tools(cli, is_for_people)}


def program() -> click.Group:
    """A program that has a verb of a kind that no other has."""

    @click.command("fit", help="Whether TARGET fits.\n\nTARGET is a model.")
    @click.argument("target")
    @click.argument("more", nargs=-1, metavar="[MORE]...")
    @click.option("--json", "as_json", is_flag=True)
    @click.option("--llm", "as_llm", is_flag=True)
    @click.option("-q", "--quiet", is_flag=True)
    @click.option("--engine", type=click.Choice(["auto", "twin"]), default="auto", help="Who is asked.")
    @click.option("--users", type=click.IntRange(1, 64), help="How many.")
    @click.option("--weights", "kinds", multiple=True, help="Data types.")
    @click.option("--alive/--no-alive", default=None, help="What was alive.")
    @click.option("--html", callback=check_output_path, help="A page.")
    def fit(**_: Any) -> None: ...

    @click.command("silent", help="No JSON.")
    def silent() -> None: ...

    group = click.Group("more-verbs", commands={"fit": fit, "silent": silent})
    return click.Group("program", commands={"more-verbs": group})


def test_a_verb_is_a_tool_as_it_stands() -> None:
    (tool,) = list_tools(program(), is_for_people)
    assert (tool.name, tool.line, tool.flags) == ("more_verbs_fit", "Whether TARGET fits.", ("--quiet",))
    assert dict(tool.formats) == {"markdown": "--llm", "json": "--json"}
    assert next(iter(tool.formats)) == "markdown"
    assert tool.parameters == (
        Parameter("target", "TARGET is a model.", required=True),
        Parameter("more", "As in: fit [OPTIONS] TARGET [MORE]...", many=True),
        Parameter("engine", "Who is asked.", option="--engine", words=("auto", "twin"), is_strict=True, default="auto"),
        Parameter("users", "How many.", int, option="--users", least=1, most=64),
        Parameter("weights", "Data types.", option="--weights", many=True),
        Parameter("alive", "What was alive.", bool, option="--alive", off_option="--no-alive"),
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "m.py"}, ["--", "m.py"]),
        ({"target": "-oFILE", "more": ["--html=x", "--"]}, ["--", "-oFILE", "--html=x", "--"]),
        ({"target": "m", "engine": "auto", "users": 3}, ["--users=3", "--", "m"]),
        (
            {"target": "m", "weights": ["-a", "b"], "alive": False},
            ["--weights=-a", "--weights=b", "--no-alive", "--", "m"],
        ),
        ({"target": "m", "alive": True}, ["--alive", "--", "m"]),
    ],
)
def test_the_words_that_ask_it(arguments: dict[str, Any], words: list[str]) -> None:
    (tool,) = list_tools(program(), is_for_people)
    assert build_command_line(tool, "json", arguments) == (["more-verbs", "fit", "--quiet", "--json", *words], "")


def test_what_is_pasted_goes_to_stdin() -> None:
    explain, replay = TOOLS["explain"], TOOLS["replay"]
    assert build_command_line(explain, "markdown", {"text": "Out of Memory"}) == (
        ["explain", "--quiet", "--llm", "--", "-"],
        "Out of Memory",
    )
    assert build_command_line(explain, "json", {"source": "a\nb"})[1] == "a\nb"
    assert build_command_line(explain, "json", {"source": "run.log"}) == (
        ["explain", "--quiet", "--json", "--", "run.log"],
        "",
    )
    words, rows = build_command_line(replay, "json", {"steps": [{"free": "a"}, {"free": "b"}], "board": "n150"})
    assert words == ["replay", "--json", "--board=n150", "--", "-"]
    assert rows == '{"free": "a"}\n{"free": "b"}\n'


def test_an_argument_needs_those_before_it() -> None:
    with pytest.raises(VerbFailedError, match="'r_tiles' needs 'tiles_per_shard' too"):
        build_command_line(TOOLS["cb_simulate"], "json", {"r_tiles": "4"})


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_parameter_is_described_and_none_writes_beside_the_answer(tool: Tool) -> None:
    command: click.Command = cli
    for name in tool.path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    writing = {option for param in command.params if param.callback is check_output_path for option in param.opts}
    assert not writing & {parameter.option for parameter in tool.parameters}
    assert all(parameter.description for parameter in tool.parameters)
    assert all(parameter.name.isidentifier() for parameter in tool.parameters)
    assert tool.description


@given(st.sampled_from(sorted(TOOLS)), st.data())
def test_no_text_is_ever_an_option_of_its_own(name: str, data: st.DataObject) -> None:
    tool = TOOLS[name]
    texts = st.text(max_size=8).map(lambda text: f"-{text}") | st.text(max_size=8)
    arguments = {
        parameter.name: data.draw(st.lists(texts, max_size=3) if parameter.many else texts)
        for parameter in tool.parameters
        if parameter.type is str
    }
    try:
        words, _ = build_command_line(tool, next(iter(tool.formats)), arguments)
    except VerbFailedError:
        return
    allowed = {parameter.option for parameter in tool.parameters}
    options = words[: words.index("--")] if "--" in words else words
    for word in options[len(tool.path) + len(tool.flags) + 1 :]:
        assert word.partition("=")[0] in allowed
