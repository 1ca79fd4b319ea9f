"""The node's page in a real browser, of real nodes: what is shown is so, for everybody, and nothing else happens."""

import json
import signal
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from support.browser import PHONE, WIDE, Paged, Watched, chromium
from support.consortium import made_rows, save_linear

from degroot import Agent
from degroot.node.page.tokens import OPERATOR, add_token, revoke_token
from degroot.node.tls import authority

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[2]
SHOTS = HERE / "build" / "page"  # to be looked at
FEATURES = ["x0", "x1", "x2"]
POINT = [0.5, -1.25, 0.75]
BYTES = 300_000
SERIOUS = ("serious", "critical")
HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
VIEWS = {
    "overview": "/",
    "ask": "/ask",
    "gains": "/gains",
    "trust": "/trust",
    "audit": "/audit",
    "nowhere": "/nowhere",
}


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def nodes(browser, tmp_path_factory):
    """Four nodes that answer, with pooled evidence."""
    folder = tmp_path_factory.mktemp("consortium")
    with Paged(folder, 4).fork() as found:
        found.whole()
        found.ask(written(folder / "first.csv", 3), folder / "first-answers.csv", "--consensus")
        yield found


@pytest.fixture
def tab(browser, nodes):
    """A tab of one who may ask; in the end nothing was complained of, nor any other host asked."""
    with Watched(browser) as watched:
        yield watched.page
        watched.check(nodes.host())


def written(path, M, seed=1):
    """A file with M points."""
    points = np.random.default_rng(seed).normal(size=(M, len(FEATURES)))
    np.savetxt(path, points, delimiter=",", header=",".join(FEATURES), comments="", fmt="%.17g")
    return path


def type_row(page, row=POINT):
    for name, value in zip(FEATURES, row, strict=True):
        page.get_by_label(name, exact=True).fill(str(value))


def ask(page):
    page.get_by_role("button", name="Ask", exact=True).click()


def send_file(page, path):
    page.get_by_role("radio", name="Drop a file").check()
    page.locator("#file").set_input_files(path)
    ask(page)


def downloaded(page, kind, folder):
    with page.expect_download() as waiting:
        page.get_by_role("link", name=f"Download {kind}").click()
    path = folder / f"downloaded.{kind.lower()}"
    waiting.value.save_as(path)
    return path


def exactly(path):
    """A table with every number as it was written."""
    told = pyarrow.csv.ConvertOptions(column_types={"missing": "string", "flags": "string"})
    return pyarrow.csv.read_csv(path, convert_options=told).to_pandas()


def told_by_ask(nodes, folder, *options):
    """What `degroot ask` says of POINT."""
    (folder / "point.csv").write_text(f"{','.join(FEATURES)}\n{','.join(map(str, POINT))}\n")
    return exactly(nodes.ask(folder / "point.csv", folder / "out.csv", *options))


def until(page, expression, patience=60.0):
    """Wait until an expression is true in the page. (The page's own policy forbids to let it wait by itself.)"""
    end = time.monotonic() + patience
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def complaints(page):
    """What a reader is told went wrong."""
    until(page, "document.querySelector('#complaint').textContent !== ''")
    return page.locator("#complaint").inner_text()


def test_a_typed_row_is_answered_as_degroot_ask_answers_it(tab, nodes, tmp_path):
    tab.goto(nodes.address("/ask"))
    assert "token" not in tab.url
    type_row(tab)
    ask(tab)
    shown = tab.locator("#value").get_attribute("value")
    right = told_by_ask(nodes, tmp_path, "--coverage=0.9")
    assert float(shown) == right["value"][0]
    bounds = [float(each) for each in tab.locator(".hero dd data").evaluate_all("all => all.map(each => each.value)")]
    assert bounds == [right["lower"][0], right["upper"][0], right["standard_error"][0]]
    for name in nodes.names:
        line = tab.locator(f"tr[data-agent={name}]")
        assert float(line.locator(".barred data").first.get_attribute("value")) == right[f"weight_{name}"][0]
    texts = tab.locator(".hero data, .says data, .agents data").all_inner_texts()
    assert len({len(each.partition(".")[2]) for each in texts if "%" not in each}) == 1  # as many decimals everywhere
    trust = tab.locator("table.heat tbody tr")
    assert trust.count() == len(nodes.names)
    assert tab.get_by_role("heading", name="Rounds to consensus").is_visible()
    assert tab.locator("canvas").is_visible()


def test_at_phone_width_parts_are_opened_one_by_one(tab, nodes):
    tab.set_viewport_size(PHONE)
    tab.goto(nodes.address("/ask"))
    type_row(tab)
    ask(tab)
    toggle = tab.get_by_role("button", name="Show: Agents")
    toggle.wait_for()
    lines = tab.locator("tr[data-agent]")
    assert (lines.first.is_visible(), toggle.get_attribute("aria-expanded")) == (False, "false")
    toggle.click()
    assert (lines.first.is_visible(), toggle.get_attribute("aria-expanded")) == (True, "true")
    tab.set_viewport_size(WIDE)
    assert not toggle.is_visible()
    assert tab.get_by_role("heading", name="In words").is_visible()


