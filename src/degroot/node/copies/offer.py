"""Offers: this node's own model as a file that peers with the right to it may copy."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from degroot.exceptions import InvalidInput
from degroot.models.by_schema import SchemaModel
from degroot.models.exporting import COPYABLE, check_exportable
from degroot.models.formats import content_of, version_of
from degroot.node.config import COPY, Configuration
from degroot.node.copies.bundle import make_bundle
from degroot.node.protocol.description import describe_node
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.tls.signing import Signer
from degroot.node.tls.signing import sign as sign_by_files


class NotOffered(InvalidInput):
    """A model cannot be copied, or not by this peer."""


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """What can be said of one version of a model before it is given away."""

    version: str
    lacking: str = ""  # why it is not offered; empty: it is
    warnings: tuple[str, ...] = ()


def examine_model(configuration: Configuration, seat: ScoredAgent) -> ModelOffer:
    """Whether the node's model can be copied: it is a file, runs no code of its own, and keeps no rows."""
    try:
        check_takes_numbers(seat)
        warnings = check_exportable(
            _file(configuration), _content(configuration, seat), seat.agent.X, configuration.model.classes
        )
    except InvalidInput as error:
        return ModelOffer(seat.version, str(error))
    return ModelOffer(seat.version, "", warnings)


def check_takes_numbers(seat: ScoredAgent) -> None:
    """Raise unless the model takes rows as they are: others have its file only, not what turns rows into its input."""
    if isinstance(seat.agent.model, SchemaModel):
        raise NotOffered(
            "A model that is copied must take numbers by the schema; this one takes frames or categories of its own, "
            "and is queried."
        )


def check_copyable(configuration: Configuration) -> None:
    """Raise unless the model is in a file of a kind that can be given to others; pickles never are."""
    file = _file(configuration)
    if file.suffix.lower() not in COPYABLE:
        raise NotOffered(f"A model that is given to others must be a file {', '.join(COPYABLE)}; got {file}.")


def offer_bundle(
    configuration: Configuration, seat: ScoredAgent, offer: ModelOffer, recipient: str, sign: Signer | None = None
) -> bytes:
    """The node's model for a peer, as its file is now, signed.

    `sign`: by default with what is in the files of the node's identity.
    """
    if COPY not in configuration.rights.get(recipient, ()) or recipient == configuration.name:
        rights = ", ".join(map(repr, sorted(configuration.rights.get(recipient, ())))) or "nothing"
        raise NotOffered(f"A peer must have the right {COPY!r} at {configuration.name!r}; {recipient!r} may: {rights}.")
    if offer.lacking or offer.version != seat.version:
        raise NotOffered(offer.lacking or "A copied model must be the one that was examined; it has just changed.")
    if configuration.identity is None:
        raise NotOffered("Copies must be signed; this node runs without certificates.")
    description = describe_node(configuration, seat.agent, seat.feature_names)
    return make_bundle(
        description, recipient, _file(configuration).suffix.lower(), _content(configuration, seat),
        configuration.model.classes, sign or partial(sign_by_files, configuration.identity),
    )  # fmt: skip


def _file(configuration: Configuration) -> Path:
    file = configuration.model.file
    if file is None or file.is_dir():
        raise NotOffered("A model must be a file to be copied; this one is served, or kept by MLflow.")
    return file


def _content(configuration: Configuration, seat: ScoredAgent) -> bytes:
    """The model's file, if it is still the version that answers."""
    content = content_of(_file(configuration))
    if version_of(content) != seat.version:
        raise NotOffered("A copied model must be the version that answers; its file has just changed.")
    return content
