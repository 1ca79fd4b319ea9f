"""How long the package and its commands take to start: imports and the command line, side by side.

`make bench` prints and writes START.md. `--quick`: few turns, only printed.
"""

import argparse
import inspect
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import typer
from bench import as_markdown

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import Consortium, made_rows

import degroot
from degroot.cli import make_app

HEAD = """\
Written by `make bench`. Python {version}, {cores} shared cores; processes of their own, taking turns, median of {turns}
turns, in seconds by the clock and of processor time, which other work on the machine changes less. Ratios are what
counts: each over what stands beside it, in the same run. {note}"""
NOTE = "The files that Python compiles are there."
IMPORTS = """\
*A bare Typer application* has the same commands with the same options and texts, and functions that do nothing: what
Typer itself takes. `ask` asks a node on this machine, over mutual TLS, about one row in a CSV file; from the start of
the process to its end. Asked for: `import degroot` at most 2 times `import numpy`; `--help` at most 1.3 times the bare
application's, of single commands alike; `--version` at most 1.5 times `import typer, rich`; `ask` at most 2 times
`import numpy, grpc, typer, rich, cryptography`. *That, and what Typer reads options with*: Typer 0.29 imports pydantic
where a command is given an option, and so does every command of any application."""
RESULTS = Path(__file__).with_name("START.md")
DEGROOT = [sys.executable, "-c", "from degroot.cli import main; main()"]
ASKED = "import numpy, grpc, typer, rich, cryptography"
OPTIONS = "that, and what Typer reads options with"
ROWS, FEATURES = 1000, 8

Work = dict[str, list[str]]  # commands, by what they are called


def take_turns(work: Work, turns: int) -> dict[str, tuple[float, float]]:
    """The median seconds of each command, by the clock and of processor time, taking turns; the first turn warms up."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    for turn in range(turns + 1):
        for name, command in work.items():
            before, begun = processor_seconds(), time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "GRPC_VERBOSITY": "NONE"})
            taken = time.perf_counter() - begun, processor_seconds() - before
            assert done.returncode == 0, (name, done.stderr)
            times[name] += [taken] if turn else []
    return {name: tuple(map(statistics.median, zip(*taken, strict=True))) for name, taken in times.items()}


def processor_seconds() -> float:
    """What processes that have ended used so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(work: Work, beside: dict[str, tuple[str, float]], turns: int) -> list[dict[str, str]]:
    """A table of seconds. `beside`: for a command another one, and how many times that is asked for at most."""
    taken = take_turns(work, turns)
    rows = []
    for name, (seconds, processor) in taken.items():
        row = {"": name, "median, s": f"{seconds:.3f}", "processor, s": f"{processor:.3f}"}
        other, most = beside.get(name, ("", 0.0))
        ratios = ["", ""]
        if other:
            ratios = [f"{mine / its:.2f}" for mine, its in zip(taken[name], taken[other], strict=True)]
        row |= {
            "over": other,
            "ratio": ratios[0],
            "of processor time": ratios[1],
            "at most": f"{most:g}" if most else "",
        }
        rows.append(row)
    return rows


# -- imports and the command line --------------------------------------------------------------------------------------


def write_bare(app: typer.Typer) -> str:
    """The source of a Typer application with the same commands, whose functions do nothing."""
    lines = ["from pathlib import Path", "from typing import Annotated", "import typer", ""]
    return "\n".join([*lines, *_write_group(app, "app"), "app()"]) + "\n"


def _write_group(app: typer.Typer, name: str) -> list[str]:
    settings = "add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False"
    callback = app.registered_callback.callback
    lines = [f"{name} = typer.Typer({settings}, epilog={app.info.epilog!r})"]
    lines += [f"@{name}.callback(invoke_without_command=True)", *_write_function(callback)]
    for command in app.registered_commands:
        called = command.name or command.callback.__name__
        lines.append(f"@{name}.command({called!r}, short_help={command.short_help!r}, epilog={command.epilog!r})")
        lines += _write_function(command.callback)
    for number, group in enumerate(app.registered_groups):
        inner, about = f"{name}_{number}", group.short_help if isinstance(group.short_help, str) else None
        lines += _write_group(group.typer_instance, inner)
        lines.append(f"{name}.add_typer({inner}, name={group.typer_instance.info.name!r}, short_help={about!r})")
    return lines


