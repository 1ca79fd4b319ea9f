"""What a question costs with 10 to 10,000 organisations: constants measured here, a table from them, and checks of it.

`make bench` prints, and puts the tables into docs/scale.md. `--quick`: fewer and smaller measurements, only printed.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench import as_markdown
from costs import LOCAL, NETWORKS, Constants, Cost, beliefs_bytes, question_bytes, reply_bytes, rounds, sampled, solving

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import Consortium, made_rows

from degroot import Agent, Collective, consensus, jackknife
from degroot.consensus.sparse.sample_peers import sample_peers
from degroot.consensus.sparse.weights import solve as solve_sampled
from degroot.jackknife.sparse import solve_without as solve_sampled_without
from degroot.node.records import ledger
from degroot.trust import inverse_error_weights

DOCUMENT = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- written by benchmarks/scale.py -->", "<!-- until here -->"
FEATURES, DEGREE, NEIGHBOURS = 20, 32, 100
TOLERANCE = 1e-9
NUMBERS = (10, 100, 1000, 10_000)
ROWS = (10**4, 10**6, 10**8, 10**9)
DELAY = 0.04  # seconds, one way, in the check with real nodes


def seconds(work: Callable[[], object], least: float = 0.2) -> float:
    """Seconds of one core for `work`, the best of some."""
    work()
    taken: list[float] = []
    while sum(taken) < least or len(taken) < 3:
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def holder(n: int, d: int, seed: int, name: str) -> Agent:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)).astype(np.float32)
    return Agent(lambda X: X[:, 0], X, X[:, 0] + random.normal(size=n), name)


def trust_of(K: int, q: int | None = None, seed: int = 0) -> np.ndarray:
    """Errors as six rows give them, of models whose quality is lognormal: a typical one is twice as good as another."""
    random = np.random.default_rng(seed)
    peers = sample_peers(K, K if q is None else q)
    return inverse_error_weights(np.exp(0.7 * random.normal(size=K))[peers] * random.chisquare(6, size=peers.shape))[
        None
    ]


def search_seconds(n: int, M: int, K: int = 2) -> float:
    """For one point of M, and one agent of K."""
    collective = Collective([holder(n, FEATURES, k, f"{k}") for k in range(K)], NEIGHBOURS, n_jobs=1)
    points = np.random.default_rng(9).normal(size=(M, FEATURES))
    return seconds(lambda: collective.consult(points, fields=["trust"])) / (K * M)


def message_seconds(few: int, many: int, questions: int) -> float:
    """Seconds of the asked node's processor for one more peer."""
    return (_asked(many, questions) - _asked(few, questions)) / (many - few)


def _asked(K: int, questions: int) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        Consortium(
            folder,
            K,
            rows=list(made_rows(0, K, d=FEATURES)),
            settings="guard = false",
            limits="requests_per_second = 100000",
        ) as nodes,
    ):
        nodes.start().ready(patience=300.0)
        node, point = nodes.connect(), np.zeros((1, FEATURES))
        for _ in range(20):
            node.predict(point)
        before = _used(nodes.processes["node0"].pid)
        for _ in range(questions):
            node.predict(point)
        return (_used(nodes.processes["node0"].pid) - before) / questions


