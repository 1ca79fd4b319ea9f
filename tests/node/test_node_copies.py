"""Models that visit: signed bundles, copies that are asked at home, hostile files, and ways between nodes."""

import asyncio
import hashlib
import shutil
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import skops.io
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from grpc import StatusCode
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor
from support.authority import load, renew
from support.consortium import CLIENT, Consortium
from support.drills import missing, points, until
from support.refusals import complaint

from degroot import load_model
from degroot.cli import main
from degroot.exceptions import InvalidInput
from degroot.node.config import IdentityFiles
from degroot.node.config.check import inspect
from degroot.node.copies import copy
from degroot.node.copies.bundle import make_bundle, open_bundle
from degroot.node.copies.exchange import CopyExchange
from degroot.node.copies.store import HeldCopies, check_bundle, check_held
from degroot.node.peers.link import cut_bundle
from degroot.node.protocol.codec import PROTOCOL
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records.ledger import OUT, summary
from degroot.node.tls import authority
from degroot.node.tls.roster import write_roster
from degroot.node.tls.signing import sign

COPYING = ["query", "copy"]
EXACT = {"rtol": 1e-9, "atol": 1e-9}


# ---- bundles --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    authority.init_ca(folder, "tests", 30)
    for name in ("north", "south"):
        authority.issue(folder, name, 30)
    return folder


def identity(folder, name):
    return IdentityFiles(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


def signer(folder, name):
    return partial(sign, identity(folder, name))


def described(name="north", **about):
    return wire.Description(protocol=PROTOCOL, name=name, n_features=3, **about)


def bundled(keys, content=b"a model", owner="north", recipient="south", suffix=".onnx", labels=None):
    return make_bundle(described(owner), recipient, suffix, content, labels, signer(keys, owner))


def test_the_first_chunk_of_a_bundle_says_which_protocol_it_is_and_where_it_comes_from():
    content, origin = bytes(range(256)) * 8000, wire.Origin(question="0123456789abcdef", asker="north")
    for told in (None, origin):
        first, *others = cut_bundle(content, told)
        assert (first.protocol, first.origin) == (PROTOCOL, told or wire.Origin())
        assert others
        assert not any(each.protocol or each.HasField("origin") for each in others)
        assert b"".join(each.content for each in (first, *others)) == content


def test_a_bundle_holds_what_was_signed(keys):
    opened = open_bundle(bundled(keys, labels=("no", "yes")), keys / "ca.pem", "south")
    assert (opened.owner, opened.content, opened.labels) == ("north", b"a model", ("no", "yes"))
    assert opened.version == hashlib.sha256(b"a model").hexdigest()[:16]


@pytest.fixture(scope="module")
def encoded(keys):
    return bundled(keys)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whoever_changes_a_byte_of_a_bundle_is_found_out(keys, encoded, data):
    place = data.draw(st.integers(0, len(encoded) - 1))
    bit = data.draw(st.integers(0, 7))
    changed = bytearray(encoded)
    changed[place] ^= 1 << bit
    try:
        opened = open_bundle(bytes(changed), keys / "ca.pem", "south")
    except InvalidInput:
        return
    whole = open_bundle(encoded, keys / "ca.pem", "south")  # what was changed says nothing: white space around PEM
    assert (opened.manifest, opened.content) == (whole.manifest, whole.content)


def test_nothing_is_added_to_a_bundle(keys):
    with pytest.raises(InvalidInput, match=r"^A bundle must hold nothing but what its owner has put into it; it holds"):
        open_bundle(bundled(keys) + b"xx", keys / "ca.pem", "south")


def test_a_bundle_is_for_one_recipient_and_by_its_owner(keys, tmp_path):
    encoded = bundled(keys)
    with pytest.raises(InvalidInput, match=r"A bundle must be signed for 'west'; it is for 'south'"):
        open_bundle(encoded, keys / "ca.pem", "west")
    authority.init_ca(tmp_path, "others", 30)
    with pytest.raises(InvalidInput, match=r"certificate of 'north' must be signed by the consortium's CA"):
        open_bundle(encoded, tmp_path / "ca.pem", "south")
    forged = make_bundle(described("north"), "south", ".onnx", b"x", None, signer(keys, "south"))
    with pytest.raises(InvalidInput, match=r"A signature must be by the certificate of 'north'; it is by another's"):
        open_bundle(forged, keys / "ca.pem", "south")
    with pytest.raises(InvalidInput, match=r"A copied model must be one of"):
        open_bundle(bundled(keys, suffix=".pkl"), keys / "ca.pem", "south")
    with pytest.raises(InvalidInput, match=r"this is none"):
        open_bundle(b"\xff\xff", keys / "ca.pem", "south")


def certificate_of(name, key, issuer, issuer_key, days=30):
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key(),
        x509.random_serial_number(), now - timedelta(days=60), now + timedelta(days=days),
    )  # fmt: skip
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def written(folder, name, key, certificate):
    plain = serialization.NoEncryption()
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    (folder / f"{name}.pem").write_bytes(certificate)
    return folder


