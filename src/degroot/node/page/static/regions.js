// The plane of two features in cells: who carries the answers where.

import { colour, swatch } from "./bars.js";
import { h } from "./elements.js";
import { measured, number, percent, plural } from "./format.js";
import { scroll } from "./panel.js";

/** `show`: "top", or the number of an agent whose weight is looked at. */
export function regions(plane, names, show) {
  if (!plane || !plane.cells.length) return h("p", { class: "muted" }, "No points with these features yet.");
  const columns = plane.x_edges.length - 1;
  const lines = plane.y_edges.length - 1;
  const cells = new Map(plane.cells.map((each) => [`${each.ix} ${each.iy}`, each]));
  const most = Math.max(1e-9, ...plane.cells.flatMap((each) => each.weights));
  const upwards = [...Array(lines).keys()].reverse();
  const table = h(
    "table",
    { class: "plane", "aria-labelledby": "regions-title" },
    h(
      "tbody",
      {},
      upwards.map((iy) =>
        h(
          "tr",
          {},
          h("th", { scope: "row", title: place(plane, "y", iy) }, ticks(plane, "y")[iy]),
          [...Array(columns).keys()].map((ix) => entry(cells.get(`${ix} ${iy}`), names, show, plane, ix, iy, most)),
        ),
      ),
    ),
    h(
      "tfoot",
      {},
      h(
        "tr",
        {},
        h("td", {}),
        [...Array(columns).keys()].map((ix) =>
          h("th", { scope: "col", title: place(plane, "x", ix) }, ticks(plane, "x")[ix]),
        ),
      ),
    ),
  );
  return [
    scroll("regions-title", table),
    h("p", { class: "hint" }, `Across: ${heading(plane, "x")}; up: ${heading(plane, "y")}. ${meaning(plane)}`),
    show === "top" ? legend(names, plane) : null,
  ];
}

function entry(found, names, show, plane, ix, iy, most) {
  if (!found) return h("td", { class: "none" }, h("span", { class: "unseen" }, "no points"));
  const k = show === "top" ? names.indexOf(found.top) : Number(show);
  const weight = found.weights[k];
  const where = `${plane.x} ${place(plane, "x", ix)}, ${plane.y} ${place(plane, "y", iy)}`;
  const title = `${names[k]} ${percent(weight)}; ${plural(found.points, "point")}; ${where}`;
  return h(
    "td",
    { title, vars: { share: (weight ?? 0) / most, colour: colour(k) } },
    show === "top" ? h("b", {}, names[k]) : null,
    " ",
    percent(weight),
  );
}

function legend(names, plane) {
  const seen = new Set(plane.cells.map((each) => each.top));
  return h(
    "ul",
    { class: "legend" },
    names.map((name, k) => (seen.has(name) ? h("li", {}, swatch(k), name) : null)),
  );
}

/** What an axis is of, with its unit. */
const heading = (plane, axis) => plane[axis] + (plane[`${axis}_unit`] ? ` (${plane[`${axis}_unit`]})` : "");

/** What is written beside the cells. */
function meaning({ x, y, x_values, y_values }) {
  if (x_values && y_values) return "Each cell is one value of both.";
  const begins = "Each cell begins at what is written below, or left of, it";
  return x_values || y_values ? `${begins}; those of ${x_values ? x : y} are one value each.` : `${begins}.`;
}

/** Edges with as many decimals as tell them apart; values as they are; categories and dates as texts. */
function ticks(plane, axis) {
  const edges = plane[`${axis}_edges`];
  const texts = plane[`${axis}_texts`];
  if (texts) return texts.map(([first]) => first);
  if (plane[`${axis}_values`]) return edges.map(number);
  const gaps = edges
    .slice(1)
    .map((each, i) => each - edges[i])
    .filter((gap) => gap > 0);
  const decimals = gaps.length ? Math.min(8, Math.max(0, Math.ceil(-Math.log10(Math.min(...gaps))))) : 3;
  return edges.map((each) => number(Number(each.toFixed(decimals)) || 0));
}

function place(plane, axis, i) {
  const texts = plane[`${axis}_texts`];
  if (texts) return texts[i][0] === texts[i][1] ? texts[i][0] : `${texts[i][0]} to ${texts[i][1]}`;
  const edges = plane[`${axis}_edges`];
  const told = plane[`${axis}_values`] ? number(edges[i]) : `${number(edges[i])} to ${number(edges[i + 1])}`;
  return measured(told, plane[`${axis}_unit`]);
}
