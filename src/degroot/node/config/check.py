"""Configuration checks: all that a configuration says, tried out without starting the node."""

import platform
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from degroot import files, models
from degroot.consultation.abstention import name_columns
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.addresses import bracket, check_loopback, is_this_machine, split
from degroot.files.atomic import PRIVATE, make_folder
from degroot.files.lock import HAS_POSIX_LOCKS
from degroot.node.config.entries import COPY, LOOPBACK, Configuration, Peer
from degroot.node.config.names import NAME
from degroot.node.copies.copy import CopyError
from degroot.node.copies.offer import examine_model
from degroot.node.copies.store import check_held, list_held, open_held
from degroot.node.errors import from_rpc, is_unimplemented
from degroot.node.maps.exchange import make_settings
from degroot.node.page.tokens import read_tokens
from degroot.node.peers.roster import apply_roster, read_newest, read_rosters
from degroot.node.protocol import version2
from degroot.node.protocol.codec import PROTOCOL
from degroot.node.protocol.description import describe_node, find_difference
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records.journal import read_journal
from degroot.node.records.ledger import find_damage, has_chain, journal_path, summary
from degroot.node.records.storage import find_storage_trouble
from degroot.node.scoring.load import seated_with
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server.health_service import TROUBLES_KEY
from degroot.node.server.lock import is_locked
from degroot.node.state.version import check_version
from degroot.node.tls import identity
from degroot.node.tls.contents import CERTIFICATE, channel_credentials
from degroot.node.tls.credentials import WARNING_DAYS
from degroot.node.tls.files import read_certificates
from degroot.node.tls.roster import SignedRoster
from degroot.schema import Schema


def check_security(configuration: Configuration, insecure_loopback: bool) -> None:
    """Refuse a node that others could mistake for another, or read along with."""
    if insecure_loopback:
        check_loopback([configuration.listen, *(peer.address for peer in configuration.peers)])
    elif configuration.identity is None:
        raise InvalidInput(
            f"{configuration.path} must have a table [identity]; without TLS a node runs only with --insecure-loopback."
        )
    else:
        identity.check(configuration.identity, configuration.name)


def secured(configuration: Configuration, insecure_loopback: bool) -> Configuration:
    """The configuration as it is run: without an identity where TLS is left out."""
    check_security(configuration, insecure_loopback)
    return replace(configuration, identity=None) if insecure_loopback else configuration


OK, WARNING, FAILED = "ok", "warning", "failed"
HASTY_SECONDS = 2.0  # to wait for peers when a node starts


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """How one check came out."""

    what: str
    outcome: str  # OK, WARNING or FAILED
    told: str


def check_system() -> None:
    """Raise unless this system can run a node."""
    if not HAS_POSIX_LOCKS:
        raise InvalidInput(
            "A node must run on Linux or macOS: it needs POSIX locks, signals and file permissions; this is "
            f"{platform.system()}. Nodes elsewhere can be asked from here."
        )


def inspect(configuration: Configuration, insecure_loopback: bool, unsafe_pickle: bool) -> Iterator[CheckFinding]:
    """Check one thing after the other, whatever the others come to."""
    if insecure_loopback:
        configuration = replace(configuration, identity=None)
    rosters: list[SignedRoster] = []
    roster = _found("roster", lambda: _check_roster(configuration, rosters))
    configuration = apply_roster(configuration, rosters[0] if rosters else None)
    peers, clients = len(configuration.peers), len(configuration.clients)
    yield CheckFinding("configuration", OK, f"{configuration.name!r}, {peers} peers, {clients} clients")
    yield _found("identity", lambda: _check_identity(configuration, insecure_loopback))
    yield from _warn_of_expiry(configuration)
    if rosters or roster.outcome == FAILED:
        yield roster
    if rosters:
        failures = (each for each in read_rosters(configuration).values() if isinstance(each, InvalidInput))
        yield from (CheckFinding("roster", WARNING, str(failure)) for failure in failures)
    if configuration.identity is not None and _readable_by_others(configuration.identity.key):
        told = f"{configuration.identity.key} can be read by every user; chmod o-rwx mends that"
        yield CheckFinding("key", WARNING, told)
    rows: list[files.Rows] = []
    yield _found("data", lambda: _check_data(configuration, rows))
    seats: list[ScoredAgent] = []
    yield _found("model", lambda: _check_model(configuration, rows, unsafe_pickle, seats))
    if is_locked(configuration.state):
        yield CheckFinding("port", OK, f"this node is running, on {configuration.listen}")
        yield _check_health(configuration)
    else:
        yield _found("port", lambda: _check_port(*split(configuration.listen)))
        if configuration.metrics is not None:
            metrics = configuration.metrics
            yield _found("metrics port", lambda: _check_port(metrics.host, metrics.port))
        if configuration.page is not None:
            page = configuration.page
            yield _found("page port", lambda: _check_port(page.host, page.port))
    if configuration.page is not None:
        yield _check_tokens(configuration)
    if configuration.metrics is not None and not is_this_machine(configuration.metrics.host):
        told = f"{configuration.metrics.text} can be read by whoever reaches it: names of peers and counts, without TLS"
        yield CheckFinding("metrics", WARNING, told)
    yield _check_evidence(configuration, seats[0] if seats else None)
    if seats:
        yield from _check_offer(configuration, seats[0])
    for owner in list_held(configuration):
        yield _check_held(configuration, owner, seats[0] if seats else None)
    state = _found("state", lambda: _check_state(configuration))
    yield state
    if state.outcome == OK:
        yield _check_ledger(configuration)
    mine = describe_node(configuration, seats[0].agent, seats[0].feature_names) if seats else None
    for peer in configuration.peers:
        yield _reached(configuration, peer, mine, seats[0].agent.schema if seats else None)


