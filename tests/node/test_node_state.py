"""What a node keeps on disk, how it scores its peers' models and takes in changes, and the inbox of a session."""

import asyncio
import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.consortium import save_linear, save_model
from support.processes import on_small_disk

from degroot import Agent, InvalidInput
from degroot.node.config import read
from degroot.node.config.check import secured
from degroot.node.errors import BadReply, PeerRefused
from degroot.node.pooling.session import EARLY, MOST, MembersLost, Session, Sessions
from degroot.node.protocol.codec import Malformed, Model
from degroot.node.protocol.schemas import ModelInputs
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.log import logger
from degroot.node.records.metrics import Metrics
from degroot.node.records.storage import find_storage_trouble
from degroot.node.scoring.calibrated import CalibratedScores, query_model
from degroot.node.scoring.load import is_near_by, load_scored_agent
from degroot.node.scoring.residual_store import Residuals, StorageError, adopt
from degroot.node.scoring.scored_agent import answers_at_once
from degroot.node.server import model_service
from degroot.node.server.access import Exceeded
from degroot.node.server.lock import is_locked, lock_state
from degroot.node.server.reload import _reload, _reread
from degroot.node.server.threads import run_in_thread, run_model_in_thread

X, y = np.arange(46.0).reshape(23, 2), np.arange(23.0)
SOUTH, OLDER, EAST = Model("south", "2"), Model("south", "1"), Model("east", "1")


def scored(residuals, model, chunk=5):
    work = residuals.begin(model, chunk)
    for number in work.remaining():
        work.write(number, work.rows(number)[:, None] + 0.5)
    work.finish()


def read_complete(residuals):
    return {model: residuals.read(model) for model in residuals.find_complete()}


def digest(model):
    return hashlib.sha256(model.version.encode()).hexdigest()[:12]


def files(residuals, model):
    return list(residuals.folder.glob(f"{model.name}-{digest(model)}.*"))


def test_residuals_are_where_their_rows_are_and_every_row_is_asked_once(tmp_path):
    residuals = Residuals.at(tmp_path, X, y)
    work = residuals.begin(SOUTH, 5)
    asked = np.concatenate([work.rows(chunk) for chunk in work.remaining()])
    assert sorted(asked) == list(range(23))
    assert list(asked) != list(range(23)), "rows must be shuffled"
    assert read_complete(residuals) == {}
    scored(residuals, SOUTH)
    kept = read_complete(residuals)
    assert list(kept) == [SOUTH]
    np.testing.assert_array_equal(kept[SOUTH][:, 0], np.arange(23) + 0.5)


