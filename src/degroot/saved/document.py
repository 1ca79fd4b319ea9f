"""The file of a collective: what it says, and the models and spaces that it names."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot import models
from degroot.exceptions import InvalidInput
from degroot.files.source import PEERS, STANDARDISE
from degroot.files.toml import Table
from degroot.models.by_schema import check_library
from degroot.saved.settings import FORMER, SETTINGS
from degroot.schema import FrameForm, Schema, read_schema

FORMAT = 1
FILE = "collective.toml"
LABELS = "fiubUS"  # kinds of arrays that can be the labels of units in a file
NEEDED = "Collectives in files need extra packages: pip install 'degroot[batch]'"
TOP = (
    "format", *SETTINGS, FORMER, "choice", "features", "classes", "target", "space", "schema", "schema_inferred",
    "agents", "digests", "calibration",
)  # fmt: skip
ENTRY = (
    "name", "model", "data", "target", "own_predictions", "units", "space", "site", "absent",
    "rows", "labels", "shared_space", "located", "located_features", "residuals", "errors", "scored", "kept",
    "unscored", "calibration", "view",
)  # fmt: skip
FILES = ("schema", "site", "model", "data", "rows", "labels", "own_predictions", "units", "space")
WORDS = (STANDARDISE, PEERS)
MODEL = ("file", "uri", "tracking", "classes", "input", "address", "name", "version", "ca", "certificate", "key")


@dataclass(frozen=True)
class Document:
    """What the file says, checked entry by entry when it is taken."""

    top: Table
    agents: list[Table]
    digest: str  # of the file itself
    unsafe_pickle: bool = False

    @classmethod
    def read(cls, path: Path, unsafe_pickle: bool = False) -> "Document":
        """This file, or the one in this folder."""
        file = path / FILE if os.path.isdir(path) else path
        if not os.path.exists(file):
            raise InvalidInput(f"A collective must be a TOML file, or a folder with {FILE}; there is no {file}.")
        digest = _digest(file)
        top = Table.read(file, TOP)
        if top.given("format", top.whole, FORMAT) != FORMAT:
            raise top.refusal("format", f"be {FORMAT}, which is all that this version of degroot knows")
        agents = top.tables("agents", ENTRY)
        if not agents:
            raise top.refusal("agents", "list at least one agent, [[agents]]")
        return cls(top, agents, digest, unsafe_pickle)

    @cached_property
    def is_scored(self) -> bool:
        """Whether all agents come with what they have scored."""
        scored = ["residuals" in agent.entries for agent in self.agents]
        if any(scored) != all(scored):
            raise self.agents[scored.index(False)].refusal("residuals", "be there, as other agents have them")
        return all(scored)

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Of the files that were saved with it, by the names that the file gives them."""
        if "digests" not in self.top.entries:
            return {}
        told = self.top.take("digests", lambda value: isinstance(value, dict), "be a table, [digests]")
        return {str(name): str(digest) for name, digest in told.items()}

    @property
    def folders(self) -> list[str]:
        """The folders of the agents, in order, where they have scored models."""
        return [agent.text("residuals").partition("/")[0] for agent in self.agents]

    @property
    def kept(self) -> dict[Path, str]:
        """The files that were saved with it, and their digests."""
        folder = self.top.path.absolute().parent
        return {folder / name: digest for name, digest in self.digests.items()}

    @property
    def is_current(self) -> bool:
        """Whether the file is still the one that was read."""
        return _digest(self.top.path) == self.digest

    @cached_property
    def schema(self) -> Schema | None:
        """What the columns are, where the members have agreed on that."""
        return self.top.given("schema", lambda key: read_schema(self.whole(self.top, key)), None)

    @property
    def has_agreed_schema(self) -> bool:
        """Whether the members have agreed on the schema; otherwise it follows from their frames."""
        return self.schema is not None and not self.top.given("schema_inferred", self.top.flag, False)

    @cached_property
    def features(self) -> tuple[str, ...] | None:
        """The names of the features, in order, where the file tells them; a number stands for x0, x1, …"""
        if self.schema is not None:
            return self.schema.names
        count = self.top.entries.get("features")
        if isinstance(count, int):
            return tuple(f"x{k}" for k in range(self.top.whole("features")))
        return self.top.given("features", self.top.texts, None)

    @cached_property
    def classes(self) -> NDArray[Any] | None:
        """All labels, where there are classes."""
        take = (
            (lambda key: self.top.take(key, _are_alike, "be labels of one kind")) if self.is_scored else self.top.labels
        )
        known = take("classes") if "classes" in self.top.entries else self.schema and self.schema.classes
        return None if known is None else np.array(known)

    @property
    def files(self) -> list[Path]:
        """The files that it lists: models, data, spaces."""
        found = []
        for table in (self.top, *self.agents):
            if isinstance(table.entries.get("model"), dict):
                model = table.table("model", MODEL)
                found += _within(model.file("file")) if "file" in model.entries else []
            columns = {"own_predictions", "units"} if "data" in table.entries else set()
            named = [key for key in FILES if key not in columns and isinstance(table.entries.get(key), str)]
            files = [key for key in named if table.text(key) not in WORDS and not models.is_address(table.text(key))]
            found += [file for key in files for file in _within(table.file(key))]
        return found

    def model(self, agent: Table) -> tuple[Any, FrameForm | None]:
        """The agent's model, a file or an address, or a table with one of them; and the form of frames that it takes.

        Without a form it takes arrays: by the schema, where there is one.
        """
        source = self._source(agent)
        form = source.find_form(self.schema)
        if source.address is not None:
            return models.load(source)[0], None
        if form is None:
            return models.load(source, self.unsafe_pickle, NEEDED, self.schema)[0], None
        check_library(form)
        return models.load(replace(source, input=None), self.unsafe_pickle, NEEDED)[0], form

    def _source(self, agent: Table) -> models.ModelSource:
        if isinstance(agent.entries.get("model"), dict):
            table = agent.table("model", MODEL)
            if "file" in table.entries:
                self.whole(table, "file")
            return models.model_source(table)
        if models.is_address(agent.text("model")):
            return models.locate_model(agent.text("model"))
        return models.ModelSource(file=self.whole(agent, "model"))

    def space(self, table: Table, key: str = "space") -> Any:
        """Features of mean 0 and standard deviation 1, the transformer in a file, or nothing."""
        if key not in table.entries:
            return None
        if table.text(key) != STANDARDISE:
            return models.open_transformer(self.whole(table, key), NEEDED)
        from sklearn.preprocessing import StandardScaler

        return StandardScaler()

    def whole(self, table: Table, key: str) -> Path:
        """A file, if it is the one that was saved."""
        path, digest = table.file(key), self.digests.get(table.text(key))
        if digest is not None and os.path.isfile(path) and sha256(path.read_bytes()).hexdigest() != digest:
            raise damaged(path)
        return path


def damaged(path: Path) -> InvalidInput:
    """The error that a file is not the one that was saved."""
    return InvalidInput(f"{path} must be as it was saved; it has been changed or damaged.")


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError:  # who reads it, says why
        return ""


def _within(path: Path) -> list[Path]:
    """The file, or the files in the folder that it is: MLflow keeps models so."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _are_alike(labels: Any) -> bool:
    return isinstance(labels, list) and len({type(label) for label in labels}) == 1 and not isinstance(labels[0], list)
