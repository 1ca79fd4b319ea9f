"""Agents in actors of a local Ray: the same answers, also when processes are killed."""

import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from support import askers
from support.processes import alive, wait_for

from degroot import Agent, Collective, batch, saved
from degroot.answers.answer import ASKER_FIELDS, FIELDS
from degroot.batch.ray import SavedCollective, callers_on_ray, copies_on_ray
from degroot.cluster import Ray
from degroot.cluster.ray import start_actors
from degroot.consultation.consult import Question, consult, give_whole_opinion
from degroot.exceptions import AgentError, DeGrootError, InvalidInput
from degroot.rules.rules import RULES

ray = pytest.importorskip("ray")

pytestmark = pytest.mark.filterwarnings("ignore")  # those of Ray

PLACEMENTS = ("workers", "agents")
SMALL = 80_000_000  # bytes of the object store: the least that Ray takes, nearly


@pytest.fixture(scope="module")
def engine():
    folder = tempfile.mkdtemp(prefix="r")  # a short path: it is a socket's too
    with Ray(num_cpus=2, object_store_memory=SMALL, _temp_dir=folder) as running:
        yield running
    shutil.rmtree(folder, ignore_errors=True)


def rows(rng, k, n=90):
    X = rng.normal(size=(n, 3)) + k
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def linear(K=3, **settings):
    agents = []
    for k in range(K):
        X, y = rows(np.random.default_rng(k), k)
        model = Ridge() if k % 2 else DecisionTreeRegressor(max_depth=3, random_state=0)
        agents.append(Agent(model.fit(X[:40], y[:40]), X, y, f"agent {k}", **settings))
    return agents


def several_outputs():
    agents = []
    for k in range(3):
        X, y = rows(np.random.default_rng(k), k)
        both = np.column_stack([y, X[:, 2]])
        agents.append(Agent(Ridge().fit(X[:40], both[:40]), X, both, f"agent {k}"))
    return agents


def classifiers():
    agents = []
    for k in range(3):
        X, y = rows(np.random.default_rng(k), 0.2 * k)
        labels = np.where(y > 0.5, "high", "low")
        agents.append(
            Agent(LogisticRegression().fit(X, labels), X, labels, f"agent {k}", classes=["high", "low", "no"])
        )
    return agents


def framed():
    agents = []
    for k in range(3):
        X, y = rows(np.random.default_rng(k), k)
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        agents.append(Agent(Ridge().fit(frame, y), frame, y, f"agent {k}", space=StandardScaler()))
    return agents


POINTS = np.random.default_rng(7).normal(size=(150, 3)) + 1.0


class Sent:
    """An engine that has all agents give whole opinions, as actors do, without any Ray."""

    def __init__(self, collective, n_jobs):
        self.agents, self.scorers, self.n_jobs = collective.agents, collective.scorers, n_jobs

    def collect(self, X, question, conclude):
        pairs = zip(self.agents, self.scorers, strict=True)
        conclude(slice(0, len(X)), [give_whole_opinion(*pair, X, question, self.n_jobs) for pair in pairs])


def heard(collective, X, names, n_jobs=1):
    """What is concluded from opinions that were sent whole."""
    told = consult(Sent(collective, n_jobs), collective.panel, X, names)
    return told, told.pop("flags", ())


