"""Personal tokens: who may look at a page and ask through it, until when; and who asked, which peers never learn."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.consortium import Consortium, free_ports
from support.processes import wait_for

from degroot.exceptions import InvalidInput
from degroot.node.page.tokens import (
    ADDED,
    ASK,
    DAY,
    EARLIER_FILE,
    FILE,
    LOOK,
    OPERATOR,
    OPERATORS,
    REVOKED,
    NotLetIn,
    Tokens,
    add_token,
    describe_tokens,
    make_operator_token,
    read_tokens,
    revoke_token,
)
from degroot.node.records.ledger import Ledger, LedgerError, opened
from degroot.node.records.ledger_search import Wanted, add_up, find_days, find_questions
from degroot.node.tls import authority


class Log:
    """What was logged: the event, and what was told of it."""

    def __init__(self):
        self.lines = []

    def __getattr__(self, level):
        return lambda event, **told: self.lines.append((level, event, told))


# The file


def test_only_a_hash_is_kept_for_the_owner_of_the_file_to_read(tmp_path):
    secrets = [add_token(tmp_path, "ada", may_ask=True), add_token(tmp_path, "ben", may_ask=False, days=7)]
    path = tmp_path / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert not any(secret in path.read_text() for secret in secrets)
    assert all(len(secret) >= 43 for secret in secrets)  # 256 bits
    ada, ben = read_tokens(tmp_path)
    assert (ada.name, ada.may, round(ada.expires - ada.made)) == ("ada", (LOOK, ASK), 90 * DAY)
    assert (ben.name, ben.may, round(ben.expires - ben.made)) == ("ben", (LOOK,), 7 * DAY)
    lines = describe_tokens(tmp_path)
    assert [line.split()[0] for line in lines] == ["ada", "ben"]
    assert "never used" in lines[0]
    assert not any(
        secret in line or token.digest in line for secret in secrets for token in (ada, ben) for line in lines
    )


def test_a_token_is_good_until_it_expires_or_is_revoked_and_a_name_has_one(tmp_path):
    now = [1000.0]
    clock, tokens = lambda: now[0], Tokens(tmp_path, Log(), lambda: now[0])
    secret = add_token(tmp_path, "ada", may_ask=True, days=1, clock=clock)
    token = tokens.find(secret)
    assert (token.name, tokens.is_good(token)) == ("ada", True)
    with pytest.raises(InvalidInput, match="'ada' has one until 1970-01-02 00:16 UTC"):
        add_token(tmp_path, "ada", may_ask=True, clock=clock)
    with pytest.raises(NotLetIn, match="must be one that this node knows"):
        tokens.find(secret[:-1])
    now[0] += DAY
    with pytest.raises(NotLetIn, match="that of ada did, on 1970-01-02 00:16 UTC"):
        tokens.find(secret)
    assert not tokens.is_good(token)
    again = add_token(tmp_path, "ada", may_ask=False, days=1, clock=clock)
    assert tokens.find(again).may == (LOOK,)
    revoke_token(tmp_path, "ada")
    with pytest.raises(NotLetIn):
        tokens.find(again)


def test_tokens_of_the_operator_are_for_a_day_and_the_last_few_are_good_together(tmp_path):
    tokens = Tokens(tmp_path, Log())
    ada = add_token(tmp_path, "ada", may_ask=False)
    secrets = [make_operator_token(tmp_path) for _ in range(OPERATORS + 2)]
    for secret in secrets[:2]:
        with pytest.raises(NotLetIn):
            tokens.find(secret)
    found = [tokens.find(secret) for secret in secrets[2:]]
    assert {(each.name, each.may, round(each.expires - each.made)) for each in found} == {(OPERATOR, (LOOK, ASK), DAY)}
    assert tokens.find(ada).name == "ada"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: add_token(state, "Ada L", may_ask=True), "The name of a token must be small letters"),
        (lambda state: add_token(state, OPERATOR, may_ask=True), "must not be 'operator'"),
        (lambda state: add_token(state, "ada", may_ask=True, days=0), "valid for 1 to 3650 days; got 0"),
        (lambda state: add_token(state, "ada", may_ask=True, days=3651), "got 3651"),
        (lambda state: revoke_token(state, "eve"), "must be that of ben; got 'eve'"),
    ],
)
def test_a_mistake_changes_nothing(tmp_path, change, words):
    add_token(tmp_path, "ben", may_ask=True)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(InvalidInput, match=words):
        change(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


@given(st.floats(0.0, 1.0, exclude_max=True), st.booleans())
def test_a_damaged_file_lets_nobody_in_and_is_never_overwritten(tmp_path_factory, share, is_cut):
    state, log = tmp_path_factory.mktemp("state"), Log()
    secret, tokens = add_token(state, "ada", may_ask=True), Tokens(state, log)
    whole = (state / FILE).read_bytes()
    place = int(share * len(whole))
    damaged = whole[:place] if is_cut else whole[:place] + b"#" + whole[place + 1 :]
    (state / FILE).write_bytes(damaged)
    for change in (read_tokens, make_operator_token, lambda state: revoke_token(state, "ada")):
        with pytest.raises(InvalidInput, match=r"^[^\n]* is damaged[^\n]*$"):
            change(state)
    with pytest.raises(NotLetIn):
        tokens.find(secret)
    tokens.write_uses()
    assert (state / FILE).read_bytes() == damaged
    assert [event for _, event, _ in log.lines] == ["nobody is let in to the page"]
    ((level, words),) = tokens.list_notices()
    assert (level, "is damaged" in words) == ("error", True)


def test_many_at_once_lose_nothing(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        secrets = list(pool.map(lambda k: add_token(tmp_path, f"person{k}", may_ask=False), range(24)))
    tokens = Tokens(tmp_path, Log())
    assert {tokens.find(secret).name for secret in secrets} == {f"person{k}" for k in range(24)}


def test_uses_are_written_down_and_a_file_that_is_gone_stays_so(tmp_path):
    tokens = Tokens(tmp_path, Log())
    secret = add_token(tmp_path, "ada", may_ask=True)
    assert read_tokens(tmp_path)[0].used is None
    tokens.find(secret)
    tokens.write_uses()
    assert abs(read_tokens(tmp_path)[0].used - time.time()) < 600.0
    tokens.find(secret)
    (tmp_path / FILE).unlink()
    tokens.write_uses()
    assert not (tmp_path / FILE).exists()
    assert [words for _, words in tokens.list_notices()] == []
    tokens.look()
    assert ["were" not in words and "was deleted" in words for _, words in tokens.list_notices()] == [True]


def test_a_file_that_is_not_open_to_the_node_is_not_called_damaged_and_is_taken_in_once_it_is(tmp_path, monkeypatch):
    log = Log()
    secret, read_bytes = add_token(tmp_path, "ada", may_ask=True), Path.read_bytes

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        tokens = Tokens(tmp_path, log)
        for _ in range(2):
            with pytest.raises(NotLetIn):
                tokens.find(secret)
        ((_, words),) = tokens.list_notices()
        assert f"must be open to the user of the node; {tmp_path / FILE}: Permission denied." in words
        with pytest.raises(InvalidInput, match="Permission denied"):
            add_token(tmp_path, "ben", may_ask=False)
    assert read_bytes(tmp_path / FILE).count(b'"name"') == 1
    assert tokens.find(secret).name == "ada"  # the same file
    assert [event for _, event, _ in log.lines] == ["nobody is let in to the page", "page tokens taken in"]


STOPPED = """name = "north"
listen = "127.0.0.1:7443"
state = "state"
[model]
file = "model.skops"
[data]
file = "rows.csv"
target = "y"
[page]
port = 8443
"""


def test_a_token_that_cannot_be_recorded_is_not_made(tmp_path, degroot, monkeypatch):
    path = tmp_path / "north.toml"
    path.write_text(STOPPED)

    def fail(ledger, *_):
        raise LedgerError(ledger, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("degroot.node.records.ledger.note_beside", fail)
        refused = degroot("node", "token", "add", path, "ada")
        assert (refused.code, refused.out) == (2, "")
        assert "No space left on device" in refused.err
    assert degroot("node", "token", "list", path).out == ""
    assert degroot("node", "token", "add", path, "ada").code == 0


def test_making_and_revoking_a_token_is_a_note_of_the_ledger_without_the_token(tmp_path, degroot):
    path, state = tmp_path / "north.toml", tmp_path / "state"
    path.write_text(STOPPED)
    ledger = state / "ledger.sqlite"

    def run(*arguments):
        code, out, err = degroot("node", *arguments)
        assert code == 0, (out, err)
        return out

    printed = run("token", "add", path, "ada", "--may", "ask")
    printed += run("token", "add", path, "ben", "--days", 7) + run("token", "revoke", path, "ben") + run("page", path)
    assert degroot("node", "token", "revoke", path, "eve").code == 2
    told = [
        (ADDED, "ada, may look and ask, days: 90"),
        (ADDED, "ben, may look, days: 7"),
        (REVOKED, "ben"),
        (ADDED, "operator, may look and ask, days: 1"),
    ]

    def list_notes():
        with opened(ledger) as connection:
            return connection.execute("SELECT kind, purpose FROM records ORDER BY number").fetchall()

    assert list_notes() == told
    taken = ledger.with_suffix(".beside").read_bytes()
    with closing(Ledger(ledger, "north")) as running:
        running.record("south", "opinion", "in", 3, 20, 100)
        assert list_notes() == [*told, ("opinion", "")]
        ledger.with_suffix(".beside").write_bytes(taken)  # as if it had been killed before it could forget them
        assert list_notes() == [*told, ("opinion", "")]
    Ledger(ledger, "north").close()
    assert list_notes() == [*told, ("opinion", "")]
    assert "Nothing was changed, and nothing is missing" in run("audit", path, "--verify")
    exported = run("audit", path, "--json")
    assert [line["kind"] for line in map(json.loads, exported.splitlines()) if line["what"] == "record"] == [
        *(kind for kind, _ in told), "opinion",
    ]  # fmt: skip
    for secret in (each.partition("#token=")[2] for each in printed.splitlines()):
        assert not secret or secret not in exported
    assert (find_questions(ledger, Wanted(), None, 9)[0], add_up(ledger, Wanted()).exchanges) == ([], 1)
    assert {group.kinds: group.records for group in find_days(ledger, Wanted(), None, 9)[0]} == {
        ("opinion",): 1, (ADDED,): 3, (REVOKED,): 1,
    }  # fmt: skip
    for shown in (run("audit", path), run("report", path)):
        assert "token" not in shown.lower().replace("page-tokens", "")
        assert "ada" not in shown.split()


# A node


@contextmanager
def paged(folder):
    """Two nodes with pages."""
    with Consortium(folder, 2, evidence="own") as made:
        made.pages = {}
        for name, port in zip(made.names, free_ports(2), strict=True):
            made.write(name, limits=f"[page]\nport = {port}\n")
            made.pages[name] = f"http://127.0.0.1:{port}"
        yield made.fork().ready()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with paged(tmp_path_factory.mktemp("two")) as made:
        yield made


@pytest.fixture
def command(two, degroot):
    """`degroot node token` of node0; the token of the address that it prints, if it does."""

    def run(verb, *options):
        code, out, err = degroot("node", "token", verb, two.folder / "node0" / "node.toml", *options)
        assert code == 0, err
        return out.strip().partition("#token=")[2]

    return run


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def look(two, secret, path="/api/state", name="node0"):
    return httpx.get(two.pages[name] + path, headers=bearer(secret), timeout=60)


def test_without_a_token_there_is_nothing_to_see_but_where_to_sign_in(two):
    page = two.pages["node0"]
    for path in ("/", "/ask", "/answers/x", "/gains", "/trust", "/audit", "/nothing"):
        reply = httpx.get(page + path)
        assert (reply.status_code, "Sign in to node0" in reply.text) == (401, True)
        assert "degroot node token add" in reply.text
    for path in (
        "/api/state", "/events", "/api/answers", "/api/answers/x/rows", "/api/gains", "/api/trust", "/api/audit",
        "/api/audit/export", "/api/audit/verification", "/api/session", "/api/nothing",
    ):  # fmt: skip
        for headers in ({}, bearer("wrong"), {"Authorization": "Bearer"}, {"Cookie": "a=b; degroot-node0=c"}):
            reply = httpx.get(page + path, headers=headers)
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert "degroot node token add" in reply.json()["error"]
    for path in ("/api/ask", "/api/session", "/api/audit/verification"):
        assert httpx.post(page + path, json={"rows": [[0, 0, 0]]}).status_code == 401
    assert httpx.get(f"{page}/static/icon.svg").status_code == 200


def test_one_who_may_look_sees_all_and_asks_nothing(two, command):
    secret = command("add", "ben", "--days", "7")
    for path in ("/", "/audit", "/api/state", "/api/audit", "/api/gains"):
        assert look(two, secret, path).status_code == 200
    assert 'data-person="ben" data-may="look"' in look(two, secret, "/ask").text
    asked = httpx.post(f"{two.pages['node0']}/api/ask", json={"rows": [[0, 0, 0]]}, headers=bearer(secret))
    for reply in (asked, look(two, secret, "/api/answers")):
        assert reply.status_code == 403
        assert reply.json()["error"] == "This needs a token that may ask; that of ben may look."
    assert look(two, secret, name="node1").status_code == 401  # which is good at this node only


def test_a_browser_keeps_a_cookie_of_each_node_that_no_script_reads(two, command):
    secrets = {
        "node0": command("add", "carl", "--may", "ask"),
        "node1": make_operator_token(two.folder / "node1/state"),
    }
    with httpx.Client(timeout=60) as browser:
        for name, secret in secrets.items():
            reply = browser.post(f"{two.pages[name]}/api/session", headers=bearer(secret))
            told = reply.headers["set-cookie"].lower()
            assert ("httponly" in told, "samesite=strict" in told, "expires" in told) == (True, True, False)
        names = [browser.get(f"{page}/api/session").json()["name"] for page in two.pages.values()]
        assert names == ["carl", OPERATOR]
        reply = browser.post(f"{two.pages['node0']}/api/ask", json={"rows": [[0, 0, 0]]})
        assert reply.status_code == 202
        elsewhere = {"Origin": two.pages["node1"]}
        reply = browser.post(f"{two.pages['node0']}/api/ask", json={"rows": [[0, 0, 0]]}, headers=elsewhere)
        assert reply.status_code == 403
        assert browser.delete(f"{two.pages['node0']}/api/session").status_code == 200
        states = [browser.get(f"{page}/api/session").status_code for page in two.pages.values()]
        assert states == [401, 200]


def test_revoking_ends_open_pages_at_once(two, command):
    secret = command("add", "dora")
    with httpx.stream("GET", f"{two.pages['node0']}/events", headers=bearer(secret), timeout=60) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: state"
        command("revoke", "dora")
        assert "event: ended" in list(lines)
    assert look(two, secret).status_code == 401


def test_an_expired_token_is_of_no_use_and_says_so(two):
    state = two.folder / "node0" / "state"
    secret = add_token(state, "emil", may_ask=True, days=1, clock=lambda: time.time() - DAY + 5.0)
    reply = wait_for(lambda: (found := look(two, secret)).status_code == 401 and found)
    assert "must not have expired; that of emil did" in reply.json()["error"]


def test_the_list_says_who_may_what_since_when_and_never_the_token(two, command, degroot):
    secret = command("add", "fay", "--may", "ask", "--days", "3")
    look(two, secret)
    code, out, _ = degroot("node", "token", "list", two.folder / "node0" / "node.toml")
    (line,) = [each for each in out.splitlines() if each.startswith("fay ")]
    assert (code, secret in out) == (0, False)
    assert "look, ask" in line
    assert " expires " in line
    code, out, err = degroot("node", "token", "add", two.folder / "node0" / "node.toml", "fay")
    assert (code, out, err.count("\n")) == (2, "", 1)
    code, out, err = degroot("node", "token", "add", two.folder / "node0" / "node.toml", "gil", "--may", "rule")
    assert (code, out, err.count("\n"), "got 'rule'" in err) == (2, "", 1, True)


def test_who_asks_is_in_the_own_ledger_and_peers_never_learn_it(two, command, degroot):
    secret = command("add", "hedwig", "--may", "ask")
    page = two.pages["node0"]
    with httpx.Client(base_url=page, headers=bearer(secret), timeout=60) as browser:
        told = browser.post("/api/ask", json={"rows": [[0.1, 0, 0]], "purpose": "triage"}).json()
        about = wait_for(
            lambda: (found := browser.get(f"/api/answers/{told['id']}").json())["status"] == "done" and found
        )
        (listed,) = [each for each in browser.get("/api/answers").json()["answers"] if each["id"] == told["id"]]
        assert about["person"] == listed["person"] == "hedwig"
        (group,) = browser.get("/api/audit", params={"q": "hedwig"}).json()["groups"]
        assert (group["question"], group["person"], group["asker"]) == (about["question"], "hedwig", "node0")
        assert group["purpose"] == "triage"
        assert group["rows"] > 0  # all that belongs to the question, though only a note of it has the name
        (whole,) = browser.get("/api/audit", params={"q": about["question"]}).json()["groups"]
        assert whole == group
        assert browser.get("/api/audit/totals", params={"q": "hedwig"}).json()["questions"] == 1
    config = two.folder / "node0" / "node.toml"
    for form in ("--json", "--csv"):
        code, out, _ = degroot("node", "audit", config, form)
        (line,) = [each for each in out.splitlines() if "hedwig" in each and ADDED not in each]
        assert (code, about["question"] in line, "asked at the page" in line) == (0, True, True)
        assert "hedwig" not in degroot("node", "audit", config, form, "--peer", "node1")[1]
    code, out, err = degroot("node", "audit", config, "--verify")
    assert (code, "Nothing was changed, and nothing is missing." in out) == (0, True), err
    (theirs,), _ = find_questions(two.configuration("node1").ledger, Wanted(about["question"]), None, 2)
    assert (theirs.asker, theirs.person, theirs.purpose) == ("node0", "", "triage")
    state = two.folder / "node1" / "state"
    assert not any(b"hedwig" in path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_deleted_tokens_let_nobody_in_until_somebody_makes_new_ones(two, command):
    state, old = two.folder / "node0" / "state", command("add", "ida", "--may", "ask")
    with httpx.stream("GET", f"{two.pages['node0']}/events", headers=bearer(old), timeout=60) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: state"
        (state / FILE).unlink()
        assert "event: ended" in list(lines)
    assert look(two, old).status_code == 401
    assert wait_for(lambda: "nobody is let in to the page" in two.log("node0"))
    line = next(json.loads(each) for each in two.log("node0").splitlines() if "nobody is let in" in each)
    assert "was deleted" in line["reason"]
    assert not (state / FILE).exists()
    fresh = make_operator_token(state)
    assert look(two, fresh).json()["notices"] == []
    assert look(two, old).status_code == 401


def test_a_certificate_that_ends_soon_is_a_notice(two):
    token = make_operator_token(two.folder / "node0" / "state")
    authority.issue(two.folder / "keys", "node0", 10, ["127.0.0.1"], force=True)
    (notice,) = wait_for(lambda: look(two, token).json()["notices"])
    assert notice["level"] == "warning"
    assert notice["words"].startswith("This node's certificate expires on ")


def test_the_token_for_all_of_an_earlier_version_is_removed(tmp_path):
    (tmp_path / EARLIER_FILE).write_text("a-token-of-an-earlier-version")
    log = Log()
    tokens = Tokens(tmp_path, log)
    assert not (tmp_path / EARLIER_FILE).exists()
    assert [event for _, event, _ in log.lines] == [
        "the page's token of an earlier version was removed",
        "nobody has a token for the page yet",
    ]
    with pytest.raises(NotLetIn):
        tokens.find("a-token-of-an-earlier-version")
