"""The page's form by the schema, in a real browser: selects, dates, units, and what is wrong beside its field."""

from pathlib import Path

import pandas as pd
import pytest
from support.browser import PHONE, WIDE, Paged, Watched, chromium
from support.consortium import free_ports
from support.tables import SCHEMA, SchemaConsortium, encode, make_table

pytestmark = pytest.mark.slow

SHOTS = Path(__file__).parents[2] / "build" / "page"  # to be looked at
ROW = {"age": "44.5", "weight": "", "sex": "male", "grade": "high", "smoker": "yes", "seen": "2024-02-29"}


class PagedSchemas(SchemaConsortium):
    """Nodes by a schema, with pages."""

    host, token, address, state, whole = Paged.host, Paged.token, Paged.address, Paged.state, Paged.whole

    def __init__(self, folder, K=3, **settings):
        self.page_ports = dict(zip([f"node{k}" for k in range(K)], free_ports(K), strict=True))
        super().__init__(folder, K, **settings)

    def write(self, name, *arguments, limits="", **settings):
        page = f"\n[page]\nport = {self.page_ports[name]}\n"
        super().write(name, *arguments, limits=limits + page, **settings)


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def nodes(browser, tmp_path_factory):
    with PagedSchemas(tmp_path_factory.mktemp("schemas")) as found:
        yield found.fork().whole()


@pytest.fixture
def tab(browser, nodes):
    with Watched(browser) as watched:
        yield watched.page
        watched.check(nodes.host(), refusals=True)


def fill(page, row=ROW):
    for k, name in enumerate(SCHEMA.names):
        box = page.locator(f"#feature-{k}")
        if box.evaluate("box => box.tagName") == "SELECT":
            box.select_option(row[name])
        else:
            box.fill(row[name])


def look_at(page, name):
    """A picture to be looked at; axe finds nothing serious."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
    found = axe.run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def ask(page):
    page.get_by_role("button", name="Ask", exact=True).click()


def test_the_form_follows_the_schema(tab, nodes):
    tab.goto(nodes.address("/ask"))
    tab.locator("#feature-0").wait_for()
    kinds = [tab.locator(f"#feature-{k}").evaluate("box => box.type") for k in range(6)]
    assert kinds == ["text", "text", "select-one", "select-one", "select-one", "date"]
    assert tab.locator("label[for=feature-0]").text_content() == "age (years)"
    assert tab.locator("[data-column=age] .with-unit .unit").is_visible()
    assert "0 to 120" in tab.locator("#hint-0").inner_text()
    assert "not measured" in tab.locator("#hint-1").inner_text()
    options = tab.locator("#feature-2 option").all_inner_texts()
    assert options == ["(not known)", "female", "male"]
    look_at(tab, "schema-form")


def test_a_typed_row_is_answered_with_the_target_and_its_unit(tab, nodes):
    tab.goto(nodes.address("/ask"))
    tab.locator("#feature-0").wait_for()
    fill(tab)
    ask(tab)
    tab.locator("#value").wait_for()
    point = encode(pd.DataFrame([{name: text or None for name, text in ROW.items()}]))
    expected = nodes.collective().consult(point, asker="node0")
    assert float(tab.locator("#value").get_attribute("value")) == pytest.approx(expected.value[0], abs=1e-9)
    assert "cost" in tab.locator("#row-title").inner_text()
    assert "EUR" in tab.locator(".hero").inner_text()
    assert "44.5 years" in tab.locator("dl.point").inner_text()
    assert "male" in tab.locator("dl.point").inner_text()
    look_at(tab, "schema-answer")


def test_what_is_not_admitted_is_said_beside_its_field_and_nothing_is_lost(tab, nodes):
    tab.goto(nodes.address("/ask"))
    tab.locator("#feature-0").wait_for()
    fill(tab, ROW | {"age": "430", "weight": "heavy"})
    ask(tab)
    tab.locator("#fault-0:not(:empty)").wait_for()
    assert "from 0 to 120" in tab.locator("#fault-0").inner_text()
    assert "'heavy'" in tab.locator("#fault-1").inner_text()
    assert tab.locator("#feature-0").get_attribute("aria-invalid") == "true"
    assert [tab.locator(f"#feature-{k}").input_value() for k in (0, 1, 2)] == ["430", "heavy", "male"]
    look_at(tab, "schema-faults")


def test_a_file_is_read_by_the_schema(tab, nodes, tmp_path):
    table, _ = make_table(5, 12, gaps=0.2)
    table.to_csv(tmp_path / "asked.csv", index=False)
    tab.goto(nodes.address("/ask"))
    tab.get_by_role("radio", name="Drop a file").check()
    tab.locator("#file").set_input_files(tmp_path / "asked.csv")
    ask(tab)
    tab.locator("section.rows tbody tr").nth(11).wait_for()
    assert "cost (EUR)" in tab.locator("section.rows thead").inner_text()
    with tab.expect_download() as found:
        tab.get_by_role("link", name="Download CSV").click()
    told = pd.read_csv(found.value.path())
    assert set(told["target"]) == {"cost"}
    assert set(told["unit"]) == {"EUR"}
    pd.testing.assert_frame_equal(told[list(table)], table, check_dtype=False)


def test_at_phone_width_nothing_is_cut_off(browser, nodes):
    with Watched(browser, size=PHONE) as watched:
        watched.page.goto(nodes.address("/ask"))
        watched.page.locator("#feature-5").wait_for()
        wide = watched.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"] < WIDE["width"]
        look_at(watched.page, "schema-phone")
        watched.check(nodes.host())
