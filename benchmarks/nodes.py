"""Five nodes on loopback with mutual TLS against one bare round trip and against the same agents in one process.

`make bench` prints and writes NODES.md. `--soak SECONDS`: mixed questions, and a peer restarted every half minute.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import grpc
import numpy as np
from bench import as_markdown

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import Consortium, free_ports, made_rows
from support.soak import Soaked, soak

from degroot.node.records import ledger

HEAD = """\
Written by `make bench`. Five node processes on loopback with mutual TLS, {rows} rows of {features} features each,
linear models as ONNX files, the paper's rule with its defaults; all on one machine of 2 shared cores, taking turns.
Ratios are what counts."""
LATENCY = """\
One point, asked through `degroot.connect`. *Bare round trip*: one unary call of an empty echo service with the same TLS
and the same client library, nothing else. *Bare fan-out*: such a service asks four others over open streams, and
nobody computes or records anything. Asked for: at most 4 times the bare round trip, at the median, by solving."""
THROUGHPUT = """\
Batches of 1000 points, 20 of them: over one stream to the nodes, and one after the other in one process with all agents
(2 threads). All fields. Asked for: at least 0.5."""
TRAFFIC = """\
What one question costs: rounds until everybody is settled (tolerance {tolerance:g}), and bytes that nodes send each
other, by their ledgers, for 1 and for 1000 points."""
SOAK = "Mixed questions for {seconds:g} seconds, and a peer killed and started again every {every:g} seconds."
RESULTS = Path(__file__).with_name("NODES.md")
K, ROWS, FEATURES = 5, 1000, 8
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
    """The same models as ONNX files, and peers looked after as often as by default."""
    from skl2onnx import to_onnx

    for agent in consortium.agents:
        home = consortium.folder / agent.name
        agent.model.intercept_ = np.float64(agent.model.intercept_)
        (home / "model.onnx").write_bytes(to_onnx(agent.model, agent.X[:1]).SerializeToString())
        text = (home / "node.toml").read_text()
        text = text.replace("model.skops", "model.onnx").replace("probe_seconds = 0.2\n", "")
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
def bare(consortium: Consortium) -> Iterator[dict[str, Callable[[], object]]]:
    """Processes that only echo, and calls of them."""
    keys, ports = consortium.folder / "keys", [str(port) for port in free_ports(K)]
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


def latency(consortium: Consortium, turns: int) -> list[dict[str, str]]:
    point = np.random.default_rng(1).normal(size=(1, FEATURES))
    guarded, unguarded = consortium.connect(), consortium.connect(guard=False)
    work = {
        "solve, all fields": lambda: guarded.consult(point),
        "solve, value only": lambda: guarded.predict(point),
        "solve without the guard, all fields": lambda: unguarded.consult(point),
        "solve without the guard, value only": lambda: unguarded.predict(point),
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


def throughput(consortium: Consortium, turns: int) -> list[dict[str, str]]:
    points = np.random.default_rng(2).normal(size=(20_000, FEATURES))
    batches = np.split(points, 20)
    rows = []
    for name, guard in (("with the guard", True), ("without", False)):
        nodes, here = consortium.connect(guard=guard), consortium.collective(guard=guard)

        def one_by_one(here=here) -> None:
            for batch in batches:
                here.consult(batch)

        times = in_turns({"nodes": lambda nodes=nodes: nodes.consult(points), "here": one_by_one}, turns, 1)
        there, local = (float(np.median(times[which])) / 1e3 for which in ("nodes", "here"))
        rows.append(
            {
                "": name, "nodes, points a second": f"{len(points) / there:,.0f}",
                "in process, points a second": f"{len(points) / local:,.0f}", "ratio": f"{local / there:.2f}",
            }
        )  # fmt: skip
    return rows


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
        for guard in (True, False):
            node = consortium.connect(way=way, tolerance=TOLERANCE, guard=guard)
            row = {"way": way, "guard": "on" if guard else "off"}
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


def main(turns: int, seconds: float) -> None:
    report: list[str] = []

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    say("# Nodes")
    say(HEAD.format(rows=ROWS, features=FEATURES))
    with tempfile.TemporaryDirectory() as folder:
        rows = list(made_rows(0, K, n=ROWS, d=FEATURES))
        with Consortium(folder, K, rows=rows, limits="requests_per_second = 100000") as consortium:
            as_configured(consortium)
            consortium.start(environment={"NUMBA_NUM_THREADS": "2"}).ready()
            say("## Latency")
            say(LATENCY)
            say(as_markdown(latency(consortium, turns)))
            say("## Throughput")
            say(THROUGHPUT)
            say(as_markdown(throughput(consortium, max(3, turns // 4))))
            say("## Rounds and bytes")
            say(TRAFFIC.format(tolerance=TOLERANCE))
            say(as_markdown(traffic(consortium)))
    if seconds:
        say("## Soak")
        every = min(30.0, seconds / 4)
        say(SOAK.format(seconds=seconds, every=every))
        with tempfile.TemporaryDirectory() as folder:
            say(as_markdown([soaked(soak(Path(folder), seconds, every))]))
    RESULTS.write_text("\n\n".join(report) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--soak", type=float, default=600.0, metavar="SECONDS")
    arguments = parser.parse_args()
    main(arguments.turns, arguments.soak)
