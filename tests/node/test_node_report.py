"""`degroot node report`: what an officer reads is what the ledger holds, whoever wrote the names and purposes in it."""

import re
import shutil
import sqlite3
import time
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support.consortium import CLIENT, Consortium

from degroot.node.config import OWN, POOLED, read
from degroot.node.records.chain import IN, OUT, Origin
from degroot.node.records.departures import WORDS
from degroot.node.records.ledger import DAY, TABLES, VERSION, Ledger, journal_path, record_beside, summary
from degroot.node.report.facts import add_up, gather_facts
from degroot.node.report.render import escape_markdown, render_assessment, render_html, render_markdown
from degroot.node.report.words import FLOWS, MAPS, MODES, RISKS, find_flow, find_mode

ROOT = Path(__file__).parents[2]
LEAKS = (ROOT / "benchmarks" / "LEAKS.md").read_text()
HOSTILE = "1 <script>alert(1)</script> | [x](https://evil.example) `*b*` & www.evil.example me@evil.example"
NODE = """
name = "north"
listen = "127.0.0.1:7441"
state = "state"
{top}
[model]
file = "model.onnx"
[data]
file = "rows.csv"
target = "y"
[[peers]]
name = "south"
address = "127.0.0.1:7442"
rows_per_day = 1000
[[peers]]
name = "west"
address = "127.0.0.1:7443"
may = ["query", "copy"]
use = ["copy"]
[[clients]]
name = "analyst"
fields = ["value"]
"""
NOW = time.time()
MINUTE = 60.0
TERMS = """
[maps]
ranges = { x = [0.0, 1.0] }
residual_bound = 1.5
rows = 1500
epsilon = 2.0
delta = 1e-6
lifetime_epsilon = 8.0
lifetime_delta = 1e-5
"""


@pytest.fixture
def site(tmp_path):
    """The file of a node that has a roster, and nothing else yet."""
    return write(tmp_path)


def write(folder, top=""):
    path = folder / "node.toml"
    path.write_text(NODE.format(top=top))
    (folder / "state").mkdir(exist_ok=True)
    return path


def fill(path, begun=NOW, **settings):
    """Some exchanges of each kind."""
    at = [begun]
    ledger = Ledger(path, "north", clock=lambda: at[0], **settings)
    for k in range(3):
        at[0] = begun + k * MINUTE
        question = Origin(f"{k:016x}", "analyst", "triage")
        ledger.record("analyst", "consult", IN, 10, 80, 300, question)
        ledger.record_all(["south", "west"], "prediction", OUT, 10, 250, 0, question)
        ledger.record_replies("prediction", [("south", 90, ""), ("west", 91, "")], question)
    ledger.record("south", "prediction", IN, 4, 40, 100, Origin("a" * 16, "clerk", HOSTILE))
    ledger.record("south", "model query", OUT, 120, 4000, 0, Origin("b" * 16, "north", "scoring"))
    ledger.record("south", "model query", IN, 7, 60, 400, Origin("", "south"))
    ledger.record("west", "copy", IN, 0, 5000, 30, Origin("c" * 16, "west"))
    ledger.record("north", "consult", IN, 5, 50, 60, Origin("d" * 16, "north"))
    for _ in range(9):
        ledger.count("south", "describe", IN, 100, 2)
    ledger.close()


def gather(path, **settings):
    return gather_facts(read(path), **settings)


def numbers_of(text):
    """The numbers in the last line of the table of what left: rows, messages, bytes."""
    line = next(line for line in text.splitlines() if line.startswith("| **all**"))
    return [int(each.replace(",", "")) for each in re.findall(r"\*\*([\d,]+)\*\*", line)]


# -- the sums are the ledger's -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", [0, 3, 40], ids=["today", "before", "expired"])
def test_all_sums_are_those_of_the_ledger(site, age):
    ledger = read(site).ledger
    fill(ledger, NOW - age * DAY)
    if age:
        Ledger(ledger, "north").close()  # which folds what has expired
    facts, lines = gather(site), summary(ledger)
    assert list(facts.recorded.entries) == lines
    listed = [flow.entry for flows in facts.flows.values() for flow in flows]
    assert sorted(listed, key=lambda each: (each.peer, each.kind, each.direction)) == lines
    sums = add_up(lines)
    assert facts.add_up() == sums
    assert numbers_of(render_markdown(facts)) == [sums.rows, sums.exchanges, sums.sent]
    assert (facts.recorded.expired is None) == (age < 30)
    assert bool(facts.recorded.questions) == (age < 30)


