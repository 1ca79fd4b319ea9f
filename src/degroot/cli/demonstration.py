"""What ``degroot demo`` shows: five nodes that answer, and four of them after one has died."""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

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
POOLED = """\
Their files say `evidence = "pooled"`: the paper's protocol, in which members can recover each other's labels. By
default evidence stays at home, and a node answers from its own rows, as in the column of its view."""


def run(out: Path, seed: int) -> None:
    """Run the demonstration; its picture goes into the folder `out`."""
    from degroot.demo.comparison import DemoPoints, draw
    from degroot.demo.organisations import organisations
    from degroot.node.config.check import check_system

    check_system()
    console, begun, picture = Console(), time.monotonic(), make_folder(out) / "degroot-demo.png"
    agents, points = organisations(seed), DemoPoints.draw(seed)
    try:
        situations = _show_consortium(console, agents, points)
    except KeyboardInterrupt:
        raise typer.Exit(complain("stopped; nothing is left of the nodes", STOPPED)) from None
    console.print("", _asker_errors(agents[0].name, situations), "", _errors(situations))
    console.print("", _differences(situations))
    if find_spec("matplotlib") is None:
        console.print("There is no picture: it needs matplotlib, pip install 'degroot\\[plot]'.")
    else:
        before, after = situations.values()
        draw(picture, before, after, LOST)
        console.print("Weights and error bars along the curve:", str(picture.resolve()), soft_wrap=True)
    console.print(f"All processes have ended, all their files are removed: {time.monotonic() - begun:.0f} seconds.")


def _show_consortium(console: Console, agents: Sequence["Agent"], points: "DemoPoints") -> dict[str, "Situation"]:
    """Start the nodes, ask them, kill one and ask the others again."""
    from degroot.demo.comparison import compare
    from degroot.demo.consortium import Consortium

    with _interrupt_by(*ENDING), Consortium(agents) as consortium:
        console.print("Five organisations, a node each: a process, a certificate, rows and a model of its own.")
        console.print(POOLED, soft_wrap=True)
        _show_calibration(console, consortium)
        asked, *_ = consortium.addresses
        ways = {way: consortium.connect(asked, view="consensus", way=way) for way in ("solve", "rounds")}
        asker = consortium.connect(asked)
        before = compare(ways, asker, agents, points)
        console.print(_answers(f"All five answer, asked through {asked} over mutual TLS", asked, before))
        console.print(_weights(before))
        consortium.kill(LOST)
        console.print(f"\nNow {LOST} is killed (SIGKILL), and the same is asked again.")
        after = compare(ways, asker, [agent for agent in agents if agent.name != LOST], points)
        console.print(_answers(f"The others answer; {_missing(after)}", asked, after))
        console.print(_weights(after))
    return {"all five": before, f"without {LOST}": after}


@contextmanager
def _interrupt_by(*numbers: signal.Signals) -> Iterator[None]:
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


def _show_calibration(console: Console, consortium: "Consortium") -> None:
    """Show how every node puts its rows to its peers' models."""
    columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TextColumn("models scored"))
    with Progress(*columns, console=console) as bars:
        total = len(consortium.addresses) - 1
        tasks = {name: bars.add_task(name, total=total) for name in consortium.addresses}
        for scored in consortium.calibration():
            for name, number in scored.items():
                bars.update(tasks[name], completed=number)


def _answers(title: str, asked: str, situation: "Situation") -> Table:
    from degroot.demo.comparison import XI
    from degroot.paper.problems.logistic import curve, on_the_line

    headers = ("xi", "truth", "average", f"{asked}'s model", f"{asked}'s view", "consensus ± std. error")
    table = _right_justified(*headers, title=title)
    said = curve(on_the_line(XI)), situation.averages, situation.own, np.asarray(situation.view.value)
    value, spread = np.asarray(situation.listed.value), np.asarray(situation.listed.standard_error)
    for k, xi in enumerate(XI):
        table.add_row(f"{xi:.0f}", *(f"{each[k]:.3f}" for each in said), f"{value[k]:.3f} ± {spread[k]:.3f}")
    return table


def _weights(situation: "Situation") -> Table:
    from degroot.demo.comparison import XI

    table = _right_justified("xi", *situation.listed.names, title="Whom the consensus trusts: its weights")
    for xi, weights in zip(XI, np.asarray(situation.listed.weights), strict=True):
        table.add_row(f"{xi:.0f}", *(f"{weight:.2f}" for weight in weights))
    return table


def _right_justified(*headers: str, title: str) -> Table:
    table = Table(*headers, title=title)
    for column in table.columns:
        column.justify = "right"
    return table


def _missing(situation: "Situation") -> str:
    """Who was missing and why, as the answer says."""
    from degroot.answers.flags import MISSING

    told = [f"{flag.agent} is {flag.reason}" for flag in situation.listed.flags if flag.reason.startswith(MISSING)]
    return ", ".join(told) or "nobody is missing"


def _asker_errors(asked: str, situations: Mapping[str, "Situation"]) -> Table:
    title = f"Mean squared error on 200 points of {asked}'s own population"
    table = _right_justified("", f"{asked}'s model", f"{asked}'s view", "consensus", title=title)
    for name, situation in situations.items():
        found = situation.asker_errors
        table.add_row(name, *(f"{each:.5f}" for each in (found.own, found.view, found.consensus)))
    return table


def _errors(situations: Mapping[str, "Situation"]) -> Table:
    title = "Mean squared error on 200 points of all populations alike"
    table = _right_justified("", "consensus", "average", "best single model", title=title)
    for name, situation in situations.items():
        found = situation.errors
        table.add_row(name, *(f"{each:.4f}" for each in (found.collective, found.average, found.best_single)))
    return table


def _differences(situations: Mapping[str, "Situation"]) -> Table:
    title = "Largest difference from the same agents in one process"
    table = _right_justified("", "solved at the asked node", "pooled in rounds", title=title)
    for name, situation in situations.items():
        table.add_row(name, *(f"{each:.1e}" for each in situation.differences.values()))
    return table