def test_what_is_finished_is_not_asked_again_whatever_ends_the_process(tmp_path):
    code = """
import os, sys; from pathlib import Path; import numpy as np
from degroot.node.protocol.codec import Model; from degroot.node.scoring.residual_store import Residuals
work = Residuals.at(Path(sys.argv[1]), np.arange(46.0).reshape(23, 2), np.arange(23.0)).begin(Model("south", "2"), 5)
for chunk in work.remaining()[:3]:
    work.write(chunk, work.rows(chunk)[:, None] + 0.5)
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code, tmp_path]).returncode == -9
    residuals = Residuals.at(tmp_path, X, y)
    work = residuals.begin(SOUTH, 1000)  # the size of chunks stays what it was
    assert work.progress == pytest.approx(3 / 5)
    assert len(work.remaining()) == 2
    scored(residuals, SOUTH)
    np.testing.assert_array_equal(read_complete(residuals)[SOUTH][:, 0], np.arange(23) + 0.5)


def test_an_earlier_version_serves_until_the_new_one_is_complete_and_goes_then(tmp_path):
    residuals = Residuals.at(tmp_path, X, y)
    scored(residuals, OLDER)
    unfinished = residuals.begin(EAST, 5)
    residuals.begin(SOUTH, 5)
    assert list(read_complete(residuals)) == [OLDER]
    scored(residuals, SOUTH)
    residuals.forget_earlier(SOUTH)
    assert list(read_complete(residuals)) == [SOUTH]
    assert unfinished.remaining() == residuals.begin(EAST, 5).remaining()
    np.testing.assert_array_equal(unfinished.order, residuals.begin(EAST, 5).order)


def test_of_two_complete_versions_of_a_model_the_last_one_scored_is_used(tmp_path):
    residuals = Residuals.at(tmp_path, X, y)
    for earlier, later in ((OLDER, SOUTH), (SOUTH, OLDER)):  # a process was killed before it could forget the earlier
        scored(residuals, earlier)
        scored(residuals, later)
        scored(residuals, EAST)
        for seconds, model in enumerate((earlier, later)):
            os.utime(residuals.folder / f"south-{digest(model)}.npy", (seconds, seconds))
        assert set(read_complete(residuals)) == {later, EAST}


def test_a_peer_whose_model_changes_all_the_time_fills_no_disk(tmp_path):
    residuals, neighbour = Residuals.at(tmp_path, X, y), Model("south-1", "1")
    scored(residuals, OLDER)
    residuals.begin(neighbour, 5)
    for version in range(2, 12):
        residuals.begin(Model("south", str(version)), 5)
    assert list(read_complete(residuals)) == [OLDER], "it serves until another is complete"
    kept = {model: {path.suffix for path in files(residuals, model)} for model in (OLDER, neighbour)}
    assert kept == {OLDER: {".json", ".npy"}, neighbour: {".json", ".part", ".done"}}
    assert len(list(residuals.folder.iterdir())) == 2 + 3 + 3
    residuals.forget_earlier(Model("south", "11"))
    assert len(list(residuals.folder.iterdir())) == 3 + 3


@pytest.mark.parametrize("end", [".json", ".part", ".done"])
def test_what_was_begun_and_lacks_a_file_begins_anew(tmp_path, end):
    residuals = Residuals.at(tmp_path, X, y)
    work = residuals.begin(SOUTH, 5)
    work.write(0, work.rows(0)[:, None] + 7.0)
    work.about.with_suffix(end).unlink()
    assert residuals.begin(SOUTH, 4).remaining() == list(range(6))
    scored(residuals, SOUTH)
    np.testing.assert_array_equal(read_complete(residuals)[SOUTH][:, 0], np.arange(23) + 0.5)


def test_residuals_of_other_rows_are_not_used(tmp_path):
    scored(Residuals.at(tmp_path, X, y), SOUTH)
    assert read_complete(Residuals.at(tmp_path, X, y + 1.0)) == {}
    assert read_complete(Residuals.at(tmp_path, X, y)) == {}, "they were removed"


def test_several_outputs_have_a_column_each(tmp_path):
    residuals = Residuals.at(tmp_path, X, np.c_[y, y])
    work = residuals.begin(SOUTH, 23)
    work.write(0, np.c_[work.rows(0), -work.rows(0)])
    work.finish()
    np.testing.assert_array_equal(read_complete(residuals)[SOUTH], np.c_[np.arange(23), -np.arange(23)])


def test_a_full_disk_is_told_and_leaves_nothing_half_made(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    residuals = Residuals.at(tmp_path, X, y)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left on device"):
            residuals.begin(SOUTH, 5)
    assert read_complete(residuals) == {}
    scored(residuals, SOUTH)
    assert list(read_complete(residuals)) == [SOUTH]


def flip(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


DAMAGE = {
    "changed": (".npy", flip, "its checksum does not match"),
    "cut": (".npy", cut, "it has 303 bytes instead of 312"),
    "empty": (".npy", lambda path: path.write_bytes(b""), "it has 0 bytes instead of 312"),
    "record changed": (".json", lambda path: flip(path, 10), "its checksum does not match"),
    "record cut": (".json", cut, "it is no record with a checksum"),
    "record of nothing": (".json", lambda path: path.write_bytes(b"[]"), "it is no record with a checksum"),
    "record gone": (".json", lambda path: path.unlink(), "No such file or directory"),
    "record of another": (
        ".json", lambda path: path.write_bytes(path.with_stem(f"east-{digest(EAST)}").read_bytes()),
        "it is of another model",
    ),
}  # fmt: skip


def test_a_state_folder_where_files_cannot_be_locked_is_refused_in_one_line(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    assert not is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == [], "to look leaves nothing there"
    with lock_state(tmp_path):
        assert is_locked(tmp_path)
    monkeypatch.setattr("degroot.node.server.lock.try_lock", fail)
    with (
        pytest.raises(InvalidInput, match=r"must be where files can be locked; .*No locks available"),
        lock_state(tmp_path),
    ):
        pass


@pytest.mark.parametrize("name", [f"south-{digest(SOUTH)}.json", f"south-{digest(SOUTH)}.npy"])
def test_residuals_that_cannot_be_read_now_are_neither_damaged_nor_removed(tmp_path, monkeypatch, name):
    """Too many open files, for example, pass; to score anew sends all rows to all peers once more."""
    residuals, opened = Residuals.at(tmp_path, X, y), Path.open
    scored(residuals, SOUTH)

    def fail(path, *arguments, **more):
        if path.name == name:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opened(path, *arguments, **more)

    def use():
        residuals.find_complete()
        residuals.read(SOUTH)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", fail)
        with pytest.raises(StorageError, match="Too many open files"):
            use()
    assert list(read_complete(residuals)) == [SOUTH]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_residuals_are_told_once_and_removed_and_nothing_else_is(tmp_path, damage):
    told = []
    residuals = Residuals.at(tmp_path, X, y, tell=lambda *each: told.append(each))
    for model in (SOUTH, EAST):
        scored(residuals, model)
    end, harm, reason = DAMAGE[damage]
    path = residuals.folder / f"south-{digest(SOUTH)}{end}"
    harm(path)
    kept = {model: found for model, found in read_complete(residuals).items() if found is not None}
    assert list(kept) == [EAST]
    np.testing.assert_array_equal(kept[EAST][:, 0], np.arange(23) + 0.5)
    assert told == [("south", path, reason)]
    assert files(residuals, SOUTH) == []
    scored(residuals, SOUTH)
    assert set(read_complete(residuals)) == {SOUTH, EAST}
    assert len(told) == 1


@pytest.mark.parametrize("end", [".part", ".done"])
def test_a_chunk_counts_as_scored_only_while_it_is_as_it_was_written(tmp_path, end):
    told = []
    residuals = Residuals.at(tmp_path, X, y, tell=lambda *each: told.append(each))
    work = residuals.begin(SOUTH, 5)
    for chunk in (0, 1, 2):
        work.write(chunk, work.rows(chunk)[:, None] + 0.5)
    row = work.rows(1)[0]
    flip(work.about.with_suffix(end), 128 + 8 * (row if end == ".part" else 1))
    flip(work.about.with_suffix(".done"), 128 + 8 * 3)  # of a chunk that is not scored
    assert residuals.begin(SOUTH, 5).remaining() == [1, 3, 4]
    assert told == [("south", work.about.with_suffix(".part"), "2 chunks do not match their checksums")]
    scored(residuals, SOUTH)
    np.testing.assert_array_equal(read_complete(residuals)[SOUTH][:, 0], np.arange(23) + 0.5)


@pytest.mark.parametrize("end", [".json", ".part", ".done"])
@pytest.mark.parametrize("harm", [cut, lambda path: flip(path, 3), lambda path: path.write_bytes(b"")])
def test_what_was_begun_and_is_damaged_begins_anew_and_that_is_told(tmp_path, end, harm):
    told = []
    residuals = Residuals.at(tmp_path, X, y, tell=lambda *each: told.append(each))
    work = residuals.begin(SOUTH, 5)
    work.write(0, work.rows(0)[:, None] + 7.0)
    path = work.about.with_suffix(end)
    harm(path)
    assert residuals.begin(SOUTH, 4).remaining() == list(range(6))
    assert [each[:2] for each in told] == [("south", path)]


def as_the_version_before(residuals, model):
    """Without checksums: a mark for each chunk that is done, and a plain record."""
    about = residuals.folder / f"{model.name}-{digest(model)}.json"
    told = json.loads(about.read_bytes())
    about.write_text(json.dumps({key: told[key] for key in ("name", "version", "chunk", "seed")}))
    done = about.with_suffix(".done")
    if done.exists():
        np.save(done.with_suffix(".npy.new"), (np.load(done) != 0).astype(np.uint8))
        done.with_suffix(".npy.new.npy").replace(done)


def test_what_the_version_before_has_scored_is_adopted_once(tmp_path):
    told = []
    residuals = Residuals.at(tmp_path, X, y, tell=lambda *each: told.append(each))
    scored(residuals, SOUTH)
    work = residuals.begin(EAST, 5)
    work.write(3, work.rows(3)[:, None] + 0.5)
    for model in (SOUTH, EAST):
        as_the_version_before(residuals, model)
    (residuals.folder / "west-0.json").write_text("{")  # damaged already
    assert adopt(tmp_path) == ["east", "south"]
    assert adopt(tmp_path) == []
    assert residuals.begin(EAST, 1000).remaining() == [0, 1, 2, 4]
    np.testing.assert_array_equal(read_complete(residuals)[SOUTH][:, 0], np.arange(23) + 0.5)
    assert told == []
    as_the_version_before(residuals, SOUTH)
    assert read_complete(residuals) == {}
    assert told == [("south", residuals.folder / f"south-{digest(SOUTH)}.json", "it is no record with a checksum")]


@pytest.mark.parametrize("end", [".part", ".done"])
@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_what_the_version_before_has_begun_and_is_damaged_is_not_adopted_and_scored_anew(tmp_path, end, harm):
    told = []
    residuals = Residuals.at(tmp_path, X, y, tell=lambda *each: told.append(each))
    scored(residuals, SOUTH)
    work = residuals.begin(EAST, 5)
    work.write(3, work.rows(3)[:, None] + 0.5)
    for model in (SOUTH, EAST):
        as_the_version_before(residuals, model)
    harm(work.about.with_suffix(end))
    assert adopt(tmp_path) == ["south"]
    assert residuals.begin(EAST, 5).remaining() == list(range(5))
    assert told == [("east", work.about, "it is no record with a checksum")]


def test_storage_that_can_be_written_is_no_trouble_and_nothing_is_left_there(tmp_path):
    configuration = organisation(tmp_path)
    assert find_storage_trouble(configuration).endswith("state cannot be written: No such file or directory")
    configuration.state.mkdir()
    configuration.ledger.touch()
    assert find_storage_trouble(configuration) is None
    assert [path.name for path in configuration.state.iterdir()] == ["ledger.sqlite"]


@pytest.mark.parametrize("call", ["fsync", "access"])
def test_storage_that_cannot_be_written_is_told_and_fails_the_check(tmp_path, monkeypatch, degroot, call):
    """The disk is full; or it is another user's, which nothing is to root."""
    configuration, access = organisation(tmp_path), os.access
    configuration.state.mkdir()
    configuration.ledger.touch()

    def full(*_):
        raise OSError(28, "No space left on device")

    told = {
        "fsync": f"{configuration.state} cannot be written: No space left on device",
        "access": f"{configuration.ledger} cannot be written: Permission denied",
    }
    replaced = {"fsync": full, "access": lambda path, *rest: path != configuration.ledger and access(path, *rest)}
    monkeypatch.setattr(os, call, replaced[call])
    assert find_storage_trouble(configuration) == told[call]
    code, out, err = degroot("node", "check", configuration.path, "--insecure-loopback")
    assert (code, err.count("\n")) == (2, 1)
    assert f"failed  state: The state folder must have room and be writable; {told[call]}." in out