def same(found, expected, names):
    for name in names:
        np.testing.assert_allclose(found[name], getattr(expected, name), rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("names", [FIELDS, ("value",), ("beliefs",), ("weights", "influence")])
@pytest.mark.parametrize("rule", RULES)
def test_opinions_lead_to_the_answers_of_the_collective(rule, names):
    collective = Collective(linear(4), rule=rule)
    found, _ = heard(collective, POINTS, list(names))
    assert set(found) == set(names)
    same(found, collective.consult(POINTS, names), names)


@pytest.mark.parametrize("make", [several_outputs, classifiers, lambda: linear(own_predictions="peers")])
@pytest.mark.parametrize("rule", ["degroot", "stacking"])
def test_opinions_of_all_kinds_of_agents(make, rule):
    collective = Collective(make(), rule=rule)
    found, _ = heard(collective, POINTS, FIELDS, n_jobs=2)
    same(found, collective.consult(POINTS), FIELDS)


def test_opinions_from_frames_and_spaces():
    collective, X = Collective(framed()), pd.DataFrame(POINTS, columns=["a", "b", "c"])
    found, _ = heard(collective, X, FIELDS)
    same(found, collective.consult(X), FIELDS)


def test_opinions_of_agents_that_score_a_sample():
    collective = Collective(linear(6), degree=3)
    found, _ = heard(collective, POINTS, FIELDS)
    same(found, collective.consult(POINTS), FIELDS)
    assert found["trust"].shape == (len(POINTS), 6, 3)


@pytest.mark.parametrize("rule", ["degroot", pytest.param("stacking", marks=pytest.mark.slow)])
def test_the_guard_hears_the_same(rule):
    agents = linear(4)
    liar = agents[1].model
    agents[1] = Agent(lambda X: liar.predict(X) + 100.0 * (X[:, 0] > 1.5), agents[1].X, agents[1].y, "agent 1")
    collective = Collective(agents, rule=rule, guard=True)
    found, told = heard(collective, POINTS, FIELDS)
    expected = collective.consult(POINTS)
    same(found, expected, FIELDS)
    assert expected.flags
    assert [(flag.agent, flag.reason, flag.points.tolist()) for flag in told] == [
        (flag.agent, flag.reason, flag.points.tolist()) for flag in expected.flags
    ]


def test_arrays_that_cannot_be_written_are_read_where_they_are():
    collective = Collective(linear(2), rule="stacking")
    question = Question(collective.option.reach, moments=True)
    for scorer in collective.scorers:
        plain = give_whole_opinion(scorer.agent, scorer, POINTS, question)
        for array in (scorer.rows, scorer.residuals, scorer.errors):
            array.flags.writeable = False  # as arrays in Ray's object store are
        found = give_whole_opinion(scorer.agent, replace(scorer, near={}), POINTS, question)
        np.testing.assert_array_equal(found.measured.moments, plain.measured.moments)


def test_an_opinion_that_no_rows_could_give_is_refused():
    collective = Collective(linear())
    collective.scorers[1].errors[:] = -1.0
    with pytest.raises(AgentError, match=r"agent 1.*not negative"):
        heard(collective, POINTS, FIELDS)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_actors_answer_as_the_collective_does(engine, placement):
    agents = linear(2)
    here, collective = Collective(agents), Collective(agents, engine=Ray(placement=placement))
    found, expected = collective.consult(POINTS), here.consult(POINTS)
    same({name: getattr(found, name) for name in FIELDS}, expected, FIELDS)
    np.testing.assert_array_equal(collective.predict(POINTS), found.value)
    found, expected = (each.calibrate().consult(POINTS, coverage=0.8) for each in (collective, here))
    names = ["value", "lower", "upper"]
    same({name: getattr(found, name) for name in names}, expected, names)
    pids = [pid_of(actor) for actor in collective._started.engine.actors]
    assert len({os.getpid(), *pids}) == 3  # one for each of two agents, or of two cores
    collective.leave("agent 1")
    same({"value": collective.predict(POINTS)}, Collective(agents[:1]).consult(POINTS), ["value"])
    wait_for(lambda: not any(alive(pid) for pid in pids))  # nobody asks them any more


@pytest.mark.slow
def test_agents_without_scorers_say_what_they_predict(engine):
    collective = Collective(linear(2), rule="average")
    assembly = engine.start(collective.agents, (), collective.panel)
    fields = ["value", "weights", "beliefs", "influence"]
    try:
        found, expected = assembly.consult(POINTS, fields), collective.consult(POINTS, fields)
        same({name: getattr(found, name) for name in fields}, expected, fields)
        with pytest.raises(InvalidInput, match=r"^Agents must have scored each other's models for these fields"):
            assembly.consult(POINTS, ["trust"])
    finally:
        assembly.close()


@pytest.mark.slow  # as a killed actor's points, by another rule and with a guard
def test_points_in_many_parts(engine, monkeypatch):
    monkeypatch.setattr("degroot.cluster.ray.SAID_BYTES", 1)
    agents = linear(2)
    found = Collective(agents, rule="stacking", guard=True, engine=engine).consult(POINTS)
    expected = Collective(agents, rule="stacking", guard=True).consult(POINTS)
    same({name: getattr(found, name) for name in FIELDS}, expected, FIELDS)
    assert [flag.points.tolist() for flag in found.flags] == [flag.points.tolist() for flag in expected.flags]


@pytest.mark.slow
def test_a_killed_actor_starts_again_and_nothing_is_lost(engine, tmp_path, monkeypatch):
    asker = os.getpid()

    class Doomed:
        """A model that, away from here, says where it is and does not answer; in a second process it does."""

        def __init__(self, model):
            self.model = model

        def predict(self, X):
            if os.getpid() != asker:
                (tmp_path / str(os.getpid())).touch()
                while len(os.listdir(tmp_path)) < 2:
                    time.sleep(0.01)
            return self.model.predict(X)

    monkeypatch.setattr("degroot.cluster.ray.SAID_BYTES", 1)  # several questions, of 64 points each
    agents = linear(2)
    expected = Collective(agents).consult(POINTS)
    first = agents[0]
    collective = Collective([Agent(Doomed(first.model), first.X, first.y, first.name), agents[1]], engine=engine)
    with ThreadPoolExecutor(1) as asking:
        found = asking.submit(collective.consult, POINTS)
        (pid,) = wait_for(lambda: os.listdir(tmp_path) or (found.done() and found.result()))
        os.kill(int(pid), signal.SIGKILL)
        same({name: getattr(found.result(), name) for name in FIELDS}, expected, FIELDS)
    assert len(os.listdir(tmp_path)) == 2  # another process took over


@pytest.mark.slow
def test_a_saved_collective_is_opened_by_workers(engine, tmp_path):
    folder = Collective(linear(2), rule="stacking").save(tmp_path / "saved")
    expected, collective = Collective.load(folder).consult(POINTS), Collective.load(folder, engine=engine)
    found = collective.consult(POINTS)
    same({name: getattr(found, name) for name in FIELDS}, expected, FIELDS)
    assert not collective._started.engine.apart
    average = Collective.load(Collective(linear(3), rule="average").save(tmp_path / "average"), engine=engine)
    np.testing.assert_allclose(average.predict(POINTS), Collective(linear(3), rule="average").predict(POINTS))
    assert not average._started.engine.apart
    assert len(average._started.engine.actors) == 2  # cores
    average._close_engine()
    collective._close_engine()


@pytest.mark.slow
def test_an_audit_takes_answers_from_actors(engine):
    collective = Collective(linear(2), engine=engine)
    assert str(collective.audit(POINTS)) == str(Collective(linear(2)).audit(POINTS))
    collective._close_engine()


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def input_file(tmp_path, monkeypatch):
    """Points for askers, in shards of four rows."""
    monkeypatch.setattr("degroot.batch.plan.ROWS", 4)
    table = pd.DataFrame(askers.POINTS, columns=["x0", "x1"]).assign(who=[name or "east" for name in askers.ASKERS])
    table.to_csv(tmp_path / "in.csv", index=False)
    return tmp_path / "in.csv"


def predict_everywhere(given, input_file, about, placements=PLACEMENTS):
    """The bytes of the answers here, and on Ray in each placement."""
    outputs = []
    for placement in (None, *placements):
        where = {} if placement is None else {"engine": "ray", "placement": placement}
        output = input_file.with_name(f"{placement}.csv")
        outputs.append(batch.predict_files(given, input_file, output, **about, **where).output.read_bytes())
    return outputs


def test_files_have_the_same_bytes_in_both_placements(engine, tmp_path, input_file):
    folder = Collective(askers.make_agents(n=60)).save(tmp_path / "saved")
    about = {"asker": "west", "coverage": 0.8, "correct": True, "jobs": 1}
    local, workers, agents = predict_everywhere(folder, input_file, about)
    assert local == workers == agents
    assert local.startswith(b'"value","standard_error","lower","upper","weight_north"')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "about"),
    [
        *((kind, {"asker_column": "who", "correct": True, "coverage": 0.8}) for kind in askers.KINDS),
        ("two outputs", {"coverage": 0.8}),
        ("one output", {"fields": ["value", "trust", "influence", "flags"]}),
    ],
)
def test_files_have_the_same_bytes_for_all_kinds_of_collectives(engine, tmp_path, input_file, kind, about):
    collective = Collective(askers.make_agents(kind, n=60), guard="flags" in about.get("fields", ()))
    for given in (collective, collective.save(tmp_path / "saved")):
        local, *others = predict_everywhere(given, input_file, about)
        assert others == [local, local]


