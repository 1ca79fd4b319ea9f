// Panels: parts of the page with a title, and tables that scroll in them.

import { h } from "./elements.js";
import { foldable } from "./fold.js";

/** A section with a title; `aside` stands beside the title: a sentence, an element, or nothing. */
export function panel(id, title, aside, ...children) {
  const beside = typeof aside === "string" ? h("p", { class: "muted" }, aside) : aside;
  return foldable(
    h(
      "section",
      { class: "panel", "aria-labelledby": id },
      h("div", { class: "head" }, h("h2", { id }, title), beside),
      children,
    ),
  );
}

/** A table that scrolls, by keyboard too; `label` is the id of its title. */
export function scroll(label, table) {
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-labelledby": label }, table);
}
