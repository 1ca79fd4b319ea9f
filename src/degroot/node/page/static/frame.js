// The frame: colours, whether the node is there, and what changes with peers, said aloud.

import { announce, byId } from "./elements.js";
import { span } from "./format.js";
import "./fold.js";
import { begin, end, live, onPresence, onState, open } from "./live.js";
import { arrive, ENDED, signOut } from "./session.js";

const CHOICES = ["auto", "light", "dark"];

function chosen() {
  return document.documentElement.dataset.theme ?? "auto";
}

function choose(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("degroot-theme", theme);
  } catch {
    /* for this page only */
  }
  byId("theme-name").textContent = theme;
  dispatchEvent(new Event("degroot-theme"));
}

byId("theme-name").textContent = chosen();
byId("theme").addEventListener("click", () => choose(CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("degroot-theme")));

function pulse(status, text) {
  byId("pulse").dataset.status = status;
  if (byId("pulse-text").textContent !== text) byId("pulse-text").textContent = text;
}

onPresence((gone) => {
  byId("gone").hidden = !gone;
  document.body.classList.toggle("gone", gone);
  if (!gone) return;
  pulse("gone", "no answer");
  byId("gone-ago").textContent = live.heard
    ? `${span((Date.now() - live.heard) / 1000)} ago`
    : "never since this page was opened";
});
byId("retry").addEventListener("click", open);

addEventListener(ENDED, ({ detail }) => {
  end();
  byId("gone").hidden = true;
  byId("ended").hidden = false;
  byId("ended-why").textContent = detail;
  document.body.classList.add("gone");
  pulse("gone", "signed out");
});
byId("sign-in-again").addEventListener("click", () => location.reload());
byId("sign-out").addEventListener("click", signOut);
addEventListener("hashchange", () => arrive(announce));
arrive(announce);

let before = null;
onState((state) => {
  const { answering, consensus, needed } = state.node;
  const short = !answering ? "cannot answer" : needed !== null && !consensus ? "no consensus" : null;
  pulse(short ? "short" : "live", short ?? "answering");
  const now = new Map(state.peers.map((peer) => [peer.name, peer.state]));
  const news = before && state.peers.filter((peer) => before.get(peer.name) !== peer.state);
  if (news?.length)
    announce(news.map((peer) => `${peer.name} is ${peer.state}${peer.reason ? `: ${peer.reason}` : ""}`).join(". "));
  before = now;
});

begin();