def _write_function(function: Callable[..., object]) -> list[str]:
    hints, known = get_type_hints(function, include_extras=True), inspect.signature(function).parameters
    parameters = ", ".join(_write_parameter(name, hints[name], known[name].default) for name in known)
    return [f"def _({parameters}):", f"    {function.__doc__!r}", ""]


def _write_parameter(name: str, hint: Any, default: object) -> str:
    kept = "" if default is inspect.Parameter.empty else f" = {_write(default)}"
    if hint is typer.Context:
        return f"{name}: typer.Context"
    kind, about = get_args(hint)
    settings = {key: getattr(about, key) for key in ("metavar", "help", "show_default", "min", "max")}
    names = [each for each in (about.default, *(about.param_decls or ())) if isinstance(each, str)]
    told = ", ".join([*map(repr, names), *(f"{key}={_write(each)}" for key, each in settings.items())])
    return f"{name}: Annotated[{_write(kind)}, typer.{type(about).__name__.removesuffix('Info')}({told})]{kept}"


def _write(value: object) -> str:
    if isinstance(value, Path):
        return f"Path({str(value)!r})"
    if isinstance(value, type) and not get_args(value):
        return value.__name__
    return re.sub(r"pathlib\.(_local\.)?", "", repr(value))


def measure_imports(turns: int) -> str:
    """The table of imports and commands."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bare, point = folder / "bare.py", folder / "point.csv"
        bare.write_text(write_bare(make_app()))
        header = ",".join(f"x{k}" for k in range(FEATURES))
        point.write_text(f"{header}\n{','.join(map(str, np.linspace(-1.0, 1.0, FEATURES).round(2)))}\n")
        nodes = folder / "nodes"
        nodes.mkdir()
        rows = list(made_rows(0, 3, n=ROWS, d=FEATURES))
        with Consortium(nodes, 3, rows=rows, evidence="own") as consortium:
            consortium.start().ready()
            config = str(nodes / "node0" / "node.toml")
            ask = [*DEGROOT, "ask", "--config", config, "--input", str(point)]
            return as_markdown(compare(*list_work(bare, ask), turns))


def list_work(bare: Path, ask: list[str]) -> tuple[Work, dict[str, tuple[str, float]]]:
    """What is timed, and beside what."""

    def python(code: str) -> list[str]:
        return [sys.executable, "-c", code]

    work: Work = {
        "import numpy": python("import numpy"), "import degroot": python("import degroot"),
        "import typer, rich": python("import typer, rich"), "degroot --version": [*DEGROOT, "--version"],
    }  # fmt: skip
    beside = {"import degroot": ("import numpy", 2.0), "degroot --version": ("import typer, rich", 1.5)}
    for command in ([], ["predict"], ["ask"], ["node"], ["keys"]):
        name = " ".join([*command, "--help"])
        work |= {
            f"bare {name}": [sys.executable, str(bare), *command, "--help"],
            f"degroot {name}": [*DEGROOT, *command, "--help"],
        }
        beside[f"degroot {name}"] = (f"bare {name}", 1.3)
    work |= {ASKED: python(ASKED), OPTIONS: python(f"{ASKED}, typer._adapters"), "degroot ask": ask}
    return work, beside | {"degroot ask": (ASKED, 2.0), OPTIONS: (ASKED, 0.0)}


# -- the first prediction ----------------------------------------------------------------------------------------------

FIRST = """\
The README's five lines, from the start of the process to its end. *scikit-learn alone*: the same imports, five ridge
models trained and asked. *Empty caches*: this user has never compiled a kernel. Asked for: the first one at most 5 s,
any other at most 1.2 times scikit-learn alone. The package brings machine code for this processor, made when it was
built; *compiled on first use* is what happens with a package without it, once."""
ALONE = """
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
X, y = load_diabetes(return_X_y=True)
models = [clone(Ridge(0.1)).fit(X[50 + k :: 5], y[50 + k :: 5]) for k in range(5)]
[model.predict(X[:3]) for model in models]
"""
FIVE_LINES = """
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from degroot import DeGrootRegressor
X, y = load_diabetes(return_X_y=True)
model = DeGrootRegressor(Ridge(0.1), n_agents=5, random_state=0).fit(X[50:], y[50:])
model.predict(X[:3], return_std=True)
"""
FURTHER = {
    "stacking": "DeGrootRegressor(Ridge(0.1), n_agents=5, rule='stacking').fit(X[50:], y[50:]).predict(X[:3])",
    "intervals": "model.predict_interval(X[:3], coverage=0.9)",
    "classes": "DeGrootClassifier(LogisticRegression(), n_agents=5).fit(X[50:], y[50:] > 140).predict(X[:3])",
}
TIMED = """
import time
from sklearn.linear_model import LogisticRegression
from degroot import DeGrootClassifier
begun = time.perf_counter()
{code}
print(time.perf_counter() - begun)
"""


def empty_caches(folder: str) -> dict[str, str]:
    """An environment of a user who has compiled nothing yet."""
    names = ("HOME", "XDG_CACHE_HOME", "DEGROOT_KERNELS")
    return os.environ | {name: str(Path(folder) / name) for name in names}


def run_python(code: str, environment: dict[str, str] | None = None) -> tuple[float, str]:
    """Seconds that a process takes, and what it prints."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - begun, done.stdout