def test_cells_of_the_trust_map_say_who_carries(tab, nodes, tmp_path):
    rows = "".join(f"{k % 2},{k / 40},{k / 7}\n" for k in range(80))
    (tmp_path / "two.csv").write_text("x0,x1,x2\n" + rows)
    tab.goto(nodes.address("/ask"))
    send_file(tab, tmp_path / "two.csv")
    tab.get_by_role("heading", name="two.csv: 80 rows").wait_for()
    tab.goto(nodes.address("/trust"))
    tab.locator(".plane td b").first.wait_for()
    cells = tab.locator(".plane tbody td:not(.none)").all_inner_texts()
    assert all(any(name in each for name in nodes.names) and each.endswith(" %") for each in cells)


def test_notices_stand_out_on_the_overview(tab, nodes):
    authority.issue(nodes.folder / "keys", "node0", 10, ["127.0.0.1"], force=True)
    tab.goto(nodes.address())
    tab.locator("#notices [data-level=warning]").get_by_text("This node's certificate expires on").wait_for()
    for size, scheme in looks():
        look(tab, "notices", size, scheme)
    authority.issue(nodes.folder / "keys", "node0", 90, ["127.0.0.1"], force=True)
    until(tab, "document.querySelector('#notices').hidden")


def test_own_model_own_view_and_consensus_are_side_by_side(tab, nodes, tmp_path):
    tab.goto(nodes.address("/ask"))
    type_row(tab)
    ask(tab)
    tab.locator(".sides").wait_for()
    views = [told_by_ask(nodes, tmp_path, option) for option in ("--coverage=0.9", "--consensus")]
    expected = [nodes.agents[0].predict(np.array([POINT]))[0], *(each["value"][0] for each in views)]
    shown = [float(each) for each in tab.locator(".says data").evaluate_all("all => all.map(each => each.value)")]
    assert shown == expected
    assert "90 %: " in tab.locator("[data-side=own]").inner_text()
    assert "Intervals between nodes must be asked for" in tab.locator("[data-side=consensus]").inner_text()
    tab.goto(nodes.address("/gains"))
    tab.locator("#members tr").first.wait_for()
    assert tab.locator("#members tr").count() == len(nodes.names)
    errors = tab.locator(".errors data").evaluate_all("all => all.map(each => Number(each.value))")
    gains = nodes.collective().gains()
    assert errors == pytest.approx(np.sqrt([gains.own[0], gains.control[0], gains.collective[0]]), rel=1e-9)


def test_a_row_can_be_pasted_and_asked_about_in_rounds(tab, nodes, tmp_path):
    tab.goto(nodes.address("/ask"))
    tab.get_by_label("x0", exact=True).wait_for()
    paste = "(box, text) => { const clipboardData = new DataTransfer(); clipboardData.setData('text', text);"
    paste += " box.dispatchEvent(new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true})); }"
    tab.get_by_label("x0", exact=True).evaluate(paste, "x2\tx0\tx1\n0.75\t0.5\t-1.25")
    assert [tab.get_by_label(name, exact=True).input_value() for name in FEATURES] == ["0.5", "-1.25", "0.75"]
    tab.locator("#view").select_option("rounds")
    assert tab.locator("#coverage").is_disabled()
    ask(tab)
    shown = float(tab.locator("#value").get_attribute("value"))
    right = told_by_ask(nodes, tmp_path, "--way=rounds")
    assert shown == pytest.approx(right["value"][0], abs=1e-8)
    assert tab.get_by_text("By rounds nobody sends trust").is_visible()


def test_a_file_is_answered_as_degroot_ask_answers_it(tab, nodes, tmp_path):
    points = written(tmp_path / "points.csv", 120)
    right = exactly(nodes.ask(points, tmp_path / "out.csv", "--coverage=0.9"))
    tab.goto(nodes.address("/ask"))
    send_file(tab, points)
    tab.get_by_role("heading", name="points.csv: 120 rows").wait_for()
    for kind, read in (
        ("CSV", exactly),
        ("Parquet", pd.read_parquet),
        ("JSON", lambda path: pd.DataFrame(json.loads(path.read_text()))),
    ):
        told = read(downloaded(tab, kind, tmp_path))
        assert list(told.columns) == FEATURES + list(right.columns)
        pd.testing.assert_frame_equal(told[list(right.columns)], right, check_dtype=False, check_exact=True)
        pd.testing.assert_frame_equal(told[FEATURES], exactly(points), check_exact=True)


def test_a_file_is_dropped_anywhere_on_the_page(tab, nodes):
    tab.goto(nodes.address("/ask"))
    tab.get_by_label("x0", exact=True).wait_for()
    drop = "() => { const data = new DataTransfer();"
    drop += " data.items.add(new File(['x0,x1,x2\\n1,2,3\\n4,5,6\\n'], 'dropped.csv'));"
    drop += " return dispatchEvent(new DragEvent('drop', {dataTransfer: data, cancelable: true})); }"
    assert not tab.evaluate(drop)  # the browser stays where it is
    assert tab.locator("#file-name").inner_text() == "dropped.csv"
    ask(tab)
    tab.get_by_role("heading", name="dropped.csv: 2 rows").wait_for()


