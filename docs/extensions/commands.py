"""The help of every command, as a directive: ``{commands}``."""

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from typer.main import get_command

from degroot.cli import make_app

COLUMNS = 88


def walk(command: click.Command, path: str, above: click.Context | None = None) -> list[tuple[str, str]]:
    """The name and the help of a command and of all below it."""
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=above, terminal_width=COLUMNS)
    with context:
        told = [(path, printed(command, context))]
    for name, below in getattr(command, "commands", {}).items():
        told += walk(below, f"{path} {name}", context)
    return told


def printed(command: click.Command, context: click.Context) -> str:
    """What ``--help`` writes, without the escapes of a terminal."""
    import io
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as written:
        text = command.get_help(context)
    return "\n".join(line.rstrip() for line in (text or written.getvalue()).strip("\n").splitlines())


class Commands(Directive):
    """A section for each command, with its help."""

    def run(self) -> list[nodes.Node]:
        """Called by Sphinx."""
        return [_section(path, told) for path, told in walk(get_command(make_app()), "degroot")]


def _section(path: str, told: str) -> nodes.section:
    section = nodes.section(ids=[path.replace(" ", "-")], names=[path])
    section += nodes.title(text=path)
    section += nodes.literal_block(told, told, language="text")
    return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
