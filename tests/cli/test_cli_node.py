"""`degroot keys` and `degroot node` as an operations engineer uses them: from nothing to a node that is ready, and
every mistake as one line and exit code 2."""

import errno
import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import grpc
import joblib
import numpy as np
import pandas as pd
import pytest
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression, Ridge
from support.authority import server_credentials

from degroot import cli
from degroot.exceptions import InvalidInput
from degroot.node.config import IdentityFiles, Peer, read
from degroot.node.protocol.codec import PROTOCOL
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records.ledger import Ledger
from degroot.node.tls.authority import init_ca, issue

DEGROOT = [sys.executable, "-c", "from degroot.cli import main; main()"]
RANDOM = np.random.default_rng(0)
ROWS = pd.DataFrame(RANDOM.normal(size=(40, 3)), columns=["a", "b", "c"])
ROWS["y"] = ROWS["a"] - ROWS["b"]


class Run(NamedTuple):
    code: int
    out: str
    complaint: str


@pytest.fixture
def degroot(monkeypatch, capsys):
    """Run the command line in this process."""

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["degroot", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert err.count("\n") <= 1
        return Run(ended.value.code or 0, out, err)

    return run


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


class Site:
    """A folder with all that a node needs, where tests can break one thing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.port = folder, folder / "north.toml", free_port()
        self.taken: socket.socket | None = None
        init_ca(folder)
        issue(folder, "north")
        ROWS.to_csv(folder / "rows.csv", index=False)
        model = Ridge().fit(ROWS[["a", "b", "c"]].to_numpy(), ROWS["y"])
        (folder / "model.onnx").write_bytes(to_onnx(model, np.zeros((1, 3))).SerializeToString())
        self.text = f"""
name = "north"
listen = "127.0.0.1:{self.port}"
state = "state"
[identity]
ca = "ca.pem"
certificate = "north.pem"
key = "north.key"
[model]
file = "model.onnx"
[data]
file = "rows.csv"
target = "y"
[timing]
deadline_seconds = 60
"""
        self.path.write_text(self.text)

    def change(self, old: str, new: str) -> None:
        assert old in self.text
        self.text = self.text.replace(old, new)
        self.path.write_text(self.text)

    def without_identity(self) -> None:
        self.change(self.text[self.text.index("[identity]") : self.text.index("[model]")], "")

    def peer(self, name: str, address: str) -> None:
        self.change("[timing]", f'[[peers]]\nname = "{name}"\naddress = "{address}"\n[timing]')


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    if made.taken is not None:
        made.taken.close()


def outcomes(out: str) -> dict[str, str]:
    """What was checked, and how it came out."""
    return {line[8:].partition(":")[0]: line[:8].strip() for line in out.splitlines()}


def test_from_nothing_to_a_node_that_is_ready(degroot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert degroot("keys", "init", "--out", ".", "--name", "Coast").code == 0
    assert degroot("keys", "issue", "north", "--out", ".", "--host", "localhost", "--days", 90).code == 0
    assert degroot("node", "init", "north").code == 0
    ROWS.to_csv("rows.csv", index=False)
    model = Ridge().fit(ROWS[["a", "b", "c"]].to_numpy(), ROWS["y"])
    Path("model.onnx").write_bytes(to_onnx(model, np.zeros((1, 3))).SerializeToString())
    Path("north.toml").write_text(Path("north.toml").read_text().replace("0.0.0.0:7443", f"127.0.0.1:{free_port()}"))
    ready = degroot("node", "check", "north.toml")
    assert ready.code == 0
    assert ready.complaint == ""
    assert set(outcomes(ready.out).values()) == {"ok"}
    checked = ["configuration", "identity", "data", "model", "port", "page port", "page tokens", "evidence"]
    assert list(outcomes(ready.out)) == [*checked, "state", "ledger"]
    assert Path("north-state").stat().st_mode & 0o077 == 0  # residuals and the ledger are nobody else's


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--peer", "north@127.0.0.1:7442"], "must differ; got 'north' twice"),
        (["--peer", "south@127.0.0.1:7442", "--peer", "south@127.0.0.1:7443"], "must differ; got 'south' twice"),
        (["--listen", "127.0.0.1:7441", "--page", "7441"], "`page.port` must be another port"),
    ],
)
def test_a_configuration_that_could_not_be_read_is_not_written(degroot, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    made = degroot("node", "init", "north", *options)
    assert (made.code, list(tmp_path.iterdir())) == (2, [])
    assert words in made.complaint


def test_nothing_that_is_there_is_overwritten(degroot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = (("keys", "init"), ("keys", "issue", "north"), ("node", "init", "north"))
    for command in commands:
        assert degroot(*command).code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for command in commands:
        again = degroot(*command)
        assert again.code == 2
        assert "is there already" in again.complaint
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert degroot("keys", "issue", "north", "--force").code == 0
    assert (tmp_path / "keys" / "north.pem").read_bytes() != before[tmp_path / "keys" / "north.pem"]


def test_the_file_of_node_init_is_where_it_is_wanted(degroot, tmp_path):
    path = tmp_path / "deep.toml"
    assert degroot("node", "init", "north", "--out", path).code == 0
    assert read(path).name == "north"
    assert "small letters" in degroot("node", "init", "North").complaint
    assert "folder that can be written" in degroot("node", "init", "n", "--out", tmp_path / "no" / "n.toml").complaint


def break_key(site: Site) -> None:
    site.change("[timing]\n", "[timing]\ndeadline_secunds = 1\n")


def break_file(site: Site) -> None:
    site.path.unlink()


def break_target(site: Site) -> None:
    site.change('target = "y"', 'target = "yy"')


def break_data(site: Site) -> None:
    (site.folder / "rows.csv").unlink()


def break_model(site: Site) -> None:
    (site.folder / "model.onnx").write_bytes(b"none")


def break_features(site: Site) -> None:
    ROWS.drop(columns="c").to_csv(site.folder / "rows.csv", index=False)


def break_neighbours(site: Site) -> None:
    site.change("[timing]\n", "[collective]\nneighbours = 41\n[timing]\n")


def break_name(site: Site) -> None:
    site.change('name = "north"', 'name = "south"')


def break_identity(site: Site) -> None:
    site.without_identity()


def break_certificate(site: Site) -> None:
    past = datetime.now(UTC) - timedelta(days=90)
    init_ca(site.folder, force=True, now=past)
    issue(site.folder, "north", days=30, force=True, now=past)


def break_port(site: Site) -> None:
    site.taken = socket.create_server(("127.0.0.1", site.port))


def break_state(site: Site) -> None:
    (site.folder / "state").write_text("a file")


def break_ledger(site: Site) -> None:
    (site.folder / "state" / "ledger.sqlite").mkdir(parents=True)


MISTAKES = [
    (break_file, None, ["No such file", "north.toml"]),
    (break_key, None, ["`timing.deadline_secunds`", "did you mean 'deadline_seconds'?"]),
    (break_target, "data", ["must have the column 'yy'", "did you mean 'y'?"]),
    (break_data, "data", ["rows.csv: No such file"]),
    (break_model, "model", ["model.onnx: An ONNX file must be whole"]),
    (break_features, "model", ["takes 3 features", "have 2"]),
    (break_neighbours, "model", ["`neighbours` must be at most the number of rows, 40", "got 41"]),
    (break_name, "identity", ["must be for 'south'", "is for 'north'"]),
    (break_identity, "identity", ["--insecure-loopback"]),
    (break_certificate, "identity", ["expired on 20"]),
    (break_port, "port", ["127.0.0.1", "in use"]),
    (break_state, "state", ["folder that can be written", "state"]),
    (break_ledger, "ledger", ["The ledger must be written", "ledger.sqlite: "]),
]


@pytest.mark.parametrize(("broken", "what", "words"), MISTAKES, ids=[case[0].__name__ for case in MISTAKES])
def test_check_finds_every_mistake_and_goes_on_with_the_rest(degroot, site, broken, what, words):
    broken(site)
    checked = degroot("node", "check", site.path)
    assert checked.code == 2
    assert checked.complaint.startswith("degroot: ")
    for word in words:
        assert word in checked.complaint
    if what is None:
        assert checked.out == ""
        return
    found = outcomes(checked.out)
    known = ["configuration", "identity", "data", "model", "port", "evidence", "state"]
    assert list(found) == known + (["ledger"] if what != "state" else [])
    assert [name for name, outcome in found.items() if outcome == "failed"] == [what]


EARLY = [case for case in MISTAKES if case[0] is not break_port]


@pytest.mark.parametrize(("broken", "what", "words"), EARLY, ids=[case[0].__name__ for case in EARLY])
def test_a_node_with_a_mistake_does_not_start(degroot, site, monkeypatch, broken, what, words):
    def started(work: Coroutine[object, object, None]) -> None:
        work.close()
        raise AssertionError("It must not start.")

    broken(site)
    monkeypatch.setattr("asyncio.run", started)
    ended = degroot("node", "run", site.path)
    assert ended.code == 2
    assert ended.out == ""
    for word in words:
        assert word in ended.complaint


def test_a_node_whose_port_is_in_use_says_so_in_one_line(site):
    break_port(site)
    ended = subprocess.run([*DEGROOT, "node", "run", site.path], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert re.fullmatch(rf"degroot: [^\n]*127.0.0.1:{site.port}[^\n]*\n", ended.stderr)
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("call", "number", "code"),
    [
        ("degroot.files.atomic.TemporaryFile", errno.EROFS, 75),  # the folder is tried out
        ("degroot.node.server.lock.try_lock", errno.EIO, 75),
        ("degroot.node.server.lock.try_lock", errno.EACCES, 2),  # of another user: to start again does not help
        ("degroot.node.state.version.save_record", errno.ENOSPC, 75),
        ("degroot.node.state.version.save_record", errno.EACCES, 2),
        ("degroot.node.records.ledger.Journal", errno.ENOSPC, 75),
        ("degroot.node.records.ledger._take_over", 13, 75),  # SQLITE_FULL
        ("degroot.node.records.ledger._take_over", 8, 2),  # SQLITE_READONLY
    ],
)
def test_storage_that_fails_has_an_exit_code_of_its_own(degroot, site, monkeypatch, call, number, code):
    def fail(*_: object, **__: object) -> None:
        if call.endswith("_take_over"):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = number
            raise error
        raise OSError(number, os.strerror(number), "a file")

    monkeypatch.setattr(call, fail)
    ended = degroot("node", "run", site.path)
    assert (ended.code, ended.complaint.count("\n")) == (code, 1)
    assert ("full" if call.endswith("_take_over") else os.strerror(number)) in ended.complaint


def test_without_certificates_only_this_machine(degroot, site):
    site.without_identity()
    checked = degroot("node", "check", site.path, "--insecure-loopback")
    assert checked.code == 0
    assert outcomes(checked.out)["identity"] == "ok"
    for address in ("10.0.0.1:7443", "south.example.org:7443", "0.0.0.0:7443", "[::]:7443", "128.0.0.1:7443"):
        kept = site.text
        site.peer("south", address)
        for command in ("check", "run"):
            refused = degroot("node", command, site.path, "--insecure-loopback")
            assert refused.code == 2
            assert f"got '{address}'" in refused.complaint
        site.text = kept
    site.change(f"127.0.0.1:{site.port}", "0.0.0.0:0")
    assert "got '0.0.0.0:0'" in degroot("node", "run", site.path, "--insecure-loopback").complaint


def test_a_pickle_needs_an_explicit_word(degroot, site):
    joblib.dump(Ridge().fit(ROWS[["a", "b", "c"]].to_numpy(), ROWS["y"]), site.folder / "model.pkl")
    site.change("model.onnx", "model.pkl")
    refused = degroot("node", "check", site.path)
    assert refused.code == 2
    assert "--unsafe-pickle" in refused.complaint
    assert degroot("node", "check", site.path, "--unsafe-pickle").code == 0


def test_a_classifier_and_labels_that_nobody_named(degroot, site):
    labels = np.where(ROWS["y"] > 0, "yes", "no")
    ROWS.assign(y=labels).to_csv(site.folder / "rows.csv", index=False)
    model = LogisticRegression().fit(ROWS[["a", "b", "c"]].to_numpy(), labels)
    rows = np.zeros((1, 3), dtype=np.float32)
    (site.folder / "model.onnx").write_bytes(to_onnx(model, rows).SerializeToString())
    site.change('target = "y"', 'target = "y"\nclasses = ["no", "yes"]')
    assert degroot("node", "check", site.path).code == 0
    site.change('["no", "yes"]', '["no", "maybe"]')
    checked = degroot("node", "check", site.path)
    assert checked.code == 2
    assert "'yes'" in checked.complaint


class Neighbour(collective_pb2_grpc.CollectiveServicer):
    """Another organisation's node, as far as `check` sees it."""

    def __init__(self) -> None:
        settings = wire.Settings(rule="degroot", metric="euclidean", guard=True)
        names = ["a", "b", "c"]
        self.description = wire.Description(
            protocol=PROTOCOL, name="south", model_version="1", n_features=3, feature_names=names, settings=settings
        )

    def Describe(self, request, context):  # noqa: N802
        return self.description


@pytest.fixture
def neighbour(site: Site) -> Iterator[Neighbour]:
    issue(site.folder, "south")
    server, servicer = grpc.server(ThreadPoolExecutor(1)), Neighbour()
    collective_pb2_grpc.add_CollectiveServicer_to_server(servicer, server)
    files = IdentityFiles(site.folder / "ca.pem", site.folder / "south.pem", site.folder / "south.key")
    port = server.add_secure_port("127.0.0.1:0", server_credentials(files))
    server.start()
    site.peer("south", f"127.0.0.1:{port}")
    yield servicer
    server.stop(None).wait()


def test_a_peer_that_answers_must_have_the_same_features(degroot, site, neighbour):
    checked = degroot("node", "check", site.path)
    assert checked.code == 0, checked
    assert outcomes(checked.out)["peer south"] == "ok"
    for names, words in ((["a", "c", "b"], "feature 1 is 'c', not 'b'"), (["a", "b"], "it has 2")):
        neighbour.description.feature_names[:] = names
        neighbour.description.n_features = len(names)
        checked = degroot("node", "check", site.path)
        assert checked.code == 2
        assert words in checked.complaint


def test_a_peer_that_names_another_number_of_features_or_tells_what_no_node_tells_is_refused(degroot, site, neighbour):
    def refusal() -> str:
        checked = degroot("node", "check", site.path)
        assert checked.code == 2
        return checked.complaint

    sound = wire.Description()
    sound.CopyFrom(neighbour.description)
    neighbour.description.feature_names[:] = ["a", "b"]
    assert "must have 3 names of features, as here; it has 2" in refusal()
    neighbour.description.feature_names[:] = []
    assert degroot("node", "check", site.path).code == 0, "it need not name its features"
    for version, length in (("", 0), ("v" * 201, 201)):
        neighbour.description.model_version = version
        assert f"version must have 1 to 200 characters; it has {length}" in refusal()
    neighbour.description.CopyFrom(sound)
    neighbour.description.scored.extend([wire.Model(name="n", version="1")] * 10_001)
    assert "at most 10000 scored models; it tells of 10001" in refusal()
    neighbour.description.CopyFrom(sound)
    neighbour.description.members.extend([wire.Member(name="n")] * 10_001)
    assert "at most 10000 members; it tells of 10001" in refusal()
    neighbour.description.CopyFrom(sound)
    neighbour.description.protocol = 1
    assert "it must speak version 3 or 2 of the protocol; it speaks 1" in refusal()


def test_settings_are_alike_where_evidence_is_pooled_and_only_there(degroot, site, neighbour):
    neighbour.description.settings.neighbours = "9"
    for pooled in (False, True):  # as long as one keeps its evidence, settings are its own affair
        neighbour.description.pooled = pooled
        checked = degroot("node", "check", site.path)
        assert checked.code == 0, checked
        assert outcomes(checked.out)["evidence"] == "ok"
    site.path.write_text(f'evidence = "pooled"\n{site.path.read_text()}')
    checked = degroot("node", "check", site.path)
    assert checked.code == 2
    assert "its setting 'neighbours' must be left out, as here; it is '9'" in checked.complaint
    assert outcomes(checked.out)["evidence"] == "warning"
    assert "members can recover this organisation's labels" in checked.out
    neighbour.description.settings.neighbours = ""
    assert degroot("node", "check", site.path).code == 0


def test_a_peer_that_is_not_there_or_somebody_else_is_a_warning(degroot, site, neighbour):
    site.peer("west", f"127.0.0.1:{free_port()}")
    site.peer("east", f"localhost:{read(site.path).peers[0].address.rpartition(':')[2]}")
    checked = degroot("node", "check", site.path)
    assert checked.code == 0
    assert checked.complaint == ""
    found = outcomes(checked.out)
    assert [found[f"peer {name}"] for name in ("south", "west", "east")] == ["ok", "warning", "warning"]


def test_audit_prints_what_was_exchanged_by_peer_and_kind(degroot, site, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "not there" in degroot("node", "audit", site.path).complaint
    (site.folder / "state").mkdir()
    ledger = Ledger(read(site.path).ledger)
    for rows in (1000, 500):
        ledger.record("south", "query", "out", rows, 40 * rows, 8 * rows)
    ledger.record("west", "opinion", "in", 1, 99, 77)
    ledger.close()
    printed = degroot("node", "audit", site.path)
    assert printed.code == 0
    table = [line for line in printed.out.splitlines() if "│" in line]
    south, west = (line.split("│")[1:-1] for line in table if "south" in line or "west" in line)
    assert [cell.strip() for cell in south[:7]] == ["south", "query", "we", "2", "1,500", "60,000", "12,000"]
    assert [cell.strip() for cell in west[:7]] == ["west", "opinion", "they", "1", "1", "99", "77"]


@pytest.fixture
def recorded(site):
    """A site with a ledger."""
    (site.folder / "state").mkdir()
    ledger = Ledger(read(site.path).ledger, "north")
    ledger.record("south", "prediction", "out", 10, 400, 80)
    ledger.close()
    return site


def test_an_export_is_whole_or_not_there(degroot, recorded, monkeypatch):
    out = recorded.folder / "out" / "north.jsonl"
    out.parent.mkdir()
    assert degroot("node", "audit", recorded.path, "--json", "--out", out).code == 0
    whole = out.read_bytes()
    assert whole.count(b"\n") > 1
    for place in (out.parent, out / "below", recorded.folder / "nowhere" / "x"):
        assert "can be written" in degroot("node", "audit", recorded.path, "--json", "--out", place).complaint

    def write_half(_content, file, _peer):
        file.write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("degroot.node.records.export.write_json", write_half)
    assert "No space left" in degroot("node", "audit", recorded.path, "--json", "--out", out).complaint
    assert [*out.parent.iterdir()] == [out]
    assert out.read_bytes() == whole


def test_marks_for_terminals_in_an_export_are_not_printed(degroot, recorded):
    out = recorded.folder / "north.jsonl"
    degroot("node", "audit", recorded.path, "--json", "--out", out)
    mark = r"\u001b]0;x\u0007\u202e"
    out.write_text(out.read_text().replace('"north"', f'"no{mark}rth"').replace('"south"', f'"so{mark}uth"'))
    found = degroot("node", "audit", out, "--verify")
    assert found.code == 1
    assert not [sign for sign in found.out + found.complaint if not sign.isprintable() and sign != "\n"]


@pytest.mark.parametrize("kind", ["--json", "--csv"])
def test_a_reader_that_goes_is_no_traceback(recorded, kind):
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*DEGROOT, "node", "audit", recorded.path, kind], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert ended.stderr == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["node", "chek", "x.toml"], "chek"),
        (["node", "check"], "Missing argument"),
        (["keys", "issue", "north", "--days", "x"], "--days"),
        (["node", "run", "x.toml", "--insecure"], "--insecure"),
    ],
)
def test_wrong_words_on_the_command_line(degroot, arguments, words):
    run = degroot(*arguments)
    assert run.code == 2
    assert words in run.complaint


