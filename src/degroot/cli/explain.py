"""``degroot explain``."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from degroot.cli.connection import Ca, Certificate, Config, Consensus, InsecureLoopback, Key, Node, check_one, connected
from degroot.cli.errors import stopping_at_once
from degroot.cli.node import UnsafePickle
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from degroot.answers import Consultable


Asker = Annotated[str | None, typer.Option(metavar="NAME", help="For whom: an agent's view, not the consensus.")]
Correct = Annotated[
    bool | None,
    typer.Option("--correct/--no-correct", help="With an asker: corrected by its rows.", show_default=False),
]


def check_consensus(consensus: bool, asker: str | None, asker_column: str | None = None) -> None:
    """Refuse an asker of the consensus, which is for nobody in particular."""
    if consensus and (asker is not None or asker_column is not None):
        raise InvalidInput(f"--consensus must come without {'--asker' if asker is not None else '--asker-column'}.")


def explain(
    input_: Annotated[
        Path, typer.Option("--input", metavar="FILE", help="The points: .csv, .parquet, .arrow or .npz.")
    ],
    row: Annotated[int, typer.Option(metavar="N", help="Which row of the file.", min=1)] = 1,
    collective: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A collective: a TOML file or folder.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(metavar="SHARE", help="With an interval that holds so often: 0.9.")
    ] = None,
    asker: Asker = None,
    correct: Correct = None,
    node: Node = None,
    consensus: Consensus = False,
    unsafe_pickle: UnsafePickle = False,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
    config: Config = None,
    insecure_loopback: InsecureLoopback = None,
) -> None:
    """Explain the collective answer about one row: who carries it, who disagrees, how stable it is."""
    check_one(collective, node or config)
    check_consensus(consensus, asker)
    view = {"view": "consensus"} if consensus else {}
    asked: AbstractContextManager[Consultable] = (
        nullcontext(_loaded(collective, unsafe_pickle))
        if collective is not None
        else connected(node, ca, certificate, key, config, insecure_loopback, **view)
    )
    with stopping_at_once(), asked as found:
        point = _point(input_, row, found)
        if coverage is not None and asker is None and not getattr(found, "is_calibrated", False):
            found.calibrate()
        about: dict[str, Any] = {
            name: given for name, given in (("asker", asker), ("correct", correct)) if given is not None
        }
        answer = found.consult(point, coverage=coverage, **about)
        typer.echo(answer.explain(0).text.replace("point 0", f"row {row}", 1))


def _loaded(path: Path, unsafe_pickle: bool) -> "Consultable":
    from degroot import Collective

    return Collective.load(path, unsafe_pickle=unsafe_pickle)


def _point(path: Path, row: int, asked: "Consultable") -> Any:
    """The row that is meant, (1, d)."""
    try:
        from degroot.files.rows import points
    except ImportError as error:
        raise InvalidInput(f"Data files need extra packages: pip install 'degroot[batch]' ({error}).") from error

    X = points(path, asked.feature_names or (), gaps=asked.takes_gaps).X
    if row > len(X):
        raise InvalidInput(f"--row must be one of the {len(X)} rows of {path}; got {row}.")
    return X[row - 1 : row]