def test_questions_are_counted_once_by_asker_and_purpose(site):
    fill(read(site).ledger)
    found = {
        (each.asker, each.purpose): (each.role, each.questions, each.rows) for each in gather(site).recorded.questions
    }
    assert found == {
        ("analyst", "triage"): ("asked at this node", 3, 30),
        ("north", ""): ("asked at this node", 1, 5),
        ("south", ""): ("another member's work with this node's model", 1, 7),
        ("clerk", HOSTILE): ("asked at another member, which asked this node for its part", 1, 4),
        ("north", "scoring"): ("by this node, of other members", 1, 120),
    }  # fmt: skip


def test_since_a_day_counts_from_its_beginning_on_folded_or_not(site):
    path, today = read(site).ledger, int(NOW // DAY)
    for age in (40, 2, 0):
        at = (today - age) * DAY + 1.0
        fill(path, at)
    whole = gather(site)
    for age, parts in ((41, 3), (40, 3), (39, 2), (2, 2), (1, 1), (0, 1), (-1, 0)):
        facts = gather(site, since=date.fromordinal(date(1970, 1, 1).toordinal() + today - age))
        assert [facts.add_up().rows * 3, facts.add_up().sent * 3] == [
            whole.add_up().rows * parts,
            whole.add_up().sent * parts,
        ]
    assert "in this period" in render_markdown(facts)


def test_budgets_are_those_that_the_node_counts(site):
    path = read(site).ledger
    fill(path)
    fill(path, NOW - 3 * DAY)
    ledger = Ledger(path, "north")
    counted = ledger.count_rows_asked(int(time.time() // DAY))
    ledger.close()
    budgets = {each.who: each for each in gather(site).budgets}
    assert {name: budgets[name].used for name in budgets} == {name: counted.get(name, 0) for name in budgets}
    assert (budgets["south"].limit, budgets["south"].left) == (1000, 1000 - budgets["south"].used)


def test_many_purposes_are_cut_short_and_added_up(site):
    ledger = Ledger(read(site).ledger, "north")
    for k in range(150):
        ledger.record("analyst", "consult", IN, k + 1, 1, 1, Origin(f"{k:016x}", "analyst", f"purpose {k}"))
    ledger.close()
    recorded = gather(site).recorded
    assert (len(recorded.questions), len(recorded.more_questions)) == (100, 50)
    assert sum(each.rows for each in recorded.more_questions) == sum(range(51))
    assert "50 more askers and purposes" in render_html(gather(site))


# -- what others have written ------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data):
        self.text += data


def test_names_and_purposes_are_text_in_both_formats(site):
    fill(read(site).ledger)
    facts = gather(site)
    page, markdown = Tags(render_html(facts)), render_markdown(facts)
    assert HOSTILE in page.text
    assert not page.tags & {"script", "a", "img", "link", "iframe"}
    assert not page.attributes & {"src", "href", "onclick", "style"}
    told = next(line for line in markdown.splitlines() if "evil" in line)
    assert len(re.findall(r"(?<!\\)\|", told)) == 8  # the borders of seven cells
    assert not re.search(r"<|(?<!\\)[`\[\]*@]|https://|www\.", told)
    for line in markdown.splitlines() + render_assessment(facts).splitlines():
        assert "<script" not in line


def test_a_line_stays_a_line(site):
    path = read(site).ledger
    fill(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE records SET purpose = ? WHERE asker = 'clerk'", ("a\n\n# b\u202e",))
    connection.close()
    facts = gather(site)
    assert "a  \\# b " in render_markdown(facts)
    assert not facts.recorded.verification.is_whole  # the change is found


def test_what_markdown_would_take_for_marks_is_escaped():
    assert escape_markdown("a|b*c_d`e") == r"a\|b\*c\_d\`e"
    assert escape_markdown("<b>&amp;") == "&lt;b&gt;&amp;amp;"
    assert escape_markdown("at 12:30, 5 %") == "at 12:30, 5 %"
    assert escape_markdown(7) == 7


# -- modes, rights, and what is kept -----------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", [OWN, POOLED])
def test_every_mode_is_told_in_every_format(tmp_path, evidence):
    facts = gather(write(tmp_path, f'evidence = "{evidence}"'))
    for text in (render_markdown(facts), Tags(render_html(facts)).text, render_assessment(facts)):
        assert MODES[evidence].meaning in text
        assert MODES[evidence].risk in text


def test_with_maps_the_report_is_of_maps_not_of_pooled_evidence(tmp_path):
    path = write(tmp_path, 'evidence = "maps"')
    path.write_text(path.read_text() + TERMS)
    told = read(path)
    (told.maps_folder / "peers").mkdir(parents=True)
    for name in ("published", "peers/south", "peers/east"):
        (told.maps_folder / f"{name}.map").write_bytes(b"12345")
    record_beside(told.ledger, "south", "pushed copy", OUT, 0, 100, 0)
    ledger = Ledger(told.ledger, "north")
    ledger.record("south", "evidence map", IN, 0, 1393, 47, Origin("e" * 16, "south"))
    ledger.record("south", "evidence map", OUT, 0, 47, 0, Origin("f" * 16, "north"))
    ledger.close()
    facts = gather(path)
    assert facts.recorded.questions == []  # a request for a map is none
    assert facts.left_behind == ["east"]
    stored = {each.place: (each.files, each.size) for each in facts.stored}
    assert (stored["maps"], stored["maps/peers"]) == ((1, 5), (2, 10))
    assert [(each.limit, each.used) for each in facts.budgets if "privacy" in each.what] == [(8.0, 0.0), (1e-5, 0.0)]
    for text in (render_markdown(facts), Tags(render_html(facts)).text):
        assert "have this node's evidence map: sums of errors with noise" in text
        assert "pooled" not in text
        assert "Delta is the probability" in text
    assert "life (delta) | 1e-05, of which 0 is spent" in render_assessment(facts)


def test_modes_and_kinds_that_come_later_have_words_or_say_that_there_are_none(site):
    assert set(MODES) >= {OWN, POOLED, MAPS}
    assert "sealed" in find_mode("sealed").meaning
    assert "telegram" in find_flow("telegram", IN).left
    assert set(WORDS) <= set(FLOWS)
    ledger = Ledger(read(site).ledger, "north")
    ledger.record("south", "telegram", OUT, 3, 4, 5)
    ledger.close()
    assert "messages of another kind (telegram)" in render_markdown(gather(site))


def test_rights_uses_and_fields_are_in_words(site):
    text = render_markdown(gather(site))
    assert "hold a copy of this node's model" in text
    assert "only as a copy that is held here: no row of this node is sent there" in text
    assert "- see of answers: the answer\n" in text


def test_what_is_left_of_former_members_is_named(site):
    state = read(site).state
    (state / "residuals" / "x").mkdir(parents=True)
    for name in ("south", "east"):
        (state / "residuals" / "x" / f"{name}.json").write_text(f'{{"name": "{name}", "version": "1"}}')
    (state / "residuals" / "x" / "damaged.json").write_text("{")
    (state / "copies").mkdir()
    (state / "copies" / "away.degroot").write_bytes(b"nothing")
    facts = gather(site)
    assert facts.left_behind == ["away", "east"]
    assert "Of away, east, not among the peers" in render_markdown(facts)


def test_figures_are_those_of_the_measured_attacks():
    """Every figure in the words on risks is in the table that says so."""
    told = " ".join([mode.risk for mode in MODES.values()] + [risk.measured for risk in RISKS])
    for figure in re.findall(r"\d\.\d{3} ± \d\.\d{3}|\d+ of \d+", told):
        assert figure in LEAKS, figure
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LEAKS.splitlines() if line.startswith("|")]
    assert ["own, queries", "10,000", "0 of 91", "2 of 91", "384", "2,515", "0.85", "5.8"] in rows
    assert ["own, queries", "client", "value, kinks", "0.944 ± 0.020", "40"] in rows
    assert ["own, queries", "client", "value and interval, kinks", "0.977 ± 0.015", "40"] in rows
    assert ["own, queries", "member", "the victim's model, label known", "0.555 ± 0.042", "1"] in rows
    assert ["pooled", "the linear attack", "91 of 91", "91 of 91", "0", "2,515", "1.00", "7.4"] in rows
    assert "| own, queries | largest label | 310.000000 | 305.993101 | 12 |" in LEAKS


def test_the_threat_model_has_the_figures_and_headings_of_the_measured_attacks():
    text = (ROOT / "docs" / "security.md").read_text()
    threats = text.partition("## Threat model\n")[2].partition("\n## ")[0]
    measured = LEAKS + (ROOT / "benchmarks" / "ATTACKS.md").read_text()
    headings = {line.lstrip("# ") for line in measured.splitlines() if line.startswith("#")} | {"asker"}
    figures = re.findall(r"\d\.\d{3} ± \d\.\d{3}|\d+ of \d+|-?\d+\.\d\d?(?![\d.])", threats)
    assert len(figures) > 20
    assert [each for each in figures if not re.search(rf"(?<!\d){re.escape(each)}(?!\d)", measured)] == []
    cells = [line.split("|")[-2] for line in threats.splitlines() if line.startswith("| ")]
    named = [each for cell in cells for each in re.findall(r"\*([A-Z1-9][^*]+)\*", cell)]
    assert len(named) > 10
    assert set(named) <= headings
    assert set(re.findall(r"test_\w+\.py", threats)) <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}


# -- the command, and ledgers that are not as they should be -----------------------------------------------------------


def complaint(run):
    """What a mistake is told as: one line."""
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1), run
    return run.err


@pytest.fixture
def report(degroot, site):
    return lambda *options: degroot("node", "report", site, *options)


def test_the_suffix_says_what_is_written_and_a_report_is_replaced(report, site, tmp_path):
    fill(read(site).ledger)
    state = tmp_path / "state"
    before = {path.name: path.read_bytes() for path in state.iterdir()}
    printed = report()
    assert printed.code == 0
    assert printed.out.startswith("# Data-flow record of north\n")
    for _ in range(2):
        assert report("--out", tmp_path / "r.md").code == report("--out", tmp_path / "r.HTML").code == 0
    assert (tmp_path / "r.md").read_text().startswith("# Data-flow record of north\n")
    assert (tmp_path / "r.HTML").read_text().startswith("<!doctype html>")
    after = {path.name: path.read_bytes() for path in state.iterdir() if not path.name.endswith(("-shm", "-wal"))}
    assert after == before  # nothing is written there, but for what SQLite needs to read


def test_an_assessment_that_may_be_filled_in_is_not_overwritten(report, tmp_path):
    assert report("--dpia").out.startswith("# Data-protection impact assessment")
    assert report("--dpia", "--out", tmp_path / "dpia.md").code == 0
    (tmp_path / "dpia.md").write_text("filled in")
    assert "is there already" in complaint(report("--dpia", "--out", tmp_path / "dpia.md"))
    assert (tmp_path / "dpia.md").read_text() == "filled in"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "r.pdf"], ".html or .md"),
        (["--out", "r"], ".html or .md"),
        (["--dpia", "--out", "r.html"], "--dpia"),
        (["--since", "yesterday"], "2026-01-31"),
        (["--out", "nowhere/r.md"], "nowhere"),
    ],
)
def test_wrong_options_are_one_line(report, monkeypatch, tmp_path, options, words):
    monkeypatch.chdir(tmp_path)
    run = report(*options)
    assert (run.code, run.out) == (2, "")
    assert words in complaint(run)