def test_keys_and_node_without_a_command_say_what_there_is(degroot):
    assert "issue" in degroot("keys").out
    assert "audit" in degroot("node").out


def test_a_missing_extra_is_an_instruction(site):
    without = f"import sys; sys.modules['grpc'] = None; {DEGROOT[2]}"
    command = [sys.executable, "-c", without, "node", "check", site.path]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert "pip install 'degroot[node]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_init_writes_the_address_peers_and_clients_that_are_given(degroot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    peers = {"south": "127.0.0.1:7442", "west": "[::1]:7443"}
    told = [text for name, address in peers.items() for text in ("--peer", f"{name}@{address}")]
    assert degroot("node", "init", "north", "--listen", "127.0.0.1:7441", *told, "--client", "analyst").code == 0
    made = read(tmp_path / "north.toml")
    assert (made.listen, {peer.name: peer.address for peer in made.peers}) == ("127.0.0.1:7441", peers)
    assert [client.name for client in made.clients] == ["analyst"]
    for wrong in (("--peer", "south"), ("--peer", "127.0.0.1:7442"), ("--listen", "here"), ("--client", "No One")):
        assert degroot("node", "init", "south", *wrong).code == 2
    assert not (tmp_path / "south.toml").exists()


def test_a_key_that_others_can_read_is_a_warning(degroot, site):
    for mode, is_told in ((0o640, False), (0o644, True)):  # a group can be the node's alone
        (site.folder / "north.key").chmod(mode)
        checked = degroot("node", "check", site.path)
        assert checked.code == 0, checked
        assert (outcomes(checked.out).get("key") == "warning") == is_told
    assert "can be read by every user; chmod o-rwx" in checked.out


@pytest.mark.parametrize(
    ("found", "starts"),
    [
        (["failed"], False), (["failed", "warning"], False), (["failed", "ok"], True), (["warning", "warning"], True),
        (["failed", "warning", "warning"], True), (["failed", "failed", "warning", "warning"], False),
    ],
)  # fmt: skip
def test_a_node_that_is_unlike_all_and_half_of_its_peers_does_not_start(site, monkeypatch, found, starts):
    from degroot.node.config import check
    from degroot.node.scoring.load import load_scored_agent

    configuration = read(site.path)
    peers = tuple(Peer(f"peer{k}", f"127.0.0.1:{k + 1}") for k in range(len(found)))
    told = dict(zip((peer.name for peer in peers), found, strict=True))
    monkeypatch.setattr(
        check, "_reached", lambda _, peer, *__: check.CheckFinding("peer", told[peer.name], "an address: unlike.")
    )
    with nullcontext() if starts else pytest.raises(InvalidInput, match="must be like its peers"):
        check.check_peers(replace(configuration, peers=peers), load_scored_agent(configuration))
