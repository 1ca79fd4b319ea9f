// Folding: at phone width, parts that are looked up rather than read are opened one by one.

import { h } from "./elements.js";

/** Have a section with a title fold, closed at first; where there is room, styles show all of it. */
export function foldable(section) {
  const toggle = h("button", {
    type: "button",
    class: "quiet fold",
    "aria-expanded": "false",
    "aria-label": `Show: ${section.querySelector("h2").textContent}`,
    onclick: () => {
      const open = section.classList.toggle("open");
      toggle.setAttribute("aria-expanded", String(open));
    },
  });
  section.classList.add("foldable");
  section.querySelector(".head").append(toggle);
  return section;
}

for (const each of document.querySelectorAll("[data-fold]")) foldable(each);