FULL = """
import sys; from pathlib import Path; from types import SimpleNamespace
from degroot.node.records.storage import find_storage_trouble
folder = Path(sys.argv[1])
configuration = SimpleNamespace(state=folder, ledger=folder / "ledger.sqlite")
print(find_storage_trouble(configuration))
try:
    (folder / "filler").write_bytes(bytes(1 << 20))
except OSError:
    print(find_storage_trouble(configuration))
"""


def test_a_full_disk_is_trouble(tmp_path):
    run = on_small_disk(FULL, tmp_path, size="400k")
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["None", f"{tmp_path} cannot be written: No space left on device"]


class Peer:
    """A peer whose model answers `2 x0`, in one version at a time."""

    def __init__(self, name="south"):
        self.name, self.version, self.trouble, self.progress = name, "1", None, 0.0
        self.inputs = ModelInputs()
        self.asked, self.changes = [], {}  # changes: after how many queries there is another version

    async def infer(self, points, version, digest=""):
        self.version = self.changes.get(len(self.asked), self.version)
        if version != self.version:
            raise PeerRefused(self.name, "no such model")
        self.asked.append((version, len(points)))
        return model_service.response(model_service.request(self.name, version, points), version, 2.0 * points[:, 0])


def organisation(folder, rest=""):
    """The configuration of a node with 23 rows and a linear model."""
    table = np.c_[X, y]
    np.savetxt(folder / "rows.csv", table, delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    save_linear(folder / "model.skops", [1.0, 0.0, 0.0])
    path = folder / "north.toml"
    path.write_text(f"""
name = "north"
listen = "127.0.0.1:7443"
state = "state"
[model]
file = "model.skops"
[data]
file = "rows.csv"
target = "y"
{rest}
""")
    return read(path)


def calibrating(folder, first):
    return CalibratedScores(first, Residuals.at(folder, first.agent.X, first.agent.y), 5, Metrics(), logger("north"))


def test_calibration_that_meets_another_version_begins_anew_and_mixes_none(tmp_path):
    first, peer = load_scored_agent(organisation(tmp_path)), Peer()
    peer.changes = {2: "2"}

    async def scenario():
        scores = calibrating(tmp_path, first)
        await scores.keep(["south"])
        with pytest.raises(PeerRefused):
            await scores.score(peer)
        assert {version for version, _ in peer.asked} == {"1"}
        peer.version = "2"
        await scores.score(peer)
        assert peer.asked == [("1", 5)] * 2 + [("2", 5)] * 4 + [("2", 3)]
        assert scores.has_scored(Model("south", "2"))
        assert not scores.has_scored(Model("south", "1"))
        assert scores.seat.scored == (Model("north", first.version), Model("south", "2"))
        np.testing.assert_allclose(scores.seat.scorer.residuals[:, 0, 1], 2.0 * X[:, 0] - y)

    asyncio.run(scenario())


@pytest.mark.parametrize("harm", [cut, lambda path: flip(path, 200)])
def test_damaged_residuals_are_scored_anew_when_the_node_starts_and_only_these(tmp_path, harm):
    first, peers, told = load_scored_agent(organisation(tmp_path)), [Peer("south"), Peer("west")], []

    def tell(name, path, reason):
        told.append((name, path.suffix))

    async def scenario():
        for _ in range(3):
            residuals = Residuals.at(tmp_path, first.agent.X, first.agent.y, tell=tell)
            scores = CalibratedScores(first, residuals, 5, Metrics(), logger("north"))
            for _ in range(2):
                await scores.keep(["south", "west"])
                for peer in peers:
                    await scores.score(peer)
                np.testing.assert_allclose(scores.seat.scorer.residuals[:, 0, 1], 2.0 * X[:, 0] - y)
            (values,) = residuals.folder.glob("south-*.npy")
            harm(values)

    asyncio.run(scenario())
    assert told == [("south", ".npy")] * 2
    assert [sum(rows for _, rows in peer.asked) for peer in peers] == [23 * 3, 23]


def test_residuals_are_read_once_and_gaps_in_them_stay_gaps(tmp_path, monkeypatch):
    """Where a model abstains the own one stands in, as it is by then."""
    first, read_file, read_models = load_scored_agent(organisation(tmp_path)), Residuals.read, []
    residuals = Residuals.at(tmp_path, first.agent.X, first.agent.y)
    work = residuals.begin(EAST, 23)
    work.write(0, np.where(work.rows(0) == 7, np.nan, work.rows(0) + 0.5)[:, None])
    work.finish()
    monkeypatch.setattr(Residuals, "read", lambda self, model: read_models.append(model) or read_file(self, model))

    async def scenario():
        scores, peer = calibrating(tmp_path, first), Peer()
        for coefficient in (1.0, 2.0, 3.0):
            save_linear(tmp_path / "model.skops", [coefficient, 0.0, 0.0])
            await scores.take(load_scored_agent(read(tmp_path / "north.toml")))
            await scores.keep(["south", "east"])
            await scores.score(peer)
            assert [model.name for model in scores.seat.scored] == ["east", "north", "south"]
            east, own, south = scores.seat.scorer.residuals[:, 0].T
            np.testing.assert_allclose(east, np.where(np.arange(23) == 7, own, np.arange(23) + 0.5))
            np.testing.assert_allclose(south, 2.0 * X[:, 0] - y)
            peer.version = "2" if coefficient == 2.0 else peer.version
        await scores.keep(["south"])
        await scores.keep(["south", "east"])

    asyncio.run(scenario())
    assert read_models == [EAST, Model("south", "1"), Model("south", "2"), EAST]


def test_an_answer_of_another_version_than_was_asked_for_is_refused(tmp_path):
    peer = Peer()

    async def lying(points, version, digest=""):
        return model_service.response(model_service.request(peer.name, version, points), "9", points[:, 0])

    peer.infer = lying
    with pytest.raises(BadReply, match="version '9' of its model, not '1'"):
        asyncio.run(query_model(peer, "1", X[:3], 1))


@pytest.mark.parametrize(("seconds", "near_by"), [(0.0, True), (0.02, False)])
def test_a_model_that_takes_its_time_is_not_near_by(tmp_path, monkeypatch, seconds, near_by):
    now = 0.0  # a clock that only this model moves

    def model(X):
        nonlocal now
        now += seconds
        return X[:, 0]

    monkeypatch.setattr(f"{answers_at_once.__module__}.time", SimpleNamespace(perf_counter=lambda: now))
    assert is_near_by(organisation(tmp_path), Agent(model, X, y, "north")) is near_by


def test_a_slow_model_keeps_no_computation_waiting():
    async def scenario():
        waiting, over = threading.Barrier(9), threading.Event()
        asked = [asyncio.create_task(run_model_in_thread(lambda: waiting.wait(60) + over.wait(60))) for _ in range(8)]
        await asyncio.to_thread(waiting.wait, 60)  # all threads for models are taken
        assert await run_in_thread(lambda: "done") == "done"
        over.set()
        await asyncio.gather(*asked)

    asyncio.run(scenario())


class Log:
    def __init__(self):
        self.told = []

    def __getattr__(self, level):
        return lambda event, **_: self.told.append((level, event))


class Circle:
    """As much of it as is changed while a node runs."""

    def __init__(self, configuration, scores=None):
        self.file = self.configuration = configuration
        self.scores = scores

    async def change(self, configuration):
        self.file = self.configuration = configuration


IDENTITY = '[identity]\nca = "ca.pem"\ncertificate = "{0}.pem"\nkey = "{0}.key"\n'
SOUTH_AT = '[[peers]]\nname = "south"\naddress = "{}"\n'


def reread(folder, running, rest):
    circle, log = Circle(running), Log()
    organisation(folder, rest)
    asyncio.run(_reread(circle, log))
    return [peer.address for peer in circle.configuration.peers], [level for level, _ in log.told]


def test_without_tls_a_new_roster_stays_on_this_machine(tmp_path):
    running = secured(organisation(tmp_path, IDENTITY.format("north")), insecure_loopback=True)
    for identity in ("", IDENTITY.format("north")):
        assert reread(tmp_path, running, identity + SOUTH_AT.format("[::1]:7444")) == (["[::1]:7444"], ["info"])
        with pytest.raises(InvalidInput, match=r"all addresses must be of this machine .*'10.0.0.1:7444'"):
            reread(tmp_path, running, identity + SOUTH_AT.format("10.0.0.1:7444"))


def test_a_new_identity_needs_a_restart_and_that_is_told(tmp_path):
    running, roster = organisation(tmp_path, IDENTITY.format("north")), SOUTH_AT.format("10.0.0.1:7444")
    assert reread(tmp_path, running, IDENTITY.format("north") + roster) == (["10.0.0.1:7444"], ["info"])
    for identity in (IDENTITY.format("other"), ""):
        assert reread(tmp_path, running, identity + roster) == (["10.0.0.1:7444"], ["warning", "info"])


def test_a_new_model_with_other_features_is_not_taken_in(tmp_path):
    from sklearn.linear_model import LinearRegression

    configuration = organisation(tmp_path)

    async def scenario():
        scores, log = calibrating(tmp_path, load_scored_agent(configuration)), Log()
        circle, before = Circle(configuration, scores), scores.seat.version
        save_linear(tmp_path / "model.skops", [1.0, 2.0, 0.0])
        await _reload(circle, False, log)
        assert log.told == [("info", "model taken in")]
        taken = scores.seat.version
        assert taken != before
        names = pd.DataFrame(X, columns=["b", "a"])
        save_model(tmp_path / "model.skops", LinearRegression().fit(names, y))
        with pytest.raises(InvalidInput, match="feature 0 is 'a', and 'b' in the model"):
            await _reload(circle, False, log)
        save_linear(tmp_path / "model.skops", [1.0, 2.0, 3.0, 0.0])
        with pytest.raises(InvalidInput, match="takes 3 features"):
            await _reload(circle, False, log)
        assert scores.seat.version == taken

    asyncio.run(scenario())


def beliefs(number):
    return wire.Beliefs(round=number)


def test_a_session_takes_in_this_round_and_the_next_once():
    async def scenario():
        session = Session()
        session.receive("south", beliefs(0))
        with pytest.raises(Malformed, match="Round 0 or the next"):
            session.receive("south", beliefs(1))  # nobody can be so far before it has begun here
        session.members = frozenset({"south"})
        with pytest.raises(Malformed, match="must come from a member"):
            session.receive("east", beliefs(0))
        session.receive("south", beliefs(1))
        for number in (0, 1, 2, 9):
            with pytest.raises(Malformed, match=r"Round 0 or the next must be told, once"):
                session.receive("south", beliefs(number))
        assert list(await session.round(0, ["south"], 1.0)) == ["south"]
        session.receive("south", beliefs(2))
        assert (await session.round(1, ["south"], 1.0))["south"].round == 1

    asyncio.run(scenario())


def test_a_session_names_who_is_silent_and_who_hung_up():
    async def scenario():
        session = Session()
        session.receive("south", beliefs(0))
        with pytest.raises(MembersLost) as silent:
            await session.round(0, ["south", "east", "west"], 0.05)
        assert set(silent.value.losses) == {"east", "west"}
        session.lose("west", "hung up")
        with pytest.raises(MembersLost) as gone:
            await session.round(0, ["south", "east", "west"], 60.0)
        assert gone.value.losses == {"west": "hung up"}

    asyncio.run(scenario())


def test_sessions_are_bounded():
    async def scenario():
        sessions = Sessions()
        for number in range(MOST - EARLY):
            sessions.begun(str(number), ["north"])
        with pytest.raises(Malformed, match="must begin once"):
            sessions.begun("0", ["north"])
        early = [sessions.joined(f"early{number}", "south") for number in range(EARLY)]
        with pytest.raises(Exceeded, match="before they begin; one more came"):
            sessions.joined("more", "south")
        with pytest.raises(Exceeded, match="at a time; one more came"):
            sessions.joined("more", "east")
        sessions.left("early0", early[0], "south")
        assert sessions.joined("more", "east") is sessions.begun("more", ["north"])

    asyncio.run(scenario())


def test_a_session_that_has_not_begun_is_kept_until_the_last_who_joined_has_left():
    async def scenario():
        sessions = Sessions()
        early = sessions.joined("session", "south")
        assert sessions.joined("session", "east") is early
        sessions.left("session", early, "south")
        assert sessions.begun("session", ["north", "east"]) is early
        sessions.left("session", early, "east")
        with pytest.raises(Malformed, match="must begin once"):
            sessions.begun("session", ["north"])

    asyncio.run(scenario())
