// The audit: the ledger, grouped and searched.

import { byId, fill, h } from "./elements.js";
import { bytes, count, moment, plural } from "./format.js";
import "./frame.js";
import { COLUMNS, group, heading } from "./groups.js";
import { onState } from "./live.js";
import { get } from "./service.js";
import { offer, watch } from "./verification.js";

const PAGE = matchMedia("(max-width: 760px)").matches ? 20 : 50;
const WAIT = 200; // ms after the last key
const NAMES = ["q", "peer", "kind", "asked_by", "since", "until"];
const HINTS = {
  question: "",
  day: "Heartbeats (describe) are counted; receipts confirm exchanges; of days that have expired only totals are left.",
};

let starts = [null]; // where the pages begin that were turned to; the last is shown
let looking = null;
let exchanges = null; // how many there were when the log was fetched
let latest = null;

const grouping = () => document.querySelector("input[name=by]:checked").value;

function asked() {
  const given = Object.fromEntries(NAMES.map((name) => [name, byId(name).value.trim()]).filter(([, value]) => value));
  for (const name of ["since", "until"]) if (given[name]) given[name] = new Date(given[name]).toISOString();
  return given;
}

async function look() {
  looking?.abort();
  looking = new AbortController();
  const [given, by, before, { signal }] = [asked(), grouping(), starts.at(-1), looking];
  remember();
  offer(byId("peer").value);
  byId("log").setAttribute("aria-busy", "true");
  byId("newer").hidden = true;
  exchanges = latest;
  const query = new URLSearchParams({ ...given, by, limit: PAGE, ...(before === null ? {} : { before }) });
  try {
    draw(await get(`/api/audit?${query}`, { signal }), given, by);
    byId("complaint").textContent = "";
    byId("log").setAttribute("aria-busy", "false");
    if (before === null) await addUp(given, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("complaint").textContent = error.message;
    byId("totals").textContent = "";
    byId("log").setAttribute("aria-busy", "false");
  }
}

/** What all that is looked for comes to. A large ledger takes a moment: the lines do not wait for it. */
async function addUp(given, signal) {
  byId("totals").textContent = "Adding up …";
  const told = await get(`/api/audit/totals?${new URLSearchParams(given)}`, { signal });
  const sums = [
    `${plural(told.questions, "question")}; ${plural(told.exchanges, "exchange")}`,
    plural(told.rows, "row"),
    `${bytes(told.sent)} sent`,
    `${bytes(told.received)} received`,
    `${moment(told.first)} to ${moment(told.last)}`,
  ];
  byId("totals").textContent = told.first ? sums.join(", ") : Object.keys(given).length ? "" : "No exchange yet.";
}

function draw({ groups, next, peers, kinds }, given, by) {
  choices("peer", peers);
  choices("kind", kinds);
  const none = groups.length === 0;
  byId("by-hint").textContent = HINTS[by];
  byId("none").hidden = !(none && Object.keys(given).length);
  byId("log").parentElement.hidden = none;
  fill(byId("columns"), COLUMNS[by].map(heading));
  fill(
    byId("log"),
    groups.map((each) => group(each, by, given)),
  );
  fill(byId("pages"), pages(next));
}

function pages(next) {
  if (starts.length === 1 && next === null) return null;
  const button = (label, disabled, onclick) => h("button", { type: "button", disabled, onclick }, label);
  return [
    h("span", {}, `Page ${count(starts.length)}`),
    h(
      "div",
      {},
      button("Later", starts.length === 1, () => turn(starts.slice(0, -1))),
      button("Earlier", next === null, () => turn([...starts, next])),
    ),
  ];
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
  starts = to;
  look();
  scrollTo({ top: 0 });
}

function again() {
  starts = [null];
  look();
}

/** The address says what is looked for, so that it can be sent or kept. */
function remember() {
  const kept = Object.fromEntries(NAMES.map((name) => [name, byId(name).value]).filter(([, value]) => value));
  if (grouping() !== "question") kept.by = grouping();
  const query = new URLSearchParams(kept).toString();
  history.replaceState(null, "", query ? `/audit?${query}` : "/audit");
}

function restore() {
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (name === "by") document.querySelector(`input[name=by][value="${CSS.escape(value)}"]`)?.click();
    if (!NAMES.includes(name)) continue;
    if (name === "peer" || name === "kind") byId(name).append(h("option", { value }, value));
    byId(name).value = value;
  }
}

restore();
let soon = null;
byId("filters").addEventListener("input", () => {
  clearTimeout(soon);
  soon = setTimeout(again, WAIT);
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("reset", () => setTimeout(again)); // once the boxes are empty
for (const each of document.querySelectorAll("input[name=by]")) each.addEventListener("change", again);
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
look();
watch();
