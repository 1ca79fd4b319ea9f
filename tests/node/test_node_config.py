"""A node's configuration: what is said is what is read, and every mistake is one line that names its place."""

import os
import re
from pathlib import Path

import pytest

from degroot import InvalidInput
from degroot.node.config import GRANTS, Client, Limits, MetricsAddress, ModelSource, NodeSettings, Peer, Timing, read
from degroot.node.config.entries import Disclosure
from degroot.node.config.template import template

LEAST = """
name = "north"
listen = "127.0.0.1:7443"
state = "state"
{top}
[model]
file = "model.onnx"
{model}
[data]
file = "rows.csv"
target = "y"
{data}
{rest}
"""

PEERS = """
[[peers]]
name = "south"
address = "127.0.0.1:7444"
[[peers]]
name = "west"
address = "[::1]:7445"
may = ["query"]
"""

EAST = """
[[peers]]
name = "east"
address = "127.0.0.1:7446"
may = ["copy", "ask"]
fields = ["weights", "value"]
use = ["copy"]
rows_per_day = 70
"""
POOLED = 'evidence = "pooled"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "north.toml"
    path.write_text(text)
    return path


def least(folder: Path, **parts: str) -> Path:
    return written(folder, LEAST.format_map({"top": "", "model": "", "data": "", "rest": ""} | parts))


