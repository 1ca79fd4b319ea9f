"""Five nodes on loopback with mutual TLS against one bare round trip and against the same agents in one process.

`make bench` prints and writes NODES.md. `--soak SECONDS`: mixed questions, and a peer restarted every half minute.
`--part NAME` prints one part, and writes nothing.
"""

import argparse
import asyncio
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from bench import as_markdown

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import Consortium, free_ports, made_rows
from support.soak import Soaked, soak

from degroot import Agent, Collective, load_model
from degroot.answers.answer import ASKER_FIELDS
from degroot.node.answering.answer import NodeQuestion
from degroot.node.answering.answering import Answering
from degroot.node.answering.terms import OWN
from degroot.node.config import Configuration
from degroot.node.peers.link import LinkContext
from degroot.node.peers.peers import READY, Peers
from degroot.node.records import ledger
from degroot.node.records.metrics import Metrics
from degroot.node.scoring.calibrated import CalibratedScores
from degroot.node.scoring.load import load_scored_agent
from degroot.node.scoring.residual_store import Residuals
from degroot.node.server.run import make_receipts, open_ledger
from degroot.node.tls.credentials import NodeCredentials

HEAD = """\
Written by `make bench`. Five node processes on loopback with mutual TLS, {rows} rows of {features} features each,
linear models as ONNX files, the paper's rule with its defaults; all on one machine of 2 shared cores, taking turns.
Ratios are what counts."""
INSIDE = """\
One point from the node's own view, measured inside the asked node: from the question as an array to the answer as
arrays, with the guard. *In process*: `Collective.consult(asker=...)` with the same models and rows. *Bare fan-out*:
four echo services are asked over open streams with the same TLS, from the same process, and nobody computes or records
anything. With copies of all models a question costs no message. Asked for: with copies at most 1.3 times the same
collective in process; with queries at most 2 times a bare fan-out. The ledger's writes are in the figures and, by
themselves, in the last lines: one record for each queried peer before its request leaves, and one for the answer, which
the service writes."""
LATENCY = """\
One point for the consensus (pooled evidence), asked through `degroot.connect`. *Bare round trip*: one unary call of an
empty echo service with the same TLS and the same client library, nothing else. *Bare fan-out*: such a service asks four
others over open streams, and nobody computes or records anything."""
THROUGHPUT = """\
The consensus of batches of 1000 points, 20 of them: over one stream to the nodes, and one after the other in one
process with all agents (2 threads). All fields. Asked for: at least 0.8."""
TRAFFIC = """\
What one question costs: rounds until everybody is settled (tolerance {tolerance:g}), and bytes that nodes send each
other, by their ledgers, for 1 and for 1000 points."""
TWELVE = """\
A consortium of twelve nodes beside one of four, each node answering from its own view with queries, asked for one point
through `degroot.connect`; and a service that only asks 11 or 3 others over open streams. Asked for: the first ratio at
most 1.3 times the second."""
IDLE = """\
Twelve nodes whose peers are ready, asked nothing for {seconds:g} seconds: the processor time of each in % of a core,
and its memory, of what processes share a part each (PSS). Asked for: under 1 %, under 180 MB."""
MEMORY = """\
Four nodes that keep their evidence, two of them with the page: the memory of each in MB, of what processes share a part
each (PSS), when its peers are ready and after a question with an interval, all fields of a batch and, where there is
one, a look at the page. Asked for: under 180 MB without the page, under 220 MB with it."""
START = """\
Four nodes that keep their evidence, started at once, from the start of their processes: until the last of them sees all
others as ready, and until the last has answered a question with an interval. *Empty cache*: nothing is kept of compiled
kernels. *Warm*: the same nodes again, with nothing kept but that. Asked for: ready within 15 s and 3 s."""
SOAK = "Mixed questions for {seconds:g} seconds, and a peer killed and started again every {every:g} seconds."
RESULTS = Path(__file__).with_name("NODES.md")
K, ROWS, FEATURES = 5, 1000, 8
PATIENCE = 30.0  # seconds for a peer
REST = 10.0  # seconds between looks at peers that are ready
TOLERANCE = 1e-9
ECHO = """
import asyncio, sys, grpc
port, ca, certificate, key, *others = sys.argv[1:]
ca, certificate, key = (open(file, "rb").read() for file in (ca, certificate, key))

async def echo(request, context):
    return request

async def echoes(requests, context):
    while (request := await context.read()) is not grpc.aio.EOF:
        await context.write(request)

async def main():
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    options = [("grpc.ssl_target_name_override", "node0")]
    channels = [grpc.aio.secure_channel(f"127.0.0.1:{other}", credentials, options) for other in others]
    streams = [channel.stream_stream("/bare/Echoes")(wait_for_ready=True) for channel in channels]

    async def one(stream, request):
        await stream.write(request)
        return await stream.read()

    async def fan_out(request, context):
        return (await asyncio.gather(*(one(stream, request) for stream in streams)))[0]

    server = grpc.aio.server()
    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Echoes": grpc.stream_stream_rpc_method_handler(echoes),
        "FanOut": grpc.unary_unary_rpc_method_handler(fan_out),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bare", handlers)])
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(key, certificate)], ca, True))
    await server.start()
    await server.wait_for_termination()

asyncio.run(main())
"""


