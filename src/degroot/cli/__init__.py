"""The command line: one short function for each command.

The top layer: imports the layers below, nothing imports it.
"""

import os
import sys
from typing import Annotated

import typer

import degroot
from degroot.cli.ask import ask
from degroot.cli.demo import demo
from degroot.cli.errors import STOPPED, complain, examples
from degroot.cli.explain import explain
from degroot.cli.keys import keys
from degroot.cli.node import node
from degroot.cli.paper import paper
from degroot.cli.predict import predict
from degroot.cli.schema import schema
from degroot.cli.train import train
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
app.command(
    short_help="Five nodes answer together; then one of them dies.",
    epilog=examples("degroot demo", "degroot demo --out pictures --seed 1"),
)(demo)
app.command(
    short_help="Train a model for each organisation's file.",
    epilog=examples(
        "degroot train north.csv south.csv west.csv --target price",
        "degroot train stations.csv --group station --target pm25 --ignore id,date",
    ),
)(train)
app.command(
    short_help="Predict all rows of files of any size.",
    epilog=examples(
        "degroot predict --collective collective --input new.csv --output answers.csv",
        "degroot predict --config north.toml --input 'rows/*.csv' --output a.parquet",
    ),
)(predict)
app.command(
    short_help="Explain the answer about one row.",
    epilog=examples(
        "degroot explain --collective collective --input new.csv --row 3",
        "degroot explain --config north.toml --input points.csv",
    ),
)(explain)
app.command(
    short_help="Ask a node for collective predictions.",
    epilog=examples(
        "degroot ask --config north.toml --input points.csv",
        "degroot ask --node north@127.0.0.1:7441 --ca ca.pem --certificate me.pem \\",
        "            --key me.key --input points.csv --output answers.csv",
    ),
)(ask)
app.add_typer(schema, short_help="What the columns of tables are, as agreed.")
app.add_typer(node)
app.add_typer(keys, short_help="Certificates for a consortium's nodes.")
app.command(
    short_help="Reproduce the paper's figures and tables.",
    epilog=examples("degroot paper --list", "degroot paper table1 figure3 --quick"),
)(paper)


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Better predictions together; labels stay at home."""
    if version:
        typer.echo(degroot.__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and exit code 2."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what it would say, we say
    try:
        code = app(standalone_mode=False)
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