def loaded(keys, name):
    key = serialization.load_pem_private_key((keys / f"{name}.key").read_bytes(), None)
    return x509.load_pem_x509_certificate((keys / f"{name}.pem").read_bytes()), key


def test_a_member_cannot_certify_another(keys, tmp_path):
    member, member_key = loaded(keys, "south")
    key = ec.generate_private_key(ec.SECP256R1())
    chain = certificate_of("north", key, member.subject, member_key) + (keys / "south.pem").read_bytes()
    written(tmp_path, "north", key, chain)
    (tmp_path / "ca.pem").write_bytes((keys / "ca.pem").read_bytes())
    with pytest.raises(InvalidInput, match=r"certificate of 'north' must be signed by the consortium's CA"):
        open_bundle(bundled(tmp_path), keys / "ca.pem", "south")


@pytest.mark.parametrize(
    "make",
    [lambda: rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate],
    ids=["RSA", "Ed25519"],
)
def test_keys_of_other_kinds_sign_too(keys, tmp_path, make):
    ca, ca_key = loaded(keys, "ca")
    key = make()
    written(tmp_path, "north", key, certificate_of("north", key, ca.subject, ca_key))
    (tmp_path / "ca.pem").write_bytes((keys / "ca.pem").read_bytes())
    assert open_bundle(bundled(tmp_path), keys / "ca.pem", "south").content == b"a model"


def test_an_expired_certificate_signs_nothing_new_but_what_is_held_stays(keys, tmp_path):
    ca, ca_key = loaded(keys, "ca")
    key = ec.generate_private_key(ec.SECP256R1())
    written(tmp_path, "north", key, certificate_of("north", key, ca.subject, ca_key, days=-1))
    (tmp_path / "ca.pem").write_bytes((keys / "ca.pem").read_bytes())
    with pytest.raises(InvalidInput, match=r"certificate of 'north' must be valid now; north.pem expired on"):
        open_bundle(bundled(tmp_path), keys / "ca.pem", "south")
    assert open_bundle(bundled(tmp_path), keys / "ca.pem", "south", allow_expired=True).content == b"a model"


# ---- nodes ----------------------------------------------------------------------------------------------------------


def as_onnx(consortium, *names):
    """Make these nodes' linear models ONNX files, in float64: their processes start sooner. By default all nodes'."""
    for name in names or consortium.names:
        agent, home = consortium.agents[consortium.names.index(name)], consortium.folder / name
        (home / "model.onnx").write_bytes(linear_onnx(agent.model.coef_, agent.model.intercept_))
        text = (home / "node.toml").read_text()
        (home / "node.toml").write_text(text.replace("model.skops", "model.onnx"))
        agent.model = load_model(home / "model.onnx")  # rounding is that of the file


def model_of(nodes, inputs, initializers=(), outputs=1):
    made = helper.make_graph(
        nodes, "model", inputs, [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [None, outputs])], initializers
    )
    whole = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return whole.SerializeToString()


