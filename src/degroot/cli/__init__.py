"""The command line: one short function for each command.

The top layer: imports the layers below, nothing imports it.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, NamedTuple

import typer

import degroot
from degroot.cli.errors import STOPPED, complain, examples
from degroot.cli.garbage import collecting_rarely
from degroot.exceptions import DeGrootError

EXTRA = {
    "cryptography",
    "fastapi",
    "grpc",
    "jinja2",
    "onnxruntime",
    "prometheus_client",
    "pyarrow",
    "skops",
    "structlog",
    "tritonclient",
    "uvicorn",
}


class Command(NamedTuple):
    """A command in a module of its name, which has a function of that name, or further commands."""

    about: str
    examples: tuple[str, ...] = ()


COMMANDS = {
    "demo": Command(
        "Five nodes answer together; then one of them dies.", ("degroot demo", "degroot demo --out pictures --seed 1")
    ),
    "train": Command(
        "Train a model for each organisation's file.",
        (
            "degroot train north.csv south.csv west.csv --target price",
            "degroot train stations.csv --group station --target pm25 --ignore id,date",
        ),
    ),
    "predict": Command(
        "Predict all rows of files of any size.",
        (
            "degroot predict --collective collective --input new.csv --output answers.csv",
            "degroot predict --config north.toml --input 'rows/*.csv' --output a.parquet",
        ),
    ),
    "explain": Command(
        "Explain the answer about one row.",
        (
            "degroot explain --collective collective --input new.csv --row 3",
            "degroot explain --config north.toml --input points.csv",
        ),
    ),
    "ask": Command(
        "Ask a node for collective predictions.",
        (
            "degroot ask --config north.toml --input points.csv",
            "degroot ask --node north@127.0.0.1:7441 --ca ca.pem --certificate me.pem \\",
            "            --key me.key --input points.csv --output answers.csv",
        ),
    ),
    "schema": Command("What the columns of tables are, as agreed."),
    "node": Command("Run one organisation's node."),
    "keys": Command("Certificates for a consortium's nodes."),
    "warm-up": Command("Compile now what is compiled on first use.", ("degroot warm-up", "degroot warm-up --jobs 1")),
    "paper": Command(
        "Reproduce the paper's figures and tables.", ("degroot paper --list", "degroot paper table1 figure3 --quick")
    ),
}


def make_app(names: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """The command line with these commands; their modules are imported for it."""
    app = typer.Typer(
        help="Better predictions together; labels stay at home.",
        epilog=examples(
            "degroot demo",
            "degroot train north.csv south.csv west.csv --target price",
            "degroot predict --collective collective --input new.csv --output answers.csv",
        ),
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(about)
    for name in names:
        command, function = (
            COMMANDS[name],
            getattr(import_module(f"degroot.cli.{as_identifier(name)}"), as_identifier(name)),
        )
        if isinstance(function, typer.Typer):
            app.add_typer(function, short_help=command.about)
        else:
            app.command(short_help=command.about, epilog=examples(*command.examples))(function)
    return app


def as_identifier(name: str) -> str:
    """A command's name in Python."""
    return name.replace("-", "_")


def find_needed(arguments: Sequence[str]) -> tuple[str, ...]:
    """The commands that arguments take: the one they name; all for help, and to tell what is wrong.

    Examples
    --------
    >>> find_needed(["ask", "--help"]), find_needed(["--version"]), len(find_needed(["--help"])) == len(COMMANDS)
    (('ask',), (), True)
    """
    if list(arguments) == ["--version"]:
        return ()
    return (arguments[0],) if arguments and arguments[0] in COMMANDS else tuple(COMMANDS)


def print_version(is_asked: bool) -> None:
    """Print the version and end, if it is asked for."""
    if is_asked:
        typer.echo(degroot.__version__)
        raise typer.Exit


def about(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Better predictions together; labels stay at home."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and exit code 2."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what it would say, we say
    try:
        with collecting_rarely():
            code = make_app(find_needed(sys.argv[1:]))(standalone_mode=False)
    except DeGrootError as error:
        code = complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = complain("stopped", STOPPED)
    except PermissionError as error:
        code = complain(
            f"Files must be open to the user who runs this; {error.filename}: {error.strerror}. A node's state folder "
            "is open to the user of the node only."
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        code = complain(f"The node needs extra packages: pip install 'degroot[node]' ({error}).")
    except Exception as error:
        if not hasattr(error, "format_message"):  # what the command-line library says of wrong options
            raise
        where = getattr(getattr(error, "ctx", None), "command_path", "degroot")
        code = complain(f"{error.format_message()} See: {where} --help")
    sys.exit(code)
