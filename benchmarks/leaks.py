"""What an attacker learns of labels, rows and models of real nodes, mode by mode; `make bench` writes LEAKS.md.

`--quick`: a short run with three organisations that writes nothing, and says in one line each which promise is broken.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from bench import as_markdown
from maps import solve_labels
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.consortium import CLIENT, Consortium, made_rows
from support.crafted import make_linear
from support.leak_attacks import (
    FIVE,
    average_neighbours,
    bootstrap_area,
    call_as,
    count_points_needed,
    measure_advantage,
    measure_kinks,
    recover_absolute_errors,
    recover_labels,
    recover_labels_from_trust,
)
from support.recorder import (
    FORMATS,
    RECEIVED,
    SENT,
    Message,
    find_numbers,
    find_unmatched,
    read_messages,
    record_messages,
    select_private,
)

from degroot import Agent
from degroot.compute.compiled import Array
from degroot.maps import EvidenceMap
from degroot.models.formats import VERSION_DIGITS
from degroot.node.config import GRANTS, IdentityFiles
from degroot.node.copies.bundle import make_bundle
from degroot.node.protocol.codec import PROTOCOL, array, tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.server import model_service
from degroot.node.tls import authority
from degroot.node.tls.signing import sign

HEAD = """\
Written by `make bench`. Real node processes on loopback with mutual TLS. {K} organisations share scikit-learn's
diabetes data, split by age: the victim has {n} rows of {d} features, as many rows of the same ages are kept aside, the
others have {m} rows each. Linear models as ONNX files, out-of-fold own predictions; each value has a little noise
added, so that no two are alike. The attackers: a member with a valid certificate (the victim's peer), and a client.
Both know the software. *Chance level*: no better than the models that the attacker may query, paired by rows, two
standard errors. The attacks were developed on another random split of the same data, and not changed for this one.
*own, copies*: `evidence = "own"`, all peers give copies of their models, and nothing is queried. *own, queries*:
`evidence = "own"`, models are queried. *pooled*: `evidence = "pooled"`. *maps*: `evidence = "maps"`, of more rows."""
POOLED = """\
The linear attack. The member holds the victim's features, which were sent to score its model, asks one `Opinion` at
those rows, and solves for the labels: differences of two models' mean squared errors are linear in them. The client
was granted all fields; it asks for `trust` at {points} points, under the guard, and leaves out what the guard changed.
*First label*: how many points give one label exactly. Raising `neighbours` or `disclosure.least_rows` does not help:
with pooled evidence members recover the labels."""
MAPS = """\
The same linear attack on a map (`evidence = "maps"`) that the victim, one of {K} nodes, has published: the member has
the victim's features, knows all models and the public noise level, and solves for the labels; the declared residual
bound is so large that no row is clipped, as is best for the attacker. *Baseline*: the best of the models. *Kept aside*:
the attack is run as if rows of the same organisation that are in no data were in the map. What it finds of these as
well is what labels are like where they are, as any consensus tells, and not the label of a row that is in the data. How
near that can be known is bounded by ε (docs/maps.md; audited in MAPS.md); an exact label is never found."""
CALLS = """\
What each call of the protocol gives to a member with a valid certificate and default rights. With own evidence the
victim tells who it is and what its model predicts, or gives the model's file.
{shuffled}"""
MEMBER = """\
Labels by the member, from all that it got, by each estimate that was tried: the average of the models that it may
query, and a regression on their predictions and the features, trained on the attacker's rows. *Baseline*: the best of
these models, which is the victim's own. *Advantage*: the mean paired gain in squared error over the baseline, in
standard errors; up to 2 is chance level. The last line is a control: what the linear attack gives with pooled
evidence."""
VALUES = """\
A client that sees value and interval only and knows the victim's features (with *queries* it may work with a member
who does; with *copies* nobody was sent them, and it would have to have them from elsewhere). The victim's model it
copies by 11 far points (below). **This is not at chance level.** The squared half-width of an interval is linear in
the squared left-out errors of the rows near the point, so that questions at two coverages give the size of every
left-out error. Their signs show in the value: a row's tricube weight has a kink at the row itself, which a fourth
difference over {step:g} finds. Label = the model's prediction plus the signed error. R²: share of the baseline's
squared error that is gone. These figures are from below: of three attacks that were tried, a regression on values, a
fit of the whole computation, and this one, it did best; there may be better ones."""
FIELDS = """\
What further fields would add for the same number of questions: signs of the errors by kinks in them, the sizes as
above. `weights` brings with it what was mixed: the mean squared error of each candidate on the victim's rows, to all
digits. For this attack they add nothing; for others they may."""
FAR = """\
Points far outside the rows. There an interval is widened to hold all labels of the node, so that at a coverage near 0
its ends are the least and the largest label, up to round numbers; and the value is the own model's prediction, so that
it can be copied (below)."""
MEMBERSHIP = """\
Is a row among the victim's? {n} of its rows against the {n} rows kept aside. Area under the curve: 0.5 is chance, the
standard error is from 500 bootstrap samples. *Kinks*: as above, at the row in question; nothing but the row is known.
*Label known*: rows on which the model is nearer to the label are taken for its training rows. *Received*: the row is
among the bytes that the attacker's node received from the victim, to score its model. All modes have the same victim:
what a client sees is the same in each, and these are not three measurements."""
ALERT = (
    "The alert when a client asks about the victim's rows: {alert}. Replies before and after it, byte by byte: {same}."
)
CRAFTED = """\
A member crafts a model that predicts as before, but not a number on one row, and lets the victim copy it. Somebody
looks at the victim's `Describe` reply and, a client, at the flags of its answers: is the new version scored, or not?
Whoever is always right has one bit for each model; half of the tests right is what silence gives."""
BYTES = """\
All messages between the nodes, recorded at both ends of every connection ({messages:,} messages, {bytes:,} bytes;
{unmatched}, but for questions who somebody is that were sent before the other had started), searched for every feature,
label, residual (of all models; also squared) and asked point of all organisations: as float64 and float32 (two in a
row) in both byte orders, and as decimals of 5 and more digits. Refusals, recorded where they are sent, are searched as
well, and model files. {planted}"""
MODELS = """\
A linear model of {d} features is copied when its coefficients are known to 1e-6. With the right to query it takes
{needed} points, by design. A client that sees value and interval only copies the victim's model all the same, by points
far outside its rows, where the guard lets the own model answer alone."""
BUDGETS = """\
Budgets bound the attacks on values in time only: a client may ask about 100,000 rows a day by default, and {first:,}
questions already give most of what {most:,} give. With `rows_per_day = 500` that takes {days} days; the
range of the labels, and a model of {d} features, take {far} questions."""
RESULTS = Path(__file__).with_name("LEAKS.md")
VICTIM, ATTACKER, INSIDER = "node0", "node1", "insider"
COPIES, QUERIES = "own, copies", "own, queries"
SETTINGS: dict[str, dict[str, Any]] = {
    COPIES: {"evidence": "own", "may": ["query", "copy"], "use": ["copy"]},
    QUERIES: {"evidence": "own", "use": ["query"]},
}
NEIGHBOURS, LEAST_ROWS = (2, 4, 6, 45), (1, 10)
ROWS, STEP, FAR_AWAY = 91, 3e-5, 5.0
OF_VICTIM, ASIDE = "the victim's", "kept aside"
MAP_MEMBERS, MAP_ROWS, CLOSE = 4, {8.0: 1200, 1.0: 3200}, 0.1
ALERT_SECONDS = 30.0  # to wait for an alert at most
INFER, PREDICT = "/inference.GRPCInferenceService/ModelInfer", "/degroot.v3.Collective/Predict"
PLANS = ((150, 1), (300, 4), (400, 10), (450, 20))  # points for the sizes of errors, and directions for their signs
PATIENCE = 30.0  # seconds in which a victim takes a new model in
Ask = Callable[[Array, float], tuple[Array, Array]]


@dataclass(frozen=True)
class Dealt:
    """Organisations, and rows like the victim's that nobody has."""

    agents: list[Agent]
    labels: list[Array]
    X: Array
    y: Array

    @property
    def victim(self) -> Agent:
        return self.agents[0]

    def said(self, X: Array | None = None) -> Array:
        """What all models say, by default of the victim's rows, (M, K)."""
        return np.stack([agent.predict(self.victim.X if X is None else X) for agent in self.agents], axis=1)


