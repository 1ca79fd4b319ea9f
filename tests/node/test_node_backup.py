"""Backup and restore: while questions run, on an empty folder, over what is there; and archives that are refused."""

import json
import os
import pwd
import shutil
import stat
import threading
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from signal import SIGTERM
from zipfile import ZipFile

import numpy as np
import pytest
from support.consortium import Consortium
from support.drills import points, queried, until

from degroot.files.checksums import encode_record, save_record
from degroot.node.config import read
from degroot.node.records.ledger import Ledger, opened, summary
from degroot.node.server.lock import lock_state
from degroot.node.state import restore, version
from degroot.node.state.backup import MANIFEST, STATE
from degroot.node.state.restore import RESTORED
from degroot.node.tls import authority
from degroot.node.tls.roster import write_roster

X = points(9)
NODE = """name = "{name}"
listen = "127.0.0.1:7443"
state = "state"
{more}
[model]
file = "model.skops"
[data]
file = "rows.csv"
target = "y"
"""


def test_a_backup_under_load_brings_a_node_back_that_answers_the_same_and_scores_nothing_again(tmp_path, degroot):
    archive, asked, stop = tmp_path / "node0.zip", [], threading.Event()
    with Consortium(tmp_path, 2, evidence="own", timing="receipt_seconds = 0.2") as consortium:
        consortium.fork().ready()
        state, file = tmp_path / "node0" / "state", tmp_path / "node0" / "node.toml"

        def ask():
            with consortium.connect("node0", caller="node0") as node:
                while not stop.is_set():
                    asked.append(node.consult(X).value)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            until(lambda: len(asked) > 5, "answers")
            made = degroot("node", "backup", file, "--out", archive)
        finally:
            stop.set()
            asking.join()
        assert made.code == 0, made
        assert "without the private key" in made.out
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600
        assert degroot("node", "restore", file, archive, "--force").err.endswith("is in use.\n")
        assert consortium.kill("node0", SIGTERM) == 0
        scored, recorded = queried(consortium, "node1")["node0"], count_exchanges(state)
        shutil.rmtree(state)
        restored = degroot("node", "restore", file, archive)
        assert (restored.code, restored.out.count("\n")) == (0, 1), restored
        verified = degroot("node", "audit", file, "--verify")
        assert verified.code == 0, verified
        assert 0 < count_exchanges(state) <= recorded
        consortium.fork("node0").ready()
        with consortium.connect("node0", caller="node0") as node:
            np.testing.assert_array_equal(node.consult(X).value, asked[0])
        assert queried(consortium, "node1")["node0"] == scored
        assert consortium.kill("node0", SIGTERM) == 0
        assert "scored anew" not in consortium.log("node0")
    with opened(ledger(state)) as connection:
        ((told,),) = connection.execute("SELECT purpose FROM records WHERE kind = ?", (RESTORED,)).fetchall()
    assert told.startswith("made at 20")
    key = (tmp_path / "keys" / "node0.key").read_bytes()
    with ZipFile(archive) as content:
        assert not any(key in content.read(name) for name in content.namelist())


def ledger(state: Path) -> Path:
    return state / "ledger.sqlite"


def count_exchanges(state: Path) -> int:
    return sum(each.exchanges for each in summary(ledger(state)))


def make_node(folder: Path, name="north", more="") -> Path:
    """A node that has run: its configuration, with a ledger and other files in its state folder."""
    folder.mkdir(exist_ok=True)
    path = folder / "node.toml"
    path.write_text(NODE.format(name=name, more=more))
    state = folder / "state"
    (state / "residuals" / "ab").mkdir(parents=True)
    (state / "residuals" / "ab" / "south-1.npy").write_bytes(bytes(range(256)) * 9)
    (state / "page-tokens.json").write_text("a secret")
    save_record(state / version.FILE, {"version": version.VERSION, "degroot": "0"})
    with closing(Ledger(ledger(state), name)) as written:
        for rows in range(9):
            written.record("south", "query", "in", rows, 0, 0)
    return path