def measure_first(turns: int) -> str:
    """The tables of first predictions, and of what is used for the first time after them."""
    taken: dict[str, list[float]] = {name: [] for name in ("scikit-learn alone", "empty caches", "any other")}
    further: dict[str, list[float]] = {name: [] for name in FURTHER}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            taken["scikit-learn alone"].append(run_python(ALONE)[0])
            taken["empty caches"].append(run_python(FIVE_LINES, empty_caches(folder))[0])
            taken["any other"].append(run_python(FIVE_LINES)[0])
            for name, code in FURTHER.items():
                printed = run_python(FIVE_LINES + TIMED.format(code=code), empty_caches(folder))[1]
                further[name].append(float(printed))
    medians = {name: statistics.median(each) for name, each in taken.items()}
    medians["compiled on first use"] = compile_on_first_use()
    rows = [
        {"": name, "median, s": f"{seconds:.2f}", "over scikit-learn": f"{seconds / medians['scikit-learn alone']:.2f}"}
        for name, seconds in medians.items()
    ]
    added = [{"first use of": name, "median, s": f"{statistics.median(each):.2f}"} for name, each in further.items()]
    about = "After the five lines, in the same process, with empty caches. Asked for: at most 2 s each."
    return "\n\n".join([as_markdown(rows), about, as_markdown(added)])


def compile_on_first_use() -> float:
    """Seconds of the five lines with a package that brings no machine code."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "source" / "degroot"
        shutil.copytree(Path(degroot.__file__).parent, package, ignore=shutil.ignore_patterns("objects", "__pycache__"))
        return run_python(FIVE_LINES, empty_caches(folder) | {"PYTHONPATH": str(package.parent)})[0]


# -- the report --------------------------------------------------------------------------------------------------------

SECTIONS: dict[str, tuple[str, Callable[[int], str]]] = {
    "Imports and commands": (IMPORTS, measure_imports),
    "The first prediction": (FIRST, measure_first),
}


def main(turns: int, quick: bool) -> None:
    report: list[str] = []

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    say("# Start")
    say(HEAD.format(version=platform.python_version(), cores=os.cpu_count(), turns=turns, note=NOTE))
    for title, (about, measure) in SECTIONS.items():
        say(f"## {title}")
        say(about)
        say(measure(turns))
    if not quick:
        RESULTS.write_text("\n\n".join(report) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="three turns, only printed")
    arguments = parser.parse_args()
    main(3 if arguments.quick else arguments.turns, arguments.quick)
