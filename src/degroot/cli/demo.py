"""``degroot demo``."""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from degroot.cli.errors import STOPPED, complain
from degroot.files.atomic import make_folder

if TYPE_CHECKING:
    from degroot.agents.agent import Agent
    from degroot.demo.comparison import DemoPoints, Situation
    from degroot.demo.consortium import Consortium

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
LOST = "turin"  # the node that dies


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the picture goes.")] = Path("."),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random choices.", min=0)] = 0,
) -> None:
    """Let five organisations answer together, each with a node of its own on this machine; then one of them dies."""
    from degroot.demo.comparison import DemoPoints, draw, in_process
    from degroot.demo.organisations import organisations
    from degroot.node.config.check import check_system

    check_system()
    console, begun, picture = Console(), time.monotonic(), make_folder(out) / "degroot-demo.png"
    agents, points = organisations(seed), DemoPoints.draw(seed)
    with console.status("The first prediction after installation compiles the kernels ..."):
        in_process(agents).consult(points.listed)  # once, not in every process
    try:
        situations = _shown(console, agents, points)
    except KeyboardInterrupt:
        raise typer.Exit(complain("stopped; nothing is left of the nodes", STOPPED)) from None
    console.print("", _errors(situations), "", _differences(situations))
    if find_spec("matplotlib") is None:
        console.print("There is no picture: it needs matplotlib, pip install 'degroot\\[plot]'.")
    else:
        before, after = situations.values()
        draw(picture, before, after, LOST)
        console.print("Weights and error bars along the curve:", str(picture.resolve()), soft_wrap=True)
    console.print(f"All processes have ended, all their files are removed: {time.monotonic() - begun:.0f} seconds.")


def _shown(console: Console, agents: Sequence["Agent"], points: "DemoPoints") -> dict[str, "Situation"]:
    """Start the nodes, ask them, kill one and ask the others again."""
    from degroot.demo.comparison import compare
    from degroot.demo.consortium import Consortium

    with _interrupted_by(*ENDING), Consortium(agents) as consortium:
        console.print("Five organisations, a node each: a process, a certificate, rows and a model of its own.")
        _calibrated(console, consortium)
        asked, *_ = consortium.addresses
        ways = {way: consortium.connect(asked, view="consensus", way=way) for way in ("solve", "rounds")}
        before = compare(ways, agents, points)
        console.print(_answers(f"All five answer, asked through {asked} over mutual TLS", before))
        consortium.kill(LOST)
        console.print(f"\nNow {LOST} is killed (SIGKILL), and the same is asked again.")
        after = compare(ways, [agent for agent in agents if agent.name != LOST], points)
        console.print(_answers(f"The others answer; {_missing(after)}", after))
    return {"all five": before, f"without {LOST}": after}


@contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals interrupt as Ctrl-C does, also where a library's callback swallows the interruption."""
    told = []

    def stop(number: int, _frame: object) -> None:
        told.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if told:
        raise KeyboardInterrupt


def _calibrated(console: Console, consortium: "Consortium") -> None:
    """Show how every node puts its rows to its peers' models."""
    columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TextColumn("models scored"))
    with Progress(*columns, console=console) as bars:
        total = len(consortium.addresses) - 1
        tasks = {name: bars.add_task(name, total=total) for name in consortium.addresses}
        for scored in consortium.calibration():
            for name, number in scored.items():
                bars.update(tasks[name], completed=number)


def _answers(title: str, situation: "Situation") -> Table:
    from degroot.demo.comparison import XI
    from degroot.paper.problems.logistic import curve, on_the_line

    answer = situation.listed
    names = (f"weight\n{name}" for name in answer.names)
    headers = ("xi", "truth", "average", "collective\n± std. error", *names)
    table = Table(*headers, title=title, collapse_padding=True, pad_edge=False)  # 80 columns are enough
    for column in table.columns:
        column.justify = "right"
    truth = curve(on_the_line(XI))
    value, spread, weights = (np.asarray(each) for each in (answer.value, answer.standard_error, answer.weights))
    for k, xi in enumerate(XI):
        numbers = (f"{each:.3f}" for each in (truth[k], situation.averages[k]))
        told = (f"{weight:.2f}" for weight in weights[k])
        table.add_row(f"{xi:.0f}", *numbers, f"{value[k]:.3f} ± {spread[k]:.3f}", *told)
    return table


def _missing(situation: "Situation") -> str:
    """Who was missing and why, as the answer says."""
    from degroot.answers.flags import MISSING

    told = [f"{flag.agent} is {flag.reason}" for flag in situation.listed.flags if flag.reason.startswith(MISSING)]
    return ", ".join(told) or "nobody is missing"


def _errors(situations: Mapping[str, "Situation"]) -> Table:
    table = Table("", "collective", "average", "best single model", title="Mean squared error on 200 test points")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, situation in situations.items():
        found = situation.errors
        table.add_row(name, *(f"{each:.4f}" for each in (found.collective, found.average, found.best_single)))
    return table


def _differences(situations: Mapping[str, "Situation"]) -> Table:
    title = "Largest difference from the same agents in one process"
    table = Table("", "solved at the asked node", "pooled in rounds", title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, situation in situations.items():
        table.add_row(name, *(f"{each:.1e}" for each in situation.differences.values()))
    return table
