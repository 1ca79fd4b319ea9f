"""What has to be there before the blocks of a page are tried: the files and servers that the page takes for granted."""

from concurrent import futures
from contextlib import contextmanager
from functools import partial

import grpc
import numpy as np
import pandas as pd
import skops.io
from lightgbm import LGBMRegressor
from skl2onnx import to_onnx
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from support.models import Server
from tritonclient.grpc import service_pb2_grpc

from degroot import Agent, Collective
from degroot.node import config
from degroot.node.records.chain import IN, OUT, Origin, digest_exchange
from degroot.node.records.ledger import Ledger
from degroot.node.records.receipts import Receipts
from degroot.node.tls import authority, signing
from degroot.schema import Column, Schema, Site, SiteColumn

ORGANISATIONS = (("north", -1.0), ("south", 0.0), ("west", 1.0))


def organisations(target="price", columns=("age", "rooms", "tax"), n=200):
    """A frame of rows and a fitted model for each of three."""
    source = np.random.default_rng(0)
    for name, centre in ORGANISATIONS:
        frame = pd.DataFrame(source.normal(centre, 1.0, size=(n, len(columns))), columns=list(columns))
        frame[target] = frame.abs().sum(axis=1) + 0.1 * source.normal(size=n)
        model = Ridge().fit(frame[list(columns)].to_numpy(), frame[target].to_numpy())
        yield name, frame, model


def saved(folder):
    """A collective that was saved."""
    agents = [
        Agent(model, frame.drop(columns="price"), frame["price"].to_numpy(), name)
        for name, frame, model in ((name, frame, named(model, frame)) for name, frame, model in organisations())
    ]
    Collective(agents).save(folder)


def named(model, frame):
    """The same model, trained on a frame."""
    return model.fit(frame.drop(columns="price"), frame["price"])


@contextmanager
def files_of_any_size(terminal):
    """`docs/predict.md`: a listed collective, a saved one, good rows and bad ones."""
    home = terminal.folder
    listed = 'target = "price"\n'
    for name, frame, model in organisations():
        frame.to_parquet(home / f"{name}.parquet")
        skops.io.dump(model, home / f"{name}.skops")
        listed += f'[[agents]]\nname = "{name}"\nmodel = "{name}.skops"\ndata = "{name}.parquet"\n'
    (home / "collective.toml").write_text(listed)
    saved(home / "saved")
    rows = pd.concat([frame.drop(columns="price") for _, frame, _ in organisations(n=25_000)], ignore_index=True)
    rows["id"] = np.arange(len(rows))
    hospitals = np.array(["north", "south", "west", "east"])[np.arange(1000) % 4]  # one of them is no agent
    rows.head(1000).assign(hospital=hospitals).to_parquet(home / "rows.parquet")
    rows["age"] = rows["age"].round(3).astype(object)
    rows.loc[70_000, "age"] = "unknown"
    rows.to_csv(home / "rows.csv", index=False)
    (home / "rows").mkdir()
    rows.drop(index=70_000).astype(float).head(500).to_parquet(home / "rows" / "first.parquet")
    yield


def clinics(home):
    """Two clinics with a schema: one trained a pipeline on frames, one LightGBM on categories, without a column."""
    home.mkdir()
    ward, sex = Column("ward", "category", ("bones", "heart")), Column("sex", "category", ("female", "male"))
    schema = Schema((Column("age"), sex, ward), target=Column("days"))
    (home / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    site = Site({"sex": SiteColumn(name="SEX", values=(("F", "female"), ("M", "male")))})
    (home / "north.site.toml").write_text(site.to_toml(), encoding="utf-8")
    random = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"age": random.integers(20, 80, 60).astype(float), "sex": random.choice(["female", "male"], 60)}
    )
    rows = rows.astype({"sex": "category"}).assign(ward=pd.Categorical(random.choice(["bones", "heart"], 60)))
    days = rows["age"] / 9 + (rows["sex"] == "male")
    columns = make_column_transformer((OneHotEncoder(), ["sex", "ward"]), ("passthrough", ["age"]))
    skops.io.dump(make_pipeline(columns, Ridge()).fit(rows, days), home / "north.skops")
    north = rows.rename(columns={"sex": "SEX"}).assign(SEX=rows["sex"].map({"female": "F", "male": "M"}))
    north.assign(days=days).to_csv(home / "north.csv", index=False)
    south = rows.drop(columns="ward")
    model = LGBMRegressor(n_estimators=5, verbose=-1).fit(south, days)
    model.booster_.save_model(home / "south.txt")
    south.assign(days=days).to_parquet(home / "south.parquet")


class Prices(Server):
    """A model server of another make."""

    def ModelMetadata(self, request, context):  # noqa: N802
        return self.metadata