def contents(state: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(state)): path.read_bytes()
        for path in sorted(state.rglob("*"))
        if path.is_file() and path.name != "lock" and not path.name.startswith("ledger.sqlite-")
    }


@pytest.fixture
def north(tmp_path, degroot):
    """A node that has run, and its backup."""
    path = make_node(tmp_path / "north")
    archive = tmp_path / "north.zip"
    assert degroot("node", "backup", path, "--out", archive).code == 0
    return path, archive


def refuse(degroot, path, archive, *options) -> str:
    """What a restore is refused with, which leaves all as it was."""
    state = path.parent / "state"
    before = contents(state)
    refused = degroot("node", "restore", path, archive, *options)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1), refused
    assert contents(state) == before
    return refused.err


def rewrite(archive, change):
    """Another archive with what `change` makes of the entries; the manifest's checksum is right."""
    with ZipFile(archive) as content:
        entries = {name: content.read(name) for name in content.namelist()}
    manifest = json.loads(entries.pop(MANIFEST))
    del manifest["sha256"]
    change(manifest, entries)
    with ZipFile(archive, "w") as content:
        for name, written in entries.items():
            content.writestr(name, written)
        content.writestr(MANIFEST, encode_record(manifest))


def test_a_state_folder_that_is_lost_comes_back_whole_but_for_the_tokens(north, degroot):
    path, archive = north
    state = path.parent / "state"
    before, text = contents(state), path.read_text()
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    restored = degroot("node", "restore", path, archive)
    assert restored.code == 0, restored
    assert path.read_text() == text
    after = contents(state)
    assert after.pop("ledger.beside").count(b"\n") == 1
    changing = {"ledger.sqlite", "ledger.journal", "page-tokens.json"}
    assert {name: after[name] for name in after.keys() - changing} == {
        name: before[name] for name in before.keys() - changing
    }
    assert "page-tokens.json" not in after
    assert [line.rows for line in summary(ledger(state))] == [36]
    assert not [
        each
        for each in state.rglob("*")
        if each.is_file() and each.name != "lock" and stat.S_IMODE(each.stat().st_mode) & 0o077
    ]


def test_where_a_restore_is_refused_nothing_is_made(north, degroot):
    path, archive = north
    rewrite(archive, lambda manifest, entries: entries.update({f"{STATE}{version.FILE}": b"changed"}))
    for is_configured in (True, False):
        text = path.read_text()
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        if is_configured:
            path.write_text(text)
        else:
            (path.parent / "state").mkdir()
        refuse(degroot, path, archive)
        assert [each.name for each in path.parent.iterdir()] == [path.name if is_configured else "state"]
        make_node(path.parent)


def test_state_that_is_there_is_moved_aside_and_only_with_force(north, degroot):
    path, archive = north
    state = path.parent / "state"
    (state / "residuals" / "ab" / "south-1.npy").write_bytes(b"newer")
    assert "must be empty, or --force be given" in refuse(degroot, path, archive)
    restored = degroot("node", "restore", path, archive, "--force")
    assert restored.code == 0, restored
    (moved,) = state.glob("before-restore-*")
    assert f"the state before is in {moved}" in restored.out
    assert (moved / "residuals" / "ab" / "south-1.npy").read_bytes() == b"newer"
    assert (state / "residuals" / "ab" / "south-1.npy").stat().st_size == 256 * 9
    assert (state / "page-tokens.json").read_text() == "a secret"
    assert degroot("node", "backup", path, "--out", archive.with_name("second.zip")).code == 0
    with ZipFile(archive.with_name("second.zip")) as content:
        assert not [name for name in content.namelist() if "before-restore" in name or "tokens" in name]


