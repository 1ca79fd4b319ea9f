// How it stands with a peer: a shape, a colour and a word.

import { h, svg } from "./elements.js";

const SHAPES = {
  up: () => svg("circle", { cx: 6, cy: 6, r: 4.5, fill: "currentColor" }),
  ready: () => [ring(), svg("circle", { cx: 6, cy: 6, r: 2.2, fill: "currentColor" })],
  calibrating: () => [ring(), svg("path", { d: "M6 6V1.5A4.5 4.5 0 0 1 6 10.5Z", fill: "currentColor" })],
  late: () => [
    ring(),
    svg("path", { d: "M6 3.4V6l1.8 1.4", fill: "none", stroke: "currentColor", "stroke-width": 1.4 }),
  ],
  stale: () =>
    svg("circle", {
      cx: 6,
      cy: 6,
      r: 4.2,
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.8,
      "stroke-dasharray": "2.4 2",
    }),
  refused: () => [ring(), svg("path", { d: "M3 9l6-6", stroke: "currentColor", "stroke-width": 1.5 })],
  down: () =>
    svg("path", { d: "M2.5 2.5l7 7m0-7l-7 7", stroke: "currentColor", "stroke-width": 2, "stroke-linecap": "round" }),
};

const ring = () => svg("circle", { cx: 6, cy: 6, r: 4.4, fill: "none", stroke: "currentColor", "stroke-width": 1.5 });

export function pill(state) {
  const shape = SHAPES[state] ?? SHAPES.down;
  return h(
    "span",
    { class: "pill", "data-state": state },
    svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, shape()),
    state,
  );
}