def _check_identity(configuration: Configuration, insecure_loopback: bool) -> str:
    check_security(configuration, insecure_loopback)
    if configuration.identity is None:
        return "none, on loopback only"
    expires = identity.check(configuration.identity, configuration.name)
    return f"{configuration.identity.certificate} is for {configuration.name!r} until {expires:%Y-%m-%d %H:%M} UTC"


def _warn_of_expiry(configuration: Configuration) -> Iterator[CheckFinding]:
    """Certificates that end soon; those that have ended are refused elsewhere."""
    if configuration.identity is None:
        return
    now = datetime.now(UTC)
    for what, path in (("identity", configuration.identity.certificate), ("CA", configuration.identity.ca)):
        with suppress(InvalidInput):
            ends = read_certificates(path, what)[0].not_valid_after_utc
            if now < ends <= now + timedelta(days=WARNING_DAYS):
                yield CheckFinding(what, WARNING, f"{path} expires in {(ends - now).days} days: renew it")


def _check_roster(configuration: Configuration, rosters: list[SignedRoster]) -> str:
    """Take in the roster that the node goes by, if there is one, and see that the node is in it."""
    found = read_newest(configuration)
    if found is None:
        return "none is signed by the CA: peers are those of the configuration"
    rosters.append(found)
    if configuration.identity is not None:
        certificate = read_certificates(configuration.identity.certificate, CERTIFICATE)[0]
        if certificate.serial_number in found.revoked:
            raise InvalidInput(f"This node's certificate must not be revoked; roster {found.number} does so.")
    if found.members and configuration.name not in found.members:
        raise InvalidInput(f"This node must be in the roster; number {found.number} has {', '.join(found.members)}.")
    members = f"{len(found.members)} members" if found.members else "peers as in the configuration"
    return f"number {found.number} of {found.issued}: {members}, {len(found.revoked)} certificates revoked"


def _readable_by_others(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & 0o007)  # its group may be the node's, as with systemd and Kubernetes
    except OSError:
        return False  # that it is not there is told elsewhere


def _found(what: str, check: Callable[[], str]) -> CheckFinding:
    try:
        return CheckFinding(what, OK, check())
    except DeGrootError as error:
        return CheckFinding(what, FAILED, str(error))


def _check_data(configuration: Configuration, rows: list[files.Rows]) -> str:
    source = configuration.data
    rows.append(files.load(source))
    (m, d), schema = rows[0].X.shape, rows[0].schema
    if schema is None or schema.target is None:
        return f"{source.file} holds {m} rows of {d} features and {', '.join(map(repr, source.target))}"
    told = f"{source.file} holds {m} rows of {d} features and {schema.target.name!r}, by the schema {schema.digest}"
    lacks = rows[0].lacks
    return told + ("" if lacks is None or not lacks.any() else f", without {name_columns(lacks, schema.names)}")


def _check_model(
    configuration: Configuration, rows: list[files.Rows], unsafe_pickle: bool, seats: list[ScoredAgent]
) -> str:
    if not rows:
        version = models.load(configuration.model, unsafe_pickle=unsafe_pickle)[1]
        return f"version {version} could be opened; there are no rows to try it on"
    seats.append(seated_with(configuration, rows[0], unsafe_pickle=unsafe_pickle))
    return f"version {seats[0].version} answers for these rows"