@pytest.mark.parametrize("placement", ["workers", pytest.param("agents", marks=pytest.mark.slow)])
def test_a_killed_process_changes_no_byte(engine, tmp_path, input_file, placement):
    asker, flag = os.getpid(), tmp_path / "killed"

    class Doomed:
        """A model that ends the first process, away from here, that asks it."""

        def __init__(self, model):
            self.model = model

        def predict(self, X):
            if os.getpid() != asker and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return self.model.predict(X)

    first, *others = askers.make_agents(n=60)
    collective = Collective([Agent(Doomed(first.model), first.X, first.y, first.name), *others])
    local, found = predict_everywhere(collective, input_file, {"jobs": 1}, [placement])
    assert flag.exists()
    assert found == local


@pytest.mark.slow
def test_rows_that_end_every_worker_are_given_up(engine, input_file):
    asker = os.getpid()
    first, *others = askers.make_agents(n=60)
    deadly = Agent(lambda X: X[:, 0] if os.getpid() == asker else os._exit(1), first.X, first.y, "deadly")
    told = r"^A worker's process must answer rows \d+ to \d+ of .*in\.csv; 4 of them ended over it: "
    with pytest.raises(DeGrootError, match=told) as refused:
        predict_everywhere(Collective([deadly, *others]), input_file, {}, ["workers"])
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(not os.path.exists("/proc/self/cwd"), reason="takes a path that means another place elsewhere")
def test_storage_that_workers_cannot_read(engine, tmp_path, input_file, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Collective(askers.make_agents(n=60)).save("saved")
    told = (
        r"^All workers must open the same collective as the command does, on storage that all machines share; "
        r"on [\d.]+: A collective must be a TOML file, or a folder .*; there is no /proc/self/cwd/saved\.$"
    )
    with pytest.raises(InvalidInput, match=told):
        batch.predict_files("/proc/self/cwd/saved", input_file, tmp_path / "out.csv", engine="ray", jobs=1)
    assert not list(tmp_path.glob("out*"))


def test_a_collective_that_has_been_replaced_is_refused_by_workers(tmp_path):
    folder = Collective(linear(2)).save(tmp_path / "saved")
    place = SavedCollective(folder, saved.digest(folder), unsafe_pickle=False)
    assert np.isfinite(place().predict(POINTS)).all()
    Collective(linear(3)).save(folder)
    with pytest.raises(InvalidInput, match=r"^All workers must open the same collective .*saved is another one\.$"):
        place()


def test_a_collective_that_cannot_be_sent_to_workers(engine, input_file):
    lock, (first, *others) = threading.Lock(), askers.make_agents(n=60)
    locked = Agent(lambda X: X[:, 0] + lock.locked(), first.X, first.y, "locked")
    with pytest.raises(InvalidInput, match=r"^A collective must be such that it can be sent to workers; TypeError"):
        predict_everywhere(Collective([locked, *others]), input_file, {}, ["workers"])


@pytest.mark.slow
@pytest.mark.parametrize("start", [callers_on_ray, lambda given: copies_on_ray(given, None, {})])
def test_files_are_read_by_workers(engine, tmp_path, monkeypatch, capsys, start):
    monkeypatch.chdir(tmp_path)  # paths may be relative to where the command runs
    collective = Collective(linear(2), n_jobs=1)
    columns = batch.Columns(("value", "standard_error"), collective.names)
    features = ["x0", "x1", "x2"]
    table = pd.DataFrame(np.vstack([POINTS] * 4), columns=features)
    table.head(100).to_csv("a.csv", index=False)
    table.to_parquet("b.parquet")
    with start(collective) as cluster:
        given = ["a.csv", "b.parquet"]
        plans = [batch.make_plan(given, Path(out), features, columns, rows=180) for out in ("l.csv", "r.csv")]
        for plan, working in zip(plans, (batch.Local(collective.consult, 1), cluster), strict=True):
            assert batch.run(plan, working).rows == 700
        assert Path("l.csv").read_bytes() == Path("r.csv").read_bytes()
        coming = iter(plans[1].shards)
        answers = cluster.answers(coming, plans[1].task)
        next(answers)
        answers.close()
        assert [shard.number for shard in coming][-1:] == [4]  # two workers have taken two each at most
        table.loc[217, "x1"] = np.nan  # in the second shard
        table.to_parquet("b.parquet")
        plan = batch.make_plan(["b.parquet"], Path("bad.csv"), features, columns, rows=180)
        with pytest.raises(InvalidInput, match=r"; row 218 of b\.parquet: 'x1' is missing\.$"):
            batch.run(plan, cluster)
        assert not Path("bad.csv").exists()
    assert capsys.readouterr().out == ""
    assert ray.is_initialized()  # who has not started it does not end it


@pytest.mark.slow
def test_models_that_know_frames_get_frames_on_the_cluster_too(engine, tmp_path):
    features = ["x0", "x1", "x2"]
    pd.DataFrame(POINTS, columns=features).to_csv(tmp_path / "in.csv", index=False)
    (one,) = linear(1)
    agent = Agent(lambda X: X["x1"], pd.DataFrame(one.X, columns=features), one.y, "a")
    collective = Collective([agent], n_jobs=1)
    local, *others = predict_everywhere(collective, tmp_path / "in.csv", {})
    assert others == [local, local]


# -- askers ------------------------------------------------------------------------------------------------------------


class Sending:
    """Starts agents that give whole opinions, as actors do, without any Ray."""

    def start(self, agents, scorers, panel, n_jobs=None):
        collective = SimpleNamespace(agents=agents, scorers=scorers or (None,) * len(agents))
        sent = Sent(collective, n_jobs)
        sent.close = lambda: None
        return sent


@pytest.mark.parametrize("kind", askers.KINDS)
def test_opinions_lead_to_the_answers_for_askers(kind):
    assert_askers_are_answered(askers.make_agents(kind, n=60), Sending())


@pytest.mark.slow
@pytest.mark.parametrize("kind", askers.KINDS)
def test_askers_are_answered_as_in_process(engine, kind):
    assert_askers_are_answered(askers.make_agents(kind, n=60), engine)


def assert_askers_are_answered(agents, engine):
    """Beliefs come from other processes; views stay in this one."""
    names = [name for name in ASKER_FIELDS if name != "influence"]
    here, there = Collective(agents), Collective(agents, engine=engine)
    for about in ({"asker": askers.ASKERS}, {"asker": "south", "correct": True}):
        expected, found = (each.consult(askers.POINTS, names, **about) for each in (here, there))
        for name in names:
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-12)
        assert np.array_equal(found.asker, expected.asker)
    told = [each.consult(askers.POINTS, "value", asker="west", coverage=0.9) for each in (here, there)]
    for name in ("value", "lower", "upper", "sets"):
        if getattr(told[0], name) is not None:
            np.testing.assert_allclose(getattr(told[1], name), getattr(told[0], name), rtol=1e-9, err_msg=name)
    there._close_engine()