def test_a_file_of_ten_thousand_rows(tab, nodes, tmp_path):
    points = written(tmp_path / "many.csv", 10_000)
    right = exactly(nodes.ask(points, tmp_path / "out.csv", "--coverage=0.9"))
    tab.goto(nodes.address("/ask"))
    send_file(tab, points)
    tab.get_by_role("heading", name="many.csv: 10,000 rows").wait_for()
    values = "all => all.map(each => Number(each.value))"
    until(tab, "document.querySelectorAll('.rows tbody tr').length === 50")
    assert tab.locator(".rows tbody data").evaluate_all(values) == right["value"][:50].tolist()
    tab.get_by_role("button", name="Later").click()
    tab.get_by_text("51–100 of 10,000").wait_for()
    assert tab.locator(".rows tbody data").evaluate_all(values) == right["value"][50:100].tolist()
    tab.get_by_label("Order").select_option("-value")
    tab.get_by_text("1–50 of 10,000").wait_for()
    best = right["value"].sort_values(ascending=False)
    until(tab, f"Number(document.querySelector('.rows tbody data').value) === {float(best.iloc[0])!r}")
    tab.locator(".rows tbody a").first.click()
    tab.get_by_role("heading", name=f"Row {best.index[0] + 1:,}", exact=True).wait_for()
    assert float(tab.locator("#value").get_attribute("value")) == best.iloc[0]
    told = exactly(downloaded(tab, "CSV", tmp_path))
    pd.testing.assert_frame_equal(told[list(right.columns)], right, check_dtype=False, check_exact=True)


def test_a_link_opens_the_same_row_again_for_one_who_may_look(tab, browser, nodes, tmp_path):
    tab.goto(nodes.address("/ask"))
    send_file(tab, written(tmp_path / "points.csv", 60))
    tab.get_by_role("heading", name="Row 1", exact=True).wait_for()
    tab.locator(".rows tbody a").nth(6).click()
    tab.get_by_role("heading", name="Row 7", exact=True).wait_for()
    with Watched(browser) as other:
        other.page.goto(f"{tab.url}#token={token_to_look(nodes)}")
        other.page.get_by_role("heading", name="Row 7", exact=True).wait_for()
        shown = [page.locator("#value").get_attribute("value") for page in (tab, other.page)]
        assert shown[0] == shown[1]
        assert other.page.get_by_role("button", name="Ask", exact=True).is_disabled()
        other.page.goto(f"http://{nodes.host()}/answers/none-such")
        other.page.get_by_text("This answer is not here.", exact=True).wait_for()
        other.check(nodes.host(), refusals=True)


def unlike_agents(make, seed=7, K=3, n=90):
    """Agents with unlike rows; `make` gives labels, a fitted model and settings of the agent."""
    rng, found = np.random.default_rng(seed), []
    for k in range(K):
        X = rng.normal(rng.normal(0.0, 1.0, len(FEATURES)), 1.0, size=(n, len(FEATURES)))
        y, model, settings = make(X, X + rng.normal(size=X.shape))
        found.append((Agent(model, X, y, f"node{k}", **settings), y))
    return found


def test_classes_are_told_by_their_names(browser, tmp_path):
    classes = ["benign", "malignant", "<b>unclear"]

    def make(X, noisy):
        y = np.array(classes)[np.argmax(noisy, axis=1)]
        return y, LogisticRegression().fit(X, y), {"classes": classes}

    with Paged(tmp_path, 3, agents=unlike_agents(make), data=f"classes = {json.dumps(classes)}") as three:
        three.fork().whole()
        right = told_by_ask(three, tmp_path, "--coverage=0.8")
        chances = [right[f"value_{name}"][0] for name in classes]
        with Watched(browser) as watched:
            page = watched.page
            page.goto(three.address("/ask"))
            type_row(page)
            page.get_by_label("Interval").select_option("0.8")
            ask(page)
            page.locator(".chances data").first.wait_for()
            values = "all => all.map(each => Number(each.value))"
            assert page.locator(".chances data").evaluate_all(values) == chances
            assert page.locator(".hero .value").inner_text() == classes[int(np.argmax(chances))]
            assert page.get_by_text("80 % set", exact=True).is_visible()
            for size, scheme in looks():
                look(page, "classes", size, scheme)
            send_file(page, written(tmp_path / "points.csv", 70))
            page.get_by_role("heading", name="Row 1", exact=True).wait_for()
            page.get_by_label("Class").select_option(label=classes[1])
            page.get_by_role("button", name="Row after").click()
            page.get_by_role("heading", name="Row 2", exact=True).wait_for()
            unhurt(page)
            watched.check(three.host())


