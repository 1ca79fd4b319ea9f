"""Make a folder of ``tests/data`` with the files that a release writes: collectives, configurations, nodes' state.

Run it once, with the release whose files later ones have to load, and commit what it makes:

    .venv/bin/python tests/support/make_fixture.py tests/data/0.1.0

It uses public names and commands only, but for the limit from which rows are a large set. All numbers are drawn with
fixed seeds. From run to run differ only times and ids: in the state of the nodes, and in skops files that are not part
of a saved collective.
"""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np
import scipy.sparse
import skops.io
from skl2onnx import to_onnx
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from degroot import Agent, Collective, connect, load_model

ARRAYS = ("value", "standard_error", "weights", "beliefs", "trust", "influence")


def draw_rows(K, n=24, d=2):
    """Rows and labels of K unlike organisations."""
    source = np.random.default_rng(0)
    for k in range(K):
        X = source.normal(size=(n, d)).round(3) + k / 2
        yield X, (np.sin(X[:, 0]) + X[:, 1] + 0.2 * source.normal(size=n)).round(3)


def draw_points(M=5, d=2):
    """Points to ask about; the last is far from all rows."""
    points = np.random.default_rng(9).normal(size=(M, d)).round(3) + 0.5
    points[-1] = 12.0
    return points


def save_onnx(path, model, X):
    """A model as ONNX file, with numbers of 64 bits."""
    path.write_bytes(to_onnx(model, X[:1], target_opset=15).SerializeToString())
    return path


def save_skops(path, fitted):
    """A model or transformer as skops file, packed."""
    skops.io.dump(fitted, path, compression=8)


def fit(X, y, file=None):
    """A model; with a `file`, the one in this ONNX file."""
    model = Ridge().fit(X, y)
    return model if file is None else load_model(save_onnx(file, model, X))


def describe(answer):
    """What an answer says, as JSON."""
    return {name: getattr(answer, name).tolist() for name in ARRAYS} | {
        "names": list(answer.names),
        "flags": [[flag.agent, flag.reason, flag.points.tolist()] for flag in answer.flags],
    }


def write_json(path, content):
    """JSON with a line for each entry of each entry."""
    parts = ({json.dumps(key): json.dumps(value) for key, value in entries.items()} for entries in content.values())
    texts = [",\n".join(f"  {key}: {value}" for key, value in part.items()) for part in parts]
    path.write_text(
        "{\n" + ",\n".join(f" {json.dumps(n)}: {{\n{t}\n }}" for n, t in zip(content, texts, strict=True)) + "\n}\n"
    )


# -- collectives -------------------------------------------------------------------------------------------------------


def make_guarded(onnx):
    """A guard, which leaves an agent out; a metric and a kernel; own predictions of every kind."""
    agents = []
    for k, (X, y) in enumerate(draw_rows(4)):
        own = [None, "peers", y.round(1), None][k]
        model = fit(X, 9.0 * y if k == 3 else y, onnx(k) if k else None)  # the last one exaggerates
        agents.append(Agent(model, X, y, f"agent {k}", own_predictions=own))
    return Collective(agents, 6, metric="manhattan", kernel="gaussian", guard=True)


def make_auto(onnx):
    """A rule that was chosen, and a space of all agents."""
    made = [fit(X, y, onnx(k) if k else None) for k, (X, y) in enumerate(draw_rows(2))]
    agents = [
        Agent(model, X, y, f"agent {k}") for k, (model, (X, y)) in enumerate(zip(made, draw_rows(2), strict=True))
    ]
    return Collective(agents, rule="auto", space=StandardScaler())


def make_classes(_):
    """Classes, and weights by stacking."""
    agents, classes = [], np.array(["cat", "cow", "dog"])
    for k, (X, y) in enumerate(draw_rows(2)):
        labels = classes[np.digitize(y, [0.0, 1.5])]
        agents.append(Agent(GaussianNB().fit(X, labels), X, labels, f"agent {k}", classes=classes))
    return Collective(agents, 0.5, "stacking", kernel="tricube", ridge=0.5)


def make_outputs(onnx):
    """Several outputs, a degree, a space of one agent, rows of several types."""
    agents = []
    for k, (X, y) in enumerate(draw_rows(5)):
        rows = [X, X.astype(np.float32), np.round(10 * X).astype(int), X, X][k]
        both = np.column_stack([y, X[:, 0] - y])
        about = [{"space": StandardScaler()}, {}, {}, {"own_predictions": both.round(1)}, {}][k]
        agents.append(Agent(fit(rows, both, onnx(k) if k not in (1, 2) else None), rows, both, f"agent {k}", **about))
    return Collective(agents, 5, degree=3)


def make_sparse(_):
    """Sparse rows."""
    agents = []
    for k, (X, y) in enumerate(draw_rows(2, d=4)):
        rows = scipy.sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
        agents.append(Agent(fit(rows, y), rows, y, f"agent {k}"))
    return Collective(agents, 5, "error-average", metric="cosine")


