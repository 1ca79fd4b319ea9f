// The question's form: a typed row, or a file, and how to answer.

import { byId, fill } from "./elements.js";
import { fault, field, put } from "./fields.js";
import { bytes, entry } from "./format.js";
import { post } from "./service.js";

const TYPES = {
  csv: "text/csv",
  parquet: "application/vnd.apache.parquet",
  pq: "application/vnd.apache.parquet",
  arrow: "application/vnd.apache.arrow.file",
};

let file = null;
let features = [];
let columns = null; // by the schema; null: there is none, and every feature is a number
let locked = false;
let witnesses = { row: "", rows: "" };

/** Boxes for the features of this node; `asked` is called with the question on its way. */
export function begin(node, asked) {
  features = node.features ?? [];
  columns = node.columns ?? null;
  fill(
    byId("features"),
    (columns ?? features.map((name) => ({ name }))).map((column, k) => field(column, k, pasted)),
  );
  byId("gap-hint").hidden = columns === null;
  byId("paste-hint").hidden = features.length < 2;
  if (byId("view")) views(node);
  byId("view-hint").hidden = !node.no_view;
  byId("view-hint").textContent = node.no_view ? `No answer for this node alone: ${node.no_view}.` : "";
  lock(locked);
  byId("form").onsubmit = (event) => {
    event.preventDefault();
    const sending = question();
    if (sending) asked(sending);
  };
}

function views(node) {
  const entry = (value) => byId("view").querySelector(`[value="${value}"]`);
  entry("rounds").disabled = node.rule !== "degroot";
  entry("own").disabled = Boolean(node.no_view);
  if (node.no_view) byId("view").value = "consensus";
}

/** Say who will see what is asked about, before it is sent. */
export function foresee(told) {
  witnesses = told;
  const text = byId("form").elements.by.value === "file" ? witnesses.rows : witnesses.row;
  if (byId("witnesses").textContent !== text) byId("witnesses").textContent = text;
}

/** Whoever has no token to ask with may look. */
export function lock(without) {
  locked = without;
  byId("read-only").hidden = !without;
  for (const each of byId("form").elements) each.disabled = without;
  if (!without) options();
}

export function busy(now) {
  byId("ask").disabled = now || locked;
  byId("ask").textContent = now ? "Asking …" : "Ask";
  byId("sheet").setAttribute("aria-busy", String(now));
}

export function complain(text) {
  byId("complaint").textContent = text;
}

const boxes = () => [...byId("features").querySelectorAll("input, select")];

/** Say beside the fields what the node does not admit; `faults`: by the names of columns. */
export function blame(faults) {
  const wrong = boxes().filter((box, k) => {
    const told = entry(faults, features[k]);
    fault(box, told);
    return told;
  });
  wrong[0]?.focus();
}

function question() {
  const byFile = byId("form").elements.by.value === "file";
  return byFile ? fileQuestion() : rowQuestion();
}

function rowQuestion() {
  if (columns) return typedQuestion();
  const wrong = boxes().filter((box) => {
    const bad = box.value.trim() === "" || !Number.isFinite(Number(box.value));
    fault(box, bad ? "must be a number" : "");
    return bad;
  });
  if (wrong.length) {
    const name = features[boxes().indexOf(wrong[0])];
    complain(
      wrong[0].value.trim() === ""
        ? `Every feature must have a number; ${name} is empty.`
        : `Every feature must have a number; ${name} is “${wrong[0].value}”.`,
    );
    wrong[0].focus();
    return null;
  }
  const row = boxes().map((box) => Number(box.value));
  return post("/api/ask", JSON.stringify({ rows: [row], ...chosen() }), "application/json");
}