@pytest.mark.slow
def test_notes_about_rows_come_back_from_the_cluster(engine, tmp_path, input_file):
    folder = Collective(askers.make_agents()).save(tmp_path / "saved")
    table, output = pd.read_csv(input_file), tmp_path / "out.csv"
    table.assign(x0=1e6 * table["x0"]).to_csv(input_file, index=False)
    for placement in PLACEMENTS:
        where = {"engine": "ray", "placement": placement, "fields": ["value", "flags"]}
        done = batch.predict_files(folder, input_file, output, asker_column="who", **where)
        assert (done.unmatched.rows, done.unmatched.labels) == (3, ("'east'",))
        assert "far from all" in output.read_text()
    assert ray.is_initialized()  # who has not started it does not end it


def test_errors_of_agents_come_back(engine):
    class Broken:
        def predict(self, X):
            if len(X) == 1:
                raise ValueError("no single row")
            return X[:, 0]

    X, y = rows(np.random.default_rng(0), 0)
    agents = [Agent(Broken(), X, y, "broken")]
    collective = Collective(agents, engine=engine)
    assert np.isfinite(collective.predict(POINTS)).all()
    for wrong in (POINTS[:1], np.where(POINTS > 2.0, np.nan, POINTS)):
        with pytest.raises(InvalidInput) as expected:
            Collective(agents).predict(wrong)
        with pytest.raises(InvalidInput) as found:
            collective.predict(wrong)
        assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))
    assert np.isfinite(collective.predict(POINTS)).all()  # its process goes on