def as_configured(consortium: Consortium) -> None:
    """The same models as ONNX files, peers looked after as often as by default, and clients that may ask much."""
    from skl2onnx import to_onnx

    for agent in consortium.agents:
        home = consortium.folder / agent.name
        agent.model.intercept_ = np.float64(agent.model.intercept_)
        (home / "model.onnx").write_bytes(to_onnx(agent.model, agent.X[:1]).SerializeToString())
        text = (home / "node.toml").read_text()
        text = text.replace("model.skops", "model.onnx").replace("probe_seconds = 0.2\nheartbeat_seconds = 0.2\n", "")
        text = text.replace("[[clients]]\n", "[[clients]]\nrows_per_day = 10000000\n")
        (home / "node.toml").write_text(text)


def in_turns(work: dict[str, Callable[[], object]], turns: int, each: int) -> dict[str, np.ndarray]:
    """Milliseconds of every call, taking turns; the first turn warms up."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(turns + 1):
        for name, call in work.items():
            for _ in range(each):
                begun = time.perf_counter()
                call()
                if turn:
                    times[name].append(1e3 * (time.perf_counter() - begun))
    return {name: np.array(taken) for name, taken in times.items()}


@contextmanager
def bare(consortium: Consortium, count: int = K) -> Iterator[dict[str, Callable[[], object]]]:
    """So many processes that only echo, and calls of the first, which asks the others."""
    keys, ports = consortium.folder / "keys", [str(port) for port in free_ports(count)]
    files = [str(keys / name) for name in ("ca.pem", "node0.pem", "node0.key")]
    commands = [[port, *files] for port in ports[1:]] + [[ports[0], *files, *ports[1:]]]
    processes = [subprocess.Popen([sys.executable, "-c", ECHO, *command]) for command in commands]
    ca, certificate, key = (Path(path).read_bytes() for path in consortium.credentials().values())
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    options = [("grpc.ssl_target_name_override", "node0")]
    try:
        with grpc.secure_channel(f"127.0.0.1:{ports[0]}", credentials, options) as channel:
            calls = {"bare round trip": "/bare/Echo", "bare fan-out": "/bare/FanOut"}
            made = {name: channel.unary_unary(path) for name, path in calls.items()}
            for call in made.values():
                call(b"", wait_for_ready=True)
            yield {name: partial(call, b"x" * 100) for name, call in made.items()}
    finally:
        for process in processes:
            process.kill()
            process.wait()


@asynccontextmanager
async def asked_node(configuration: Configuration) -> AsyncIterator[Answering]:
    """A node in this process that asks and does not serve, once it has scored all models."""
    first, log = load_scored_agent(configuration), Silent()
    configuration.state.mkdir(exist_ok=True)
    credentials, limits = NodeCredentials(configuration.identity, configuration.name), configuration.limits
    record = open_ledger(configuration, credentials)
    metrics, receipts = Metrics(record.totals), make_receipts(configuration, credentials, record, lambda: peers.links)
    wiring = LinkContext(configuration.name, credentials, limits, PATIENCE, record, metrics, receipts)
    residuals = Residuals.at(configuration.state, first.agent.X, first.agent.y)
    peers = Peers(configuration, wiring, CalibratedScores(first, residuals, ROWS, metrics, log), log)
    await peers.change(configuration)
    try:
        while not all(peers.state(link) == READY for link in peers.links.values()):
            await asyncio.sleep(0.1)
        gc.collect()
        gc.freeze()  # as a node does that serves
        yield Answering(peers, metrics, None)
    finally:
        await peers.close()
        record.close()


class Silent:
    """A logger that says nothing."""

    def __init__(self) -> None:
        self.info = self.warning = self.error = self.exception = lambda *_, **__: None


@asynccontextmanager
async def bare_fan_out(consortium: Consortium) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """A call of four echo services over open streams."""
    keys, ports = consortium.folder / "keys", [str(port) for port in free_ports(K - 1)]
    files = [str(keys / name) for name in ("ca.pem", "node0.pem", "node0.key")]
    processes = [subprocess.Popen([sys.executable, "-c", ECHO, port, *files]) for port in ports]
    ca, certificate, key = (Path(path).read_bytes() for path in files)
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    options = [("grpc.ssl_target_name_override", "node0")]
    channels = [grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) for port in ports]
    streams = [channel.stream_stream("/bare/Echoes")(wait_for_ready=True) for channel in channels]

    async def one(stream: Any) -> None:
        await stream.write(b"x" * 100)
        await stream.read()

    async def all_streams() -> None:
        await asyncio.gather(*map(one, streams))

    try:
        yield all_streams
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def time_in_turns(work: dict[str, Callable[[], Any]], turns: int, each: int) -> dict[str, np.ndarray]:
    """Milliseconds of every call, awaited where it has to be, taking turns; the first turn warms up."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(turns + 1):
        for name, call in work.items():
            for _ in range(each):
                begun = time.perf_counter()
                done = call()
                if asyncio.iscoroutine(done):
                    await done
                if turn:
                    times[name].append(1e3 * (time.perf_counter() - begun))
    return {name: np.array(taken) for name, taken in times.items()}


