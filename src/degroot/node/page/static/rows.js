// The rows of an answer, a page at a time.

import { fill, h } from "./elements.js";
import { brief, count, entry, flagged, given, listed, percent, pick, precision, united } from "./format.js";
import { pager } from "./pager.js";
import { scroll } from "./panel.js";
import { get, Refusal } from "./service.js";

const PAGE = 50;
const FEATURES = 4; // that fit beside the numbers
const ORDERS = [
  ["i", "as they came"],
  ["-value", "highest first"],
  ["value", "lowest first"],
  ["-standard_error", "least stable first"],
  ["flags", "flagged first"],
];

/** A panel with the rows of `about`; `chosen` is called with the number of a row that was picked. */
export function list(about, row, chosen) {
  const body = h("tbody");
  const pages = h("nav", { class: "pages", "aria-label": "Pages of rows" });
  const sort = h(
    "select",
    {},
    orders(about).map(([value, label]) => h("option", { value }, label)),
  );
  const here = { current: row, offset: PAGE * Math.floor(row / PAGE), size: PAGE };
  const mark = (i) => {
    here.current = i;
    for (const each of body.children) {
      if (Number(each.dataset.row) === i) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
  };
  const turn = (to) => {
    here.offset = to;
    load();
  };
  const load = async () => {
    const query = new URLSearchParams({ offset: here.offset, limit: PAGE, sort: sort.value });
    const told = await get(`/api/answers/${encodeURIComponent(about.id)}/rows?${query}`).catch((error) => error);
    if (told instanceof Refusal) return fill(pages, h("p", { class: "complaint" }, told.message));
    const write = precision(
      told.rows.map((each) => [each.value, each.lower, each.upper].flat()),
      told.rows.map((each) => [each.standard_error].flat()),
    );
    fill(
      body,
      told.rows.map((each) => line(about, each, chosen, write)),
    );
    body.parentElement.parentElement.scrollTop = 0;
    mark(here.current);
    if (here.offset + told.rows.length < told.total) here.size = told.rows.length; // of very wide rows, fewer come
    fill(pages, pager({ ...here, total: told.total }, ["Earlier", "Later"], turn));
  };
  sort.addEventListener("change", () => turn(0));
  load();
  return { mark, panel: panel(about, body, pages, sort) };
}

const orders = (about) =>
  about.coverage ? [...ORDERS.slice(0, 4), ["-width", "widest interval first"], ORDERS[4]] : ORDERS;

function panel(about, body, pages, sort) {
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "Row"),
    about.features
      .slice(0, FEATURES)
      .map((name) => h("th", { scope: "col", class: "number feature" }, united(name, entry(about.units, name)))),
    h("th", { scope: "col", class: "number" }, heading(about)),
    h("th", { scope: "col", class: "number" }, "±"),
    about.coverage
      ? h(
          "th",
          { scope: "col", class: "number" },
          about.classes.length ? "Set" : `Interval ${percent(about.coverage)}`,
        )
      : null,
    h("th", { scope: "col" }, "Notes"),
  );
  return h(
    "section",
    { class: "panel rows", "aria-labelledby": "rows-title" },
    h("div", { class: "head" }, h("h2", { id: "rows-title" }, "Rows"), h("label", { class: "field" }, "Order", sort)),
    scroll("rows-title", h("table", { "aria-labelledby": "rows-title" }, h("thead", {}, head), body)),
    pages,
  );
}

/** What the answers are of, with its unit. */
function heading({ classes, target }) {
  const name = target?.name ?? (classes.length ? "Class" : "Value");
  return united(name, classes.length ? null : target?.unit);
}

function line(about, row, chosen, write) {
  const open = (event) => {
    event.preventDefault();
    chosen(row.i);
  };
  const kinds = [...new Set(row.flags.map((each) => each.kind))];
  const notes = [
    ...(row.missing.length ? [`without ${listed(row.missing)}`] : []),
    ...kinds.map(
      (kind) =>
        `${flagged(kind)}: ${row.flags
          .filter((each) => each.kind === kind)
          .map((each) => each.agent)
          .join(", ")}`,
    ),
  ];
  return h(
    "tr",
    { "data-row": row.i, class: notes.length ? "noted" : null },
    h(
      "td",
      {},
      h("a", { href: `/answers/${encodeURIComponent(about.id)}?row=${row.i}`, onclick: open }, count(row.i + 1)),
    ),
    row.point.slice(0, FEATURES).map((value) => h("td", { class: "number feature" }, typeof value === "string" ? given(value) : brief(value)),
    ),
    value(about, row, write),
    h("td", { class: "number" }, (about.classes.length ? percent : write)(top(about, row, row.standard_error))),
    within(about, row, write),
    h("td", { class: "muted" }, notes.join("; ")),
  );
}

/** Of several: that of the most probable class, or of the first output. */
function top(about, row, values) {
  return pick(values, about.classes.length ? best(row.value) : 0);
}

export const best = (chances) => (Array.isArray(chances) ? chances.indexOf(Math.max(...chances)) : 0);

function value(about, row, write) {
  if (about.classes.length)
    return h(
      "td",
      { class: "number" },
      `${about.classes[best(row.value)]} `,
      h("span", { class: "muted" }, percent(Math.max(...row.value))),
    );
  const shown = Array.isArray(row.value) ? row.value : [row.value];
  return h(
    "td",
    { class: "number" },
    shown.slice(0, 3).map((each, k) => [k ? ", " : "", h("data", { value: each }, write(each))]),
    shown.length > 3 ? " …" : "",
  );
}

function within(about, row, write) {
  if (!about.coverage) return null;
  if (about.classes.length) return h("td", { class: "number" }, listed(row.set.map(String)));
  const [lower, upper] = [row.lower, row.upper].map((each) => pick(each, 0));
  return h("td", { class: "number" }, `${write(lower)} to ${write(upper)}`);
}
