// Rounds to consensus: a line for each agent's belief.

import { colour, swatch } from "./bars.js";
import { h } from "./elements.js";
import { number, plural } from "./format.js";
import { panel, scroll } from "./panel.js";

const HEIGHT = 232;
const CLOSE = 0.01; // of how far apart they were at first
const DRAWN = 8; // lines with a name in the legend

export function rounds({ agents, rounds: told, write }) {
  if (!told?.length) return null;
  const present = agents
    .map((each, k) => ({ name: each.name, k }))
    .filter(({ k }) => told.every((line) => typeof line[k] === "number"));
  if (!present.length) return null;
  const place = h("div", { class: "lines", role: "img", "aria-label": `Beliefs by round. ${agreed(told, present)}` });
  watch(place, told, present);
  return panel(
    "rounds-title",
    "Rounds to consensus",
    agreed(told, present),
    place,
    h(
      "ul",
      { class: "legend" },
      present.slice(0, DRAWN).map(({ name, k }) => h("li", {}, swatch(k), name)),
      present.length > DRAWN ? h("li", {}, `and ${present.length - DRAWN} more`) : null,
    ),
    numbers(told, present, write),
  );
}

function spread(line, present) {
  const values = present.map(({ k }) => line[k]);
  return Math.max(...values) - Math.min(...values);
}

function agreed(told, present) {
  const first = spread(told[0], present);
  if (first === 0) return "They agreed from the start.";
  const n = told.findIndex((line) => spread(line, present) <= CLOSE * first);
  return n < 0
    ? `Not yet within 1 % of their first distance after ${plural(told.length - 1, "round")}.`
    : `Within 1 % of their first distance after ${plural(n, "round")}.`;
}

function numbers(told, present, write) {
  const table = () =>
    scroll(
      "rounds-title",
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Round"),
            present.map(({ name }) => h("th", { scope: "col", class: "number" }, name)),
          ),
        ),
        h(
          "tbody",
          {},
          told.map((line, n) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, n),
              present.map(({ k }) => h("td", { class: "number" }, write(line[k]))),
            ),
          ),
        ),
      ),
    );
  const details = h("details", { class: "more" }, h("summary", {}, "Numbers"));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(table());
  });
  return details;
}

/** Draw when there is room, again when the room or the colours change, and stop when it is gone. */
function watch(place, told, present) {
  let plot = null;
  const redraw = () => {
    plot?.destroy();
    plot = place.clientWidth > 0 ? drawn(place, told, present) : null;
  };
  const sizes = new ResizeObserver(() => {
    if (!place.isConnected) {
      sizes.disconnect();
      removeEventListener("degroot-theme", redraw);
      plot?.destroy();
      return;
    }
    if (plot) plot.setSize({ width: place.clientWidth, height: HEIGHT });
    else redraw();
  });
  sizes.observe(place);
  addEventListener("degroot-theme", redraw);
}

function drawn(place, told, present) {
  const paint = (tint) => resolved(place, tint);
  const axis = {
    stroke: paint("var(--muted)"),
    grid: { stroke: paint("var(--line)"), width: 1 },
    ticks: { stroke: paint("var(--line)"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: false } },
    axes: [
      {
        ...axis,
        label: "round",
        labelSize: 20,
        labelFont: "12px system-ui, sans-serif",
        size: 30,
        incrs: [1, 2, 5, 10, 20, 50],
        values: (_, ticks) => ticks.map((each) => (Number.isInteger(each) ? each : "")),
      },
      { ...axis, size: 62, values: (_, ticks) => ticks.map(number) },
    ],
    series: [
      {},
      ...present.map(({ k }) => ({ stroke: paint(colour(k)), width: 2, points: { show: told.length < 3 } })),
    ],
  };
  return new globalThis.uPlot(
    options,
    [told.map((_, n) => n), ...present.map(({ k }) => told.map((line) => line[k]))],
    place,
  );
}

/** A colour as the canvas wants it. */
function resolved(place, tint) {
  const probe = h("span", { vars: { probe: tint }, class: "probe" });
  place.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