async def inside(use: str, turns: int) -> list[dict[str, str]]:
    """One question inside the asked node, with copies or queries; the last lines are the ledger's writes."""
    with tempfile.TemporaryDirectory() as folder:
        rows = list(made_rows(0, K, n=ROWS, d=FEATURES))
        with Consortium(folder, K, rows=rows, evidence="own", may=["query", "copy"], use=[use]) as consortium:
            as_configured(consortium)
            consortium.start(environment={"NUMBA_NUM_THREADS": "2"}).ready()  # or peers would still score models
            consortium.kill("node0", signal.SIGTERM)
            agents = [
                Agent(load_model(Path(folder) / each.name / "model.onnx"), each.X, each.y, each.name)
                for each in consortium.agents
            ]
            here, point = Collective(agents, guard=True), np.random.default_rng(1).normal(size=(1, FEATURES))
            configuration = consortium.configuration("node0")
            async with asked_node(configuration) as answering, bare_fan_out(consortium) as fan_out:
                work: dict[str, Callable[[], Any]] = {"bare fan-out": fan_out}
                for name, fields, coverage in (
                    ("value", ["value"], None), ("value, interval", ["value"], 0.9),
                    ("all fields", list(ASKER_FIELDS), None),
                ):  # fmt: skip
                    question = NodeQuestion(point, fields, True, coverage, OWN)
                    work[f"{name}, in process"] = partial(here.consult, point, fields, coverage=coverage, asker="node0")
                    work[f"{name}, in the node"] = partial(answering.answer, "node0", question)
                record, names = answering.circle.wiring.ledger, consortium.names
                work["ledger: four requests"] = lambda: record.record_all(names[1:], "prediction", "out", 1, 100, 0)
                work["ledger: one answer"] = lambda: record.record("node0", "consult", "in", 1, 100, 0)
                times = await time_in_turns(work, turns, 20)
    medians = {name: float(np.median(taken)) for name, taken in times.items()}
    return [
        {
            f"with {'copies' if use == 'copy' else 'queries'}": name, "median, ms": f"{median:.2f}",
            "90 %, ms": f"{np.quantile(times[name], 0.9):.2f}",
            "over in process": _ratio(medians, name), "over bare fan-out": f"{median / medians['bare fan-out']:.2f}",
        }
        for name, median in medians.items()
    ]  # fmt: skip


