// The overview: this node, its peers, what has left, what was asked.

import { byId, fill, h } from "./elements.js";
import { count, listed, milliseconds, plural, short, span } from "./format.js";
import "./frame.js";
import { leak } from "./leak.js";
import { onState } from "./live.js";
import { peers } from "./peers.js";
import { questions } from "./questions.js";

onState((state) => {
  verdict(state);
  figures(state);
  peers(state.peers);
  leak(state.leak, state.node.name);
  questions(state.questions);
});

const ready = (peer) => peer.ready;

function verdict({ node, peers: all }) {
  const able = 1 + all.filter(ready).length;
  const [heading, why] = [byId("verdict"), byId("verdict-why")];
  const text = node.answering ? "Answering" : node.no_view ? "Cannot answer now" : "No consensus now";
  heading.classList.remove("loading");
  if (heading.textContent !== text) heading.textContent = text;
  const fault = node.answering || !node.no_view ? "late" : "down";
  heading.parentElement.dataset.state = able <= all.length || !node.answering ? fault : "up";
  const absent = all.filter((peer) => !ready(peer)).map((peer) => `${peer.name} (${peer.state})`);
  why.textContent =
    `${able} of ${plural(all.length + 1, "node")} can take part; ` +
    `${node.needed} ${node.needed === 1 ? "is" : "are"} needed${node.no_view ? "" : " for a consensus"}.` +
    (absent.length ? ` Not with us: ${listed(absent)}.` : "") +
    (node.answering || node.no_view ? "" : " Answers for this node go on, from its own rows.");
}

function figures({ node, questions: asked }) {
  const classes = node.classes.length ? [plural(node.classes.length, "class", "classes")] : [];
  const running = node.started ? span((Date.now() - new Date(node.started).getTime()) / 1000) : "–";
  fill(
    byId("figures"),
    entry("Questions answered", count(asked.answered), asked.failed ? `${count(asked.failed)} failed` : "none failed"),
    entry(
      "Time for an answer",
      milliseconds(asked.median_ms),
      asked.p95_ms === null ? "no question yet" : `median; 95 % within ${milliseconds(asked.p95_ms)}`,
    ),
    entry(
      "Rule",
      node.rule,
      [
        node.guard ? "guard on" : "guard off",
        node.neighbours !== null && node.neighbours !== undefined ? `${near(node.neighbours)} nearest` : "",
      ]
        .filter(Boolean)
        .join(", "),
    ),
    entry("Own rows", count(node.rows), [plural(node.features.length, "feature"), ...classes].join(", ")),
    entry(
      "Own model",
      short(node.model_version),
      node.queries === "on-demand" ? "scored on demand" : "scored once by every peer",
      node.model_version,
    ),
    entry("Running for", running, `at ${node.listen}`),
  );
}

const near = (n) => (n > 0 && n < 1 ? `${+(100 * n).toPrecision(3)} %` : n);

function entry(term, value, more, title) {
  return h("div", {}, h("dt", {}, term), h("dd", { title }, value), h("dd", {}, more));
}