def test_a_running_node_another_node_and_a_newer_version_are_refused(north, degroot, tmp_path):
    path, archive = north
    with lock_state(path.parent / "state"):
        assert "must belong to one running node" in refuse(degroot, path, archive, "--force")
    other = make_node(tmp_path / "south", "south")
    assert "of the node that is restored, 'south'" in refuse(degroot, other, archive, "--force")
    assert "is not overwritten" in degroot("node", "backup", other, "--out", archive).err
    nowhere = tmp_path / "nowhere"
    refused = degroot("node", "backup", other, "--out", nowhere / "north.zip").err
    assert f"An archive must go to a folder that is there; {nowhere} is not." in refused
    newer = encode_record({"version": version.VERSION + 1, "degroot": "9"})

    def age(manifest, entries):
        name = f"{STATE}{version.FILE}"
        entries[name] = newer
        manifest["files"][name] = {"bytes": len(newer), "sha256": sha256(newer).hexdigest()}

    rewrite(archive, age)
    assert f"version {version.VERSION} or older" in refuse(degroot, path, archive, "--force")


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "state/../../evil", "state\\..\\evil", "elsewhere/evil"])
def test_paths_that_escape_are_refused(north, degroot, name):
    path, archive = north

    def add(manifest, entries):
        entries[name] = b"evil"
        manifest["files"][name] = {"bytes": 4, "sha256": sha256(b"evil").hexdigest()}

    rewrite(archive, add)
    assert "Paths in an archive must stay in the state folder" in refuse(degroot, path, archive, "--force")
    assert not list(path.parent.parent.rglob("*evil*"))


def drop(manifest, entries):
    entries.pop(f"{STATE}{version.FILE}")


def swell(manifest, entries):
    entries[f"{STATE}{version.FILE}"] = bytes(1 << 24)


@pytest.mark.parametrize("change", [drop, swell, lambda manifest, _: manifest.pop("files")])
def test_an_archive_that_is_not_what_its_manifest_says_is_refused(north, degroot, change):
    path, archive = north
    rewrite(archive, change)
    assert "An archive must be as `degroot node backup` wrote it" in refuse(degroot, path, archive, "--force")


def test_an_archive_with_a_changed_byte_or_cut_is_refused_or_restored_whole(north, degroot):
    """Some bytes mean nothing, such as the time of an entry."""
    path, archive = north
    whole, state, refused = archive.read_bytes(), path.parent / "state", 0
    for place in np.linspace(0, len(whole) - 1, 30).astype(int):
        archive.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        before, done = contents(state), degroot("node", "restore", path, archive, "--force")
        if done.code == 0:
            assert [line.rows for line in summary(ledger(state))] == [36]
            shutil.rmtree(*state.glob("before-restore-*"))
            continue
        refused += 1
        assert (done.code, done.err.count("\n")) == (2, 1), done
        assert contents(state) == before
    assert refused > 20
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        archive.write_bytes(whole[:length])
        refuse(degroot, path, archive, "--force")
    assert "No such file" in refuse(degroot, path, archive.with_name("none.zip"), "--force")


def test_an_interrupted_restore_is_told_and_can_be_repeated(north, degroot):
    path, archive = north
    (path.parent / "state" / version.RESTORING).mkdir()
    other = archive.with_name("other.zip")
    assert "must be restored wholly" in degroot("node", "backup", path, "--out", other).err
    assert degroot("node", "restore", path, archive, "--force").code == 0
    assert degroot("node", "backup", path, "--out", other).code == 0


# -- what never goes back ----------------------------------------------------------------------------------------------


def spend(state, *lines):
    (state / "maps").mkdir(exist_ok=True)
    (state / "maps" / "spent.jsonl").write_text("".join(f"{line}\n" for line in lines))


def read_spent(state):
    return (state / "maps" / "spent.jsonl").read_text().split()