def make_indexed(onnx):
    """Rows for which an index was made, as for large sets."""
    from degroot.neighbourhoods import large  # as of 0.1.0

    large.LARGE = 0
    agents = [Agent(fit(X, y, onnx(k)), X, y, f"agent {k}") for k, (X, y) in enumerate(draw_rows(2))]
    collective = Collective(agents, 5)
    collective.predict(draw_points())
    return collective


HANDWRITTEN = """\
# Three organisations. Paths are relative to this file.
rule = "degroot"
neighbours = 6
search = "exact"
target = "price"
features = ["rooms", "age"]
space = "standardise"

[[agents]]
name = "north"
model = "north.skops"
data = "north.csv"
own_predictions = "out_of_fold"

[[agents]]
name = "south"
model = { file = "south.onnx" }
data = "south.csv"
own_predictions = "peers"

[[agents]]
name = "east"
model = "east.skops"
rows = "east-rows.npy"
labels = "east-labels.npy"
space = "space.skops"
"""


def write_handwritten(folder):
    """A collective as people list it: CSV and NumPy files, skops and ONNX models."""
    folder.mkdir()
    (folder / "collective.toml").write_text(HANDWRITTEN)
    north, south, east = draw_rows(3)
    for name, (X, y) in (("north", north), ("east", east)):
        save_skops(folder / f"{name}.skops", fit(X, y))
    fit(*south, folder / "south.onnx")
    save_table(folder / "north.csv", age=north[0][:, 1], price=north[1], rooms=north[0][:, 0], out_of_fold=north[1] / 2)
    save_table(folder / "south.csv", rooms=south[0][:, 0], age=south[0][:, 1], price=south[1])
    np.save(folder / "east-rows.npy", east[0])
    np.save(folder / "east-labels.npy", east[1])
    save_skops(folder / "space.skops", StandardScaler().fit(east[0]))


def save_table(path, **columns):
    """A CSV file."""
    np.savetxt(path, np.column_stack([*columns.values()]), "%.6g", ",", header=",".join(columns), comments="")


def make_collectives(folder):
    """Every collective, and what it answers."""
    folder.mkdir(parents=True)
    expected = {}

    def note(name, collective):
        points = draw_points(d=collective.agents[0].n_features)
        expected[name] = {"points": points.tolist()} | describe(collective.consult(points))
        if collective.choice is not None:
            expected[name] |= {"rule": collective.choice.rule, "errors": collective.choice.errors.tolist()}

    write_handwritten(folder / "handwritten")
    listed = Collective.load(folder / "handwritten")
    note("handwritten", listed)
    note("listed", Collective.load(listed.save(folder / "listed")))
    for make in (make_guarded, make_auto, make_classes, make_outputs, make_sparse, make_indexed):
        name = make.__name__.removeprefix("make_")
        with TemporaryDirectory() as place:
            collective = make(lambda k, place=Path(place): place / f"{k}.onnx")
        collective.save(folder / name)
        note(name, collective)
    write_json(folder / "expected.json", expected)


# -- nodes -------------------------------------------------------------------------------------------------------------

NAMES, CLIENT = ("north", "south", "east"), "analyst"
LISTEN = {name: f"127.0.0.1:{17441 + k}" for k, name in enumerate(NAMES)}
PAGES = {name: 18441 + k for k, name in enumerate(NAMES)}
TOKEN = "the-token-of-the-page-in-the-fixture"
PATIENCE = 300.0  # seconds


def wait_for(condition):
    """What the condition gives, once it gives something."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.5)
    raise TimeoutError


def run_command(*arguments):
    """A command of the release."""
    return [str(Path(sys.executable).with_name("degroot")), *map(str, arguments)]


def write_configuration(path, name):
    """A node's configuration as `degroot node init` writes it."""
    peers = [word for each in NAMES if each != name for word in ("--peer", f"{each}@{LISTEN[each]}")]
    about = ["--listen", LISTEN[name], "--client", CLIENT, "--page", PAGES[name]]
    command = run_command("node", "init", name, "--out", path, *about, *peers)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_nodes(folder):
    """The files of three organisations."""
    for name, (X, y) in zip(NAMES, draw_rows(3), strict=True):
        home = folder / name
        home.mkdir(parents=True)
        write_configuration(home / "node.toml", name)
        if name == "north":
            fit(X, y, home / "model.onnx")
        else:
            save_skops(home / "model.skops", fit(X, y))
            text = (home / "node.toml").read_text()
            (home / "node.toml").write_text(text.replace('file = "model.onnx" ', 'file = "model.skops"'))
        save_table(home / "rows.csv", rooms=X[:, 0], age=X[:, 1], y=y)


@contextmanager
def running(folder):
    """The nodes, until they are stopped."""
    processes = {}
    for name in NAMES:
        with (folder / f"{name}.log").open("w") as log:
            command = run_command("node", "run", folder / name / "node.toml", "--insecure-loopback")
            processes[name] = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield processes
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in processes.items():
            process.wait()
            (folder / f"{name}.log").unlink()