def test_without_a_ledger_nothing_has_been_exchanged(report, site):
    for folder in ("empty", None):
        printed = report()
        assert printed.code == 0
        assert "Nothing has been exchanged" in printed.out
        assert "There is no ledger yet." in printed.out
        if folder is None:
            break
        (read(site).state).rmdir()  # nor a state folder


def test_records_without_their_ledger_are_one_clear_line(report, site):
    path = read(site).ledger
    record_beside(path, "south", "pushed copy", OUT, 0, 100, 0)
    assert "Our model was given to south" in report().out  # before the node has ever run
    path.unlink()
    assert "holds records, which the node takes in" in complaint(report())
    fill(path)
    kept = path.read_bytes()
    journal_path(path).write_bytes(b"not empty")
    path.unlink()
    run = report()
    assert (run.code, run.out) == (2, "")
    assert "ledger.journal" in complaint(run)
    path.write_bytes(kept)
    printed = report()
    assert printed.code == 0
    assert "1 lines of the journal are damaged" in printed.out


def test_a_ledger_of_another_version_is_one_clear_line(report, site):
    path = read(site).ledger
    with sqlite3.connect(path) as connection:
        connection.executescript(f"{TABLES} PRAGMA user_version = 2;")
    connection.close()
    assert re.search("version 2, which the node takes over", complaint(report()))
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    assert f"is of version {VERSION + 1}" in complaint(report())


