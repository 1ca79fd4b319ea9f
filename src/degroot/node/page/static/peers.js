// Peers: one row each.

import { bar } from "./bars.js";
import { byId, cell, h, keyed, svg } from "./elements.js";
import { ago, listed, milliseconds, moment, percent, short } from "./format.js";
import { pill } from "./pills.js";

const ORDER = ["up", "ready", "stale", "calibrating", "late", "refused", "down"];

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
    cell("Its model", h("span", { class: "code", title: peer.model_version }, short(peer.model_version)), scored(peer)),
    h("td", { "data-label": "How we use it", class: "whole" }, used(peer.use)),
    h("td", { "data-label": "Our model", class: "whole" }, ours(peer.ours)),
    cell("Latency", latency(peer)),
    cell("Seen", peer.heard ?? "never"),
  );
}

/** How far its model is scored on our rows; and which version of it, where that is another. */
function scored({ progress, model_version: now, scored_version: known }) {
  if (progress < 1) return h("span", { class: "barred" }, bar(progress), h("span", {}, percent(progress)));
  const other = now && known && now !== known;
  return h("small", { title: known }, other ? `we know ${short(known)}` : known ? "scored on our rows" : "not scored");
}

const USES = { copy: "copy", query: "queried" };

/** As a copy or by queries, and what the peer sees of ours then. */
function used({ as, version, issued, words }) {
  return [
    h("span", { class: "use", "data-use": as ?? "none" }, USES[as] ?? "–"),
    as === "copy" ? h("small", { title: version }, `version ${short(version)}, issued ${moment(issued)}`) : null,
    h("small", {}, words),
  ];
}

function ours({ words, held }) {
  return [words, held ? h("small", { title: held }, `version ${short(held)}`) : null];
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
