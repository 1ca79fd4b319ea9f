"""The report: for each experiment a table, a figure, and our findings beside the paper's; as a page and as Markdown."""

import io
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure

import degroot
from degroot.files.atomic import save
from degroot.paper.cache import LIBRARIES
from degroot.paper.catalogue import NAMES
from degroot.paper.data.datasets import Data
from degroot.paper.drawing import LOOK
from degroot.paper.experiment import Finding, Settings

VERDICTS = {True: "agrees", False: "differs", None: "not judged"}


@dataclass(frozen=True)
class Chapter:
    """What the report says of one experiment."""

    name: str
    title: str
    about: str
    settings: dict[str, Any]
    picture: str  # of the figure, as the address of an image that holds it; empty without rows
    findings: list[Finding]

    @property
    def counts(self) -> Counter[str]:
        """How many findings agree, differ and are not judged, at the printed setting."""
        return Counter(VERDICTS[finding.agrees] for finding in self.findings if not finding.reading)


def chapter(name: str, module: ModuleType, table: pd.DataFrame, settings: Settings, out: Path) -> Chapter:
    """Write an experiment's table and figure to the folder `out`, and tell what the report needs."""
    picture, findings = "", list[Finding]()
    save(out / f"{name}.csv", table.to_csv(index=False, lineterminator="\n").encode())
    if len(table):
        figure = module.draw(table, settings)
        drawing = _image(figure, "svg")
        save(out / f"{name}.svg", drawing)
        save(out / f"{name}.png", _image(figure, "png"))
        picture = f"data:image/svg+xml;base64,{b64encode(drawing).decode()}"
        findings = module.findings(table, settings)
    return Chapter(name, module.TITLE, module.ABOUT, asdict(settings), picture, findings)


def write(chapters: Sequence[Chapter], data: Sequence[Data], missing: Sequence[str], out: Path) -> Path:
    """Write ``report.html`` and ``report.md`` to the folder `out`; gives the path of the former."""
    environment = Environment(
        loader=PackageLoader("degroot.paper"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        autoescape=lambda template: template is not None and template.startswith("report.html"),
    )  # fmt: skip
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    content = {
        "chapters": chapters,
        "data": data,
        "missing": missing,
        "verdicts": VERDICTS,
        "differences": [
            (each, finding)
            for each in chapters
            for finding in each.findings
            if finding.agrees is False and not finding.reading
        ],
        "whole": len(chapters) == len(NAMES),
        "counts": sum((each.counts for each in chapters), Counter()),
        "reps": sorted({each.settings["reps"] for each in chapters}),
        "seed": sorted({each.settings["seed"] for each in chapters}),
        "versions": {"degroot": degroot.__version__} | {library: version(library) for library in LIBRARIES},
    }
    for file in ("report.md", "report.html"):
        path = out / file
        save(path, environment.get_template(f"{file}.jinja").render(content).encode())
    return path


def _image(figure: Figure, kind: str) -> bytes:
    """A figure as a file. Nothing in it changes from one run to the next."""
    content = io.BytesIO()
    with rc_context(LOOK):
        figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()
