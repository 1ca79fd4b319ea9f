"""The server: one node's process, from its configuration to its last answer."""

import asyncio
import gc
import signal
import socket
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, make_folder
from degroot.node.answering.answering import Answering
from degroot.node.config import Configuration, Page
from degroot.node.config.check import check_peers, check_system, secured
from degroot.node.peers.link import LinkContext
from degroot.node.peers.peers import Peers
from degroot.node.peers.roster import RosterStore, apply_roster, read_newest
from degroot.node.protocol import version2
from degroot.node.protocol.codec import draw_question
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records import metrics
from degroot.node.records.ledger import Ledger, damaged_path
from degroot.node.records.log import capture_libraries, logger
from degroot.node.records.own_rows import OwnRowsWatch
from degroot.node.records.receipts import Receipts
from degroot.node.records.recent import Recent
from degroot.node.scoring.calibrated import CalibratedScores
from degroot.node.scoring.load import load_scored_agent, warm_up
from degroot.node.scoring.residual_store import Residuals
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server import health_service, model_service
from degroot.node.server.access import Access, Allowances, DailyBudgets, Reading
from degroot.node.server.background import start_background
from degroot.node.server.data_watch import DataWatch
from degroot.node.server.health import TROUBLES, Health
from degroot.node.server.listening import bind
from degroot.node.server.lock import lock_state
from degroot.node.server.refused_calls import RefusedCallCleanup
from degroot.node.server.reload import watch_files
from degroot.node.server.service import CollectiveService, OtherMethods
from degroot.node.server.service_manager import ServiceManager
from degroot.node.server.status import StatusServer
from degroot.node.server.threads import run_in_thread
from degroot.node.state.version import take_over
from degroot.node.tls import signing
from degroot.node.tls.credentials import NodeCredentials

if TYPE_CHECKING:
    from degroot.node.page.app import Serving

HANDSHAKE_SECONDS = 10
MIN_CONCURRENT_CALLS = 1024  # at a time, of all callers: a roster may grow while the node runs


@dataclass(frozen=True, slots=True)
class Resources:
    """What a node has opened before its event loop runs."""

    configuration: Configuration
    credentials: NodeCredentials | None  # None: without TLS, on loopback only
    data: DataWatch
    first: ScoredAgent
    ledger: Ledger
    measured: metrics.Metrics
    health: Health
    manager: ServiceManager
    page: socket.socket | None  # where it listens
    unsafe_pickle: bool


def run(configuration: Configuration, *, insecure_loopback: bool = False, unsafe_pickle: bool = False) -> None:
    """Serve until the process is told to stop; then finish what is in flight."""
    check_system()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the node serves: its files are being read
    configuration = secured(configuration, insecure_loopback)
    capture_libraries(logger(configuration.name))
    data = DataWatch(configuration.data)
    first = load_scored_agent(configuration, unsafe_pickle=unsafe_pickle)
    check_peers(apply_roster(configuration, read_newest(configuration)), first)
    with ExitStack() as stack:
        stack.enter_context(lock_state(make_folder(configuration.state, mode=PRIVATE)))
        with suppress(OSError):  # it may have been made by somebody else, with other rights
            configuration.state.chmod(PRIVATE)
        take_over(configuration.state, logger(configuration.name))
        files = configuration.identity
        credentials = None if files is None else NodeCredentials(files, configuration.name)
        if credentials is not None:
            signing.keep_authorities(configuration.state, credentials.authorities)
        ledger = open_ledger(configuration, credentials)
        stack.callback(ledger.close)
        measured, manager = metrics.Metrics(ledger.totals), ServiceManager()
        health = Health(configuration, manager)
        measured.show_health(TROUBLES, health.find_troubles)
        if configuration.metrics is not None:
            listening = bind(configuration.metrics.host, configuration.metrics.port, "metrics.port")
            stack.callback(StatusServer(measured.registry, health, listening).close)
        opened = None if configuration.page is None else stack.enter_context(_opened(configuration.page))
        resources = Resources(
            configuration, credentials, data, first, ledger, measured, health, manager, opened, unsafe_pickle
        )
        asyncio.run(_serve(resources))


async def _serve(resources: Resources) -> None:
    configuration, credentials, first = resources.configuration, resources.credentials, resources.first
    ledger, measured, health, manager = resources.ledger, resources.measured, resources.health, resources.manager
    log = logger(configuration.name)
    limits, timing = configuration.limits, configuration.timing
    receipts = make_receipts(configuration, credentials, ledger, lambda: circle.links)
    rosters = _load_rosters(configuration, credentials)
    wiring = LinkContext(
        configuration.name, credentials, limits, timing.deadline_seconds, ledger, measured, receipts,
        draw_question(), lambda: 0 if rosters is None else rosters.number,
    )  # fmt: skip
    circle = Peers(configuration, wiring, _scores(configuration, first, measured, log), log, rosters)
    watch = OwnRowsWatch(first.agent.X, measured, log)
    budgets = DailyBudgets(lambda: circle.configuration.budgets, ledger)
    access = Access(
        configuration.name, circle.rights, Allowances(limits), budgets, watch, ledger, measured, credentials is None,
        receipts=receipts, credentials=credentials, log=log,
    )  # fmt: skip
    answering = Answering(circle, measured, None if resources.page is None else Recent(), log)
    server = _server(circle.configuration, answering, access, health, log)
    looking = {
        "heartbeat": health.beat(), "health": health.watch(circle, log), "data": resources.data.watch(circle, log),
    }  # fmt: skip
    attending = [start_background(name, each, log, health.report_failure) for name, each in looking.items()]
    stopping, asked_to_reload = _listen_for_signals()
    if rosters is not None and rosters.damage:
        log.warning("the roster that was kept cannot be used", reason=rosters.damage, number=rosters.number)
    if ledger.set_aside is not None:
        log.warning("the ledger was damaged; a new one is begun", moved=str(ledger.set_aside), reason=ledger.damage)
    if ledger.damaged_lines:
        log.warning(
            "damaged lines of the ledger's journal", lines=ledger.damaged_lines, kept=str(damaged_path(ledger.path))
        )
    if ledger.lost:
        log.warning("records of the ledger are lost", first=ledger.lost[0], last=ledger.lost[-1])
    log.info("getting ready")
    await run_in_thread(warm_up, first)
    await server.start()
    await circle.change(configuration)
    await health.look(circle)
    health.begin_serving()
    page = _page(answering, watch, health, resources.page, log)
    gc.collect()
    gc.freeze()  # what is there now stays: collections need not look at it again
    log.info("serving", listen=configuration.listen, model=first.version, peers=len(circle.configuration.peers))
    manager.tell_ready()
    watching = watch_files(circle, access, resources.unsafe_pickle, asked_to_reload, manager, log)
    attending.append(start_background("files", watching, log, health.report_failure))
    await stopping.wait()
    log.info("stopping")
    manager.tell_stopping()
    attending.pop().cancel()
    health.begin_stopping()
    if page is not None:
        await page.close()
    await _finish(server, access, timing.shutdown_seconds)
    await circle.close()
    for task in attending:
        task.cancel()
    log.info("stopped")