def _ratio(medians: dict[str, float], name: str) -> str:
    same = name.replace("in the node", "in process")
    return f"{medians[name] / medians[same]:.2f}" if same != name else ""


def latency(consortium: Consortium, turns: int) -> list[dict[str, str]]:
    point = np.random.default_rng(1).normal(size=(1, FEATURES))
    node = consortium.connect()
    work = {
        "solve, all fields": lambda: node.consult(point),
        "solve, value only": lambda: node.predict(point),
    }
    with bare(consortium) as calls:
        times = in_turns(calls | work, turns, 20)
    unit = np.median(times["bare round trip"])
    return [
        {
            "": name, "median, ms": f"{np.median(taken):.2f}", "90 %, ms": f"{np.quantile(taken, 0.9):.2f}",
            "median over bare": f"{np.median(taken) / unit:.1f}",
        }
        for name, taken in times.items()
    ]  # fmt: skip


@contextmanager
def start_nodes(count: int) -> Iterator[Consortium]:
    """So many nodes that keep their evidence and query each other's models, all ready."""
    rows = list(made_rows(0, count, n=ROWS, d=FEATURES))
    with tempfile.TemporaryDirectory() as folder, Consortium(folder, count, rows=rows, evidence="own") as consortium:
        as_configured(consortium)
        yield consortium.start().ready()


def measure_idle(consortium: Consortium, seconds: float) -> list[dict[str, str]]:
    """Processor time and memory of nodes that nobody asks anything."""
    pids = [process.pid for process in consortium.processes.values()]
    time.sleep(2 * REST)  # what came with starting is done
    before, begun = [processor_seconds(pid) for pid in pids], time.perf_counter()
    time.sleep(seconds)
    taken = time.perf_counter() - begun
    shares = [100 * (processor_seconds(pid) - at) / taken for pid, at in zip(pids, before, strict=True)]
    memory = [proportional_megabytes(pid) for pid in pids]
    return [
        {"": name, "median": f"{np.median(values):.{digits}f}", "largest": f"{max(values):.{digits}f}"}
        for name, values, digits in (("processor, %", shares, 2), ("memory, MB", memory, 0))
    ]


def processor_seconds(pid: int) -> float:
    """What a process has used so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def proportional_megabytes(pid: int) -> float:
    """The memory of a process, of what it shares with others its part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure_memory() -> list[dict[str, str]]:
    """Megabytes of nodes without and with the page, before and after they were asked something."""
    rows, ports = list(made_rows(0, 4, n=ROWS, d=FEATURES)), free_ports(2)
    with tempfile.TemporaryDirectory() as folder, Consortium(folder, 4, rows=rows, evidence="own") as consortium:
        as_configured(consortium)
        for name, port in zip(consortium.names[2:], ports, strict=True):
            with (Path(folder) / name / "node.toml").open("a") as file:
                file.write(f"[page]\nport = {port}\n")
        consortium.start().ready()
        pids = [consortium.processes[name].pid for name in consortium.names]
        ready = [proportional_megabytes(pid) for pid in pids]
        points = np.random.default_rng(1).normal(size=(ROWS, FEATURES))
        for name in consortium.names:
            with consortium.connect(name, caller=name) as node:
                node.consult(points[:1], coverage=0.9)
                node.consult(points)
        for port in ports:
            with socket.create_connection(("127.0.0.1", port)) as page:
                page.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                while page.recv(65_536):
                    pass
        asked = [proportional_megabytes(pid) for pid in pids]
    return [
        {"": what, "ready, MB": f"{max(ready[part]):.0f}", "after questions, MB": f"{max(asked[part]):.0f}"}
        for what, part in (("without the page", slice(0, 2)), ("with the page", slice(2, 4)))
    ]


