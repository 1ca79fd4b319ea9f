// Trust over the last questions: who carries, who could be dropped, and where.

import { colour, shared, swatch } from "./bars.js";
import { byId, cell, figure, fill, h } from "./elements.js";
import { plural, rough } from "./format.js";
import "./frame.js";
import { matrix } from "./heat.js";
import { live, onState } from "./live.js";
import { regions } from "./regions.js";
import { get } from "./service.js";

const CELLS = matchMedia("(max-width: 760px)").matches ? 4 : 6; // across and up, in which a name fits
let told = null; // what is drawn
let features = [];
let answered = null; // how many questions were answered when it was fetched

async function look() {
  const [x, y] = [byId("x").value, byId("y").value];
  byId("refresh").hidden = true;
  answered = live.state?.questions.answered ?? null;
  try {
    told = await get(`/api/trust?${new URLSearchParams({ ...(x ? { x } : {}), ...(y ? { y } : {}), cells: CELLS })}`);
    byId("complaint").textContent = "";
    draw();
  } catch (error) {
    byId("basis").textContent = "";
    byId("complaint").textContent = error.message;
  }
}

function draw() {
  const none = !told.points;
  byId("none").hidden = !none;
  byId("trusts").hidden = none;
  byId("basis").textContent = none
    ? ""
    : `over ${plural(told.points, "point")} of the last ${plural(told.questions, "question")} answered here`;
  if (none) return;
  fill(
    byId("agents"),
    told.agents
      .map((agent, k) => ({ ...agent, k }))
      .sort((a, b) => b.weight - a.weight)
      .map(row),
  );
  if (byId("matrix")) trusts();
  options(byId("show"), [["top", "who carries"], ...told.names.map((name, k) => [String(k), `weight of ${name}`])]);
  area();
}

/** Who trusts whom; where evidence stays at home nobody says. */
function trusts() {
  fill(
    byId("matrix"),
    told.trust
      ? matrix(told.names, told.trust, "matrix-title")
      : h(
          "p",
          { class: "muted" },
          "The last questions were answered without trust: by rounds, or by a rule that needs none.",
        ),
  );
}

function row(agent) {
  return h(
    "tr",
    { "data-agent": agent.name },
    h("th", { scope: "row" }, h("span", { class: "name" }, swatch(agent.k), agent.name)),
    cell("Mean weight", shared(agent.weight, colour(agent.k))),
    cell("Carries alone", shared(agent.carries)),
    figure("Moves the answer by", rough(agent.influence)),
    h(
      "td",
      { "data-label": "Could be dropped", title: agent.why },
      agent.droppable ? h("span", { class: "verdict-droppable" }, "yes") : "no",
      agent.why ? h("small", {}, agent.why) : null,
    ),
  );
}

function area() {
  const show = byId("show").value;
  byId("regions-what").textContent = show === "top" ? "the agent with the most weight in each region" : "";
  fill(byId("regions"), regions(told.regions, told.names, show));
}

function options(select, pairs) {
  const before = select.value;
  if (
    select.options.length === pairs.length &&
    pairs.every(([value, label], k) => select.options[k].value === value && select.options[k].text === label)
  )
    return;
  fill(
    select,
    pairs.map(([value, label]) => h("option", { value }, label)),
  );
  if (pairs.some(([value]) => value === before)) select.value = before;
}

function pickable({ node }) {
  if (features.length || !node.features?.length) return;
  features = node.features;
  for (const [id, k] of [
    ["x", 0],
    ["y", 1],
  ]) {
    options(
      byId(id),
      features.map((name) => [name, name]),
    );
    byId(id).value = features[Math.min(k, features.length - 1)];
  }
  look();
}

byId("x").addEventListener("change", look);
byId("y").addEventListener("change", look);
byId("show").addEventListener("change", area);
byId("refresh").addEventListener("click", look);
onState((state) => {
  pickable(state);
  const news = answered !== null && state.questions.answered !== answered;
  if (news && told && !told.points) look();
  else byId("refresh").hidden = !news;
});