/** By the schema: texts, which the node reads; empty is a gap. */
function typedQuestion() {
  blame(null);
  const unread = boxes().find((box) => box.validity.badInput); // a date that is half typed
  if (unread) {
    const name = features[boxes().indexOf(unread)];
    blame(Object.fromEntries([[name, "must be a whole date, or be left empty"]]));
    return null;
  }
  const row = Object.fromEntries(boxes().map((box, k) => [features[k], box.value.trim()]));
  if (Object.values(row).every((each) => each === "")) {
    complain("Some feature must be known; all fields are empty.");
    boxes()[0]?.focus();
    return null;
  }
  return post("/api/ask", JSON.stringify({ rows: [row], ...chosen() }), "application/json");
}

function fileQuestion() {
  if (!file) {
    complain("A file must be chosen first.");
    byId("file").focus();
    return null;
  }
  const { view, way, coverage, purpose } = chosen();
  const told = new URLSearchParams({
    filename: file.name,
    view,
    way,
    purpose,
    ...(coverage === null ? {} : { coverage: String(coverage) }),
  });
  return post(`/api/ask?${told}`, file, TYPES[file.name.split(".").at(-1).toLowerCase()] ?? "application/octet-stream");
}

function chosen() {
  const view = wanted() === "own" ? "own" : "consensus";
  const way = wanted() === "rounds" ? "rounds" : "solve";
  const coverage = byId("coverage").disabled || byId("coverage").value === "" ? null : Number(byId("coverage").value);
  return { view, way, coverage, purpose: byId("purpose").value.trim() };
}

/** Which answer is wanted; where evidence stays at home there is one. */
const wanted = () => byId("view")?.value ?? "own";

/** A row, or names and a row, copied from a spreadsheet or a file: spread over the boxes. */
function pasted(event) {
  const lines = event.clipboardData
    .getData("text")
    .trim()
    .split(/\r?\n/)
    .map((line) => line.split(/[\t,;]/).map((each) => each.trim()));
  if (lines[0].length < 2) return;
  event.preventDefault();
  const start = boxes().indexOf(event.target);
  const heads = columns
    ? lines[0].some((each) => features.includes(each))
    : lines[0].every((each) => !Number.isFinite(Number(each)));
  const named = lines.length > 1 && heads;
  const values = lines[named ? 1 : 0];
  const untaken = [];
  values.forEach((value, k) => {
    const place = named ? features.indexOf(lines[0][k]) : start + k;
    const box = boxes()[place];
    if (box && !put(box, value)) untaken.push([features[place], `does not take “${value}”`]);
  });
  blame(Object.fromEntries(untaken));
}

function take(given) {
  file = given ?? null;
  byId("file-name").textContent = file ? file.name : "Choose a file, or drop one here";
  byId("file-size").textContent = file
    ? bytes(file.size)
    : ".csv, .parquet, .arrow, .feather or .npz, a column for each feature";
  complain("");
}

function dropped(event) {
  event.preventDefault();
  byId("drop").classList.remove("over");
  if (locked || !event.dataTransfer.files.length) return;
  byId("form").elements.by.value = "file";
  tabs();
  take(event.dataTransfer.files[0]);
}

function options() {
  const view = wanted();
  byId("coverage").disabled = view !== "own" || locked;
  if (!byId("view")) return;
  byId("rounds-hint").hidden = view !== "rounds";
  byId("consensus-hint").hidden = view !== "consensus";
}

function tabs() {
  const byFile = byId("form").elements.by.value === "file";
  byId("by-row").hidden = byFile;
  byId("by-file").hidden = !byFile;
  foresee(witnesses);
  complain("");
}

for (const each of byId("form").elements.by) each.addEventListener("change", tabs);
byId("view")?.addEventListener("change", options);
byId("file").addEventListener("change", (event) => take(event.target.files[0]));
addEventListener("dragover", (event) => {
  event.preventDefault();
  byId("drop").classList.add("over");
}); // anywhere: the browser would leave the page
addEventListener("dragleave", () => byId("drop").classList.remove("over"));
addEventListener("drop", dropped);
tabs();
