// A pager: which entries of many are shown, and the way to the others.

import { h } from "./elements.js";
import { count } from "./format.js";

/** Of `total` entries, `size` are shown from `offset` on; `turn` is called with the offset that is wanted next. */
export function pager({ total, size, offset }, [before, after], turn) {
  if (total <= size) return null;
  const button = (label, to, disabled) => h("button", { type: "button", disabled, onclick: () => turn(to) }, label);
  return [
    h("span", {}, `${count(offset + 1)}–${count(Math.min(total, offset + size))} of ${count(total)}`),
    h(
      "div",
      {},
      button(before, Math.max(0, offset - size), offset === 0),
      button(after, offset + size, offset + size >= total),
    ),
  ];
}