def open_ledger(configuration: Configuration, credentials: NodeCredentials | None) -> Ledger:
    """The ledger of a node, which is signed with its key, if it has one."""
    kept, signer = configuration.records, None if credentials is None else credentials.sign
    return Ledger(configuration.ledger, configuration.name, signer, kept.days, kept.records)


def _load_rosters(configuration: Configuration, credentials: NodeCredentials | None) -> RosterStore | None:
    """The signed roster that the node goes by, if there is one; none where it runs without certificates."""
    if credentials is None:
        return None
    rosters = RosterStore(configuration, lambda: credentials.authorities)
    rosters.load()
    if rosters.current is not None:
        credentials.use_roster(rosters.current)
    return rosters


def make_receipts(
    configuration: Configuration, credentials: NodeCredentials | None, ledger: Ledger,
    peers: Callable[[], Container[str]],
) -> Receipts | None:  # fmt: skip
    """The receipts of a node that signs; none where it runs without certificates."""
    files = configuration.identity
    if files is None or credentials is None:
        return None

    def check(context: bytes, message: bytes, signature: bytes, certificate: bytes, name: str) -> None:
        trusted = credentials.authorities
        signing.check_signature(context, message, signature, certificate, files.ca, name, authorities=trusted)

    return Receipts(ledger, configuration.name, credentials.sign, check, peers)


def _scores(configuration: Configuration, first: ScoredAgent, measured: metrics.Metrics, log: Any) -> CalibratedScores:
    def tell(name: str, path: Path, reason: str) -> None:
        log.warning("damaged residuals are scored anew", peer=name, file=str(path), reason=reason)

    residuals = Residuals.at(configuration.state, first.agent.X, first.agent.y, first.schema_digest, tell)
    return CalibratedScores(first, residuals, configuration.timing.chunk_rows, measured, log)


async def _finish(server: grpc.aio.Server, access: Access, seconds: float) -> None:
    """Answer what was asked, with peers that can still reach this node; then let nobody in."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    access.close()
    await access.wait_for_answers(seconds)
    access.watch.look_at_noted()
    await server.stop(max(0.0, until - loop.time()))


def _opened(page: Page) -> socket.socket:
    """Where the page listens. What it is made with is imported only where there is one."""
    try:
        from degroot.node.page.app import bound
    except ModuleNotFoundError as error:
        raise InvalidInput(f"The page needs extra packages: pip install 'degroot[node]' ({error}).") from error
    return bound(page)


def _page(
    answering: Answering, watch: OwnRowsWatch, health: Health, opened: socket.socket | None, log: Any
) -> "Serving | None":
    if opened is None or answering.recent is None:
        return None
    from degroot.node.page.app import serve

    return serve(answering, answering.recent, watch, health, opened, log)


def _server(
    configuration: Configuration, answering: Answering, access: Access, health: Health, log: Any
) -> grpc.aio.Server:
    limits, circle = configuration.limits, answering.circle
    callers = 1 + len(configuration.peers) + len(configuration.clients)
    server = grpc.aio.server(
        interceptors=[RefusedCallCleanup(), Reading(access)],
        maximum_concurrent_rpcs=max(limits.concurrent_calls * (callers + 1), MIN_CONCURRENT_CALLS),
        options=[
            ("grpc.max_receive_message_length", limits.message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", limits.concurrent_calls * 2),
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),
            ("grpc.so_reuseport", 0),
        ],
    )
    service = CollectiveService(answering, access, log)
    collective_pb2_grpc.add_CollectiveServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    version2.add_to(server, service)
    model_service.add_to(server, model_service.ModelService(configuration.name, lambda: circle.scores.seat, access))
    health_service.add_to(server, health_service.HealthService(configuration.name, health, access))
    server.add_generic_rpc_handlers([OtherMethods(access)])
    try:
        if access.credentials is None:
            server.add_insecure_port(configuration.listen)
        else:
            server.add_secure_port(configuration.listen, access.credentials.server_credentials())
    except RuntimeError as error:
        raise InvalidInput(
            f"`listen` must be an address of this machine with a free port; {configuration.listen} cannot be bound."
        ) from error
    return server


def _listen_for_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """What is set when the process is told to stop, and when it is told to read its files anew."""
    stopping, reloading, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, reloading.set)
    return stopping, reloading
