// The node as it is now: one stream of states, opened again when it breaks, closed while nobody looks.

import { get } from "./service.js";

const SILENCE = 8000; // ms without a state after which the node is asked whether it is there
const PATIENCE = 3000;
const WAITS = [500, 1000, 2000, 4000];

const watchers = new Set();
const listeners = new Set();
let source = null;
let failures = 0;
let later = null;
let over = false; // the session has ended: the node says no more

export const live = { state: null, heard: null, gone: false };

/** Call with every new state, and with the present one. */
export function onState(listener) {
  listeners.add(listener);
  if (live.state) listener(live.state);
}

/** Call when the node goes or comes back. */
export function onPresence(watcher) {
  watchers.add(watcher);
}

export function begin() {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  setInterval(listen, 1000);
  open();
}

/** Look no more: the session has ended. */
export function end() {
  over = true;
  close();
}

/** Look at once. */
export function open() {
  close();
  if (over) return;
  source = new EventSource("/events");
  source.addEventListener("state", (event) => take(JSON.parse(event.data)));
  source.addEventListener("ended", ask);
  source.addEventListener("error", lost);
}

function close() {
  clearTimeout(later);
  source?.close();
  source = null;
}

function take(state) {
  failures = 0;
  live.heard = Date.now();
  presence(false);
  live.state = state;
  for (const listener of listeners) listener(state);
}

/** Whether the session is good still; if not, `get` says so to all who listen. */
const ask = () => get("/api/session", { signal: AbortSignal.timeout(PATIENCE) }).catch(() => null);

async function lost() {
  close();
  await ask();
  if (over) return;
  presence(true);
  later = setTimeout(open, WAITS[Math.min(failures, WAITS.length - 1)]);
  failures += 1;
}

function presence(gone) {
  const changed = gone !== live.gone;
  live.gone = gone;
  if (changed || gone) for (const watcher of watchers) watcher(gone);
}

/** A node that hangs closes nothing: after a silence, ask. */
async function listen() {
  if (over) return;
  if (live.gone) return presence(true);
  if (!source || !live.heard || Date.now() - live.heard < SILENCE) return;
  const before = live.heard;
  live.heard = Date.now(); // one question at a time
  try {
    take(await get("/api/state", { signal: AbortSignal.timeout(PATIENCE) }));
  } catch {
    live.heard = before;
    lost();
  }
}