def is_ready():
    """Whether every node sees all others ready."""
    try:
        for name in NAMES:
            with connect(LISTEN[name], insecure_loopback=CLIENT) as node:
                if any(node.members.get(each) != "ready" for each in NAMES):
                    return False
    except Exception:  # it is not there yet
        return False
    return True


def open_page(path, body=None, **headers):
    """What the first node's page replies."""
    request = Request(f"http://127.0.0.1:{PAGES['north']}/api/{path}", body, headers)
    request.add_header("Authorization", f"Bearer {TOKEN}")
    with urlopen(request) as reply:
        return json.load(reply)


def ask_page(body, kind, **about):
    """Ask, and wait for the answer: its id, and the file that people can download."""
    id_ = open_page(f"ask?{urlencode(about)}", body, **{"Content-Type": kind})["id"]
    summary = wait_for(lambda: (found := open_page(f"answers/{id_}"))["status"] != "working" and found)
    return id_, {"summary": summary, "rows": open_page(f"answers/{id_}/download?format=json")}


def list_ledger(path):
    """Who exchanged what with the node: exchanges, rows and bytes."""
    query = """
        SELECT peer, kind, direction, count(*), sum("rows"), sum(sent), sum(received)
        FROM exchanges GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    """
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def make_nodes(folder):
    """Three nodes that have scored each other's models and answered; what they said, and what their ledgers hold."""
    write_nodes(folder)
    for name in NAMES:
        state = folder / name / f"{name}-state"
        state.mkdir()
        (state / "page.token").write_text(TOKEN)
    points = draw_points()
    rows = [dict(zip(("rooms", "age"), point, strict=True)) for point in points.tolist()]
    csv = "\n".join(["age,rooms,town", *(f"{each['age']},{each['rooms']},x" for each in rows)])
    with running(folder):
        wait_for(is_ready)
        with connect(LISTEN["north"], insecure_loopback=CLIENT) as node:
            expected = {"answer": {"points": points.tolist()} | describe(node.consult(points))}
        wait_for(lambda: open_page("state")["node"]["intervals"])
        form = json.dumps({"rows": rows, "coverage": 0.8}).encode()
        expected["page"] = dict(
            [
                ask_page(form, "application/json"),
                ask_page(csv.encode(), "text/csv", filename="towns.csv", way="rounds", guard="false"),
            ]
        )
    expected["ledger"] = {name: list_ledger(folder / name / f"{name}-state" / "ledger.sqlite") for name in NAMES}
    write_json(folder / "expected.json", expected)


def make_interrupted(folder, nodes):
    """The residuals of the first of these nodes, had it been killed while it calibrated."""
    with TemporaryDirectory() as place:
        shutil.copytree(nodes, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*-state"))
        for path in Path(place).glob("*/node.toml"):
            fewer = re.sub(r"(?m)^(chunk_rows|rows_per_request|rows_per_second) = \S+", r"\1 = 8", path.read_text())
            path.write_text(fewer)
        residuals = Path(place) / "north" / "north-state" / "residuals"

        def is_under_way():
            done = [np.load(path) for path in residuals.glob("*/*.done")]
            return len(done) == 2 and all(0 < each.sum() < each.size for each in done)

        with running(Path(place)) as processes:
            wait_for(is_under_way)
            processes["north"].kill()
        if not is_under_way():
            raise RuntimeError("The node must be killed while it calibrates; it was quicker. Run this again.")
        shutil.copytree(residuals, folder / "residuals")


EVERYTHING = """\
# A node's configuration with every setting that there is.
name = "north"
listen = "localhost:7443"
state = "/var/north"
quorum = 2
queries = "calibrate"

[identity]
ca = "keys/ca.pem"
certificate = "keys/north.pem"
key = "keys/north.key"

[model]
address = "grpc://models:8081"
name = "prices"
version = "3"
ca = "keys/server.pem"
certificate = "keys/client.pem"
key = "keys/client.key"

[data]
file = "rows.parquet"
target = ["rent", "price"]
own_predictions = ["rent oof", "price oof"]
space = "standardise"

[collective]
rule = "stacking"
neighbours = 50
metric = "cosine"
kernel = "gaussian"
ridge = 0.5
guard = true

[[peers]]
name = "south"
address = "south.example.org:7443"

[[peers]]
name = "east"
address = "[::1]:7445"
may = ["query", "opinion"]

[[clients]]
name = "dashboard"
may = ["ask"]

[limits]
requests_per_second = 100
rows_per_second = 5000.5
rows_per_request = 4000
concurrent_calls = 3
message_bytes = 1_000_000
idle_seconds = 30

[timing]
deadline_seconds = 2.5
probe_seconds = 0.5
chunk_rows = 700
shutdown_seconds = 4.0

[page]
host = "::1"
port = 8443

[metrics]
port = 9443
"""


def main(folder):
    """All of it."""
    make_collectives(folder / "collectives")
    make_nodes(folder / "nodes")
    make_interrupted(folder / "interrupted", folder / "nodes")
    (folder / "everything.toml").write_text(EVERYTHING)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