@dataclass
class Report:
    """What is written, and which promises are broken."""

    text: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        print(text + "\n", flush=True)
        self.text.append(text)

    def promise(self, kept: bool, what: str) -> None:
        if not kept:
            self.broken.append(what)


def deal(K: int, seed: int = 1) -> Dealt:  # attacks were developed on seed 0
    random = np.random.default_rng(seed)
    X, y = load_diabetes(return_X_y=True)
    X, y = X + 1e-4 * random.normal(size=X.shape), y + 1e-2 * random.normal(size=len(y))
    order = np.argsort(X[:, 0])
    middle = random.permutation(order[130 : 130 + 2 * ROWS])
    others = np.array_split(np.r_[order[:130], order[130 + 2 * ROWS :]], K - 1)
    agents, labels = [], []
    for k, rows in enumerate([middle[:ROWS], *others]):
        folds = KFold(10, shuffle=True, random_state=0)
        own = cross_val_predict(LinearRegression(), X[rows], y[rows], cv=folds)
        model = LinearRegression().fit(X[rows], y[rows])
        agents.append(Agent(model, X[rows], y[rows], f"node{k}", own_predictions=own))
        labels.append(y[rows])
    return Dealt(agents, labels, X[middle[ROWS:]], y[middle[ROWS:]])


@contextmanager
def running(dealt: Dealt, *, recorded: bool = False, **settings: Any) -> Iterator[Consortium]:
    """The organisations' nodes, ready; with a client that sees all fields beside the one with default rights."""
    with tempfile.TemporaryDirectory() as folder:
        agents = list(zip(dealt.agents, dealt.labels, strict=True))
        with Consortium(folder, len(agents), agents=agents, data='own_predictions = "own"', **settings) as consortium:
            authority.issue(consortium.folder / "keys", INSIDER, 30)
            for agent in dealt.agents:
                home = consortium.folder / agent.name
                (home / "model.onnx").write_bytes(make_linear(agent.model.coef_, agent.model.intercept_))
                text = (home / "node.toml").read_text().replace("model.skops", "model.onnx")
                text += f'[[clients]]\nname = "{INSIDER}"\nfields = {list(GRANTS)}\n'
                (home / "node.toml").write_text(text)
            yield consortium.fork(before=record_messages if recorded else None).ready()


def describe_to(consortium: Consortium, caller: str, node: str = VICTIM) -> Any:
    with call_as(consortium, caller, node) as (collective, _):
        return collective.Describe(wire.DescribeRequest(protocol=PROTOCOL))


# ---- labels, pooled evidence ----------------------------------------------------------------------------------------


