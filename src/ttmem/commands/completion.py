# SPDX-License-Identifier: Apache-2.0
"""``ttmem completion``: Print the completion script for a shell."""

import click

from ttmem.commands.command_line import completion_variable, verb
from ttmem.commands.output import emit


@verb("""
ttmem completion bash >> ~/.bashrc
ttmem completion zsh >> ~/.zshrc
ttmem completion fish > ~/.config/fish/completions/ttmem.fish
""")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"this version of click cannot complete for {shell}")
    program = click.get_current_context().find_root().command
    emit(script(program, {}, "ttmem", completion_variable("ttmem")).source(), None)