def test_what_maps_have_cost_does_not_go_back(tmp_path, degroot):
    path, archive = make_node(tmp_path / "north"), tmp_path / "north.zip"
    state = path.parent / "state"
    spend(state, "one")
    assert degroot("node", "backup", path, "--out", archive).code == 0
    spend(state, "one", "two", "three")
    for _ in range(2):
        restored = degroot("node", "restore", path, archive, "--force")
        assert (restored.code, "what maps have cost stays as it is" in restored.out) == (0, True), restored
        assert read_spent(state) == ["one", "two", "three"]
    shutil.rmtree(state / "maps")  # as after a restore that was interrupted: it is in the folder that was moved aside
    assert degroot("node", "restore", path, archive, "--force").code == 0
    assert read_spent(state) == ["one", "two", "three"]
    for moved in state.glob("before-restore-*"):
        shutil.rmtree(moved)
    spend(state, "another")
    assert "must be of one history" in refuse(degroot, path, archive, "--force")
    spend(state)
    assert "is as of the backup: what was published after" in degroot("node", "restore", path, archive, "--force").out
    assert read_spent(state) == ["one"]


@pytest.fixture
def rostered(tmp_path, degroot):
    """A node with certificates: its configuration, two rosters, and an archive with the key of the time of each."""
    keys = tmp_path / "keys"
    authority.init_ca(keys, "tests", 90)
    authority.issue(keys, "north", 90, ["127.0.0.1"])
    identity = '[identity]\nca = "../keys/ca.pem"\ncertificate = "../keys/north.pem"\nkey = "../keys/north.key"\n'
    path = make_node(tmp_path / "north", more=identity)
    rosters = [write_roster(keys).content for _ in range(2)]
    archives = [tmp_path / "first.zip", tmp_path / "second.zip"]
    for archive, content in zip(archives, rosters, strict=True):
        (path.parent / "state" / "roster.toml").write_bytes(content)
        assert degroot("node", "backup", path, "--out", archive, "--with-key").code == 0
    return path, rosters, archives


def test_the_number_of_the_roster_does_not_go_back(rostered, degroot):
    path, rosters, archives = rostered
    kept = path.parent / "state" / "roster.toml"
    assert "the roster stays at number 2" in degroot("node", "restore", path, archives[0], "--force").out
    assert kept.read_bytes() == rosters[1]
    for moved in path.parent.glob("state/before-restore-*"):
        shutil.rmtree(moved)
    kept.write_bytes(rosters[0])
    assert "the roster" not in degroot("node", "restore", path, archives[1], "--force").out
    assert kept.read_bytes() == rosters[1]
    kept.write_bytes(b"damaged")
    assert "cannot be read" in degroot("node", "restore", path, archives[1], "--force").out


def test_after_an_interrupted_restore_the_number_of_the_roster_does_not_go_back(rostered, degroot, monkeypatch):
    """Killed, twice, after what was there is moved aside, before anything of what was restored is in its place."""
    path, rosters, archives = rostered
    state, rename = path.parent / "state", Path.rename

    def interrupt(self, target):
        if self.parent.name == version.RESTORING:
            raise KeyboardInterrupt
        return rename(self, target)

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", interrupt)
            assert degroot("node", "restore", path, archives[0], "--force").code == 130
        assert (state / version.RESTORING).exists()
        assert not (state / "roster.toml").exists()
    done = degroot("node", "restore", path, archives[0], "--force")
    assert (done.code, "the roster stays at number 2" in done.out) == (0, True), done
    assert (state / "roster.toml").read_bytes() == rosters[1]


# -- certificate, key and CA -------------------------------------------------------------------------------------------


def test_certificate_key_and_ca_are_restored_all_three_or_none(rostered, degroot):
    path, _, archives = rostered
    identity = read(path).identity
    places = [identity.ca, identity.certificate, identity.key]
    contents = [place.read_bytes() for place in places]
    identity.key.unlink()
    told = f"certificate, key and CA are not restored, since {identity.ca} is there already"
    assert told in degroot("node", "restore", path, archives[1], "--force").out
    assert not identity.key.exists()
    for place in places:
        place.unlink(missing_ok=True)
    assert "certificate, key and CA are restored" in degroot("node", "restore", path, archives[1], "--force").out
    assert [place.read_bytes() for place in places] == contents
    assert {stat.S_IMODE(place.stat().st_mode) for place in places} == {0o600}