@contextmanager
def listed_by_hand(terminal):
    """`docs/collective.md`: models and rows in files of several kinds, and a model at an address."""
    home = terminal.folder
    clinics(home / "clinics")
    for name, frame, model in organisations():
        X, y = frame.drop(columns="price").to_numpy(), frame["price"].to_numpy()
        if name == "north":
            frame.to_parquet(home / "north.parquet")
            (home / "north.onnx").write_bytes(to_onnx(model, X[:1]).SerializeToString())
        elif name == "south":
            frame.assign(out_of_fold=y + 0.1).to_csv(home / "south.csv", index=False)
        else:
            skops.io.dump(model, home / "west.skops")
            np.save(home / "west-rows.npy", np.ascontiguousarray(X))
            np.save(home / "west-labels.npy", y)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Prices(), server)
    server.add_insecure_port(f"127.0.0.1:{terminal.ports['7449']}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()


class Clinic:
    """The file and the ledger of a node that does not run."""

    def __init__(self, home, name, peers, clients=""):
        self.name, folder = name, home / name
        (folder / "state").mkdir(parents=True)
        text = f'name = "{name}"\nlisten = "127.0.0.1:7441"\nstate = "state"\n[identity]\nca = "../keys/ca.pem"\n'
        text += f'certificate = "../keys/{name}.pem"\nkey = "../keys/{name}.key"\n[model]\nfile = "model.onnx"\n'
        text += '[data]\nfile = "rows.csv"\ntarget = "stay"\n'
        for k, peer in enumerate(peers):
            text += f'[[peers]]\nname = "{peer}"\naddress = "{peer}.example.org:744{2 + k}"\n'
        (folder / "node.toml").write_text(text + clients)
        told = config.read(folder / "node.toml")
        sign = partial(signing.sign, told.identity)
        self.ledger = Ledger(told.ledger, name, sign)
        check = partial(check_by, told.identity.ca)
        self.receipts = Receipts(self.ledger, name, sign, check, lambda: peers)

    def ask(self, other, kind, rows, origin):
        """An exchange that both record."""
        request, reply = b"x" * 80 * rows, b"x" * 8 * rows
        digest = digest_exchange(self.name, other.name, kind, rows, origin.question, request, reply)
        self.ledger.record_all([other.name], kind, OUT, rows, len(request), 0, origin)
        answered = other.ledger.record(self.name, kind, IN, rows, len(reply), len(request), origin, digest)
        other.receipts.note_answered(self.name, answered)
        (received,) = self.ledger.record_replies(kind, [(other.name, len(reply), digest)], origin)
        self.receipts.note_received(other.name, received)

    def confirm(self, other):
        """Receipts for all of it."""
        statement = self.receipts.make_statement(other.name)
        reply, _ = other.receipts.countersign(self.name, statement)
        self.receipts.accept(other.name, statement, reply)


def check_by(ca, context, message, signature, certificate, name):
    signing.check_signature(context, message, signature, certificate, ca, name)


@contextmanager
def two_ledgers(terminal):
    """`docs/officer.md`: the files of two clinics, whose nodes have scored and asked each other's models."""
    home = terminal.folder
    authority.init_ca(home / "keys", "clinics", 30)
    for name in ("north", "south"):
        authority.issue(home / "keys", name, 30, ["127.0.0.1"])
    north = Clinic(home, "north", ["south"], '[[clients]]\nname = "analyst"\nrows_per_day = 2000\n')
    south = Clinic(home, "south", ["north"])
    north.ask(south, "model query", 121, Origin("1" * 16, "north", "scoring"))
    south.ask(north, "model query", 102, Origin("2" * 16, "south", "scoring"))
    question = Origin("3" * 16, "analyst", "bed planning, ward 7")
    north.ask(south, "prediction", 80, question)
    north.ledger.record("analyst", "consult", IN, 80, 2000, 6400, question)
    north.confirm(south)
    south.confirm(north)
    for each in (north, south):
        each.ledger.close()
    yield


@contextmanager
def a_node(terminal):
    """`docs/node.md`: the configuration of a node."""
    (terminal.folder / "north").mkdir()
    (terminal.folder / "north" / "node.toml").write_text(config.template("north"))
    yield


@contextmanager
def three_organisations(terminal):
    """`docs/operations.md`: the models and rows of three organisations, each in a folder of its own."""
    for name, frame, model in organisations("y"):
        home = terminal.folder / name
        home.mkdir()
        frame.to_csv(home / "rows.csv", index=False)
        skops.io.dump(model, home / "model.skops")
    yield


@contextmanager
def nothing(_):
    """An empty folder."""
    yield


SCENES = {
    "docs/collective.md": listed_by_hand,
    "docs/predict.md": files_of_any_size,
    "docs/cluster.md": files_of_any_size,
    "docs/node.md": a_node,
    "docs/officer.md": two_ledgers,
    "docs/operations.md": three_organisations,
}