def test_several_outputs_are_shown_one_at_a_time(browser, tmp_path):
    def make(X, noisy):
        y = np.c_[np.sin(noisy).sum(axis=1), noisy[:, 0] * noisy[:, 1]]
        return y, LinearRegression().fit(X, y), {}

    with Paged(tmp_path, 3, agents=unlike_agents(make), data='target = ["y0", "y1"]') as three:
        three.fork().whole()
        right = told_by_ask(three, tmp_path, "--coverage=0.9")
        with Watched(browser) as watched:
            page = watched.page
            page.goto(three.address("/ask"))
            type_row(page)
            ask(page)
            shown = []
            for output in (0, 1):
                page.get_by_label("Output").select_option(str(output))
                shown.append(float(page.locator("#value").get_attribute("value")))
            assert shown == [right["value_0"][0], right["value_1"][0]]
            watched.check(three.host())


def test_without_a_token_there_is_nothing_but_where_to_sign_in(browser, nodes):
    with Watched(browser) as watched:
        page = watched.page
        page.goto(nodes.address("/ask", token=False) + "#token=wrong")
        assert "must be one that this node knows" in complaints(page)
        assert "wrong" not in page.url
        assert page.get_by_role("navigation").count() == 0
        for size, scheme in looks():
            look(page, "sign-in", size, scheme)
        for pasted, signed_in in (("?!", False), ("wrong", False), (nodes.address(), True)):
            page.get_by_label("Token or address").fill(pasted)
            page.get_by_role("button", name="Sign in").click()
            if not signed_in:
                assert complaints(page)
        page.get_by_label("x0", exact=True).wait_for()
        assert page.locator(".person span").inner_text() == OPERATOR
        assert page.evaluate("document.cookie") == ""  # no script reads it
        page.get_by_role("button", name="sign out").click()
        page.get_by_role("heading", name="Sign in to node0").wait_for()
        watched.check(nodes.host(), refusals=True)


def test_one_who_may_look_asks_nothing_and_an_open_page_ends_with_its_token(browser, nodes):
    state = nodes.folder / "node0" / "state"
    secret = add_token(state, "ben", may_ask=False)
    with Watched(browser) as watched:
        page = watched.page
        page.goto(nodes.address("/ask", token=False) + f"#token={secret}")
        page.get_by_text("Read-only.").wait_for()
        page.get_by_label("x0", exact=True).wait_for()
        assert page.get_by_role("button", name="Ask", exact=True).is_disabled()
        page.goto(nodes.address("/", token=False))  # the cookie is enough
        page.get_by_role("heading", name="Answering").wait_for()
        revoke_token(state, "ben")
        page.get_by_text("Your session has ended.").wait_for()
        assert "it was revoked" in page.locator("#ended-why").inner_text()
        assert page.locator("#pulse-text").inner_text() == "signed out"
        for size, scheme in looks():
            look(page, "ended", size, scheme)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Sign in to node0").wait_for()
        watched.check(nodes.host(), refusals=True)


def test_a_killed_peer_is_shown_and_so_is_its_return(tab, nodes):
    tab.goto(nodes.address())
    pill = tab.locator("tr[data-peer=node3] .pill")
    tab.locator("tr[data-peer=node3] .pill[data-state=up]").wait_for()
    nodes.kill("node3")
    try:
        tab.locator("tr[data-peer=node3] .pill[data-state=down]").wait_for()
        assert pill.inner_text() == "down"
        tab.get_by_text("3 of 4 nodes can take part").wait_for()
        assert "node3 is down" in tab.locator("#announcer").inner_text()
        tab.goto(nodes.address("/ask"))
        type_row(tab)
        tab.get_by_label("Interval").select_option("")
        ask(tab)
        tab.get_by_text("node3 was missing:").wait_for()
        assert tab.locator("tr[data-agent=node3] small").first.inner_text().startswith("missing: ")
    finally:
        nodes.fork("node3")
    tab.goto(nodes.address())
    tab.locator("tr[data-peer=node3] .pill[data-state=up]").wait_for()
    nodes.whole()


def test_every_state_of_a_peer_and_a_collective_that_cannot_answer(browser, tmp_path):
    with Paged(tmp_path, 5, deadline=3.0).fork() as five, Watched(browser) as watched:
        five.whole()
        page = watched.page
        page.goto(five.address())
        five.write("node1", may=["opinion", "ask"])  # nobody may score its new model
        *_, (_, _, slopes) = made_rows(9, 5)
        save_linear(five.folder / "node1" / "model.skops", slopes)
        five.write("node2", peers=["node1", "node3", "node4"])
        five.kill("node3", signal.SIGSTOP)
        five.kill("node4")
        for name, state in (("node1", "stale"), ("node2", "refused"), ("node3", "late"), ("node4", "down")):
            page.locator(f"tr[data-peer={name}] .pill[data-state={state}]").wait_for()
        assert page.locator("tr[data-peer=node2] .reason").inner_text() != ""
        page.get_by_role("heading", name="No consensus now").wait_for()
        for size, scheme in looks():
            look(page, "states", size, scheme)
        page.goto(five.address("/ask"))
        type_row(page)
        ask(page)
        page.locator("[data-side=consensus]").get_by_text("At least 3 agents must answer").wait_for()
        assert page.locator("#value").is_visible()  # from the node's own rows
        for size, scheme in looks():
            look(page, "no-consensus", size, scheme)
        page.set_viewport_size(WIDE)
        page.goto(five.address("/ask"))
        type_row(page)
        page.locator("#view").select_option("consensus")
        ask(page)
        page.get_by_text("The question could not be answered.", exact=True).wait_for()
        look(page, "failed", WIDE, "light")
        watched.check(five.host())