def test_where_the_key_cannot_be_written_neither_is_the_certificate_and_the_state_is_restored(
    rostered, degroot, monkeypatch
):
    path, _, archives = rostered
    identity, save = read(path).identity, restore.save_durably
    for place in (identity.ca, identity.certificate, identity.key):
        place.unlink()

    def fail(place, content, **options):
        if place == identity.key:
            raise OSError(28, "No space left on device", str(place))
        save(place, content, **options)

    monkeypatch.setattr(restore, "save_durably", fail)
    (path.parent / "state" / "residuals" / "ab" / "south-1.npy").write_bytes(b"newer")
    done = degroot("node", "restore", path, archives[1], "--force")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{identity.key}: No space left on device. The state is restored without them" in done.err
    assert not [place for place in (identity.ca, identity.certificate, identity.key) if place.exists()]
    assert (path.parent / "state" / "residuals" / "ab" / "south-1.npy").stat().st_size == 256 * 9


# -- root --------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders to other users")
def test_root_writes_nothing_into_the_state_folder_of_another_user(tmp_path, degroot):
    path, archive, other = make_node(tmp_path / "north", more="[page]\nport = 8441"), tmp_path / "a", tmp_path / "b"
    state, nobody = path.parent / "state", pwd.getpwnam("nobody")
    assert degroot("node", "backup", path, "--out", archive).code == 0
    commands = [
        ("page", path), ("token", "add", path, "ada"), ("token", "revoke", path, "ada"), ("import", path, archive),
        ("export", path, "--peer", "south"), ("backup", path, "--out", other), ("restore", path, archive, "--force"),
        ("check", path),
    ]  # fmt: skip

    def check_refused(command, folder, user):
        told = f"This must be run as the user of the node, who owns {folder}; it is run as root. Try: sudo -u {user} "
        refused = degroot("node", *command)
        assert (refused.code, refused.out, refused.err) == (2, "", f"degroot: {told}degroot ...\n")

    for number, user in ((nobody.pw_uid, "nobody"), (54321, "'#54321'")):
        os.chown(state, number, -1)
        before = contents(state)
        for command in commands:
            check_refused(command, state, user)
        assert contents(state) == before
    os.chown(path.parent, nobody.pw_uid, -1)
    shutil.rmtree(state)
    check_refused(("restore", path, archive), path.parent, "nobody")
    assert not state.exists()
    os.chown(path.parent, 0, -1)
    assert degroot("node", "restore", path, archive).code == 0


def test_an_archive_is_a_file_and_not_in_the_folder_that_it_is_of(tmp_path, degroot):
    path = make_node(tmp_path / "north")
    into = degroot("node", "backup", path, "--out", path.parent / "state" / "in.zip")
    assert (into.code, "must go elsewhere than into the state folder" in into.err) == (2, True)
    (path.parent / "state" / "folder").mkdir()
    assert degroot("node", "backup", path, "--out", path.parent / "state" / "folder" / "in.zip").code == 2
    endless = degroot("node", "restore", path, "/dev/zero")
    assert (endless.code, endless.err.count("\n")) == (2, 1)
    assert "/dev/zero is none" in endless.err


def test_who_is_not_root_may_write_into_a_folder_that_belongs_to_root(tmp_path, degroot, monkeypatch):
    """As in Kubernetes, where the group of a volume is the node's."""
    path = make_node(tmp_path / "north", more="[page]\nport = 8441")
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(path.parent).st_uid + 1)
    assert degroot("node", "backup", path, "--out", tmp_path / "a").code == 0