def attack_pooled(report: Report, dealt: Dealt, sizes: Sequence[int], least_rows: Sequence[int]) -> Array:
    """The linear attack on pooled evidence; the labels that the member found last."""
    rows, random = [], np.random.default_rng(1)
    X, y, said = dealt.victim.X, dealt.labels[0], dealt.said()[:, 1:]  # its own column has out-of-fold predictions
    near = X[random.integers(0, ROWS, 9 * ROWS)] + 0.02 * random.normal(size=(9 * ROWS, X.shape[1]))
    points = np.concatenate([X, near])
    for least in least_rows:
        for N in sizes:
            settings = {"settings": f"neighbours = {N}", "least_rows": least, "may": ["query", "opinion"]}
            with running(dealt, evidence="pooled", **settings) as consortium:
                behind = max(N, least)
                asked = X if len(dealt.agents) > 3 else points  # one difference of models is not enough at the rows
                labels = recover_labels(
                    average_neighbours(asked, X, behind), said, take_opinion(consortium, asked)[:, 1:]
                )
                found = {"member": labels}
                if len(dealt.agents) > 3:
                    with consortium.connect(VICTIM, caller=INSIDER) as node:
                        trust = node.consult(points, "trust").trust[:, 0, 1:]
                    found["client"] = recover_labels_from_trust(average_neighbours(points, X, behind), said, trust)
            first = count_points_needed(X, X, behind, said)
            row = {"`neighbours`": str(N), "`least_rows`": str(least), "rows behind a number": str(behind)}
            for who, told in found.items():
                exact, close = (int((np.abs(told - y) < limit).sum()) for limit in (1e-6, 0.5))
                row |= {f"{who}: exact (1e-6)": f"{exact} of {ROWS}", f"{who}: within 0.5": f"{close} of {ROWS}"}
            row["first label, points"] = str(first) if first <= ROWS else "more than the rows"
            rows.append(row)
            report.promise(
                bool((np.abs(labels - y) < 1e-6).all()),
                f"pooled: the member's linear attack must recover all labels, as the docs say; N = {N}: {row}.",
            )
    report.say("## Labels, with pooled evidence")
    report.say(POOLED.format(points=len(points)))
    report.say(as_markdown(rows))
    return labels


def take_opinion(consortium: Consortium, points: Array) -> Array:
    """The mean squared errors (M, K) that the victim tells a member."""
    with call_as(consortium, ATTACKER, VICTIM) as (collective, _):
        question = wire.Question(protocol=PROTOCOL, id=1, points=tensor(points))
        reply = next(iter(collective.Opinion(iter([question]))))
    errors = array(reply.errors, (len(points), None), "errors")
    order = np.argsort([model.name for model in reply.scored])
    return np.asarray(errors)[:, order]


# ---- labels, evidence maps ------------------------------------------------------------------------------------------


def attack_maps(report: Report, epsilons: Sequence[float]) -> None:
    """The linear attack on a map that the victim has published; the member has the features and knows all models."""
    rows = []
    for epsilon in epsilons:
        n = MAP_ROWS[epsilon]
        (X, y, slopes), *others = made_rows(1, MAP_MEMBERS, n=2 * n)
        dealt = [(X[:n], y[:n], slopes), *others]  # the rest of the victim's rows is kept aside
        ranges = ", ".join(f"x{j} = [-8.0, 8.0]" for j in range(dealt[0][0].shape[1]))
        terms = f"ranges = {{ {ranges} }}\nresidual_bound = 8.0\nrows = {n}\nepsilon = {epsilon}\n"
        terms += f"lifetime_epsilon = {epsilon}\ndepth = 6"
        with (
            tempfile.TemporaryDirectory() as folder,
            Consortium(folder, MAP_MEMBERS, rows=dealt, evidence="maps", maps=terms) as consortium,
        ):
            consortium.fork().ready()
            while not describe_to(consortium, ATTACKER).map:
                time.sleep(0.1)
            with call_as(consortium, ATTACKER, VICTIM) as (collective, _):
                chunks = collective.FetchMap(iter([wire.FetchCopyRequest(protocol=PROTOCOL)]))
                found = EvidenceMap.from_bytes(b"".join(chunk.content for chunk in chunks))
            agents = {agent.name: agent for agent in consortium.agents}
            models = [agents[name] for name, _ in found.models]
        found_of: dict[tuple[str, str], int] = {}
        for whose, part in ((OF_VICTIM, slice(n)), (ASIDE, slice(n, 2 * n))):
            said = np.stack([model.predict(X[part]) for model in models], axis=1)
            best = int(np.argmin(((said - y[part, None]) ** 2).mean(axis=0)))
            baseline = said[:, best]
            solved = solve_labels(np.asarray(found.table, float), X[part], said, found.settings, epsilon, best)
            for how, labels in solved.items():
                close, known = (int((np.abs(each - y[part]) < CLOSE).sum()) for each in (labels, baseline))
                row = {"ε": f"{epsilon:g}", "rows": f"{n:,}, {whose}", "by": how, f"within {CLOSE:g}": str(close)}
                row |= {f"baseline within {CLOSE:g}": str(known), **judge_labels(labels, baseline, y[part])}
                rows.append(row)
                found_of[how, whose] = close
                report.promise(
                    not (np.abs(labels - y[part]) < 1e-6).any(), f"maps: no label must be found exactly; {row}."
                )
        for how in solved:
            own, aside = (found_of[how, whose] for whose in (OF_VICTIM, ASIDE))
            told = (
                f"maps: {how} at ε {epsilon:g} must find no more of the victim's labels than of others; {own}, {aside}."
            )
            report.promise(own <= aside + 3.0 * np.sqrt(own + aside), told)
    report.say("## Labels, with evidence maps, by a member")
    report.say(MAPS.format(K=MAP_MEMBERS, close=CLOSE))
    report.say(as_markdown(rows))