def _used(process: int) -> float:
    """Seconds that a process has computed so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(quick: bool) -> tuple[Constants, list[dict[str, str]]]:
    """The constants, and where each is from."""
    n, large = 10**5, 10**6
    K, many = (128, 512) if quick else (512, 4096)
    dense, beliefs = trust_of(K), np.random.default_rng(1).normal(size=(1, K))
    peers, sparse = sample_peers(many, DEGREE), trust_of(many, DEGREE)
    told = np.random.default_rng(2).normal(size=(1, many))
    begin = search_seconds(NEIGHBOURS, 1, 50)
    found = Constants(
        begin=begin,
        search=(search_seconds(n, 1) - begin) / (n * FEATURES),
        search_large=(search_seconds(large, 1) - begin) / (large * FEATURES),
        search_many=search_seconds(large, 1000) / (large * FEATURES),
        solve=seconds(lambda: consensus.solve(dense)) / K**3,
        jackknife=seconds(lambda: jackknife.solve_without(dense, beliefs)) / K**3,
        sampled_solve=seconds(lambda: solve_sampled(sparse, peers)) / (many * DEGREE),
        sampled_jackknife=seconds(lambda: solve_sampled_without(sparse, peers, told)) / (many**2 * DEGREE),
        message=message_seconds(3, 6 if quick else 9, 300 if quick else 1000),
    )
    at = {
        "begin": ("µs per point and organisation, however few its rows", 1e6, f"{NEIGHBOURS} rows"),
        "search": ("ns per row and feature, a point alone", 1e9, f"{n:,} rows, {FEATURES} features"),
        "search_large": ("ns per row and feature, a point alone", 1e9, f"{large:,} rows, {FEATURES} features"),
        "search_many": ("ns per row and feature, a point among 1000", 1e9, f"{large:,} rows, {FEATURES} features"),
        "solve": ("ns per K³, weights", 1e9, f"K = {K}"),
        "jackknife": ("ns per K³, weights without each", 1e9, f"K = {K}"),
        "sampled_solve": ("ns per K q, weights", 1e9, f"K = {many}, q = {DEGREE}"),
        "sampled_jackknife": ("ns per K² q, weights without each", 1e9, f"K = {many}, q = {DEGREE}"),
        "message": ("µs per message to a peer and its reply", 1e6, "real nodes with TLS: the asked one's processor"),
    }
    rows = [
        {"constant": text, "value": f"{getattr(found, name) * unit:.3g}", "measured at": where}
        for name, (text, unit, where) in at.items()
    ]
    return found, rows


def many_agents(number: int, degree: int) -> list[dict[str, str]]:
    """One question to thousands of agents, once their errors are known."""
    peers, trust = sample_peers(number, degree), trust_of(number, degree)
    beliefs = np.random.default_rng(2).normal(size=(1, number))
    weights = solve_sampled(trust, peers)
    pooled = np.bincount(peers.ravel(), (weights[0][:, None] * trust[0]).ravel(), number)
    return [
        {
            "agents": f"{number:,}", "degree": f"{degree}",
            "weights": duration(seconds(lambda: solve_sampled(trust, peers))),
            "residual, sum of absolutes of wT - w": f"{np.abs(pooled - weights[0]).sum():.1e}",
            "error bars": duration(seconds(lambda: solve_sampled_without(trust, peers, beliefs))),
        }
    ]  # fmt: skip


def simulated_rounds(K: int) -> float:
    """Rounds until all agree to the tolerance, at the median of some points."""
    taken = []
    for seed in range(3 if K > 500 else 15):
        beliefs = np.random.default_rng(seed).normal(size=(1, K))
        pooled = consensus.pool(trust_of(K, seed=seed), beliefs, tolerance=TOLERANCE * float(np.ptp(beliefs)))
        taken.append(int(pooled.rounds[0]))
    return float(np.median(taken))


def duration(value: float) -> str:
    """A time that can be read."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def size(value: float) -> str:
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def ways(c: Constants, network: object, K: int, number: float) -> dict[str, Cost]:
    return {
        "solve": solving(c, network, K, FEATURES),
        "rounds": rounds(c, network, K, FEATURES, number),
        f"sampled, q = {DEGREE}": sampled(c, network, K, FEATURES, DEGREE),
    }


def totals(c: Constants, numbers: dict[int, float]) -> list[dict[str, str]]:
    """The whole question, without error bars."""
    table = []
    for K in NUMBERS:
        for n in ROWS:
            line = {"organisations": f"{K:,}", "rows each": f"10^{round(np.log10(n))}"}
            for network in NETWORKS:
                for way, cost in ways(c, network, K, numbers[K]).items():
                    line[f"{network.name}: {way}"] = duration(cost.seconds + c.near(n, FEATURES))
            table.append(line)
    return table


def parts(c: Constants, numbers: dict[int, float]) -> list[dict[str, str]]:
    """By number of organisations: what does not depend on rows."""
    table = []
    for K in NUMBERS:
        for way, cost in ways(c, LOCAL, K, numbers[K]).items():
            table.append(
                {
                    "organisations": f"{K:,}", "way": way + (f" ({numbers[K]:.0f})" if way == "rounds" else ""),
                    "bytes, busiest line": size(cost.busiest), "bytes, all": size(cost.total),
                    "messages": duration(cost.messages),
                    "weights": duration(cost.weights) if cost.weights else "in the messages",
                    "error bars": duration(cost.bars) if cost.bars else "in the messages",
                    "memory for trust": size(8.0 * K * {"solve": K, "rounds": 1}.get(way, min(K, DEGREE))),
                }
            )  # fmt: skip
    return table


def once() -> list[dict[str, str]]:
    """Scoring, once per model version: every row goes to the models that are scored."""
    table = []
    for K in NUMBERS:
        for n in (10**4, 10**6, 10**9):
            everybody, some = (8.0 * n * (FEATURES + 1) * (min(models, K) - 1) for models in (K, DEGREE))
            table.append(
                {
                    "organisations": f"{K:,}", "rows each": f"10^{round(np.log10(n))}",
                    "bytes of each, everybody scored": size(everybody), f"bytes of each, q = {DEGREE}": size(some),
                    "kept of each, everybody scored": size(8.0 * n * K),
                    f"kept of each, q = {DEGREE}": size(8.0 * n * min(K, DEGREE)),
                }
            )  # fmt: skip
    return table