@pytest.fixture(scope="module")
def at_home(browser, tmp_path_factory):
    """Three nodes whose evidence stays at home: node0 has a copy of node1's model, and queries that of node2."""
    may = {"node0": ["query", "copy"], "node1": ["query", "copy"], "node2": ["query"]}
    with Paged(tmp_path_factory.mktemp("home"), 3, evidence="own", may=may) as found:
        found.write("node2", may=["query"])
        yield found.fork().whole()


def test_with_own_evidence_it_is_told_who_will_see_a_row_and_there_is_no_consensus_to_choose(browser, at_home):
    with Watched(browser) as watched:
        page = watched.page
        page.goto(at_home.address("/ask"))
        page.get_by_text("This row will be seen by node2: its model is queried.").wait_for()
        assert "node1 sees nothing" in page.locator("#witnesses").inner_text()
        page.get_by_role("radio", name="Drop a file").check()
        page.get_by_text("These rows will be seen by node2").wait_for()
        page.get_by_role("radio", name="Type a row").check()
        assert page.locator("#view, #guard").count() == 0
        assert "in the file of every node that answers: evidence = 'maps'" in page.locator("#no-consensus").inner_text()
        type_row(page)
        for size, scheme in looks():
            look(page, "home-ask", size, scheme)
        ask(page)
        page.locator("[data-side=consensus]").get_by_text("The consensus needs everybody's evidence").wait_for()
        right = at_home.collective().consult([POINT], asker="node0")
        assert float(page.locator("#value").get_attribute("value")) == pytest.approx(right.value[0], rel=1e-9)
        assert page.locator("table.heat").count() == 0
        for size, scheme in looks():
            look(page, "home-row", size, scheme)
        watched.check(at_home.host())


def test_with_own_evidence_the_overview_says_how_models_are_used_what_left_and_who_asks_about_own_rows(
    browser, at_home
):
    with at_home.connect("node0") as node:
        node.predict(at_home.agents[0].X[:40])
    with Watched(browser) as watched:
        page = watched.page
        page.goto(at_home.address())
        page.get_by_text("3 of 3 models can be asked: our own, 1 copy and 1 queried.").wait_for()
        assert page.get_by_text("Labels and errors stay here: answers weigh models").is_visible()
        assert page.locator("tr[data-peer=node1] [data-use=copy]").inner_text() == "copy"
        assert page.locator("tr[data-peer=node2] [data-use=query]").inner_text() == "queried"
        page.get_by_role("alert").get_by_text("analyst has asked about 40 of this node's own rows").wait_for()
        page.locator("#leak li", has_text="features of 120 rows were sent to node2, for scoring its model").wait_for()
        assert page.locator("#leak li", has_text="node1").count() == 1  # our model, and nothing else
        for size, scheme in looks():
            look(page, "home-overview", size, scheme)
        page.set_viewport_size(WIDE)
        page.goto(at_home.address("/trust"))
        page.get_by_role("heading", name="Who is trusted where").wait_for()
        page.locator("#agents tr").first.wait_for()
        assert page.get_by_text("how much weight this node's answers give to each model", exact=True).is_visible()
        assert page.locator("#matrix").count() == 0
        for size, scheme in looks():
            look(page, "home-trust", size, scheme)
        watched.check(at_home.host())


def test_a_peer_that_is_gone_and_whose_copy_is_here_is_ready(browser, at_home):
    with Watched(browser) as watched:
        page = watched.page
        at_home.kill("node1")
        try:
            page.goto(at_home.address())
            page.locator("tr[data-peer=node1] .pill[data-state=ready]").wait_for()
            page.get_by_text("3 of 3 models can be asked").wait_for()
            assert "the copy of its model is here" in page.locator("tr[data-peer=node1] .reason").inner_text()
            for size, scheme in looks():
                look(page, "home-away", size, scheme)
        finally:
            at_home.fork("node1")
        watched.check(at_home.host())


def test_a_node_that_is_gone_is_said_to_be_and_comes_back(browser, tmp_path):
    with Paged(tmp_path, 2).fork() as two, Watched(browser) as watched:
        two.whole()
        page = watched.page
        page.goto(two.address())
        page.get_by_role("heading", name="Answering", exact=True).wait_for()
        two.kill("node0")
        page.get_by_text("This node does not answer.").wait_for()
        until(page, r"/^([3-9]|\d\d+) s/.test(document.querySelector('#gone-ago').textContent)")
        for size, scheme in looks():
            look(page, "gone", size, scheme)
        page.set_viewport_size(WIDE)  # narrower, peers are shown when they are opened
        two.fork("node0")
        page.get_by_text("This node does not answer.").wait_for(state="hidden")
        page.locator("tr[data-peer=node1] .pill[data-state=up]").wait_for()


