"""The client: a collective of nodes that is asked as one in this process would be."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from grpc import StatusCode

from degroot.answers.answer import ASKER_FIELDS, FIELDS, Consensus, check_fields, interval_fields
from degroot.answers.display import View, Viewed
from degroot.compute.compiled import Array
from degroot.compute.progress import progress
from degroot.compute.tables import column_names, row_labels, to_numbers
from degroot.consultation.abstention import UnansweredRow
from degroot.consultation.points import read_points
from degroot.consultation.settings import check_flag
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.addresses import check_loopback
from degroot.node.answering.terms import (
    CONSENSUS,
    GRANT_OF,
    OWN,
    SOLVE,
    check_coverage,
    check_view,
    check_way,
    merge_batches,
)
from degroot.node.config import IdentityFiles
from degroot.node.config.names import NAME
from degroot.node.errors import PeerRefused, from_rpc, is_unimplemented
from degroot.node.protocol import version2
from degroot.node.protocol.codec import PROTOCOL, check_purpose, decode_answer, draw_question, tensor
from degroot.node.protocol.schemas import read_schema_text
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.tls.contents import channel_credentials
from degroot.schema import Schema

BATCH = 1000  # points in one message


class RemoteCollective(Viewed):
    """A collective whose agents are nodes, asked through one of them.

    It is a `Consultable`, as a `Collective` is: `predict` and `consult` are alike. The asked node answers from its own
    view, on the evidence of its own rows, as a `Collective` does for an `asker`; of the others only models are asked,
    for predictions. Who was missing and why is in the `flags` of an answer; an agent that was missing has weight 0 and
    no belief (NaN). What takes the agents' rows, such as `audit`, needs a collective in this process; nodes join and
    leave by their rosters.

    Parameters
    ----------
    channel : grpc.Channel
        To the node that is asked.
    view : ``"own"`` or ``"consensus"``, optional
        Whether the asked node answers from its own view, or all answer as one: the neutral consensus of the paper,
        where nodes have agreed to pool their evidence. By default its own; by rounds the consensus.
    way : ``"solve"`` or ``"rounds"``
        Of the consensus: whether the asked node solves for the weights, or all nodes pool among themselves.
    tolerance : float
        Of rounds: how far apart the beliefs may be in the end, over how far apart they were at first.
    rounds : int
        How many at most.
    timeout : float
        Seconds for one batch.
    """

    def __init__(
        self,
        channel: Any,
        node: str,
        *,
        view: str | None = None,
        way: str = SOLVE,
        tolerance: float = 1e-9,
        rounds: int = 1000,
        timeout: float = 60.0,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._channel, self._node, self._metadata, self._timeout = channel, node, metadata, timeout
        self._stub: Any = collective_pb2_grpc.CollectiveStub(channel)  # type: ignore[no-untyped-call]
        self._terms: dict[str, Any] = {"way": way, "tolerance": tolerance, "rounds": rounds}
        self._given = view
        self._read: tuple[str, Schema] | None = None  # the schema, and the text that it was read from
        check_way(way)
        check_view(view or (OWN if way == SOLVE else CONSENSUS), way)
        self._described = self._describe()

    def _describe(self) -> wire.Description:
        """What the node says of itself, in the newest version of the protocol that it speaks."""
        request = wire.DescribeRequest(protocol=PROTOCOL, schema=True)
        try:
            told: wire.Description = self._call(self._stub.Describe, request)
        except PeerRefused as error:
            if not is_unimplemented(error):
                raise
            self._stub = version2.CollectiveStub(self._channel)
            told = self._call(self._stub.Describe, request)
        return told

    def __repr__(self) -> str:
        return f"RemoteCollective({', '.join(self.names)}; through {self._node!r})"

    def _view(self) -> View:
        return View(repr(self))

    def __enter__(self) -> "RemoteCollective":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, in order, as the asked node last told them."""
        return tuple(sorted([self._described.name, *(member.name for member in self._described.members)]))

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the features."""
        return list(self._described.feature_names) or None

    @property
    def outputs(self) -> int | None:
        """How many numbers a prediction is; None: one, as (M,)."""
        return self._described.outputs or None

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probabilities are the outputs, as Python writes them; none where there are no classes."""
        return tuple(self._described.classes)

    @property
    def takes_gaps(self) -> bool:
        """Whether points may hold NaN: where nodes have a schema."""
        return bool(self._described.schema_digest)

    @property
    def schema(self) -> Schema | None:
        """What the columns are, as the members have agreed; None: plain numbers."""
        text = self._described.schema
        if not text:
            return None
        if self._read is None or self._read[0] != text:
            self._read = text, read_schema_text(text, f"the node {self._node!r}")
        return self._read[1]

    @property
    def identity(self) -> dict[str, Any]:
        """By which it is known again, as the asked node last told: the nodes, their models' versions, the settings."""
        told = self._described
        versions = {model.name: model.version for model in told.scored} | {told.name: told.model_version}
        settings = {field.name: getattr(told.settings, field.name) for field in told.settings.DESCRIPTOR.fields}
        return {"collective": repr(self), "models": dict(sorted(versions.items())), "settings": settings}

    @property
    def members(self) -> dict[str, str]:
        """How it stands with each node, as the asked one sees it now."""
        self._described = self._describe()
        return {self._described.name: "ready"} | {each.name: _standing(each) for each in self._described.members}

    @property
    def view(self) -> str:
        """Whose view is asked for, ``"own"`` or ``"consensus"``."""
        return self._given or (OWN if self._terms["way"] == SOLVE else CONSENSUS)

    @property
    def granted(self) -> frozenset[str]:
        """What of answers the caller may see, as the asked node last told: names of fields, and ``"interval"``."""
        return frozenset(self._described.fields)

    def predict(
        self, X: Any, asker: str | None = None, *, correct: bool | None = None, purpose: str = ""
    ) -> Array:  # fmt: skip
        """The collective prediction for each row of `X`, (M,)."""
        return np.asarray(self.consult(X, "value", asker=asker, correct=correct, purpose=purpose).value)

    def consult(
        self,
        X: Any,
        fields: Sequence[str] | str = FIELDS,
        *,
        coverage: float | None = None,
        asker: str | None = None,
        correct: bool | None = None,
        purpose: str = "",
        absent: Sequence[str] = (),
    ) -> Consensus:
        """The collective prediction with what lies behind it, as in process; by rounds without `trust`.

        Parameters
        ----------
        X : (M, d)
            Where the nodes have a schema: a frame, whose columns it says how to read, or numbers by it, with NaN for
            gaps. Columns that a frame does not have are absent: models that take them abstain.
        fields : names of fields of `Consensus`
            By default all that the caller was granted.
        coverage : float, optional
            Then there are `lower` and `upper`, or `sets` of classes, calibrated on the asked node's own rows; for its
            own view only.
        asker : str, optional
            For whom: the asked node, which has only its own rows. By default as `view` says.
        correct : bool, optional
            Of an own view: whether it is corrected by what the node's rows tell of errors, for the node itself only. By
            default it is not.
        purpose : str
            Why it is asked, such as ``"triage"``: everybody who answers records it, with the caller's name.
        absent : names of columns of the schema, optional
            That the rows do not have: models that take them abstain, and what stands in these columns is not sent.
        """
        view = self._find_view(asker)
        check_coverage(coverage, view)
        if correct is not None:
            check_flag("correct", correct)
        if correct and view != OWN:
            raise InvalidInput("`correct` must come with a node's own view, whose rows tell of errors; got none.")
        if fields is FIELDS:
            names = [name for name in (ASKER_FIELDS if view == OWN else FIELDS) if self._is_shown(name)]
        else:
            names = check_fields(fields, ASKER_FIELDS if view == OWN else FIELDS)
        points, lacking = self._check_points(X, absent)
        about = {"view": view, "correct": bool(correct), "purpose": check_purpose(purpose), "question": draw_question()}
        about |= {"schema_digest": self._described.schema_digest, "absent": lacking}
        replies = self._ask(points, names, None if self.schema else column_names(X), coverage, **about)
        fields = [*names, *interval_fields(coverage, self.classes)]
        answers = [decode_answer(reply, fields, self.outputs) for reply in replies]
        kept = {"coverage": None if coverage is None else float(coverage), "classes": self.classes}
        return merge_batches(answers, self.outputs, self.names, index=row_labels(X), **kept)

    def _check_points(self, X: Any, lacking: Sequence[str]) -> tuple[Array, list[str]]:
        """Points as numbers, and the columns of the schema that they do not have, those `lacking` among them."""
        schema = self.schema
        points = read_points(X, schema, self._described.n_features, self.feature_names, lacking, "the nodes'")
        if schema is None:
            return np.asarray(to_numbers(points.X), np.float64), []
        return np.asarray(points.X, np.float64), list(schema.list_marked(points.absent))

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def calibrate(self) -> "RemoteCollective":
        """Itself: nodes calibrate by themselves, when they have scored each other and whenever a model changes."""
        return self

    def _is_shown(self, name: str) -> bool:
        """Whether a field is asked for unasked: one that was granted, and by rounds not trust, which nobody sees."""
        return GRANT_OF.get(name, name) in self.granted and (name != "trust" or self._terms["way"] == SOLVE)

    def _find_view(self, asker: Any) -> str:
        """Whose view is meant."""
        node = self._described.name
        if asker is None:
            return self.view
        if not isinstance(asker, str) or asker not in self.names:
            given = repr(asker) if isinstance(asker, str) else f"a {type(asker).__name__}"
            raise InvalidInput(f"`asker` must be the name of the asked node, {node!r}; got {given}.")
        if asker != node:
            raise InvalidInput(f"`asker` must be the asked node, {node!r}; for the view of {asker!r} ask its own node.")
        check_view(OWN, self._terms["way"])
        return OWN

    def _ask(
        self, points: Array, fields: Sequence[str], names: Sequence[str] | None, coverage: float | None, **view: Any
    ) -> Iterable[wire.Answer]:
        batches = [points[start : start + BATCH] for start in range(0, len(points), BATCH)] or [points]
        terms = self._terms | {"fields": fields, "feature_names": names or (), "coverage": coverage, **view}
        requests = (wire.ConsultRequest(protocol=PROTOCOL, points=tensor(batch), **terms) for batch in batches)
        if len(batches) == 1:
            yield self._call(self._stub.Ask, next(requests))
            return
        yield from self._streamed(requests, len(batches))

    def _streamed(self, requests: Iterator[wire.ConsultRequest], count: int) -> Iterable[wire.Answer]:
        timeout = self._timeout * count
        came = 0
        with progress("Asking", count, lines=True) as advance:
            call = self._stub.Consult(requests, timeout=timeout, metadata=self._metadata)
            try:
                for answer in call:
                    came += 1
                    yield answer
                    advance()
            except grpc.RpcError as error:
                refusal = _refusal(self._node, error, timeout)
                if isinstance(refusal, UnansweredRow):
                    refusal = refusal.move(came * BATCH + refusal.row)
                raise refusal from error
            finally:
                call.cancel()  # where the loop was left early, nothing more is sent
        if came != count:
            raise DeGrootError(f"The node must answer all of {count} batches; it answered {came}.")

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _refusal(self._node, error, self._timeout) from error