# ---- labels, own evidence -------------------------------------------------------------------------------------------


def try_calls(consortium: Consortium, dealt: Dealt) -> tuple[dict[str, str], dict[str, Any]]:
    """What each call gives the attacker, in words, and the replies."""
    told: dict[str, str] = {}
    replies: dict[str, Any] = {}
    points, names = tensor(dealt.victim.X), consortium.names
    asked = wire.ConsultRequest(protocol=PROTOCOL, points=points, fields=["value"])
    begin = wire.Begin(protocol=PROTOCOL, session="s", members=names, points=points, tolerance=1e-9, rounds=9)
    crafted = list(craft_bundle(consortium, dealt))
    with call_as(consortium, ATTACKER, VICTIM) as (collective, model):
        calls: dict[str, Callable[[], Any]] = {
            "Describe": lambda: collective.Describe(wire.DescribeRequest(protocol=PROTOCOL)),
            "Predict": lambda: next(
                collective.Predict(iter([wire.PredictRequest(protocol=PROTOCOL, id=1, points=points)]))
            ),
            "ModelInfer": lambda: model.ModelInfer(model_service.request(VICTIM, "", dealt.victim.X)),
            "FetchCopy": lambda: list(collective.FetchCopy(iter([wire.FetchCopyRequest(protocol=PROTOCOL)]))),
            "PushCopy": lambda: collective.PushCopy(iter(crafted)),
            "FetchMap": lambda: list(collective.FetchMap(iter([wire.FetchCopyRequest(protocol=PROTOCOL)]))),
            "Confirm": lambda: collective.Confirm(wire.Signed(protocol=PROTOCOL, content=b"nothing")),
            "Opinion": lambda: next(collective.Opinion(iter([wire.Question(protocol=PROTOCOL, id=1, points=points)]))),
            "Pool": lambda: next(collective.Pool(iter([wire.PoolMessage(begin=begin)]))),
            "Ask": lambda: collective.Ask(asked),
            "Consult": lambda: next(collective.Consult(iter([asked]))),
        }
        for name, call in calls.items():
            try:
                replies[name] = call()
                told[name] = "answers"
            except grpc.RpcError as error:
                told[name] = error.code().name
    return told, replies


def craft_bundle(consortium: Consortium, dealt: Dealt) -> Iterator[wire.CopyChunk]:
    """The attacker's model with a tripwire at one of the victim's rows, signed with the attacker's key."""
    model = dealt.agents[1].model
    content = make_linear(model.coef_, model.intercept_, dealt.victim.X[0])
    identity = IdentityFiles(**consortium.credentials(ATTACKER))
    about = describe_to(consortium, ATTACKER, ATTACKER)
    yield wire.CopyChunk(
        protocol=PROTOCOL, content=make_bundle(about, VICTIM, ".onnx", content, None, partial(sign, identity))
    )


def guess_labels(dealt: Dealt, said: Array) -> tuple[Array, dict[str, Array]]:
    """The baseline (n,), the best of the models that say `said` (n, K), and a member's estimates."""
    y, attacker = dealt.labels[0], dealt.agents[1]
    own = dealt.said(attacker.X)
    own[:, 1] = attacker.own_predictions
    learned = RidgeCV(np.logspace(-4, 4, 17)).fit(np.hstack([own, 100.0 * attacker.X]), dealt.labels[1])
    tried = {"average": said.mean(axis=1), "regression": learned.predict(np.hstack([said, 100.0 * dealt.victim.X]))}
    return min(said.T, key=lambda each: float(((each - y) ** 2).mean())), tried


def judge_labels(estimate: Array, baseline: Array, y: Array) -> dict[str, str]:
    """How good an estimate is, for a table."""
    off, base = np.abs(estimate - y), ((baseline - y) ** 2).mean()
    return {
        "exact (1e-6)": f"{int((off < 1e-6).sum())} of {len(y)}",
        "within 0.5": f"{int((off < 0.5).sum())} of {len(y)}",
        "mean squared error": f"{(off**2).mean():,.0f}", "of the baseline": f"{base:,.0f}",
        "R²": f"{1.0 - (off**2).mean() / base:.2f}",
        "advantage, standard errors": f"{measure_advantage(estimate, baseline, y):.1f}",
    }  # fmt: skip


def judge_member(
    report: Report, mode: str, dealt: Dealt, replies: dict[str, Any], told: dict[str, str]
) -> list[dict[str, str]]:
    said = dealt.said()
    said[:, 0] = np.asarray(array(replies["Predict"].predictions, (ROWS, 1), "predictions"))[:, 0]
    baseline, tried = guess_labels(dealt, said)
    y = dealt.labels[0]
    for name, estimate in tried.items():
        kept = measure_advantage(estimate, baseline, y) <= 2.0
        report.promise(kept, f"{mode}: labels must be at chance level for a member; by {name} they are not.")
    for call in ("Opinion", "Pool", "Ask", "Consult"):
        refused = told[call] in ("PERMISSION_DENIED", "FAILED_PRECONDITION")
        report.promise(refused, f"{mode}: {call} must be refused to a member; it got {told[call]}.")
    return [{"mode": mode, "by": name} | judge_labels(each, baseline, y) for name, each in tried.items()]