def test_a_node_that_hangs_is_said_to_be_gone(browser, tmp_path):
    with Paged(tmp_path, 2).fork() as two, Watched(browser) as watched:
        two.whole()
        watched.page.goto(two.address())
        watched.page.get_by_role("heading", name="Answering", exact=True).wait_for()
        two.kill("node0", signal.SIGSTOP)
        watched.page.get_by_text("This node does not answer.").wait_for()
        two.kill("node0", signal.SIGCONT)
        watched.page.get_by_text("This node does not answer.").wait_for(state="hidden")


def test_questions_of_others_show_without_reload(tab, nodes, tmp_path):
    tab.goto(nodes.address())
    answered = tab.locator("#figures dd").first
    answered.wait_for()
    before = int(answered.inner_text().replace(",", ""))
    nodes.ask(written(tmp_path / "points.csv", 17), tmp_path / "out.csv")
    until(tab, f"Number(document.querySelector('#figures dd').textContent.replace(',', '')) > {before}")
    tab.locator("#questions tr", has_text="analyst").filter(has_text="17").first.wait_for()
    until(tab, "/answers about [0-9,]+ rows were given to analyst/i.test(document.querySelector('#leak').textContent)")
    assert "rows were sent to node1, for scoring its model" in tab.locator("#leak").inner_text()