def connect(
    address: str,
    *,
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    node: str | None = None,
    insecure_loopback: str | None = None,
    **settings: Any,
) -> RemoteCollective:
    """The collective that the node at an address belongs to.

    Parameters
    ----------
    address : ``"host:port"``
    ca, certificate, key : files
        The consortium's CA, and the certificate and the key of whoever asks, as ``degroot keys issue`` makes them.
    node : str, optional
        The node's name, if its certificate is to be checked against that, not against the host.
    insecure_loopback : str, optional
        The name of whoever asks, where nodes run with ``--insecure-loopback``, without certificates.
    settings
        Of `RemoteCollective`: `view`, `way`, `tolerance`, `rounds`, `timeout`.

    Examples
    --------
    >>> connect("127.0.0.1:7441", ca="keys/ca.pem")
    Traceback (most recent call last):
    degroot.exceptions.InvalidInput: A node must be asked with `ca`, `certificate` and `key`; some are missing.
    """
    options: list[tuple[str, Any]] = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    if insecure_loopback is not None:
        check_loopback([address])
        channel = grpc.insecure_channel(address, options)
        return _opened(channel, address, metadata=((NAME, insecure_loopback),), **settings)
    if ca is None or certificate is None or key is None:
        raise InvalidInput("A node must be asked with `ca`, `certificate` and `key`; some are missing.")
    files = IdentityFiles(Path(ca), Path(certificate), Path(key))
    if node is not None:
        options.append(("grpc.ssl_target_name_override", node))
    return _opened(grpc.secure_channel(address, channel_credentials(files), options), address, **settings)


def _opened(channel: Any, address: str, **settings: Any) -> RemoteCollective:
    try:
        return RemoteCollective(channel, address, **settings)
    except BaseException:
        channel.close()
        raise


def _standing(member: wire.Member) -> str:
    """How it stands with a node, in words."""
    if member.state == "calibrating":
        return f"calibrating, {member.progress:.0%}" + (f": {member.reason}" if member.reason else "")
    return member.reason or member.state or "not told"


def _refusal(node: str, error: grpc.RpcError, seconds: float) -> DeGrootError:
    """What a failed call says: a user's mistake, or trouble on the way."""
    call: Any = error
    if call.code() in (StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION, StatusCode.PERMISSION_DENIED):
        return UnansweredRow.parse(call.details() or "") or InvalidInput(call.details())
    if call.code() is StatusCode.UNAVAILABLE and "quorum" in (call.details() or ""):
        return DeGrootError(call.details())
    return from_rpc(node, error, seconds)