def _check_tokens(configuration: Configuration) -> CheckFinding:
    """Who is let in to the page."""
    try:
        tokens = read_tokens(configuration.state)
    except InvalidInput as error:
        return CheckFinding("page tokens", FAILED, str(error))
    good = {each.name for each in tokens or () if each.expires > time.time()}
    if not good:
        remedy = "degroot node token add, or degroot node page, lets somebody in"
        outcome = OK if tokens is None else WARNING  # none yet, or none that is good still
        return CheckFinding("page tokens", outcome, f"nobody has one: {remedy}")
    return CheckFinding("page tokens", OK, f"of {', '.join(sorted(good))}")


def _check_evidence(configuration: Configuration, seat: ScoredAgent | None) -> CheckFinding:
    """What the node's evidence means for its labels, in a sentence; of maps, whether they can be made."""
    if configuration.pooled:
        return CheckFinding("evidence", WARNING, "pooled: members can recover this organisation's labels from it")
    if configuration.maps is not None:
        terms = configuration.maps
        told = f"at epsilon {terms.epsilon:g} each, {terms.lifetime_epsilon:g} for life"
        if find_spec("opendp") is None:
            return CheckFinding("evidence", FAILED, "maps need extra packages: pip install 'degroot[maps]'")
        try:
            if seat is not None:
                make_settings(configuration, seat.feature_names, seat.agent.n_features)
        except InvalidInput as error:
            return CheckFinding("evidence", FAILED, str(error))
        return CheckFinding("evidence", OK, f"maps: noisy tables of errors, {told}; labels of single rows stay here")
    return CheckFinding("evidence", OK, "own: labels and errors stay here, and answers weigh models by the own rows")


def _check_offer(configuration: Configuration, seat: ScoredAgent) -> Iterator[CheckFinding]:
    """Whether the model can be given to those who may copy it."""
    may = sorted(peer.name for peer in configuration.peers if COPY in peer.may)
    if may:
        offer = examine_model(configuration, seat)
        if offer.lacking:
            yield CheckFinding("copies", FAILED, f"the model cannot be copied by {', '.join(may)}: {offer.lacking}")
        else:
            yield CheckFinding("copies", OK, f"the model may be copied by {', '.join(may)}")
        yield from (CheckFinding("copies", WARNING, warning) for warning in offer.warnings)


def _check_held(configuration: Configuration, owner: str, seat: ScoredAgent | None) -> CheckFinding:
    """Whether the copy that is held of a model is used, and can be opened and asked, as the running node would do it.

    `seat`: None where this node's own rows or model cannot be opened.
    """
    what, unused = f"copy of {owner}", _find_why_unused(configuration, owner)
    if unused:
        return CheckFinding(what, WARNING, f"held, but not used: {unused}")
    try:
        bundle = check_held(configuration, owner)
        told = f"version {bundle.version}, signed {bundle.issued}"
        if seat is None:
            return CheckFinding(what, WARNING, f"{told}; not tried, for want of this node's own rows and model")
        open_held(configuration, bundle, seat.agent, seat.feature_names)
    except CopyError as error:
        return CheckFinding(what, FAILED, error.reason)
    except InvalidInput as error:
        return CheckFinding(what, FAILED, str(error))
    return CheckFinding(what, OK, f"{told}; used, and answers for this node's rows")


def _find_why_unused(configuration: Configuration, owner: str) -> str:
    """Why the node does not use the copy that it holds of a model, and what that means; empty: it uses it."""
    use = {peer.name: peer.use for peer in configuration.peers}.get(owner)
    if use is None:
        return f"{owner!r} is not in the roster, so that its model takes no part in answers"
    if configuration.identity is None:
        return "this node runs without certificates, and cannot check who has signed it"
    if COPY not in use:
        return f"the `use` of {owner!r} is queries only, so that own rows and asked points are sent to it"
    return ""


def _check_state(configuration: Configuration) -> str:
    """The folder can be written, and is of a version that this software knows."""
    folder = make_folder(configuration.state, mode=PRIVATE)
    trouble = find_storage_trouble(configuration)
    if trouble is not None:
        raise InvalidInput(f"The state folder must have room and be writable; {trouble}.")
    check_version(folder)
    return f"{folder} can be written"


def _check_ledger(configuration: Configuration) -> CheckFinding:
    """The ledger, if there is one, is whole, as the node will look at it when it starts."""
    path, what = configuration.ledger, "ledger"
    try:
        damage, lines = find_damage(path), len(read_journal(journal_path(path)).damaged)
        if damage:
            told = f"{path} is damaged ({damage}): the next start moves it aside and begins a new one"
            return CheckFinding(what, WARNING, told)
        if not path.exists():
            return CheckFinding(what, OK, "there is none yet")
        if has_chain(path):
            summary(path)
    except DeGrootError as error:
        return CheckFinding(what, FAILED, str(error))
    if lines:
        return CheckFinding(what, WARNING, f"{lines} lines of its journal are damaged: the next start sets them aside")
    return CheckFinding(what, OK, f"{path} can be read")


