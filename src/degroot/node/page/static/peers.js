// Peers: one row each.

import { bar } from "./bars.js";
import { byId, cell, h, keyed, svg } from "./elements.js";
import { ago, listed, milliseconds, percent, short } from "./format.js";
import { pill } from "./pills.js";

const ORDER = ["up", "stale", "calibrating", "late", "refused", "down"];

export function peers(all) {
  const table = byId("peers");
  table.parentElement.hidden = all.length === 0;
  byId("no-peers").hidden = all.length > 0;
  byId("peers-count").textContent = listed(
    ORDER.map((state) => [state, all.filter((peer) => peer.state === state).length])
      .filter(([, n]) => n)
      .map(([state, n]) => `${n} ${state}`),
  );
  keyed(
    table,
    all.map((peer) => ({ ...peer, heard: peer.seen && ago(peer.seen) })),
    (peer) => peer.name,
    row,
  );
}

function row(peer) {
  return h(
    "tr",
    { "data-peer": peer.name },
    h("th", { scope: "row" }, peer.name, h("small", { class: "code" }, peer.address)),
    h(
      "td",
      { "data-label": "State", class: peer.reason ? "whole plain" : "plain beside" },
      pill(peer.state),
      peer.reason ? h("small", { class: "reason" }, peer.reason) : null,
    ),
    cell("Model", h("span", { class: "code", title: peer.model_version }, short(peer.model_version)), aged(peer)),
    cell("Scored by us", scored(peer)),
    cell("Latency", latency(peer)),
    cell("Seen", peer.heard ?? "never"),
  );
}

function aged({ model_version: now, scored_version: scored }) {
  if (!now || !scored || now === scored) return null;
  return h("small", { title: scored }, `we know ${short(scored)}`);
}

function scored({ progress }) {
  if (typeof progress !== "number") return "–";
  return h("span", { class: "barred" }, bar(progress), h("span", {}, percent(progress)));
}

function latency({ latency_ms: ms, latencies }) {
  if (!ms) return h("span", { class: "muted" }, "not measured");
  return h(
    "span",
    { class: "latency" },
    spark(latencies ?? []),
    h("span", {}, milliseconds(ms.median), h("small", {}, `95 %: ${milliseconds(ms.p95)}`)),
  );
}

/** The last latencies, as a line without axes; the numbers beside it say how high it is. */
function spark(values) {
  const [width, height] = [90, 24];
  const known = values.filter((each) => typeof each === "number");
  const drawn = svg("svg", {
    width,
    height,
    preserveAspectRatio: "none",
    viewBox: `0 0 ${width} ${height}`,
    "aria-hidden": "true",
  });
  if (known.length < 2) return drawn;
  const most = Math.max(...known) || 1;
  const at = known.map((each, i) => [(i * width) / (known.length - 1), height - 1 - (each / most) * (height - 3)]);
  drawn.append(
    svg("polyline", { points: at.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ") }),
    svg("circle", { cx: at.at(-1)[0], cy: at.at(-1)[1], r: 2 }),
  );
  return drawn;
}