X_INPUT = helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, 3])


def linear_onnx(slopes, level):
    weights = helper.make_tensor("w", TensorProto.DOUBLE, [3, 1], np.asarray(slopes).ravel().tolist())
    bias = helper.make_tensor("b", TensorProto.DOUBLE, [1], [float(level)])
    nodes = [helper.make_node("MatMul", ["X", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    return model_of(nodes, [X_INPUT], [weights, bias])


def endless_onnx():
    """A loop that ends after 2 ** 62 rounds."""
    kind = TensorProto.DOUBLE
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["sum", "sum"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", kind, [None, 1]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", kind, [None, 1]),
        ],
    )
    rounds = helper.make_tensor("rounds", TensorProto.INT64, [], [2**62])
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    nodes = [
        helper.make_node("ReduceSum", ["X", "axes"], ["start"], keepdims=1),
        helper.make_node("Loop", ["rounds", "yes", "start"], ["y"], body=body),
    ]
    return model_of(nodes, [X_INPUT], [rounds, yes, axes])


def greedy_onnx():
    """A model that wants a table of 2 ** 40 numbers."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [2**20, 2**20])
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["table"], value=helper.make_tensor("v", 11, [1], [1.0])),
        helper.make_node("ReduceSum", ["table", "axes"], ["sums"], keepdims=1),
        helper.make_node("ReduceSum", ["X", "axes"], ["rows"], keepdims=1),
        helper.make_node("ReduceMax", ["sums"], ["most"], keepdims=0),
        helper.make_node("Add", ["rows", "most"], ["y"]),
    ]
    return model_of(nodes, [X_INPUT], [shape, axes])


def with_external_data():
    weights = helper.make_tensor("w", TensorProto.DOUBLE, [3, 1], [1.0, 2.0, 3.0])
    weights.ClearField("double_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../keys/ca.key")
    return model_of([helper.make_node("MatMul", ["X", "w"], ["y"])], [X_INPUT], [weights])


def sent(consortium, name):
    """Rows and kinds that a node has sent to each peer."""
    told = summary(consortium.configuration(name).ledger)
    return {(line.peer, line.kind): line.rows for line in told if line.direction == OUT and line.kind != "describe"}


def check_view(consortium, name, X, without=()):
    """A node's answer is what the same agents give in this process."""
    with consortium.connect(name, caller=name) as node:
        answer = node.consult(X, coverage=0.8)
    same = consortium.collective(without=without).consult(X, asker=name, coverage=0.8)
    assert set(missing(answer)) == set(without), answer.flags
    present = [answer.names.index(each) for each in same.names]
    for field in ("value", "lower", "upper", "standard_error"):
        np.testing.assert_allclose(getattr(answer, field), getattr(same, field), **EXACT)
    np.testing.assert_allclose(answer.weights[:, present], same.weights, **EXACT)
    np.testing.assert_allclose(answer.beliefs[:, present], same.beliefs, **EXACT)
    return answer


@pytest.mark.slow
def test_five_nodes_three_models_copied_and_two_queried_answer_as_one_process(tmp_path):
    X, copied = points(), ["node0", "node1", "node2"]
    with Consortium(tmp_path, 5, evidence="own") as consortium:
        for name in copied:
            consortium.write(name, may=COPYING)
        consortium.write("node2", may={"node0": COPYING})  # a process of its own takes seconds to start: one will do
        as_onnx(consortium, "node0", "node1", "node3", "node4")  # node2's copy runs in a process of its own
        consortium.fork().ready()
        for name in consortium.names:
            check_view(consortium, name, X)
        for name in consortium.names:
            gone = sent(consortium, name)
            rows = len(consortium.agents[consortium.names.index(name)].X)
            for peer in consortium.names:
                if peer != name:
                    queried = peer not in copied or (peer == "node2" and name != "node0")
                    assert gone.get((peer, "model query"), 0) == (rows if queried else 0)
                    assert gone.get((peer, "prediction"), 0) == (len(X) if queried else 0)
        for name in consortium.names[1:]:
            consortium.kill(name)
        with consortium.connect("node0", caller="node0") as node:  # the dead whose models are here answer on
            until(lambda: len(missing(node.consult(X))) == 2, lambda: node.members)
        check_view(consortium, "node0", X, ["node3", "node4"])
        before = sent(consortium, "node0")
        consortium.kill("node0")
        consortium.fork("node0")  # what is held outlives the node
        with consortium.connect("node0", caller="node0") as node:
            until(lambda: len(missing(node.consult(X))) == 2, lambda: node.members)
        check_view(consortium, "node0", X, ["node3", "node4"])
        assert sent(consortium, "node0") == before


@contextmanager
def as_caller(consortium, name, asked="node0"):
    """Calls of a node with the certificate of another."""
    ca, certificate, key = (path.read_bytes() for path in consortium.credentials(name).values())
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    options = [("grpc.ssl_target_name_override", asked)]
    with grpc.secure_channel(f"127.0.0.1:{consortium.ports[asked]}", credentials, options) as channel:
        yield collective_pb2_grpc.CollectiveStub(channel)


def push(stub, encoded):
    return stub.PushCopy(cut_bundle(encoded), timeout=60)


def refused(call, *arguments):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    return caught.value.code(), caught.value.details()


def fetch(stub):
    return list(stub.FetchCopy(iter([wire.FetchCopyRequest(protocol=PROTOCOL)]), timeout=60))


def test_hostile_copies_are_refused_or_contained_and_named(tmp_path):
    """The peer node1 is this test: it has node1's certificate, and sends what it likes."""
    X = points(5)
    limits = "copy_bytes = 200_000\ncopy_memory_bytes = 200_000_000\ncopy_seconds = "
    with Consortium(tmp_path, 3, evidence="own", limits=limits + "600") as consortium:
        keys = consortium.folder / "keys"
        consortium.write("node2", limits=limits + "1")  # which on a busy machine good models exceed too

        made = partial(offered, keys)
        consortium.fork("node0", "node2").ready("node0", "node2", among=["node0", "node2"])
        good = linear_onnx([1.0, 2.0, 3.0], 0.5)
        with as_caller(consortium, "node1") as node1, as_caller(consortium, CLIENT) as client:
            code, told = refused(push, client, made(good))
            assert (code, told) == (
                StatusCode.PERMISSION_DENIED,
                "A copy must come from a peer; 'analyst' is none of 'node0'.",
            )
            changed = bytearray(made(good))
            changed[len(changed) // 2] ^= 1
            for encoded, why in (
                (bytes(changed), "must"),
                (made(good, recipient="node2"), "A bundle must be signed for 'node0'; it is for 'node2'."),
                (made(good, owner="node2"), "A copy must come from its owner, 'node2'; it came from 'node1'."),
                (made(b"x", ".pkl"), "A copied model must be one of"),
                (b"", "A signature must come with its signer's certificate; it does not."),
            ):
                code, told = refused(push, node1, encoded)
                assert code == StatusCode.INVALID_ARGUMENT
                assert why in told
            code, told = refused(push, node1, made(bytes(10 << 20)))
            assert (code, told) == (
                StatusCode.RESOURCE_EXHAUSTED,
                "A copied model must have at most 200000 bytes (limits.copy_bytes); more came.",
            )
            code, told = refused(push, node1, made(bytes(300_000)))
            assert code == StatusCode.INVALID_ARGUMENT
            assert "at most 200000 bytes (limits.copy_bytes)" in told
            assert consortium.configuration("node0").copies.exists() is False

            with consortium.connect("node0", caller="node0") as node:
                for content, suffix, why in (
                    (greedy_onnx(), ".onnx", "needed more than 200000000 bytes of memory (limits.copy_memory_bytes)"),
                    (with_external_data(), ".onnx", "must hold all of its tensors"),
                    (b"no model", ".skops", "cannot be opened"),
                    (linear_onnx([np.nan] * 3, 0.0), ".onnx", "finite"),
                ):
                    push(node1, made(content, suffix))
                    until(lambda why=why: why in node.members["node1"], lambda: node.members)
                    answer = node.consult(X)
                    assert why in missing(answer)["node1"]
                    assert "The copy of 'node1'" in missing(answer)["node1"]
                    until(lambda why=why: why in consortium.log("node0"), lambda: consortium.log("node0"))
                push(node1, made(good))  # after all that, one that is right is used
                until(lambda: node.members["node1"] == "ready", lambda: node.members)
                answer = node.consult(X)
                assert not missing(answer)
                np.testing.assert_allclose(answer.beliefs[:, 1], X @ [1.0, 2.0, 3.0] + 0.5, **EXACT)
            code, told = refused(fetch, node1)
            assert code == StatusCode.PERMISSION_DENIED
            assert "'node1' must have the right 'copy' at 'node0'; it may: 'query'." in told
        why = "took more than 1 s (limits.copy_seconds)"
        with as_caller(consortium, "node1", "node2") as node1, consortium.connect("node2", caller="node2") as node:
            push(node1, made(endless_onnx(), ".onnx", recipient="node2"))
            until(lambda: why in node.members["node1"], lambda: node.members)
            assert f"The copy of 'node1''s model: {why}" in missing(node.consult(X))["node1"]
            until(lambda: why in consortium.log("node2"), lambda: consortium.log("node2"))


def test_a_peer_that_loses_the_right_gets_no_further_version(tmp_path):
    X = points()
    with Consortium(tmp_path, 2, evidence="own", may=COPYING, use=["copy"]) as consortium:
        as_onnx(consortium)
        consortium.fork().ready()
        check_view(consortium, "node0", X)
        text = (tmp_path / "node1" / "node.toml").read_text()
        (tmp_path / "node1" / "node.toml").write_text(text.replace("'query', 'copy'", "'query'"))
        held = (consortium.configuration("node0").copies / "node1.degroot").read_bytes()
        until(lambda: "configuration taken in" in consortium.log("node1"), lambda: consortium.log("node1"))
        (tmp_path / "node1" / "model.onnx").write_bytes(linear_onnx([5.0, 5.0, 5.0], 5.0))
        with consortium.connect("node0", caller="node0") as node:
            until(lambda: node.members["node1"] == "stale", lambda: node.members)
        with as_caller(consortium, "node0", "node1") as stub:
            code, _ = refused(fetch, stub)
        assert code == StatusCode.PERMISSION_DENIED
        check_view(consortium, "node0", X)  # the copy that it has stays, and rows go nowhere
        assert (consortium.configuration("node0").copies / "node1.degroot").read_bytes() == held
        assert not any(kind in ("model query", "prediction") for _, kind in sent(consortium, "node0"))


# ---- copies that are held, and `degroot node check` -----------------------------------------------------------------


def offered(keys, content, suffix=".onnx", owner="node1", recipient="node0", names=("x0", "x1", "x2")):
    """A bundle, as one of the nodes of a consortium would make it."""
    about = described(owner, feature_names=names)
    return make_bundle(about, recipient, suffix, content, None, signer(keys, owner))


def hold(configuration, **bundles):
    """Keep these bundles, by owner, without a look at them."""
    configuration.copies.mkdir(parents=True, exist_ok=True)
    for owner, encoded in bundles.items():
        (configuration.copies / f"{owner}.degroot").write_bytes(encoded)


def find_copies(configuration, insecure_loopback=False):
    """What `degroot node check` says of held copies: by owner, the outcome and the words."""
    found = inspect(configuration, insecure_loopback, unsafe_pickle=False)
    return {
        each.what.removeprefix("copy of "): (each.outcome, each.told)
        for each in found
        if each.what.startswith("copy of ")
    }


@pytest.fixture(scope="module")
def ten(tmp_path_factory):
    """Nodes that never run."""
    limits = "copy_seconds = 600\ncopy_bytes = 200_000\ncopy_memory_bytes = 200_000_000"
    with Consortium(tmp_path_factory.mktemp("ten"), 10, evidence="own", limits=limits) as made:
        as_onnx(made, "node0")
        yield made


def test_check_says_of_each_copy_whether_the_node_could_use_it(ten, tmp_path):
    keys, configuration, good = ten.folder / "keys", ten.configuration("node0"), linear_onnx([1.0, 2.0, 3.0], 0.5)
    authority.init_ca(tmp_path, "others", 30)
    authority.issue(tmp_path, "node2", 30)
    whole = offered(keys, good)
    hold(
        configuration, node1=whole, node2=offered(tmp_path, good, owner="node2"), node3=whole[:-3],
        node4=offered(keys, good, owner="node4", recipient="node5"), node5=offered(keys, good, owner="node6"),
        node6=offered(keys, bytes(200_001), owner="node6"),
        node7=offered(keys, good, owner="node7", names=("x0", "x2", "x1")),
        node8=offered(keys, linear_onnx([np.nan] * 3, 0.0), owner="node8"),
        node9=offered(keys, greedy_onnx(), owner="node9"),
    )  # fmt: skip
    held = open_bundle(whole, keys / "ca.pem", "node0")
    expected = {
        "node1": ("ok", f"version {held.version}, signed {held.issued}; used, and answers for this node's rows"),
        "node2": ("failed", "The certificate of 'node2' must be signed by the consortium's CA; it is not."),
        "node3": ("failed", "A bundle must be one that `degroot node export` or a node has made; this is none."),
        "node4": ("failed", "A bundle must be signed for 'node0'; it is for 'node5'."),
        "node5": ("failed", "A held copy must be in its owner's file; that of 'node5' is of 'node6'."),
        "node6": (
            "failed",
            "A copied model must have at most 200000 bytes (limits.copy_bytes); that of 'node6' has 200001.",
        ),
        "node9": ("failed", "needed more than 200000000 bytes of memory (limits.copy_memory_bytes)"),
    }
    found = find_copies(configuration)
    assert {name: found[name] for name in expected} == expected
    for name, words in (("node7", "A copy must fit this node's rows; 'node7': "), ("node8", "finite")):
        outcome, told = found[name]
        assert (outcome, words in told, "\n" in told) == ("failed", True, False), told


def test_check_fails_where_a_copy_takes_too_long_and_names_the_setting(ten, run_cli):
    shutil.rmtree(ten.configuration("node0").copies, ignore_errors=True)
    hold(ten.configuration("node0"), node1=offered(ten.folder / "keys", endless_onnx()))
    path, text = ten.folder / "node0" / "hasty.toml", (ten.folder / "node0" / "node.toml").read_text()
    path.write_text(text.replace("copy_seconds = 600", "copy_seconds = 0.2"))
    code, said = run_cli("node", "check", path)
    assert code == 2
    assert "failed  copy of node1: took more than 0.2 s (limits.copy_seconds)\n" in said
    assert said.endswith("degroot: copy of node1: took more than 0.2 s (limits.copy_seconds)\n")


def test_check_warns_of_copies_that_are_not_used_and_opens_none(ten, monkeypatch):
    def opened(*_, **__):
        raise AssertionError("a file that is not used must not be run")

    monkeypatch.setattr(copy, "open_in_sandbox", opened)
    configuration, keys = ten.configuration("node0"), ten.folder / "keys"
    shutil.rmtree(configuration.copies, ignore_errors=True)
    good = linear_onnx([1.0, 2.0, 3.0], 0.5)
    hold(configuration, node1=offered(keys, good), node2=b"damaged", node3=offered(keys, good, owner="node3"))
    peers = {each.name: each for each in configuration.peers}
    asked = replace(peers["node1"], use=frozenset({"query"}))
    few = replace(configuration, peers=(asked, replace(peers["node3"], use=frozenset({"copy"}))))
    text = "held, but not used: "
    queried = f"{text}the `use` of 'node1' is queries only, so that own rows and asked points are sent to it"
    gone = f"{text}'node2' is not in the roster, so that its model takes no part in answers"
    nameless = f"{text}this node runs without certificates, and cannot check who has signed it"
    model = replace(few.model, file=few.path.parent / "none.onnx")
    untried = find_copies(replace(few, model=model))
    assert untried["node1"] == ("warning", queried)
    assert untried["node2"] == ("warning", gone)
    outcome, told = untried["node3"]
    assert (outcome, told.partition("; ")[2]) == ("warning", "not tried, for want of this node's own rows and model")
    assert find_copies(few, insecure_loopback=True) == {
        "node1": ("warning", nameless), "node2": ("warning", gone), "node3": ("warning", nameless)
    }  # fmt: skip


def test_a_damaged_copy_is_as_good_as_none_and_that_is_told_once(ten):
    told, configuration = [], ten.configuration("node0")
    held = HeldCopies(configuration, SimpleNamespace(warning=lambda event, **about: told.append((event, about))))
    hold(configuration, node1=b"damaged")
    assert [held.refresh("node1"), held.refresh("node1"), held.find_version("node1")] == [None] * 3
    ((event, about),) = told
    assert (event, about["peer"]) == ("a copy that is held cannot be used", "node1")
    assert about["file"] == str(configuration.copies / "node1.degroot")


def test_a_held_copy_is_not_opened_once_the_rows_have_other_features(ten, monkeypatch):
    monkeypatch.setattr(copy, "open_in_sandbox", None)
    configuration, keys = ten.configuration("node0"), ten.folder / "keys"
    bundle = open_bundle(offered(keys, linear_onnx([1.0, 2.0, 3.0], 0.5)), keys / "ca.pem", "node0")
    with pytest.raises(copy.CopyError, match=r"A copy must fit this node's rows; 'node1': "):
        asyncio.run(HeldCopies(configuration, None).open(bundle, ten.agents[0], ("x1", "x0", "x2")))


@pytest.fixture
def run_cli(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr("sys.argv", ["degroot", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    return run


def test_what_a_revoked_certificate_has_signed_is_not_taken_in_but_what_is_held_stays(ten, tmp_path, run_cli):
    keys, names = ten.folder / "keys", ("x0", "x1", "x2")
    configuration = replace(ten.configuration("node0"), state=tmp_path)
    encoded, agent = offered(keys, linear_onnx([1.0, 2.0, 3.0], 0.5)), ten.agents[0]
    assert check_bundle(configuration, encoded, agent, names, ()).owner == "node1"
    hold(configuration, node1=encoded)
    roster = tmp_path / "roster.toml"
    signed = write_roster(keys, revoke=["node1"])
    roster.write_bytes(signed.content)
    serial = f"{load(keys / 'node1.pem').serial_number:x}"
    told = (
        "A signature must be by a certificate of 'node1' that is not revoked; the signed roster revokes this one "
        f"(serial number {serial})."
    )
    given, revoked = (agent, names), signed.revoked_serials
    assert complaint(lambda: check_bundle(configuration, encoded, *given, revoked)) == told
    assert complaint(lambda: HeldCopies(configuration, None).take(encoded, "node1", *given, revoked)) == told
    holding = SimpleNamespace(roster=signed)  # in memory: the disk may be full
    exchange = CopyExchange(configuration, lambda: SimpleNamespace(agent=agent, feature_names=names), None, holding)
    assert complaint(lambda: asyncio.run(exchange.take(encoded, "node1"))) == told
    assert check_held(configuration, "node1").owner == "node1"
    path, text = ten.folder / "node0" / "revoked.toml", (ten.folder / "node0" / "node.toml").read_text()
    path.write_text(text.replace("[identity]", f'[identity]\nroster = "{roster}"'))
    (tmp_path / "stolen.degroot").write_bytes(encoded)
    assert run_cli("node", "import", path, tmp_path / "stolen.degroot") == (2, f"degroot: {told}\n")
    renew(keys, "node1")
    assert check_bundle(configuration, offered(keys, b"a model"), agent, names, revoked).owner == "node1"


@pytest.mark.slow
def test_copies_carried_as_files_give_the_same_answer(tmp_path, monkeypatch, run_cli):
    X = points()
    with Consortium(tmp_path, 3, evidence="own", may=COPYING, use=["copy"]) as consortium:
        monkeypatch.chdir(tmp_path)
        as_onnx(consortium, "node0", "node1")
        node0 = tmp_path / "node0" / "node.toml"
        for name in ("node1", "node2"):
            code, said = run_cli("node", "export", tmp_path / name / "node.toml", "--peer", "node0")
            assert code in (None, 0), said
            assert sent(consortium, name) == {("node0", "pushed copy"): 0}  # a file that leaves is on record too
            code, said = run_cli("node", "import", node0, f"{name}-for-node0.degroot")
            assert code in (None, 0), said
            assert f"the model of {name}, version" in said
        assert "copy of node1: version" in run_cli("node", "check", node0)[1]
        code, said = run_cli("node", "import", tmp_path / "node2" / "node.toml", "node1-for-node0.degroot")
        assert code == 2
        assert "A bundle must be signed for 'node2'; it is for 'node0'." in said
        consortium.fork("node0")  # nobody else ever runs
        with consortium.connect("node0", caller="node0") as node:
            until(lambda: not missing(node.consult(X)), lambda: node.members)
        check_view(consortium, "node0", X)
        assert sent(consortium, "node0") == {}
        code, said = run_cli("node", "export", node0, "--peer", "analyst")
        assert code == 2
        assert "--peer must be one of node1, node2; got 'analyst'." in said


def test_a_model_that_stores_rows_is_not_given_away_and_small_leaves_are_warned_of(tmp_path, monkeypatch, run_cli):
    with Consortium(tmp_path, 2, evidence="own", may=COPYING) as consortium:
        monkeypatch.chdir(tmp_path)
        agent, home = consortium.agents[0], tmp_path / "node0"
        skops.io.dump(KNeighborsRegressor(3).fit(agent.X, agent.y), home / "model.skops")
        code, said = run_cli("node", "export", home / "node.toml", "--peer", "node1")
        assert code == 2
        assert "must not store training rows" in said
        assert not list(tmp_path.glob("*.degroot"))
        assert "the model cannot be copied by node1" in run_cli("node", "check", home / "node.toml")[1]
        skops.io.dump(DecisionTreeRegressor(random_state=0).fit(agent.X, agent.y), home / "model.skops")
        code, said = run_cli("node", "export", home / "node.toml", "--peer", "node1")
        assert code in (None, 0), said
        assert "hold fewer than 5 rows" in said
        skops.io.dump(KNeighborsRegressor(3).fit(agent.X, agent.y), home / "model.skops")
        consortium.fork().ready()  # its model is queried instead
        with as_caller(consortium, "node1") as stub:
            code, told = refused(fetch, stub)
        assert code == StatusCode.FAILED_PRECONDITION
        assert "must not store training rows" in told


def test_a_node_that_cannot_be_dialled_takes_part_by_copies(tmp_path):
    X = points()
    with Consortium(tmp_path, 3, evidence="own", may=COPYING, use=["copy"]) as consortium:
        for name in ("node0", "node1"):  # where they look for node2 nobody listens
            consortium.routes[name, "node2"] = 1
            consortium.write(name)
        as_onnx(consortium)
        consortium.fork().ready()
        for name in consortium.names:
            check_view(consortium, name, X)
        assert ("node0", "pushed copy") in sent(consortium, "node2")
        (tmp_path / "node2" / "model.onnx").write_bytes(linear_onnx([0.5, -0.5, 0.25], 1.0))
        consortium.agents[2].model = load_model(tmp_path / "node2" / "model.onnx")
        with consortium.connect("node0", caller="node0") as node:  # a new version is pushed again
            until(
                lambda: np.allclose(node.consult(X).beliefs[:, 2], X @ [0.5, -0.5, 0.25] + 1.0),
                lambda: consortium.log("node2"),
            )
        check_view(consortium, "node0", X)
