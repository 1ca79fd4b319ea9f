"""The server: one node's process, from its configuration to its last answer."""

import asyncio
import gc
import signal
import socket
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, make_folder
from degroot.node.answering.answering import Answering
from degroot.node.config import Configuration, Page
from degroot.node.config.check import check_peers, check_system, secured
from degroot.node.peers.link import LinkContext
from degroot.node.peers.peers import Peers
from degroot.node.protocol.v2 import collective_pb2_grpc
from degroot.node.records import metrics
from degroot.node.records.ledger import Ledger, damaged_path
from degroot.node.records.log import logger
from degroot.node.records.own_rows import OwnRowsWatch
from degroot.node.records.receipts import Receipts
from degroot.node.records.recent import Recent
from degroot.node.scoring.calibrated import CalibratedScores
from degroot.node.scoring.load import load_scored_agent, warm_up
from degroot.node.scoring.residual_store import Residuals
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.node.server import model_service
from degroot.node.server.access import Access, Allowances, DailyBudgets, Reading
from degroot.node.server.lock import lock_state
from degroot.node.server.refused_calls import RefusedCallCleanup
from degroot.node.server.reload import watch_files
from degroot.node.server.service import CollectiveService, OtherMethods
from degroot.node.server.threads import run_in_thread
from degroot.node.tls import identity, signing

if TYPE_CHECKING:
    from degroot.node.page.app import Serving

HANDSHAKE_SECONDS = 10


def run(configuration: Configuration, *, insecure_loopback: bool = False, unsafe_pickle: bool = False) -> None:
    """Serve until the process is told to stop; then finish what is in flight."""
    check_system()
    configuration = secured(configuration, insecure_loopback)
    first = load_scored_agent(configuration, unsafe_pickle=unsafe_pickle)
    check_peers(configuration, first)
    with ExitStack() as stack:
        stack.enter_context(lock_state(make_folder(configuration.state, mode=PRIVATE)))
        with suppress(OSError):  # it may have been made by somebody else, with other rights
            configuration.state.chmod(PRIVATE)
        ledger = open_ledger(configuration)
        stack.callback(ledger.close)
        measured = metrics.Metrics(ledger.totals)
        if configuration.metrics_port is not None:
            stack.callback(metrics.serve(measured.registry, configuration.metrics_port).close)
        opened = None if configuration.page is None else stack.enter_context(_opened(configuration.page))
        asyncio.run(_serve(configuration, first, ledger, measured, unsafe_pickle, opened))


async def _serve(
    configuration: Configuration,
    first: ScoredAgent,
    ledger: Ledger,
    measured: metrics.Metrics,
    unsafe_pickle: bool,
    opened: socket.socket | None,
) -> None:
    log, files = logger(configuration.name), configuration.identity
    credentials = None if files is None else identity.channel_credentials(files)
    limits, timing = configuration.limits, configuration.timing
    receipts = make_receipts(configuration, ledger, lambda: circle.links)
    wiring = LinkContext(configuration.name, credentials, limits, timing.deadline_seconds, ledger, measured, receipts)
    circle = Peers(configuration, wiring, _scores(configuration, first, measured, log), log)
    watch = OwnRowsWatch(first.agent.X, measured, log)
    budgets = DailyBudgets(lambda: circle.configuration.budgets, ledger)
    access = Access(
        configuration.name, circle.rights, Allowances(limits), budgets, watch, ledger, measured, files is None,
        receipts=receipts, log=log,
    )  # fmt: skip
    answering = Answering(circle, measured, None if opened is None else Recent())
    server = _server(configuration, answering, access, log)
    stopping = _stopping()
    if ledger.set_aside is not None:
        log.warning("the ledger was damaged; a new one is begun", moved=str(ledger.set_aside))
    if ledger.damaged_lines:
        log.warning(
            "damaged lines of the ledger's journal", lines=ledger.damaged_lines, kept=str(damaged_path(ledger.path))
        )
    log.info("getting ready", note="the first time after installation this takes a while: kernels are compiled")
    await run_in_thread(warm_up, first)
    await server.start()
    await circle.change(configuration)
    page = _page(answering, watch, opened, log)
    gc.collect()
    gc.freeze()  # what is there now stays: collections need not look at it again
    log.info("serving", listen=configuration.listen, model=first.version, peers=len(configuration.peers))
    reloading = asyncio.create_task(watch_files(circle, unsafe_pickle, log))
    await stopping.wait()
    log.info("stopping")
    reloading.cancel()
    if page is not None:
        await page.close()
    await _finish(server, access, timing.shutdown_seconds)
    await circle.close()
    log.info("stopped")


def open_ledger(configuration: Configuration) -> Ledger:
    """The ledger of a node, which is signed with its key, if it has one."""
    files, kept = configuration.identity, configuration.records
    signer = None if files is None else partial(signing.sign, files)
    return Ledger(configuration.ledger, configuration.name, signer, kept.days, kept.records)


def make_receipts(configuration: Configuration, ledger: Ledger, peers: Callable[[], Container[str]]) -> Receipts | None:
    """The receipts of a node that signs; none where it runs without certificates."""
    files = configuration.identity
    if files is None:
        return None

    def check(context: bytes, message: bytes, signature: bytes, certificate: bytes, name: str) -> None:
        signing.check_signature(context, message, signature, certificate, files.ca, name)

    return Receipts(ledger, configuration.name, partial(signing.sign, files), check, peers)


def _scores(configuration: Configuration, first: ScoredAgent, measured: metrics.Metrics, log: Any) -> CalibratedScores:
    residuals = Residuals.at(configuration.state, first.agent.X, first.agent.y, first.schema_digest)
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


def _page(answering: Answering, watch: OwnRowsWatch, opened: socket.socket | None, log: Any) -> "Serving | None":
    if opened is None or answering.recent is None:
        return None
    from degroot.node.page.app import serve

    return serve(answering, answering.recent, watch, opened, log)


def _server(configuration: Configuration, answering: Answering, access: Access, log: Any) -> grpc.aio.Server:
    limits, circle = configuration.limits, answering.circle
    callers = 1 + len(configuration.peers) + len(configuration.clients)
    server = grpc.aio.server(
        interceptors=[RefusedCallCleanup(), Reading(access)],
        maximum_concurrent_rpcs=limits.concurrent_calls * (callers + 1),
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
    model_service.add_to(server, model_service.ModelService(configuration.name, lambda: circle.scores.seat, access))
    server.add_generic_rpc_handlers([OtherMethods(access)])
    try:
        if configuration.identity is None:
            server.add_insecure_port(configuration.listen)
        else:
            server.add_secure_port(configuration.listen, identity.server_credentials(configuration.identity))
    except RuntimeError as error:
        raise InvalidInput(
            f"`listen` must be an address of this machine with a free port; {configuration.listen} cannot be bound."
        ) from error
    return server


def _stopping() -> asyncio.Event:
    """Set when the process is told to stop."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return event