def complaint(path: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message.removeprefix(f"{path}: ")


def test_what_is_not_said_has_the_documented_defaults(tmp_path):
    node = read(least(tmp_path))
    assert (node.name, node.listen, node.state) == ("north", "127.0.0.1:7443", tmp_path / "state")
    assert (node.evidence, node.pooled, node.quorum, node.disclosure) == ("own", False, None, Disclosure(10))
    assert node.identity is None
    assert node.model == ModelSource(file=tmp_path / "model.onnx")
    assert (node.data.file, node.data.target) == (tmp_path / "rows.csv", ("y",))
    assert node.collective == NodeSettings("degroot", None, "euclidean", None, None, True)
    assert node.limits == Limits(2000, 1_000_000, 20_000, 32, 67_108_864, 60, 67_108_864, 1_073_741_824, 10)
    assert node.timing == Timing(5.0, 1.0, 10.0, 1000, 10.0, 10.0)
    assert node.metrics is None


@pytest.mark.parametrize(("evidence", "rights"), [("own", {"query"}), ("pooled", {"query", "opinion"})])
def test_peers_and_clients_may_little_by_default_and_the_node_itself_everything(tmp_path, evidence, rights):
    """To answer from one's own rows, and to give one's model away, is nobody's right who was not granted it."""
    south, see = '[[peers]]\nname = "south"\naddress = "127.0.0.1:7444"\n', frozenset({"value", "interval"})
    node = read(least(tmp_path, top=f'evidence = "{evidence}"', rest=south + '[[clients]]\nname = "dashboard"\n'))
    use = frozenset({"copy", "query"})
    assert node.peers == (Peer("south", "127.0.0.1:7444", frozenset(rights), see, use, 1_000_000),)
    assert node.clients == (Client("dashboard", frozenset({"ask"}), see, 100_000),)
    everything = frozenset({"query", "copy", "opinion", "ask"})
    assert node.rights == {"south": rights, "dashboard": {"ask"}, "north": everything}
    assert node.fields == {"south": set(), "dashboard": see, "north": set(GRANTS)}  # who may not ask sees nothing
    assert node.budgets == {"south": 1_000_000, "dashboard": 100_000}  # and the node itself has none


def test_everything_that_is_said_is_read(tmp_path):
    node = read(
        written(
            tmp_path,
            """
            name = "north"
            listen = "localhost:7443"
            state = "/var/state"
            quorum = 2
            evidence = "pooled"
            [disclosure]
            least_rows = 25
            [identity]
            ca = "keys/ca.pem"
            certificate = "keys/north.pem"
            key = "keys/north.key"
            [model]
            address = "grpc://models:8081"
            name = "iris"
            version = "3"
            ca = "server.pem"
            [data]
            file = "rows.parquet"
            target = ["a", "b"]
            own_predictions = ["oof a", "oof b"]
            space = "standardise"
            [collective]
            rule = "stacking"
            neighbours = 50
            metric = "cosine"
            kernel = "gaussian"
            ridge = 0
            guard = false
            [[clients]]
            name = "dashboard"
            may = ["query", "ask"]
            fields = ["value", "trust"]
            rows_per_day = 5
            [limits]
            rows_per_second = 900.5
            concurrent_calls = 3
            copy_bytes = 4
            copy_memory_bytes = 5
            copy_seconds = 0.5
            [timing]
            chunk_rows = 7
            [metrics]
            port = 9443
            """
            + PEERS
            + EAST,
        )
    )
    assert node.state == Path("/var/state")
    assert (node.quorum, node.needed, node.evidence, node.pooled) == (2, 2, "pooled", True)
    assert node.disclosure == Disclosure(25)
    assert node.identity is not None
    assert node.identity.key == tmp_path / "keys" / "north.key"
    assert node.model == ModelSource(None, "models:8081", "iris", "3", tmp_path / "server.pem")
    assert (node.data.target, node.data.own_predictions) == (("a", "b"), ("oof a", "oof b"))
    assert node.data.space == "standardise"
    assert node.collective == NodeSettings("stacking", 50, "cosine", "gaussian", 0.0, guard=False)
    assert node.peers == (
        Peer("south", "127.0.0.1:7444", frozenset({"query", "opinion"})),
        Peer("west", "[::1]:7445", frozenset({"query"})),
        Peer(
            "east", "127.0.0.1:7446", frozenset({"ask", "copy"}), frozenset({"value", "weights"}), frozenset({"copy"}),
            70,
        ),
    )  # fmt: skip
    assert node.clients == (Client("dashboard", frozenset({"query", "ask"}), frozenset({"value", "trust"}), 5),)
    assert (node.limits.rows_per_second, node.limits.concurrent_calls, node.timing.chunk_rows) == (900.5, 3, 7)
    assert (node.limits.copy_bytes, node.limits.copy_memory_bytes, node.limits.copy_seconds) == (4, 5, 0.5)
    assert node.metrics == MetricsAddress(9443, "127.0.0.1")


def test_rows_at_once_that_nobody_has_said_are_no_more_than_the_limits_let_through(tmp_path):
    node = read(least(tmp_path, rest="[limits]\nrows_per_second = 400.5"))
    assert (node.limits.rows_per_request, node.timing.chunk_rows) == (400, 400)
    node = read(least(tmp_path, rest="[limits]\nrows_per_second = 0.1"))
    assert (node.limits.rows_per_request, node.timing.chunk_rows) == (1, 1)
    node = read(least(tmp_path, rest="[limits]\nrows_per_request = 300\n[timing]\nchunk_rows = 300"))
    assert (node.limits.rows_per_request, node.timing.chunk_rows) == (300, 300)


@pytest.mark.parametrize(("peers", "needed"), [(0, 1), (1, 2), (2, 2), (3, 3), (4, 3), (5, 4)])
def test_more_than_half_of_all_are_needed_by_default(tmp_path, peers, needed):
    roster = "".join(f'[[peers]]\nname = "p{k}"\naddress = "h:{k + 1}"\n' for k in range(peers))
    assert read(least(tmp_path, rest=roster)).needed == needed
    assert 2 * needed > 1 + peers


def test_a_single_own_column_and_peers_are_told_apart(tmp_path):
    assert read(least(tmp_path, data='own_predictions = "oof"')).data.own_predictions == ("oof",)
    assert read(least(tmp_path, top=POOLED, data='own_predictions = "peers"')).data.own_predictions == "peers"


def test_the_template_is_a_configuration_and_says_the_defaults(tmp_path):
    node, bare = read(written(tmp_path, template("north"))), read(least(tmp_path))
    assert node.name == "north"
    assert node.identity is not None
    assert node.identity.certificate == tmp_path / "north.pem"
    assert (node.limits, node.timing, node.collective) == (bare.limits, bare.timing, bare.collective)


def test_the_template_is_still_a_configuration_with_every_remark_that_holds_a_setting_switched_on(tmp_path):
    lines = re.sub(r"^# (?=\[|[a-z_]+ = )", "", template("north"), flags=re.MULTILINE).splitlines()
    whole = "\n".join(line for line in lines if "model.onnx" not in line)
    start = whole.index("[maps]")
    maps, end = whole[start:].partition("\n\n")[0], start + whole[start:].index("\n\n")
    text = whole[:start] + whole[end:]  # [maps] is of another mode than [disclosure]
    for said, other in (
        ('own_predictions = "oof"', 'own_predictions = ["p", "q"]'),
        ('evidence = "own"', 'evidence = "pooled"'),  # without which there is no quorum, and no [disclosure]
        ('may = ["query"]', 'may = ["query", "ask"]'),  # without which there are no fields
    ):
        assert text.count(said) == 1
        text = text.replace(said, other)
    node = read(written(tmp_path, text))
    assert (node.quorum, len(node.peers), len(node.clients), node.metrics) == (2, 1, 1, MetricsAddress(9443))
    assert node.disclosure == Disclosure()
    assert node.peers[0] == Peer("peer", "peer.example.org:7443", frozenset({"query", "ask"}))
    assert node.clients[0] == Client("dashboard")
    assert node.model.address == "127.0.0.1:8081"
    peer = '[[peers]]\nname = "other"\naddress = "other.example.org:7443"\n'
    mapped = re.sub(r"\[disclosure\].*\n.*\n", "", text).replace('evidence = "pooled"', 'evidence = "maps"')
    node = read(written(tmp_path, f"{mapped}\n{maps}\n{peer}"))
    assert (node.maps.epsilon, node.maps.lifetime_epsilon, node.maps.rows) == (2.0, 8.0, 5000)


def test_a_missing_file_and_one_that_is_no_toml(tmp_path):
    assert "No such file" in complaint(tmp_path / "absent.toml")
    assert "directory" in complaint(tmp_path)
    os.mkfifo(tmp_path / "pipe.toml")  # which would be waited for
    assert "no regular file" in complaint(tmp_path / "pipe.toml")
    assert "line 1" in complaint(written(tmp_path, "name = north"))
    path = tmp_path / "north.toml"
    path.write_bytes(b"name = '\xff'")
    assert "must be a TOML file" in complaint(path)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"top": "quorom = 3"}, ["`quorom`", "did you mean 'quorum'?"]),
        ({"rest": "[limits]\nrows_per_secund = 3"}, ["`limits.rows_per_secund`", "'rows_per_second'"]),
        ({"rest": "[zebra]"}, ["`zebra`", "known are name, listen"]),
        ({"rest": PEERS + 'addres = "x"'}, ["`peers[2].addres`", "'address'"]),
        ({"top": POOLED + "quorum = 4", "rest": PEERS}, ["`quorum`", "from 1 to 3", "got 4"]),
        ({"top": POOLED + "quorum = true"}, ["`quorum`", "whole number", "got True"]),
        ({"top": 'evidence = "shared"'}, ["`evidence`", "'own', 'maps', 'pooled'", "got 'shared'"]),
        ({"top": "evidence = true"}, ["`evidence`", "'own', 'maps', 'pooled'", "got True"]),
        ({"top": POOLED, "rest": "[disclosure]\nleast_rows = 0"}, ["`disclosure.least_rows`", "at least 1", "got 0"]),
        ({"top": POOLED, "rest": "[disclosure]\nleast_row = 5"}, ["`disclosure.least_row`", "'least_rows'"]),
        ({"top": POOLED + "disclosure = 10"}, ["`disclosure`", "be a table, [disclosure]", "got 10"]),
        ({"model": 'address = "grpc://h:1"'}, ["`model.file`", "`model.address`", "got both"]),
        ({"model": 'name = "iris"'}, ["`model.name`", "beside `model.address`"]),
        ({"data": 'space = "log"'}, ["`data.space`", "'standardise'", "got 'log'"]),
        ({"data": 'own_predictions = "y"'}, ["`data.own_predictions`", "other columns", "got 'y'"]),
        ({"data": 'own_predictions = ["p", "q"]'}, ["`data.own_predictions`", "one column"]),
        ({"data": 'classes = ["a"]'}, ["`data.classes`", "two distinct labels"]),
        ({"data": 'classes = ["a", 1]'}, ["`data.classes`", "all strings or all whole numbers"]),
        ({"data": 'classes = ["a", "b"]\nown_predictions = "oof"'}, ["`data.own_predictions`", "2 columns"]),
        ({"rest": '[collective]\nrule = "auto"'}, ["`collective.rule`", "not over the network"]),
        ({"rest": '[collective]\nrule = "best"'}, ["`collective.rule`", "'degroot'", "got 'best'"]),
        ({"rest": "[collective]\nneighbours = 1.5"}, ["`collective.neighbours`", "(0, 1]", "got 1.5"]),
        ({"rest": '[collective]\nneighbours = "x"'}, ["`collective.neighbours`", "got 'x'"]),
        ({"rest": '[collective]\nmetric = "x"'}, ["`collective.metric`", "'manhattan'"]),
        ({"rest": "[collective]\nridge = -1"}, ["`collective.ridge`", "not negative", "got -1"]),
        ({"rest": "[collective]\nridge = false"}, ["`collective.ridge`", "got False"]),
        ({"rest": "[collective]\nridge = nan"}, ["`collective.ridge`", "got nan"]),
        ({"rest": "[collective]\nguard = 1"}, ["`collective.guard`", "true or false", "got 1"]),
        ({"rest": "[limits]\nrequests_per_second = 0"}, ["`limits.requests_per_second`", "above 0", "got 0"]),
        ({"rest": "[limits]\nidle_seconds = inf"}, ["`limits.idle_seconds`", "finite", "got inf"]),
        ({"rest": "[limits]\nrows_per_request = 1.5"}, ["`limits.rows_per_request`", "whole number", "got 1.5"]),
        (
            {"rest": "[limits]\nrows_per_request = 500\nrows_per_second = 499.5"},
            ["`limits.rows_per_request`", "at most `limits.rows_per_second`, 499", "got 500"],
        ),
        (
            {"rest": "[limits]\nrows_per_request = 500\n[timing]\nchunk_rows = 501"},
            ["`timing.chunk_rows`", "at most `limits.rows_per_request`, 500", "got 501"],
        ),
        (
            {"rest": "[limits]\nrows_per_second = 60\n[timing]\nchunk_rows = 61"},
            ["`timing.chunk_rows`", "at most `limits.rows_per_request`, 60", "got 61"],
        ),
        ({"rest": "[limits]\nmessage_bytes = 3000000000"}, ["`limits.message_bytes`", "1000000"]),
        ({"rest": '[timing]\nprobe_seconds = "1"'}, ["`timing.probe_seconds`", "got '1'"]),
        ({"rest": "[metrics]\nport = 70000"}, ["`metrics.port`", "from 1 to 65535", "got 70000"]),
        ({"rest": "[metrics]\nport = 0"}, ["`metrics.port`", "from 1 to 65535", "got 0"]),
        ({"rest": "[limits]\nconcurrent_calls = 9999999999"}, ["`limits.concurrent_calls`", "at most 100000"]),
        ({"rest": "[timing]\ndeadline_seconds = 1e300"}, ["`timing.deadline_seconds`", "at most 86400", "got 1e+300"]),
        ({"rest": "[ledger]\nrecords = 99999999999999999999"}, ["`ledger.records`", "at most 1000000000000"]),
        ({"rest": "[page]\nport = 8443\nanswer_days = 1e300"}, ["`page.answer_days`", "at most 36500"]),
        ({"rest": "[metrics]"}, ["`metrics.port`", "it is missing"]),
        ({"rest": '[metrics]\nport = 1\nhost = "a b"'}, ["`metrics.host`", "a name, of this machine", "got 'a b'"]),
        ({"rest": "[metrics]\nport = 1\nhost = 7"}, ["`metrics.host`", "got 7"]),
        ({"rest": "metrics = 3"}, ["`data.metrics`"]),
        ({"top": "limits = 3"}, ["`limits`", "be a table, [limits]", "got 3"]),
        ({"top": "peers = 3"}, ["`peers`", "[[peers]]", "got 3"]),
        ({"rest": '[[peers]]\nname = "south"'}, ["`peers[1].address`", "it is missing"]),
        ({"rest": '[[peers]]\nname = "South"\naddress = "h:1"'}, ["`peers[1].name`", "small letters", "got 'South'"]),
        ({"rest": '[[peers]]\nname = "south"\naddress = "h"'}, ["`peers[1].address`", '"host:port"', "got 'h'"]),
        ({"rest": '[[peers]]\nname = "south"\naddress = "h:0"'}, ["`peers[1].address`", "from 1 to 65535"]),
        ({"rest": '[[peers]]\nname = "north"\naddress = "h:1"'}, ["must differ", "'north' twice"]),
        ({"rest": PEERS + '[[clients]]\nname = "south"'}, ["must differ", "'south' twice"]),
        ({"rest": PEERS.replace("[::1]:7445", "127.0.0.1:7444")}, ["must differ", "'127.0.0.1:7444' twice"]),
        (
            {"rest": PEERS.replace('["query"]', '["see"]')},
            ["`peers[2].may`", "'query', 'copy', 'opinion', 'ask'", "['see']"],
        ),
        ({"rest": PEERS.replace('["query"]', "3")}, ["`peers[2].may`", "got 3"]),
        ({"rest": EAST.replace('"weights"', '"errors"')}, ["`peers[1].fields`", "'standard_error'", "'errors'"]),
        ({"rest": EAST.replace('"weights"', '"influence"')}, ["`peers[1].fields`", "'beliefs'", "'influence'"]),
        ({"rest": EAST.replace('["copy", "ask"]', '["copy"]')}, ["`peers[1].fields`", "the right 'ask' in `may`"]),
        ({"rest": EAST.replace('use = ["copy"]', "use = []")}, ["`peers[1].use`", "one of 'copy', 'query'", "got []"]),
        ({"rest": EAST.replace('use = ["copy"]', 'use = ["ask"]')}, ["`peers[1].use`", "'copy', 'query'", "['ask']"]),
        ({"rest": EAST.replace("70", "0")}, ["`peers[1].rows_per_day`", "at least 1", "got 0"]),
        ({"rest": EAST.replace("70", "0.5")}, ["`peers[1].rows_per_day`", "whole number", "got 0.5"]),
        ({"rest": '[[clients]]\nname = "c"\nmay = ["copy"]'}, ["`clients[1].may`", "'query', 'ask'", "['copy']"]),
        ({"rest": '[[clients]]\nname = "c"\nuse = ["copy"]'}, ["`clients[1].use`", "every key must be a known one"]),
        (
            {"rest": '[[clients]]\nname = "c"\nmay = ["query"]\nfields = ["value"]'},
            ["`clients[1].fields`", "the right 'ask' in `may`"],
        ),
        ({"rest": '[[clients]]\nname = "c"\nrows_per_day = -1'}, ["`clients[1].rows_per_day`", "got -1"]),
        ({"rest": "[limits]\ncopy_bytes = 0"}, ["`limits.copy_bytes`", "whole number of at least 1", "got 0"]),
        ({"rest": "[limits]\ncopy_bytes = 1e6"}, ["`limits.copy_bytes`", "whole number", "got 1000000.0"]),
        ({"rest": "[limits]\ncopy_memory_bytes = true"}, ["`limits.copy_memory_bytes`", "got True"]),
        ({"rest": "[limits]\ncopy_seconds = 0"}, ["`limits.copy_seconds`", "above 0", "got 0"]),
        ({"data": 'own_predictions = "peers"'}, ["`data.own_predictions`", "evidence is 'own'", "got 'peers'"]),
        ({"rest": '[[clients]]\nname = "c"\nmay = ["opinion"]'}, ["`clients[1].may`", "'query', 'ask'"]),
        ({"rest": '[identity]\nca = "ca.pem"'}, ["`identity.certificate`", "it is missing"]),
    ],
)  # fmt: skip
def test_every_mistake_names_its_place_the_requirement_and_what_came(tmp_path, parts, words):
    message = complaint(least(tmp_path, **parts))
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"top": 'queries = "calibrate"'}, ["`queries` is no setting any more", "remove the line", 'use = ["copy"]']),
        ({"top": 'queries = "on-demand"'}, ["`queries` is no setting any more", "remove the line"]),
        ({"top": POOLED + 'queries = "on-demand"'}, ["`queries` is no setting any more"]),
        (
            {"rest": PEERS.replace('["query"]', '["query", "opinion", "ask"]')},  # as the files of before have it
            ["`peers[2].may`", "'opinion'", "Remove it, or set evidence = 'pooled'", "recover labels"],
        ),
        ({"top": "quorum = 2", "rest": PEERS}, ["`quorum`", "evidence = 'pooled'", "here it is 'own'. Remove it"]),
        (
            {"top": 'evidence = "own"', "rest": "[disclosure]\nleast_rows = 10"},
            ["`disclosure`", "evidence = 'pooled'", "here it is 'own'. Remove it"],
        ),
    ],
)
def test_a_file_of_before_is_told_what_to_change(tmp_path, parts, words):
    test_every_mistake_names_its_place_the_requirement_and_what_came(tmp_path, parts, words)