def measure_start() -> list[dict[str, str]]:
    """Seconds until four nodes are ready and until they have answered with intervals, without and with a cache."""
    rows, found = list(made_rows(0, 4, n=ROWS, d=FEATURES)), []
    with tempfile.TemporaryDirectory() as folder, Consortium(folder, 4, rows=rows, evidence="own") as consortium:
        as_configured(consortium)
        cache = str(Path(folder) / "cache")
        for what in ("empty cache", "warm"):
            begun = time.time()
            consortium.start(environment={"DEGROOT_KERNELS": cache})
            for name in consortium.names:
                while count_ready_peers(consortium, name) < len(consortium.names) - 1:
                    time.sleep(0.1)  # seldom: it takes from the nodes
            ready = max(find_ready_times(consortium))
            for name in consortium.names:
                with consortium.connect(name, caller=name) as node:
                    node.consult(rows[0][0][:1], "value", coverage=0.9)
            answered = time.time()
            found.append({"": what, "ready, s": f"{ready - begun:.1f}", "intervals, s": f"{answered - begun:.1f}"})
            for name in consortium.names:
                consortium.kill(name)
                shutil.rmtree(Path(folder) / name / "state")
                (Path(folder) / name / "log").unlink()
    return found


def count_ready_peers(consortium: Consortium, name: str) -> int:
    """How many peers a node has said to be ready."""
    assert consortium.processes[name].poll() is None, consortium.log(name)
    return consortium.log(name).count('"event": "peer ready"')


def find_ready_times(consortium: Consortium) -> Iterator[float]:
    """When nodes said that their peers were ready, in seconds since 1970."""
    for name in consortium.names:
        for line in map(json.loads, consortium.log(name).splitlines()):
            if line["event"] == "peer ready":
                yield datetime.fromisoformat(line["timestamp"]).timestamp()


def compare_sizes(twelve: Consortium, turns: int) -> list[dict[str, str]]:
    """One question to one of twelve nodes against one of four, beside bare fan-outs to as many."""
    point = np.random.default_rng(1).normal(size=(1, FEATURES))
    with start_nodes(4) as four, bare(twelve, 12) as all_eleven, bare(four, 4) as all_three:
        asked = {len(each.names): each.connect(caller="node0") for each in (twelve, four)}
        work = {f"question, {count} nodes": partial(node.predict, point) for count, node in asked.items()}
        fan_outs = {11: all_eleven["bare fan-out"], 3: all_three["bare fan-out"]}
        work |= {f"bare fan-out to {count}": call for count, call in fan_outs.items()}
        times = {name: float(np.median(taken)) for name, taken in in_turns(work, turns, 20).items()}
    question = times["question, 12 nodes"] / times["question, 4 nodes"]
    unit = times["bare fan-out to 11"] / times["bare fan-out to 3"]
    ratios = {"question, 12 nodes": question, "bare fan-out to 11": unit}
    return [
        {"": name, "median, ms": f"{taken:.2f}", "over the smaller": f"{ratios[name]:.2f}" if name in ratios else ""}
        for name, taken in times.items()
    ] + [{"": "first ratio over the second", "median, ms": "", "over the smaller": f"{question / unit:.2f}"}]


def throughput(consortium: Consortium, turns: int) -> list[dict[str, str]]:
    points = np.random.default_rng(2).normal(size=(20_000, FEATURES))
    batches = np.split(points, 20)
    nodes, here = consortium.connect(), consortium.collective()

    def one_by_one() -> None:
        for batch in batches:
            here.consult(batch)

    times = in_turns({"nodes": lambda: nodes.consult(points), "here": one_by_one}, turns, 1)
    there, local = (float(np.median(times[which])) / 1e3 for which in ("nodes", "here"))
    return [
        {
            "nodes, points a second": f"{len(points) / there:,.0f}",
            "in process, points a second": f"{len(points) / local:,.0f}", "ratio": f"{local / there:.2f}",
        }
    ]  # fmt: skip