@pytest.mark.slow
def test_a_process_that_always_dies_is_given_up(engine, monkeypatch):
    monkeypatch.setattr("degroot.cluster.ray.RETRIES", 1)
    X, y = rows(np.random.default_rng(0), 0)
    agents = [Agent(lambda X: X[:, 0] if len(X) > 1 else os._exit(1), X, y, "deadly")]
    with pytest.raises(AgentError, match=r"^Agent 'deadly': its process must answer; .*[^.]\.$"):
        Collective(agents, engine=engine).predict(POINTS[:1])


def test_a_model_that_cannot_be_sent(engine):
    lock = threading.Lock()
    X, y = rows(np.random.default_rng(0), 0)
    agents = [*linear(1), Agent(lambda X: X[:, 0] + lock.locked(), X, y, "locked")]
    with pytest.raises(AgentError, match=r"^Agent 'locked': its model and space .* sent to another process; TypeError"):
        Collective(agents, engine=engine).predict(POINTS)


def test_cores_that_a_cluster_does_not_have(engine):
    with pytest.raises(InvalidInput, match=r"must have 2 cores for each of 3 agents; it has 2 in all"):
        Collective(linear(), engine=Ray(cpus=2)).predict(POINTS)
    with pytest.raises(InvalidInput, match=r"must have 3 cores for a worker; it has 2 in all"):
        Collective(linear(), engine=Ray(cpus=3, placement="workers")).predict(POINTS)