def shuffle_labels(dealt: Dealt) -> Dealt:
    """The same with the victim's labels in another order, and the same models."""
    y = np.random.default_rng(8).permutation(dealt.labels[0])
    old = dealt.victim
    victim = Agent(old.model, old.X, y, old.name, own_predictions=old.own_predictions)
    return Dealt([victim, *dealt.agents[1:]], [y, *dealt.labels[1:]], dealt.X, dealt.y)


def find_differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The calls whose replies differ; of copies the files are compared, whose signatures are new each time."""

    def content(reply: Any) -> bytes:
        if isinstance(reply, list):
            return wire.Bundle.FromString(b"".join(each.content for each in reply)).content
        return reply.SerializeToString(deterministic=True)

    return [name for name in one if name not in other or content(one[name]) != content(other[name])]


def check_client(report: Report, mode: str, consortium: Consortium, X: Array) -> None:
    """The default client sees value and interval, and nothing else."""
    granted = sorted(describe_to(consortium, CLIENT).fields)
    report.promise(
        granted == ["interval", "value"], f"{mode}: a client must see value and interval; it sees {granted}."
    )
    with call_as(consortium, CLIENT, VICTIM) as (collective, _):
        for name in ("weights", "beliefs", "influence", "correction", "standard_error"):
            try:
                collective.Ask(wire.ConsultRequest(protocol=PROTOCOL, points=tensor(X[:1]), fields=[name]))
                code = "an answer"
            except grpc.RpcError as error:
                code = error.code().name
            report.promise(code == "PERMISSION_DENIED", f"{mode}: a client must be refused {name!r}; it got {code}.")
        answer = collective.Ask(
            wire.ConsultRequest(protocol=PROTOCOL, points=tensor(X[:1]), fields=["value"], coverage=0.9)
        )
    seen = sorted(answer.fields)
    kept = seen == ["lower", "upper", "value"] and not answer.HasField("choice")
    report.promise(kept, f"{mode}: a client's answer must hold value and interval only; it holds {seen}.")


# ---- labels, from values and intervals ------------------------------------------------------------------------------


class Asked:  # by a client, from the node's own view in every mode
    """The victim, asked by somebody; counts the questions."""

    def __init__(self, consortium: Consortium, caller: str, shown: str = "value") -> None:
        self._node, self._shown = consortium.connect(VICTIM, caller=caller, view="own"), shown
        self.questions = 0

    def __call__(self, points: Array, coverage: float) -> tuple[Array, Array]:
        """A field and, `coverage` given, the interval's half-width above it."""
        self.questions += len(points)
        names = ["value"] if self._shown == "value" else ["value", self._shown]
        answer = self._node.consult(points, names, coverage=coverage)
        told = np.asarray(getattr(answer, self._shown))
        return told, told + np.asarray(answer.upper) - np.asarray(answer.value)


def attack_values(
    dealt: Dealt, consortium: Consortium, mode: str, plans: Sequence[tuple[int, int]]
) -> tuple[list[dict[str, str]], Array, int]:
    """Labels by a client with default rights: a table, sizes of errors, and how many questions the last plan took."""
    X, y, rows = dealt.victim.X, dealt.labels[0], []
    baseline, _ = guess_labels(dealt, dealt.said())
    at_rows, _ = Asked(consortium, CLIENT)(X, 0.9)
    rows.append({"mode": mode, "questions": f"{ROWS}, the value as it is"} | judge_labels(at_rows, baseline, y))
    for points, directions in plans:
        random, ask = np.random.default_rng(directions), Asked(consortium, CLIENT)
        near = X[random.integers(0, ROWS, points)] + 0.02 * random.normal(size=(points, X.shape[1]))
        sizes = recover_absolute_errors(ask, X, near)
        kinks, _ = measure_kinks(ask, X, directions, STEP, random)
        judged = judge_labels(baseline - np.sign(kinks) * sizes, baseline, y)
        rows.append({"mode": mode, "questions": f"{ask.questions:,}"} | judged)
    return rows, sizes, ask.questions


def attack_fields(dealt: Dealt, consortium: Consortium, sizes: Array) -> list[dict[str, str]]:
    """What further fields would add."""
    X, y, rows = dealt.victim.X, dealt.labels[0], []
    baseline, _ = guess_labels(dealt, dealt.said())
    names = {"value": "`value`", "correction": "`weights` (with `correction`)", "standard_error": "`standard_error`"}
    for shown, name in names.items():
        kinks, _ = measure_kinks(Asked(consortium, INSIDER, shown), X, 10, STEP, np.random.default_rng(0))
        right = int((np.sign(-kinks) == np.sign(y - baseline)).sum())
        judged = judge_labels(baseline - np.sign(kinks) * sizes, baseline, y)
        rows.append({"field": name, "signs right": f"{right} of {ROWS}"} | judged)
    return rows


def attack_far(dealt: Dealt, consortium: Consortium, mode: str) -> tuple[list[dict[str, str]], Array, int]:
    """Extreme labels; and the victim's coefficients from values far away, with how many points these took."""
    d, y, random = dealt.victim.n_features, dealt.labels[0], np.random.default_rng(2)
    ask = Asked(consortium, CLIENT)
    points = FAR_AWAY * random.normal(size=(d + 1, d))
    values, _ = ask(points, 0.5)
    found = np.linalg.solve(np.c_[points, np.ones(d + 1)], values)
    flat = np.linalg.svd(found[None, :d])[2][-1]
    centre = found[:d] * (150.0 - found[d]) / (found[:d] @ found[:d])  # where the model says 150
    with consortium.connect(VICTIM, view="own") as node:
        answer = node.consult((centre + 10.0 * FAR_AWAY * flat)[None], "value", coverage=0.01)
    ends = {"least label": (answer.lower[0], y.min()), "largest label": (answer.upper[0], y.max())}
    rows = [
        {"mode": mode, "": name, "told": f"{told:.6f}", "is": f"{true:.6f}", "questions": str(ask.questions + 1)}
        for name, (told, true) in ends.items()
    ]
    return rows, found, ask.questions