def sent(consortium: Consortium) -> int:
    """Bytes that nodes have sent each other for questions."""
    total = 0
    for name in consortium.names:
        for line in ledger.summary(consortium.configuration(name).ledger):
            if line.peer in consortium.names and line.kind in ("opinion", "pool"):
                total += line.sent
    return total


def traffic(consortium: Consortium) -> list[dict[str, str]]:
    random, rows = np.random.default_rng(3), []
    for way in ("solve", "rounds"):
        node = consortium.connect(way=way, tolerance=TOLERANCE)
        row = {"way": way}
        for M in (1, 1000):
            before, rounds = sent(consortium), []
            for _ in range(5):
                rounds.append(node.consult(random.normal(size=(M, FEATURES))).rounds or 0)
            row[f"rounds, {M} points"] = f"{np.median(rounds):.0f}"
            row[f"bytes, {M} points"] = f"{(sent(consortium) - before) / 5:,.0f}"
        rows.append(row)
    return rows


def soaked(result: Soaked) -> dict[str, str]:
    return {
        "questions": str(result.questions), "restarts": str(result.restarts),
        "answered without somebody": str(result.without), "refused": str(result.refused), "wrong": str(result.wrong),
        "memory of the asked node, MB, at a quarter": f"{result.first:.0f}", "at the end": f"{result.last:.0f}",
    }  # fmt: skip


PARTS = ("inside", "consensus", "memory", "start", "twelve", "soak")


def main(turns: int, seconds: float, idle: float, parts: Sequence[str]) -> None:
    report: list[str] = []

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    say("# Nodes")
    say(HEAD.format(rows=ROWS, features=FEATURES))
    if "inside" in parts:
        say("## Latency inside the asked node")
        say(INSIDE)
        for use in ("copy", "query"):
            say(as_markdown(asyncio.run(inside(use, turns))))
    if "consensus" in parts:
        with tempfile.TemporaryDirectory() as folder:
            rows = list(made_rows(0, K, n=ROWS, d=FEATURES))
            with Consortium(folder, K, rows=rows, limits="requests_per_second = 100000") as consortium:
                as_configured(consortium)
                consortium.start(environment={"NUMBA_NUM_THREADS": "2"}).ready()
                say("## Latency of the consensus")
                say(LATENCY)
                say(as_markdown(latency(consortium, turns)))
                say("## Throughput")
                say(THROUGHPUT)
                say(as_markdown(throughput(consortium, max(3, turns // 4))))
                say("## Rounds and bytes")
                say(TRAFFIC.format(tolerance=TOLERANCE))
                say(as_markdown(traffic(consortium)))
    if "memory" in parts:
        say("## Memory")
        say(MEMORY)
        say(as_markdown(measure_memory()))
    if "start" in parts:
        say("## Start")
        say(START)
        say(as_markdown(measure_start()))
    if "twelve" in parts:
        with start_nodes(12) as twelve:
            say("## Twelve nodes")
            say(IDLE.format(seconds=idle))
            say(as_markdown(measure_idle(twelve, idle)))
            say(TWELVE)
            say(as_markdown(compare_sizes(twelve, turns)))
    if "soak" in parts and seconds:
        say("## Soak")
        every = min(30.0, seconds / 4)
        say(SOAK.format(seconds=seconds, every=every))
        with tempfile.TemporaryDirectory() as folder:
            say(as_markdown([soaked(soak(Path(folder), seconds, every))]))
    if set(parts) == set(PARTS):
        RESULTS.write_text("\n\n".join(report) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--soak", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--idle", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--part", action="append", choices=PARTS)
    arguments = parser.parse_args()
    main(arguments.turns, arguments.soak, arguments.idle, arguments.part or PARTS)