def test_with_pooled_evidence_what_it_takes_is_read(tmp_path):
    south = PEERS.replace('["query"]', '["query", "opinion", "ask"]')
    node = read(least(tmp_path, top=POOLED + "quorum = 3", rest=south + "[disclosure]\nleast_rows = 1"))
    assert (node.needed, node.disclosure.least_rows) == (3, 1)
    assert node.peers[1].may == {"query", "opinion", "ask"}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", ["`model.file`, `model.uri` or `model.address`", "all are missing"]),
        ('address = "http://h:1"\nname = "m"', ["`model.address`", '"grpc://host:port"']),
        ('address = "grpc://h"\nname = "m"', ["`model.address`", '"host:port"']),
        ('address = "grpc://h:1"', ["`model.name`", "it is missing"]),
        ('address = "grpc://h:1"\nname = "m"\nkey = "k"', ["`model.key`", "`model.certificate`"]),
        ('address = "grpc://h:1"\nname = "m"\nkey = "k"\ncertificate = "c"', ["`model.certificate`", "`model.ca`"]),
    ],
)
def test_a_served_model_needs_an_address_and_a_name(tmp_path, model, words):
    message = complaint(written(tmp_path, LEAST.format(top="", model=model, data="", rest="").replace(
        'file = "model.onnx"', "")))  # fmt: skip
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", ["", "North", "a b", "../x", "-a", "1a", "a" * 64, "a..b", "*", "a/b", "ä"])
def test_names_that_cannot_stand_in_a_certificate_or_name_a_file_are_refused(name):
    with pytest.raises(InvalidInput, match="small letters"):
        template(name)


@pytest.mark.parametrize("missing", ["name", "listen", "state", "target"])
def test_what_must_be_said_and_is_not_is_named(tmp_path, missing):
    lines = [line for line in LEAST.splitlines() if not line.startswith(missing)]
    text = "\n".join(lines).format(top="", model="", data="", rest="")
    assert "it is missing" in complaint(written(tmp_path, text))
