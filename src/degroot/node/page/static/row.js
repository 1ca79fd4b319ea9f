// One answered row: the value, who believes what, who trusts whom, how they came to agree.

import { agents } from "./agents.js";
import { bar } from "./bars.js";
import { announce, fill, h } from "./elements.js";
import { count, entry, given, listed, measured, percent, pick, precision } from "./format.js";
import { heat } from "./heat.js";
import { live } from "./live.js";
import { mixed } from "./mixed.js";
import { panel } from "./panel.js";
import { rounds } from "./rounds.js";
import { best } from "./rows.js";
import { ruler } from "./ruler.js";
import { get } from "./service.js";
import { sides } from "./sides.js";

let output = null; // which of several outputs is looked at; of classes, the most probable at first
let wanted = null;

export async function detail(place, about, i, turn) {
  wanted = `${about.id} ${i}`;
  const mine = wanted;
  try {
    const row = await get(`/api/answers/${encodeURIComponent(about.id)}/rows/${i}`);
    if (mine === wanted) draw(place, about, row, turn);
  } catch (error) {
    if (mine === wanted)
      fill(
        place,
        h(
          "div",
          { class: "notice bad", role: "alert" },
          h("p", {}, h("strong", {}, "This row cannot be shown."), ` ${error.message}`),
        ),
      );
  }
}

function draw(place, about, row, turn) {
  const several = Array.isArray(row.value) ? row.value.length : 0;
  const q = several ? Math.min(output ?? (about.classes.length ? best(row.value) : 0), several - 1) : 0;
  const again = (k) => {
    output = k;
    draw(place, about, row, turn);
  };
  const one = single(row, q);
  fill(
    place,
    h(
      "div",
      { class: "findings-all" },
      h(
        "section",
        { class: "panel", "aria-labelledby": "row-title" },
        title(about, row, turn, several ? select(about, several, q, again) : null),
        hero(about, row, one, q),
        sides(about, row, q, about.asker ?? live.state?.node.name ?? "this node", one.write),
      ),
      h(
        "div",
        { class: "findings" },
        h("div", {}, agents(one, about), row.text ? words(row.text) : null, point(row, about)),
        h(
          "div",
          {},
          about.asker ? mixed(about.mixed) : null,
          row.views.consensus
            ? heat({ names: one.agents.map((each) => each.name), trust: one.trust, way: about.way })
            : null,
          rounds(one),
        ),
      ),
    ),
  );
  announce(`Row ${row.i + 1}: ${worded(about, row, one)}`);
}

/** The row with one output only. */
function single(row, q) {
  const agents = row.agents.map((each) => ({
    ...each,
    belief: pick(each.belief, q),
    influence: pick(each.influence, q),
  }));
  const told = row.rounds?.map((line) => line.map((each) => pick(each, q))) ?? null;
  const [value, error, lower, upper] = [row.value, row.standard_error, row.lower, row.upper].map((each) => pick(each, q));
  const beliefs = agents.map((each) => each.belief);
  const offsets = beliefs.map((each) => (Number.isFinite(each) ? each - value : null));
  return {
    value,
    standard_error: error,
    lower,
    upper,
    write: precision([value, lower, upper, ...beliefs], [error, ...offsets]),
    coverage: row.coverage,
    trust: row.trust,
    agents,
    rounds: told,
  };
}

function title(about, row, turn, picker) {
  const step = (by, label) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        disabled: row.i + by < 0 || row.i + by >= about.rows,
        onclick: () => turn(row.i + by),
      },
      label,
    );
  return h(
    "div",
    { class: "rowhead" },
    h("h2", { id: "row-title" }, about.rows > 1 ? numbered(about, row) : spoken(about)),
    h("div", { class: "actions" }, picker, about.rows > 1 ? [step(-1, "Row before"), step(1, "Row after")] : null),
  );
}

const numbered = ({ target }, row) => `Row ${count(row.i + 1)}${target ? `: ${target.name}` : ""}`;

const spoken = ({ asker, target }) =>
  `The collective says${asker ? `, for ${asker}` : ""}${target ? `: ${target.name}` : ""}`;