# ---- membership -----------------------------------------------------------------------------------------------------


def attack_membership(dealt: Dealt, consortium: Consortium, mode: str, directions: int) -> list[dict[str, str]]:
    """By a member, from the model and from what its node received, and by a client with default rights."""
    random, rows, both = np.random.default_rng(3), [], (dealt.victim.X, dealt.X)
    with call_as(consortium, ATTACKER, VICTIM) as (_, served):
        answers = [served.ModelInfer(model_service.request(VICTIM, "", each)) for each in both]
    said = [np.frombuffer(each.raw_output_contents[0]) for each in answers]
    losses = [-np.abs(told - y) for told, y in zip(said, (dealt.labels[0], dealt.y), strict=True)]
    from_victim = [each for each in read_messages(consortium) if (each.node, each.peer) == (ATTACKER, VICTIM)]
    received = b"".join(each.raw for each in from_victim if each.direction == RECEIVED and each.method == INFER)
    held = [np.array([row.tobytes() in received for row in each], float) for each in both]
    kinks = [measure_kinks(Asked(consortium, CLIENT), each, directions, STEP, random) for each in both]
    for who, how, scores, questions in (
        ("member", "the victim's model, label known", losses, 1),
        ("member", "received", held, 0),
        ("client", "value, kinks", [np.abs(value) for value, _ in kinks], 5 * directions),
        ("client", "value and interval, kinks", [np.abs(width) for _, width in kinks], 5 * directions),
    ):
        area, error = bootstrap_area(*scores, random)
        told = {"area under the curve": f"{area:.3f} ± {error:.3f}", "questions a row": str(questions)}
        rows.append({"mode": mode, "who": who, "how": how} | told)
    return rows


def check_alert(report: Report, dealt: Dealt, consortium: Consortium) -> tuple[bool, bool]:
    """Whether asking about the victim's rows is told to its people, and replies stay the same, byte by byte."""
    request = wire.ConsultRequest(protocol=PROTOCOL, points=tensor(dealt.victim.X[:5]), fields=["value"], coverage=0.9)
    whole = wire.ConsultRequest(protocol=PROTOCOL, points=tensor(dealt.victim.X), fields=["value"])
    with call_as(consortium, CLIENT, VICTIM) as (collective, _):
        before = collective.Ask(request).SerializeToString(deterministic=True)
        collective.Ask(whole)
        until = time.monotonic() + ALERT_SECONDS
        while not (alert := "own rows were asked about" in consortium.log(VICTIM)) and time.monotonic() < until:
            time.sleep(0.1)
        after = collective.Ask(request).SerializeToString(deterministic=True)
    report.promise(alert, "own rows that a client asks about must be told in the log.")
    report.promise(before == after, "a reply must not change by the alert.")
    return alert, before == after


def attack_crafted(report: Report, dealt: Dealt, consortium: Consortium, each: int) -> None:
    """Crafted models that the victim copies: does what it says to somebody tell of its rows?"""
    tests = [(row, True) for row in dealt.victim.X[1 : 1 + each]] + [(row, False) for row in dealt.X[:each]]
    right, texts = dict.fromkeys((ATTACKER, CLIENT), 0), {ATTACKER: set[str](), CLIENT: set[str]()}
    for row, inside in tests:
        version = replace_model(dealt, consortium, row)
        until, seen = time.monotonic() + PATIENCE, set[str]()
        while time.monotonic() < until and not seen:
            for caller in right:
                told = describe_to(consortium, caller)
                seen |= {caller} if any(model.version == version for model in told.scored) else set()
                texts[caller] |= {member.reason for member in told.members if member.name == ATTACKER}
            time.sleep(0.2)
        for caller in right:
            right[caller] += (caller not in seen) == inside
        with consortium.connect(VICTIM) as node:
            flags = node.consult(dealt.X[-1:], "value").flags  # at no tripwire
        texts[CLIENT] |= {flag.reason for flag in flags if flag.agent == ATTACKER}
    report.say("## Rows, by crafted copies")
    report.say(CRAFTED)
    rows = []
    for caller, who in ((ATTACKER, "the member"), (CLIENT, "a client with default rights")):
        reasons = "; ".join(sorted(text for text in texts[caller] if " row " in text)) or "none"
        rows.append({"who looks": who, "right": f"{right[caller]} of {len(tests)}", "reasons that name rows": reasons})
        report.promise(
            right[caller] < len(tests) and reasons == "none",
            f"{COPIES}: {who} must not be told whether a crafted copy failed on the victim's rows; right in "
            f"{right[caller]} of {len(tests)} tests, reasons that name rows: {reasons}",
        )
    report.say(as_markdown(rows))


def replace_model(dealt: Dealt, consortium: Consortium, row: Array) -> str:
    """Give the attacker's node a model that fails on a row; the version of it."""
    model, home = dealt.agents[1].model, consortium.folder / ATTACKER
    content = make_linear(model.coef_, model.intercept_, row)
    (home / "model.new").write_bytes(content)
    (home / "model.new").replace(home / "model.onnx")
    return sha256(content).hexdigest()[:VERSION_DIGITS]


