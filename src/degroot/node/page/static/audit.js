// The audit: the ledger, searched.

import { byId, fill, figure, h } from "./elements.js";
import { bytes, count, moment, plural } from "./format.js";
import "./frame.js";
import { onState } from "./live.js";
import { pager } from "./pager.js";
import { get } from "./service.js";

const PAGE = 50;
const WAIT = 200; // ms after the last key
const USUAL = { kind: "-describe" }; // nodes describe themselves to each other every second or so
const NAMES = ["q", "peer", "kind", "asked_by", "since", "until"];

const SELF = document.querySelector(".brand .node").textContent;

let offset = 0;
let looking = null;
let exchanges = null; // how many there were when the log was fetched
let latest = null;

function asked() {
  const given = Object.fromEntries(
    NAMES.map((name) => [name, byId(name).value.trim()]).filter(
      ([name, value]) => value && !(name === "kind" && value === "all"),
    ),
  );
  for (const name of ["since", "until"]) if (given[name]) given[name] = new Date(given[name]).toISOString();
  return given;
}

async function look() {
  looking?.abort();
  looking = new AbortController();
  const given = asked();
  remember();
  byId("log").setAttribute("aria-busy", "true");
  byId("newer").hidden = true;
  exchanges = latest;
  try {
    draw(
      await get(`/api/audit?${new URLSearchParams({ ...given, offset, limit: PAGE })}`, { signal: looking.signal }),
      given,
    );
    byId("complaint").textContent = "";
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("complaint").textContent = error.message;
    byId("count").textContent = "";
  }
  byId("log").setAttribute("aria-busy", "false");
}

function draw({ total, rows, peers, kinds }, given) {
  choices("peer", peers);
  choices("kind", kinds);
  const none = total === 0;
  const filtered = Object.entries(given).some(([name, value]) => value !== USUAL[name]);
  byId("none").hidden = !(none && filtered);
  byId("log").parentElement.hidden = none;
  byId("count").textContent = none && !filtered ? "No exchange yet." : plural(total, "exchange");
  fill(byId("log"), rows.map(line));
  fill(byId("pages"), pager({ total, size: PAGE, offset }, ["Later", "Earlier"], turn));
}

function line({ at, exchanges, peer, kind, asked_by: who, rows, sent, received }) {
  return h(
    "tr",
    {},
    h(
      "td",
      { "data-label": "At", class: "at", title: at },
      moment(at),
      exchanges > 1 ? h("small", {}, `${count(exchanges)} of that day`) : null,
    ),
    h("td", { "data-label": "Peer", class: "peer" }, peer),
    h("td", { "data-label": "Kind", class: "kind" }, kind),
    h("td", { "data-label": "Asked by" }, asker(peer, who)),
    figure("Rows", count(rows)),
    figure("Sent", bytes(sent)),
    figure("Received", who === "we" ? "–" : bytes(received)),
  );
}

/** Of calls that this node makes, only what it sends is recorded; its own questions come to it as from a peer. */
function asker(peer, who) {
  if (peer === SELF) return "ourselves";
  return who === "we" ? "us" : "them";
}

function choices(id, values) {
  const select = byId(id);
  const [chosen, fixed] = [select.value, [...select.options].filter((each) => each.dataset.fixed)];
  fill(
    select,
    fixed,
    values.map((value) => h("option", { value }, value)),
  );
  select.value = [...select.options].some((each) => each.value === chosen) ? chosen : fixed[0].value;
}

function turn(to) {
  offset = to;
  look();
  scrollTo({ top: 0 });
}

function again() {
  offset = 0;
  look();
}

/** The address says what is looked for, so that it can be sent or kept. */
function remember() {
  const kept = Object.fromEntries(
    NAMES.map((name) => [name, byId(name).value]).filter(([name, value]) => value && value !== USUAL[name]),
  );
  const query = new URLSearchParams(kept).toString();
  history.replaceState(null, "", query ? `/audit?${query}` : "/audit");
}

function restore() {
  const kept = new URLSearchParams(location.search);
  for (const [name, value] of kept) {
    if (!NAMES.includes(name)) continue;
    if ((name === "peer" || name === "kind") && value !== "all") byId(name).append(h("option", { value }, value));
    byId(name).value = value;
  }
}

let soon = null;
byId("filters").addEventListener("input", () => {
  clearTimeout(soon);
  soon = setTimeout(again, WAIT);
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("reset", () => setTimeout(again)); // once the boxes are empty
byId("clear").addEventListener("click", () => byId("filters").reset());
byId("newer").addEventListener("click", () => {
  again();
  byId("q").focus();
});
onState((state) => {
  latest = state.leak.filter((each) => each.kind !== "describe").reduce((sum, each) => sum + each.exchanges, 0);
  exchanges ??= latest;
  byId("newer").hidden = latest <= exchanges;
});
restore();
look();