def test_damaged_ledgers_are_a_report_with_findings_or_one_clear_line(report, site, tmp_path):
    path = read(site).ledger
    fill(path)
    whole, source = path.read_bytes(), np.random.default_rng(0)
    damages = [b"", b"no database, but text", whole[: len(whole) // 2], whole[:5000]]
    for _ in range(15):
        content = bytearray(whole)
        place = int(source.integers(100, len(whole) - 64))
        content[place : place + 64] = source.bytes(64)
        damages.append(bytes(content))
    for content in damages:
        for other in path.parent.glob("ledger.sqlite-*"):
            other.unlink()
        path.write_bytes(content)
        run = report("--out", tmp_path / "r.md")
        assert run.code in (0, 2), run
        assert run.code == 0 or (run.err.count("\n") == 1 and str(path) in run.err), run.err
        assert path.read_bytes() == content


def test_values_of_other_types_are_one_clear_line_or_findings(report, site):
    path = read(site).ledger
    fill(path)
    kept = path.read_bytes()
    changes = ["at = 'then'", "at = 1e300", "peer = x'ff'", "\"rows\" = 'many'", "asker = x'00ff'", "at = -1e20"]
    for change in changes:
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE records SET {change} WHERE number = 2")
        connection.close()
        run = report()
        assert run.code in (0, 2), run
        assert "Something is wrong" in run.out if run.code == 0 else complaint(run)
        path.write_bytes(kept)


def test_a_record_that_was_changed_is_told(report, site):
    path = read(site).ledger
    fill(path, begun=NOW - 10 * MINUTE)
    assert "Nothing was changed, and nothing is missing" in report().out
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE records SET "rows" = 1 WHERE number = 1')
    connection.close()
    printed = report()
    assert "Something is wrong with this record" in printed.out
    assert "record 1 of" in printed.out


# -- a consortium that runs --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_running_consortium_is_reported_as_its_ledgers_have_it(tmp_path_factory, degroot):
    folder = tmp_path_factory.mktemp("consortium")
    with Consortium(folder, 2, evidence="own", may=["query", "copy"], use=["query"]) as made:
        made.fork().ready()
        points = np.random.default_rng(0).normal(size=(12, 3))
        with made.connect("node0") as node:
            node.predict(points, purpose="triage")
        for name in made.names:
            path = folder / name / "node.toml"
            assert degroot("node", "report", path, "--out", folder / f"{name}.html").code == 0
            assert "Something is wrong" not in (folder / f"{name}.html").read_text()
        for name in made.names:
            made.kill(name, 15)
        for name in made.names:
            facts, lines = gather(folder / name / "node.toml"), summary(made.configuration(name).ledger)
            assert facts.add_up() == add_up(lines)
            assert facts.recorded.unchecked == ""
            assert facts.recorded.verification.is_whole
            assert facts.recorded.verification.is_signed
        asked = {(each.asker, each.purpose): each.rows for each in facts.recorded.questions}
        assert asked[CLIENT, "triage"] == len(points)  # node1 was told by node0 who asks, and why
        text = render_markdown(facts)
        assert f"Predictions of our model for {len(points) + len(made.agents[0].X)} rows were given to node0." in text
        assert f"{datetime.now(UTC):%Y-%m}" in text
        shutil.rmtree(folder / "keys")
        assert "Signatures were not checked" in degroot("node", "report", folder / "node1" / "node.toml").out