const unit = (about) => (about.classes.length ? "" : (about.target?.unit ?? ""));

function select(about, several, q, again) {
  const label = (k) => (about.classes.length ? String(about.classes[k]) : `${k + 1} of ${several}`);
  return h(
    "label",
    { class: "field" },
    about.classes.length ? "Class" : "Output",
    h(
      "select",
      { onchange: (event) => again(Number(event.target.value)) },
      [...Array(several).keys()].map((k) => h("option", { value: k, selected: k === q }, label(k))),
    ),
  );
}

function worded(about, row, one) {
  return about.classes.length
    ? `${about.classes[best(row.value)]}, ${percent(Math.max(...row.value))}`
    : measured(one.write(one.value), unit(about));
}

function hero(about, row, one, q) {
  const classes = about.classes.length;
  const facts = [];
  if (row.set?.length) facts.push([`${percent(one.coverage)} set`, listed(row.set.map(String))]);
  else if (typeof one.lower === "number")
    facts.push([
      `${percent(one.coverage)} interval`,
      [
        h("data", { value: one.lower }, one.write(one.lower)),
        " to ",
        h("data", { value: one.upper }, one.write(one.upper)),
        unit(about) ? ` ${unit(about)}` : "",
      ],
    ]);
  facts.push([
    "Stability",
    typeof one.standard_error === "number"
      ? [
          `± `,
          h("data", { value: one.standard_error }, classes ? percent(one.standard_error) : one.write(one.standard_error)),
          " standard error over agents",
        ]
      : "not known from one agent",
  ]);
  const value = classes
    ? String(about.classes[best(row.value)])
    : [
        h("data", { value: one.value, id: "value" }, one.write(one.value)),
        unit(about) ? h("span", { class: "unit" }, ` ${unit(about)}`) : null,
      ];
  return h(
    "div",
    { class: "hero" },
    h(
      "div",
      {},
      h("p", { class: "value" }, value),
      classes ? h("p", { class: "muted" }, `with probability ${percent(Math.max(...row.value))}`) : null,
      h(
        "dl",
        {},
        facts.map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]),
      ),
    ),
    classes ? chances(about.classes, row.value, q) : ruler(one),
  );
}

function chances(classes, values, q) {
  return h(
    "ul",
    { class: "chances", "aria-label": "Probabilities" },
    classes.map((label, k) =>
      h(
        "li",
        { class: k === q ? "top-class" : null },
        h("span", {}, String(label)),
        bar(values[k]),
        h("data", { value: values[k], class: "number" }, percent(values[k])),
      ),
    ),
  );
}

/** The explanation: sentences to read, and its table for those who copy it. */
function words(text) {
  const parts = text
    .trim()
    .replace(/ (for|at) point \d+/, "") // the row is named above
    .split(/\n\s*\n/);
  const aligned = (part) => part.split("\n").filter((line) => /\S {2,}\S/.test(line)).length > 1;
  const tables = parts.filter(aligned);
  return panel(
    "text-title",
    "In words",
    null,
    h(
      "div",
      { class: "words" },
      parts.filter((part) => !aligned(part)).map(prose),
    ),
    tables.length
      ? h(
          "details",
          { class: "more" },
          h("summary", {}, "As a table"),
          h("pre", { class: "text", tabindex: 0, "aria-label": "The answer as a table" }, tables.join("\n\n")),
        )
      : null,
  );
}

/** Lines as paragraphs; those that are set in, as a list. */
function prose(part) {
  const blocks = [];
  for (const line of part.split("\n")) {
    const tag = line.startsWith("  ") ? "ul" : "p";
    if (blocks.at(-1)?.tag !== tag) blocks.push({ tag, lines: [] });
    blocks.at(-1).lines.push(line.trim());
  }
  return blocks.map(({ tag, lines }) =>
    h(tag, {}, tag === "p" ? lines.join(" ") : lines.map((line) => h("li", {}, line))),
  );
}

function point(row, { features, units }) {
  return panel(
    "point-title",
    "The point",
    null,
    h(
      "dl",
      { class: "point" },
      features.map((name) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, measured(given(row.point[name]), entry(units, name)))),
      ),
    ),
  );
}