# ---- bytes ----------------------------------------------------------------------------------------------------------


def search_bytes(report: Report, mode: str, dealt: Dealt, consortium: Consortium) -> list[dict[str, str]]:
    """Ask at every node as its own people, and search all that the nodes sent each other."""
    random = np.random.default_rng(4)
    asked = dealt.X + 1e-3 * random.normal(size=dealt.X.shape)
    for name, points in zip(consortium.names, np.array_split(asked, len(consortium.names)), strict=True):
        with consortium.connect(name, caller=name) as node:
            node.consult(points, coverage=0.9)
    first = read_messages(consortium)
    time.sleep(2.0)
    everything = read_messages(consortium)
    lost, strange = find_unmatched(first, everything, consortium.names)
    sent = [each for each in everything if each.direction == SENT and each.peer != each.node]
    residuals = [agent.predict(other.X) - y for agent in dealt.agents for other, y in _rows(dealt)]
    residuals += [np.asarray(agent.own_predictions) - y for agent, y in _rows(dealt)]
    kinds = {
        "features": select_private(*(agent.X for agent in dealt.agents)), "labels": select_private(*dealt.labels),
        "residuals": select_private(*residuals, *(each**2 for each in residuals)),
        "asked points": select_private(asked),
    }  # fmt: skip
    rows = []
    for kind, numbers in kinds.items():
        found = [sent[place] for place in find_numbers([each.raw for each in sent], numbers)]
        rows.append(
            {"mode": mode, "": kind, "numbers searched": f"{len(numbers):,}", "found": _list_found(found, sent)}
        )
        allowed = {} if mode == COPIES else {"features": INFER, "asked points": PREDICT}
        stray = [each for each in found if each.method != allowed.get(kind) or each.peer not in consortium.names]
        report.promise(not stray, f"{mode}: no {kind} may leave; found in {_list_found(stray, sent)}.")
        if kind in allowed:
            report.promise(bool(found), f"{mode}: the search must find {kind} where they travel, as a control.")
    report.promise(
        not lost and not strange, f"{mode}: both ends must have seen the same; {len(lost + strange)} differ."
    )
    between = [each for each in sent if each.peer in consortium.names]
    unmatched = (
        "both ends saw the same" if not lost and not strange else f"{len(lost + strange)} differ between the ends"
    )
    planted = check_planted(kinds)
    report.promise(planted, "the search must find numbers that are planted.")
    report.say(
        f"### {mode}\n\n"
        + BYTES.format(
            messages=len(between), bytes=sum(len(each.raw) for each in between), unmatched=unmatched,
            planted="Planted numbers are found in all formats." if planted else "PLANTED NUMBERS ARE NOT FOUND.",
        )
    )  # fmt: skip
    report.say(as_markdown(rows))
    return rows


def check_planted(kinds: dict[str, Array]) -> bool:
    """Whether the search finds numbers of every kind in every format."""
    for numbers in kinds.values():
        two = numbers[-2:]
        raw = [b"\x08\x01" + two.astype(kind).tobytes() + b"\x00" for kind in FORMATS]
        raw += [text.encode() for text in (f"y={float(two[0])!r};", f'"{two[0]:g}",', f"[{two[1]:.6f}]")]
        if find_numbers(raw, numbers) != list(range(len(raw))):
            return False
    return True


def _rows(dealt: Dealt) -> list[tuple[Agent, Array]]:
    return list(zip(dealt.agents, dealt.labels, strict=True))


def _list_found(found: Sequence[Message], sent: Sequence[Message]) -> str:
    """Where numbers were found."""
    if not found:
        return f"nowhere in {len(sent):,} messages"
    methods = sorted({each.method.rsplit("/", 1)[-1] for each in found})
    peers = sorted({each.peer for each in found})
    return f"{len(found)} messages: {', '.join(methods)}, to {', '.join(peers)}"


# ---- models ---------------------------------------------------------------------------------------------------------


def attack_models(
    dealt: Dealt, consortium: Consortium, mode: str, far: tuple[Array, int], has_copy: bool
) -> list[dict[str, str]]:
    """Coefficients of the victim's model, by all channels; `far`: those found from far points, and how many it took."""
    d, model, rows = dealt.victim.n_features, dealt.victim.model, []
    truth, points = np.r_[model.coef_, model.intercept_], dealt.X[: d + 1]

    def add(who: str, channel: str, found: Array, count: int = d + 1) -> None:
        off = float(np.abs(found - truth).max() / np.abs(truth).max())
        row = {"mode": mode, "who": who, "channel": channel, "points": str(count), "largest error": f"{off:.0e}"}
        rows.append(row | {"copied": "yes" if off < 1e-6 else "no"})

    def solve(values: Any) -> Array:
        return np.linalg.solve(np.c_[points, np.ones(d + 1)], np.asarray(values).reshape(d + 1))

    with call_as(consortium, ATTACKER, VICTIM) as (collective, served):
        request = wire.PredictRequest(protocol=PROTOCOL, id=1, points=tensor(points))
        said = array(next(collective.Predict(iter([request]))).predictions, (d + 1, 1), "predictions")
        add("member", "`Predict` (`query`)", solve(said))
        answer = served.ModelInfer(model_service.request(VICTIM, "", points))
        add("member", "`ModelInfer` (`query`)", solve(np.frombuffer(answer.raw_output_contents[0])))
    if has_copy:
        add("member", "`FetchCopy` (`copy`): the file", truth, 0)
    value, _ = Asked(consortium, CLIENT)(points, 0.9)
    add("client", "value and interval, near the rows", solve(value))
    add("client", "value and interval, far from the rows", *far)
    with consortium.connect(VICTIM, caller=INSIDER, view="own") as node:
        add("client", "`beliefs` (granted)", solve(node.consult(points, "beliefs").beliefs[:, 0]))
    return rows