def _check_port(host: str, port: int) -> str:
    """The port has to be free on an address of this machine."""
    try:
        kind, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with closing(socket.socket(kind, socket.SOCK_STREAM)) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(place)
    except OSError as error:
        raise InvalidInput(f"The node must be able to listen on {host}:{port}; {error.strerror}.") from error
    return f"{host}:{port} is free"


def check_peers(configuration: Configuration, seat: ScoredAgent) -> None:
    """Refuse to start where no peer is alike and at least half of all are not: then it is this node's mistake.

    A single peer with other features or settings, the first that could be reached, is only left out.
    """
    mine = describe_node(configuration, seat.agent, seat.feature_names)
    hasty = replace(configuration, timing=replace(configuration.timing, deadline_seconds=HASTY_SECONDS))
    with ThreadPoolExecutor(max(1, len(configuration.peers))) as pool:
        found = list(pool.map(lambda peer: _reached(hasty, peer, mine, seat.agent.schema), configuration.peers))
    answered = [each for each in found if each.outcome != WARNING]
    if 2 * len(answered) >= len(found) > 0 and all(each.outcome == FAILED for each in answered):
        raise InvalidInput(f"A node must be like its peers; {answered[0].what} at {answered[0].told}")


def _check_health(configuration: Configuration) -> CheckFinding:
    """Whether the node that is running can answer now, as it says itself."""
    host, port = split(configuration.listen)
    with suppress(ValueError):
        address = ip_address(host)
        host = host if not address.is_unspecified else LOOPBACK if address.version == 4 else "::1"
    seconds, itself = configuration.timing.deadline_seconds, Peer(configuration.name, f"{bracket(host)}:{port}")
    metadata = ((NAME, configuration.name),) if configuration.identity is None else ()
    try:
        with _channel(configuration, itself) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check.with_call
            reply, call = check(health_pb2.HealthCheckRequest(), timeout=seconds, metadata=metadata)
    except grpc.RpcError as error:
        return CheckFinding("health", FAILED, f"{itself.address}: {from_rpc(itself.name, error, seconds).reason}")
    except InvalidInput:
        return CheckFinding("health", WARNING, "not asked, for want of a certificate")
    if reply.status == health_pb2.HealthCheckResponse.SERVING:
        return CheckFinding("health", OK, "the running node can answer")
    told = dict(call.trailing_metadata() or ()).get(TROUBLES_KEY, b"").decode().replace("\n", "; ")
    return CheckFinding("health", FAILED, f"the running node cannot answer: {told}")


def _reached(
    configuration: Configuration, peer: Peer, mine: wire.Description | None, schema: Schema | None
) -> CheckFinding:
    """Whether a peer answers, which it need not yet, and whether it has the same features, which it must."""
    what, seconds = f"peer {peer.name}", configuration.timing.deadline_seconds
    metadata = ((NAME, configuration.name),) if configuration.identity is None else ()
    try:
        with _channel(configuration, peer) as channel:
            request = wire.DescribeRequest(protocol=PROTOCOL, schema=schema is not None)
            theirs = _describe(channel, request, timeout=seconds, metadata=metadata)
    except grpc.RpcError as error:
        return CheckFinding(what, WARNING, f"{peer.address}: {from_rpc(peer.name, error, seconds).reason}")
    except InvalidInput:
        return CheckFinding(what, WARNING, "not tried, for want of a certificate")
    if mine is None:
        return CheckFinding(what, OK, f"{peer.address} answers")
    difference = find_difference(mine, theirs, peer.name, schema)
    if difference is not None:
        return CheckFinding(what, FAILED, f"{peer.address}: {difference}.")
    return CheckFinding(what, OK, f"{peer.address} answers, and has the same features and settings")


def _describe(channel: Any, request: wire.DescribeRequest, **settings: Any) -> wire.Description:
    """What a node says of itself, in the newest version of the protocol that it speaks."""
    stub: Any = collective_pb2_grpc.CollectiveStub(channel)  # type: ignore[no-untyped-call]
    try:
        theirs: wire.Description = stub.Describe(request, **settings)
    except grpc.RpcError as error:
        if not is_unimplemented(error):
            raise
        stub = version2.CollectiveStub(channel)
        theirs = stub.Describe(request, **settings)
    return theirs


def _channel(configuration: Configuration, peer: Peer) -> Any:
    if configuration.identity is None:
        return grpc.insecure_channel(peer.address)
    identity.check_caller(configuration.identity)  # gRPC ends the process where there is no certificate in the file
    credentials = channel_credentials(configuration.identity)
    return grpc.secure_channel(peer.address, credentials, [("grpc.ssl_target_name_override", peer.name)])