def test_a_placement_is_one_of_two():
    with pytest.raises(InvalidInput, match=r"^`placement` must be one of 'workers', 'agents'; got 'nodes'\.$"):
        Ray(placement="nodes")


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_no_cluster_at_the_address(address, monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with socket.socket() as unheard:  # bound, but nobody listens
        unheard.bind(("127.0.0.1", 0))
        engine = Ray(address.format(unheard.getsockname()[1]))
        with pytest.raises(InvalidInput, match=r"^There must be a Ray cluster at .*127.0.0.1:\d+; .*refused\.$"):
            engine.connect()
    with pytest.raises(InvalidInput, match=r"^The address of a Ray cluster must be \"host:port\"; got 'nowhere'\.$"):
        Ray("nowhere").connect()


def test_a_process_has_one_ray(engine):
    connected = ray.get_runtime_context().gcs_address
    port = connected.rpartition(":")[2]
    for other in ("192.0.2.1:1", f"192.0.2.1:{port}", "localhost:1"):
        with pytest.raises(InvalidInput, match=rf"^A process must .* one Ray only; it is to .*:\d+, not to {other}\.$"):
            Ray(other).connect()
    for same in (connected, f"localhost:{port}", "auto"):
        Ray(same).connect()
    with pytest.raises(InvalidInput, match=r"^There must be a Ray cluster at nobody\.invalid:\d+; "):
        Ray(f"nobody.invalid:{port}").connect()


def test_settings_are_for_a_ray_that_is_started(engine, monkeypatch):
    told = r"^Settings must be for a Ray that is started here; got num_cpus for one that runs\.$"
    with pytest.raises(InvalidInput, match=told):
        Ray(num_cpus=1).connect()
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(InvalidInput, match=told):
        Ray("10.0.0.1:6379", num_cpus=1).connect()


def test_files_need_more_than_a_client():
    with pytest.raises(InvalidInput, match=r"its address must be \"host:port\"; got 'ray://127.0.0.1:10001'"):
        callers_on_ray(Collective(linear(1)), "ray://127.0.0.1:10001").__enter__()
    with pytest.raises(InvalidInput, match=r"its address must be \"host:port\"; got 'ray://127.0.0.1:10001'"):
        copies_on_ray(Collective(linear(1)), None, {}, "ray://127.0.0.1:10001").__enter__()


def test_another_ray_than_the_cluster_has(monkeypatch):
    def refuse(**_):
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.40.0\n    Python: 3.9.1")

    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(InvalidInput, match=r"^There must be .* at auto; .* with: Ray: 2.40.0 Python: 3.9.1\.$"):
        Ray("auto").connect()


@pytest.mark.slow
def test_another_version_of_this_package_leaves_no_process_behind(engine, monkeypatch):
    pids, make = [], start_actors

    def watched(*arguments, **about):
        actors = make(*arguments, **about)
        pids.extend(map(pid_of, actors))
        return actors

    monkeypatch.setattr("degroot.cluster.ray.start_actors", watched)
    monkeypatch.setattr("degroot.cluster.ray.VERSION", "9.9")
    with pytest.raises(InvalidInput, match=r"must have version 9.9 of degroot; 'agent 0' runs with") as failed:
        Collective(linear(1), engine=engine).predict(POINTS)
    assert failed.traceback  # which holds on to the actors: nobody has forgotten them
    wait_for(lambda: not any(map(alive, pids)))
    assert pids


def test_without_ray_there_is_an_instruction(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"^Ray needs extra packages: pip install 'degroot\[ray\]' \(.*\)\.$"):
        Collective(linear(1), engine="ray").predict(POINTS)


def pid_of(actor):
    return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))


def test_a_ray_whose_processes_start_late_is_started_again(monkeypatch):
    begun, ended = [], []

    def init(**settings):
        begun.append(settings)
        if len(begun) < 3:
            raise Exception("The current node timed out during startup. This could happen because ...")

    fake = SimpleNamespace(init=init, is_initialized=lambda: False, shutdown=lambda: ended.append(1))
    monkeypatch.setattr("degroot.cluster.ray._ray", lambda: fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    engine = Ray()
    engine.connect()
    assert (len(begun), len(ended), engine.started) == (3, 2, True)


def test_a_ray_that_never_starts_is_told_in_one_line(monkeypatch):
    def init(**settings):
        raise Exception("no room")

    fake = SimpleNamespace(init=init, is_initialized=lambda: False, shutdown=lambda: None)
    monkeypatch.setattr("degroot.cluster.ray._ray", lambda: fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InvalidInput, match=r"^Ray must start on this machine; Exception: no room\.$"):
        Ray().connect()