def check_computing(c: Constants, quick: bool) -> list[dict[str, str]]:
    """Collectives in one process on one core, of other sizes than those measured: K searches, weights, error bars."""
    table = []
    for K, n, q in ((20, 20_000, None), (100, 3000, None), (100, 3000, 16), (1000, 400, 16))[: 3 if quick else 4]:
        agents = [holder(n, FEATURES, k, f"{k}") for k in range(K)]
        collective = Collective(agents, 20, degree=q, n_jobs=1)
        point = np.random.default_rng(3).normal(size=(1, FEATURES))
        for what, field in (("weights", "weights"), ("and error bars", "standard_error")):
            taken = seconds(lambda field=field, ask=collective, x=point: ask.consult(x, fields=[field]))
            cost = solving(c, LOCAL, K, FEATURES) if q is None else sampled(c, LOCAL, K, FEATURES, q)
            told = K * c.near(n, FEATURES) + cost.weights + (cost.bars if field == "standard_error" else 0.0)
            table.append(
                {
                    "K": f"{K}", "rows each": f"{n:,}", "degree": "all" if q is None else f"{q}", "of": what,
                    "model": duration(told), "measured": duration(taken), "measured / model": f"{taken / told:.2f}",
                }
            )  # fmt: skip
    return table


class Delays(threading.Thread):
    """Ways between nodes on which every byte takes a while, in a thread of their own."""

    def __init__(self, seconds: float) -> None:
        super().__init__(daemon=True)
        self.seconds, self.loop = seconds, asyncio.new_event_loop()
        self.start()

    def run(self) -> None:
        self.loop.run_forever()

    def route(self, target: int) -> int:
        """The port of a new way to the port `target`."""
        return asyncio.run_coroutine_threadsafe(self._serve(target), self.loop).result()

    async def _serve(self, target: int) -> int:
        async def accept(reader, writer) -> None:
            try:
                there = await asyncio.open_connection("127.0.0.1", target)
            except OSError:  # the node is not there yet
                writer.close()
                return
            await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]

    async def _pass(self, reader, writer) -> None:
        try:
            while content := await reader.read(1 << 16):
                self.loop.call_later(self.seconds, writer.write, content)
        except OSError:
            pass
        self.loop.call_later(self.seconds, writer.close)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)


def check_nodes(c: Constants, K: int = 4) -> list[dict[str, str]]:
    """Real nodes on this machine, every way between them delayed: seconds and bytes of a question."""
    delays, table = Delays(DELAY), []
    network = type(LOCAL)("delayed", 2 * DELAY, float("inf"))
    with (
        tempfile.TemporaryDirectory() as folder,
        Consortium(folder, K, rows=list(made_rows(0, K, d=FEATURES))) as nodes,
    ):
        pairs = [(a, b) for a in nodes.names for b in nodes.names if a != b]
        nodes.routes |= {(a, b): delays.route(nodes.ports[b]) for a, b in pairs}
        for name in nodes.names:
            nodes.write(name, limits="requests_per_second = 100000")
        nodes.start().ready(patience=300.0)
        for way in ("solve", "rounds"):
            node = nodes.connect(way=way, tolerance=TOLERANCE)
            points = np.random.default_rng(5).normal(size=(12, 1, FEATURES))
            node.consult(points[0])
            before, taken, numbers = sent(nodes), [], []
            for point in points:
                start = time.perf_counter()
                numbers.append(node.consult(point).rounds or 0)
                taken.append(time.perf_counter() - start)
            used, number, mean = (sent(nodes) - before) / len(points), float(np.mean(numbers)), float(np.mean(taken))
            cost = solving(c, network, K, FEATURES) if way == "solve" else rounds(c, network, K, FEATURES, number)
            told = told_bytes(way, K, number)
            table.append(
                {
                    "way": way, "rounds": f"{number:.1f}", "model": duration(cost.seconds),
                    "measured": duration(mean), "measured / model": f"{mean / cost.seconds:.2f}",
                    "bytes, model": f"{told:,.0f}", "bytes, by the ledgers": f"{used:,.0f}",
                    "ledgers / model": f"{used / told:.2f}",
                }
            )  # fmt: skip
    delays.close()
    return table


def told_bytes(way: str, K: int, number: float) -> float:
    if way == "solve":
        return (K - 1) * (question_bytes(FEATURES) + reply_bytes(K, name="node0"))
    return (K - 1) * (question_bytes(FEATURES) + number * K * beliefs_bytes(K))


def sent(nodes: Consortium) -> int:
    """Bytes that nodes have sent each other for questions."""
    lines = [line for name in nodes.names for line in ledger.summary(nodes.configuration(name).ledger)]
    return sum(line.sent for line in lines if line.peer in nodes.names and line.kind in ("opinion", "pool"))


def main(quick: bool) -> None:
    constants, measured = measure(quick)
    numbers = {K: simulated_rounds(min(K, 300 if quick else 2000)) for K in NUMBERS}
    sections = {
        "Constants": as_markdown(measured),
        "A question, without error bars": as_markdown(totals(constants, numbers)),
        "Bytes, weights and error bars": as_markdown(parts(constants, numbers)),
        "Before the first question": as_markdown(once()),
        "Thousands of agents, on one core": as_markdown(many_agents(512 if quick else 4096, DEGREE)),
        "Checked: computing": as_markdown(check_computing(constants, quick)),
        f"Checked: four nodes, {1e3 * DELAY:.0f} ms one way": as_markdown(check_nodes(constants)),
    }
    text = "\n\n".join(f"## {title}\n\n{table}" for title, table in sections.items())
    print(text)
    if quick:
        return
    before, rest = DOCUMENT.read_text().split(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