MALFORMED = {
    "empty.csv": b"",
    "header.csv": b"x0,x1,x2\n",
    "lacks.csv": b"x0,x1\n1,2\n",
    "text.csv": b"x0,x1,x2\n1,2,three\n",
    "gap.csv": b"x0,x1,x2\n1,,3\n",
    "ragged.csv": b"x0,x1,x2\n1,2,3\n1,2\n",
    "twice.csv": b"x0,x1,x1,x2\n1,2,3,4\n",
    "junk.parquet": bytes(range(256)) * 8,
    "junk.npz": b"PK\x03\x04 no archive",
    "zeros.csv": b"\0" * 4096,
    "table.xlsx": b"PK\x03\x04",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_one_clear_line(browser, nodes, tmp_path, name):
    (tmp_path / name).write_bytes(MALFORMED[name])
    with Watched(browser) as watched:
        watched.page.goto(nodes.address("/ask"))
        send_file(watched.page, tmp_path / name)
        said = complaints(watched.page)
        assert "\n" not in said
        assert 20 < len(said) < 400
        assert "Traceback" not in said
        assert str(tmp_path) not in said
        assert "/tmp" not in said
        assert watched.page.get_by_role("button", name="Ask", exact=True).is_enabled()
        watched.check(nodes.host(), refusals=True)


@pytest.mark.parametrize(("value", "word"), [("", "empty"), ("three", "three"), ("1e999", "1e999")])
def test_a_box_without_a_number_is_told_before_anybody_is_asked(tab, nodes, value, word):
    tab.goto(nodes.address("/ask"))
    type_row(tab, [1, value, 2])
    ask(tab)
    said = complaints(tab)
    assert "x1" in said
    assert word in said
    assert tab.get_by_label("x1", exact=True).evaluate("box => box === document.activeElement")


def unhurt(page):
    """Nothing of what was written as text has become part of the page."""
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit") is None
    assert page.locator("img[src=x], main script, main iframe, [onerror]").count() == 0


def test_hostile_columns_cells_and_file_names_stay_text(browser, tmp_path):
    features = [HOSTILE, "=cmd|' /C calc'!A0", "__proto__"]
    with Paged(tmp_path, 2) as two, Watched(browser) as watched:
        two.call_features(*features).fork()
        two.whole()
        page = watched.page
        quoted = ",".join(f'"{each.replace(chr(34), 2 * chr(34))}"' for each in [*features, f"@SUM(1)|{HOSTILE}"])
        name = "<img src=x onerror=window.hit=1>.csv"
        (tmp_path / name).write_text(f"{quoted}\n" + "1,2,3,=HYPERLINK(0)\n" * 3)
        page.goto(two.address("/ask"))
        page.get_by_label(HOSTILE).wait_for()
        page.get_by_label("Interval").select_option("")
        send_file(page, tmp_path / name)
        page.get_by_role("heading", name=f"{name}: 3 rows").wait_for()
        page.get_by_role("heading", name="Row 1", exact=True).wait_for()
        assert page.locator("dl.point dt").all_inner_texts() == features
        assert page.locator("dl.point dd").all_inner_texts() == ["1", "2", "3"]
        unhurt(page)
        page.goto(two.address("/trust"))
        page.get_by_label("Across").wait_for()
        page.get_by_label("Up").select_option("__proto__")
        page.get_by_text("up: __proto__").wait_for()
        unhurt(page)
        (tmp_path / "bad.csv").write_text(f'"{HOSTILE.replace(chr(34), 2 * chr(34))}"\n1\n')
        page.goto(two.address("/ask"))
        send_file(page, tmp_path / "bad.csv")
        complaints(page)
        unhurt(page)
        watched.check(two.host(), refusals=True)


def test_hostile_names_of_agents_stay_text(browser, nodes):
    """No node takes such a name; should one slip through all the same, it is shown and no more."""
    state = json.loads(json.dumps(nodes.state()).replace("node1", json.dumps(HOSTILE)[1:-1]))
    with Watched(browser) as watched:
        page = watched.page
        page.goto(nodes.address("/ask"))
        type_row(page)
        ask(page)
        page.locator("#value").wait_for()
        link = page.url

        def renamed(route):
            body = route.fetch().text().replace("node1", json.dumps(HOSTILE)[1:-1])
            route.fulfill(body=body, content_type="application/json")

        stream = f"event: state\ndata: {json.dumps(state)}\n\n"
        page.route("**/events", lambda route: route.fulfill(body=stream, content_type="text/event-stream"))
        page.route("**/api/**", renamed)
        for address, place in (
            (f"http://{nodes.host()}/", "#peers"),
            (link, "table.heat"),
            (f"http://{nodes.host()}/gains", "#members"),
            (f"http://{nodes.host()}/trust", "#agents"),
            (f"http://{nodes.host()}/audit", "#log"),
        ):
            page.goto(address)
            page.locator(place).get_by_text(HOSTILE).first.wait_for()
            unhurt(page)
        watched.check(nodes.host())


def test_the_audit_is_searched_paged_and_sent_as_a_link(tab, nodes, tmp_path):
    nodes.ask(written(tmp_path / "points.csv", 23), tmp_path / "out.csv")
    tab.goto(nodes.address("/audit"))
    tab.locator("#log .group").first.wait_for()
    tab.get_by_label("Kind").select_option("consult")
    tab.get_by_label("Search").fill("analyst")
    until(tab, "[...document.querySelectorAll('#log .group .kind')].every(each => each.textContent === 'consult')")
    tab.locator("#log .group", has_text="analyst").filter(has_text="23").first.wait_for()
    assert "q=analyst" in tab.url
    tab.reload()
    until(tab, "[...document.querySelectorAll('#log .asker')].every(each => each.textContent === 'analyst')")
    assert tab.get_by_label("Kind").input_value() == "consult"
    tab.get_by_label("Search").fill("%")
    tab.get_by_text("No exchange is like that.").wait_for()
    tab.get_by_role("button", name="clear the search").click()
    for k in range(60):  # more questions than a page
        nodes.ask(tmp_path / "points.csv", tmp_path / f"out{k}.csv")
    tab.reload()
    tab.get_by_role("button", name="Earlier").click()
    tab.get_by_text("Page 2").wait_for()
    tab.get_by_role("button", name="Later").click()
    tab.get_by_text("Page 1").wait_for()


def test_a_purpose_that_cannot_be_recorded_is_one_clear_line(browser, nodes):
    with Watched(browser) as watched:
        page = watched.page
        page.goto(nodes.address("/ask"))
        type_row(page)
        page.get_by_label("Purpose (optional)").fill("=1+1")
        ask(page)
        assert "A purpose must be a line of at most 200 printable characters" in complaints(page)
        watched.check(nodes.host(), refusals=True)


def test_a_question_with_its_purpose_opens_to_its_records(tab, nodes):
    tab.goto(nodes.address("/ask"))
    type_row(tab)
    tab.get_by_label("Purpose (optional)").fill("triage, ward 7")
    ask(tab)
    tab.get_by_text("Purpose: triage, ward 7").wait_for()
    assert "kept until" in tab.locator(".about").inner_text()
    tab.get_by_role("link", name="in the audit").click()
    line = tab.locator("#log .group", has_text="triage, ward 7")
    line.wait_for()
    assert tab.locator("#log .group").count() == 1
    line.get_by_role("button").click()
    tab.locator("#log .records tbody tr", has_text="prediction").first.wait_for()
    assert line.get_by_role("button").get_attribute("aria-expanded") == "true"
    until(tab, "/^1 question; /.test(document.querySelector('#totals').textContent)")
    for size, scheme in looks():
        look(tab, "audit-open", size, scheme)


def test_the_ledger_is_verified_and_saved_on_the_page(tab, nodes, tmp_path):
    tab.goto(nodes.address("/audit"))
    tab.get_by_role("button", name="Verify now").click()
    tab.get_by_text("Nothing was changed, and nothing is missing").wait_for()
    assert "are confirmed by peers" in tab.locator("#verified-how").inner_text()
    tab.locator("#peer option[value=node1]").wait_for(state="attached")
    tab.get_by_label("Peer").select_option("node1")
    tab.get_by_text("Export exchanges with node1:").wait_for()
    with tab.expect_download() as waiting:
        tab.get_by_role("link", name="JSON lines").click()
    waiting.value.save_as(tmp_path / "ledger.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert {line["peer"] for line in lines if line["what"] == "record"} == {"node1"}
    tab.get_by_role("radio", name="Without a question, by day").check()
    tab.locator("#log .group", has_text="receipt").first.wait_for()
    for size, scheme in looks():
        look(tab, "audit-days", size, scheme)


def test_trust_is_shown_by_region(tab, nodes, tmp_path):
    nodes.ask(written(tmp_path / "points.csv", 300), tmp_path / "out.csv", "--consensus")
    tab.goto(nodes.address("/trust"))
    tab.locator("#agents tr").first.wait_for()
    shares = tab.locator("#agents td:nth-child(2) data").evaluate_all("all => all.map(each => Number(each.value))")
    assert sum(shares) == pytest.approx(1.0, abs=1e-9)
    assert shares == sorted(shares, reverse=True)
    tab.get_by_label("Up").select_option("x2")
    tab.get_by_text("Across: x0; up: x2.").wait_for()
    assert tab.locator("table.plane td:not(.none)").count() > 4
    tab.locator("#show").select_option(label="weight of node2")
    assert tab.locator("table.plane td[title^='node2 ']").count() > 4


def test_all_can_be_done_by_keyboard(tab, nodes):
    tab.goto(nodes.address("/ask"))
    tab.get_by_label("x0", exact=True).wait_for()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    assert tab.evaluate("location.hash") == "#main"
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.name") == "feature-0":
            break
    for value in POINT:
        tab.keyboard.type(str(value))
        tab.keyboard.press("Tab")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Enter")
    tab.locator("#value").wait_for()
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    tab.keyboard.press("Tab")
    assert tab.evaluate(outline) == "solid"


def test_colours_are_chosen_kept_and_follow_the_system(browser, nodes):
    with Watched(browser, scheme="dark") as watched:
        page, ground = watched.page, "getComputedStyle(document.body).backgroundColor"
        page.goto(nodes.address())
        page.get_by_role("heading", name="Answering", exact=True).wait_for()  # signed in, and loaded anew
        dark = page.evaluate(ground)
        page.emulate_media(color_scheme="light")
        light = page.evaluate(ground)
        assert light != dark
        button = page.get_by_role("button", name="Colours")
        for name, colour in (("light", light), ("dark", dark)):
            button.click()
            assert button.inner_text().endswith(name)
            assert page.evaluate(ground) == colour
        page.goto(nodes.address("/audit"))
        assert page.evaluate(ground) == dark
        watched.check(nodes.host())


@pytest.mark.parametrize("view", VIEWS)
def test_a_first_view_is_small(browser, nodes, view):
    with Watched(browser) as watched:
        session = watched.context.new_cdp_session(watched.page)
        session.send("Network.enable")
        sizes = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        watched.page.goto(nodes.address(VIEWS[view]))
        end = time.monotonic() + 60.0
        while len(sizes) <= 5:
            assert time.monotonic() < end, sizes
            watched.page.wait_for_timeout(50)
        watched.page.wait_for_timeout(1500)  # what else comes
        assert sum(sizes) < BYTES


def looks():
    return [(size, scheme) for size in (WIDE, PHONE) for scheme in ("light", "dark")]


def look(page, name, size, scheme):
    """A picture to be looked at; nothing sticks out, and axe finds nothing serious."""
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_timeout(300)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}-{size['width']}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    found = [each for each in Axe().run(page).response["violations"] if each["impact"] in SERIOUS]
    assert [(each["id"], [node["html"][:160] for node in each["nodes"]][:3]) for each in found] == []


@pytest.mark.parametrize("view", [*VIEWS, "read-only", "row", "rows", "file", "complaint"])
def test_every_view_can_be_read_by_everybody(browser, nodes, tmp_path, view):
    with Watched(browser) as watched:
        page = watched.page
        arrive(page, nodes, view, tmp_path)
        for size, scheme in looks():
            look(page, view, size, scheme)
        watched.check(nodes.host(), refusals=view in ("nowhere", "complaint"))


@cache
def token_to_look(nodes):
    """One that may look at node0, not ask."""
    return add_token(nodes.folder / "node0" / "state", "reader", may_ask=False)


def arrive(page, nodes, view, folder):
    """Open a view and wait until it shows something."""
    address = nodes.address(VIEWS.get(view, "/ask"), token=view != "read-only")
    page.goto(f"{address}#token={token_to_look(nodes)}" if view == "read-only" else address)
    if view in ("ask", "read-only", "row", "rows", "file", "complaint"):
        page.get_by_label("x0", exact=True).wait_for()
    if view == "row":
        type_row(page)
        ask(page)
        page.locator("canvas").wait_for()
    if view == "rows":
        send_file(page, written(folder / "houses.csv", 400))
        page.locator("canvas").wait_for()
    if view == "file":
        page.get_by_role("radio", name="Drop a file").check()
    if view == "complaint":
        (folder / "bad.csv").write_text("x0,x1\n1,2\n")
        send_file(page, folder / "bad.csv")
        complaints(page)
    places = {"overview": "#peers tr", "gains": "#members tr", "trust": "#agents tr", "audit": "#log .group"}
    for name, place in places.items():
        if view == name:
            page.locator(place).first.wait_for()
    time.sleep(0.5)