# ---- all of it ------------------------------------------------------------------------------------------------------


@dataclass
class Tables:
    """What was measured in all modes, table by table."""

    values: list[dict[str, str]] = field(default_factory=list)
    fields: list[dict[str, str]] = field(default_factory=list)
    far: list[dict[str, str]] = field(default_factory=list)
    membership: list[dict[str, str]] = field(default_factory=list)
    models: list[dict[str, str]] = field(default_factory=list)
    first: int = 0  # questions of the smallest plan
    questions: int = 0

    def attack(self, dealt: Dealt, consortium: Consortium, mode: str, has_copy: bool) -> None:
        """Attack the victim of a running consortium in all ways that take many questions."""
        rows, sizes, self.questions = attack_values(dealt, consortium, mode, PLANS if mode == COPIES else PLANS[-1:])
        self.values += rows
        if mode == COPIES:
            self.first = 2 * PLANS[0][0] + len(FIVE) * PLANS[0][1] * ROWS
            self.fields += attack_fields(dealt, consortium, sizes)
        far, found, questions = attack_far(dealt, consortium, mode)
        self.far += far
        self.membership += attack_membership(dealt, consortium, mode, 8)
        self.models += attack_models(dealt, consortium, mode, (found, questions), has_copy)

    def say(self, report: Report, d: int) -> None:
        """Report all tables."""
        for title, text, rows in (
            ("## Labels, from values and intervals", VALUES.format(step=STEP), self.values),
            ("", FIELDS, self.fields),
            ("## Labels, from far points", FAR, self.far),
            ("## Membership of a row", MEMBERSHIP.format(n=ROWS), self.membership),
            ("## Copies of models", MODELS.format(d=d, needed=d + 1), self.models),
        ):
            if title:
                report.say(title)
            report.say(text)
            report.say(as_markdown(rows))


def main(quick: bool) -> int:
    begun, report, tables = time.monotonic(), Report(), Tables()
    dealt = deal(3 if quick else 5)
    d = dealt.victim.n_features
    report.say("# Leaks")
    report.say(HEAD.format(K=len(dealt.agents), n=ROWS, d=d, m=dealt.agents[1].n_rows))
    found = attack_pooled(report, dealt, (6,) if quick else NEIGHBOURS, (10,) if quick else LEAST_ROWS)
    if not quick:
        settings = {"evidence": "pooled", "may": ["query", "opinion"], "least_rows": 10}
        with running(dealt, recorded=True, **settings) as consortium:
            tables.attack(dealt, consortium, "pooled", has_copy=False)
    attack_maps(report, (8.0,) if quick else tuple(MAP_ROWS))
    calls: dict[str, dict[str, str]] = {}
    judged, differing = [], []
    report.say("## Bytes that leave")
    for mode in (QUERIES, COPIES):
        with running(dealt, recorded=True, **SETTINGS[mode]) as consortium:
            search_bytes(report, mode, dealt, consortium)
            check_client(report, mode, consortium, dealt.X)
            calls[mode], replies = try_calls(consortium, dealt)
            judged += judge_member(report, mode, dealt, replies, calls[mode])
            if mode == COPIES:
                alert, same = check_alert(report, dealt, consortium)
            if not quick:
                tables.attack(dealt, consortium, mode, has_copy=mode == COPIES)
            if mode == COPIES:
                attack_crafted(report, dealt, consortium, 1 if quick else 3)
        if not quick:
            with running(shuffle_labels(dealt), **SETTINGS[mode]) as consortium:
                _, others = try_calls(consortium, dealt)
            differing += [f"{mode}: {name}" for name in find_differing(replies, others)]
    report.promise(not differing, f"replies must not depend on labels; they do: {', '.join(differing)}.")
    baseline, _ = guess_labels(dealt, dealt.said())
    judged.append({"mode": "pooled", "by": "the linear attack"} | judge_labels(found, baseline, dealt.labels[0]))
    report.say("## Labels, with own evidence, by a member")
    shuffled = (
        "A victim with its labels shuffled gives "
        + ("OTHER" if differing else "the same")
        + " replies to all these calls."
    )
    report.say(CALLS.format(shuffled="" if quick else shuffled))
    report.say(as_markdown([{"call": name} | {mode: calls[mode][name] for mode in calls} for name in calls[COPIES]]))
    report.say(MEMBER)
    report.say(as_markdown(judged))
    if not quick:
        tables.say(report, d)
        report.say(ALERT.format(alert="raised" if alert else "NOT RAISED", same="equal" if same else "DIFFERENT"))
        report.say("## Budgets")
        report.say(
            BUDGETS.format(first=tables.first, most=tables.questions, days=-(-tables.first // 500), d=d, far=d + 2)
        )
        report.say("## Promises")
        report.say("\n".join(f"- broken: {each}" for each in report.broken) or "All promises hold.")
        RESULTS.write_text("\n\n".join(report.text) + "\n")
    print(f"{time.monotonic() - begun:.0f} seconds")
    for each in report.broken:
        print(f"broken: {each}", file=sys.stderr)
    return 1 if report.broken and quick else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run that fails where a promise is broken")
    with threadpool_limits(1):  # a busy machine, and small matrices
        sys.exit(main(parser.parse_args().quick))
