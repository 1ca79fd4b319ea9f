// Fields for the features of a row: by the schema a select, a date or a number with its unit; otherwise a number.

import { h } from "./elements.js";
import { number } from "./format.js";

/** A field for a column, the k-th; `pasted` is called when something is pasted into it. */
export function field(column, k, pasted) {
  const ids = { hint: `hint-${k}`, fault: `fault-${k}` };
  const told = hint(column);
  const about = [told ? ids.hint : null, ids.fault].filter(Boolean).join(" ");
  const input = control(column, {
    id: `feature-${k}`,
    name: `feature-${k}`,
    "aria-describedby": about,
    autocomplete: "off",
    onpaste: pasted,
  });
  return h(
    "div",
    { class: "field", "data-column": column.name },
    h(
      "label",
      { for: `feature-${k}` },
      column.name,
      column.unit ? h("span", { class: "unseen" }, ` (${column.unit})`) : null,
    ),
    column.unit
      ? h("span", { class: "with-unit" }, input, h("span", { class: "unit", "aria-hidden": "true" }, column.unit))
      : input,
    told ? h("small", { class: "hint", id: ids.hint }, told) : null,
    h("small", { class: "complaint", id: ids.fault }),
  );
}

function control(column, given) {
  if (column.categories?.length)
    return h(
      "select",
      given,
      h("option", { value: "" }, column.missing ? `(${column.missing})` : "(not known)"),
      column.categories.map((text) => h("option", { value: text }, text)),
    );
  if (column.kind === "date")
    return h("input", { ...given, type: column.time ? "datetime-local" : "date", step: column.time ? "any" : null });
  return h("input", { ...given, type: "text", inputmode: "decimal", spellcheck: "false" });
}

/** What values are plausible, and what a gap means. */
function hint(column) {
  const parts = [];
  if (column.range) parts.push(`${number(column.range[0])} to ${number(column.range[1])}`);
  if (column.missing && !column.categories?.length) parts.push(`empty: ${column.missing}`);
  return parts.join("; ");
}

/** Put a text into a field, as it was pasted; false where the field does not take it. */
export function put(input, text) {
  input.value = text;
  return text === "" || input.value !== "";
}

/** Say what is wrong with a field; nothing: it is right. */
export function fault(input, text) {
  input.setAttribute("aria-invalid", String(Boolean(text)));
  const place = input.closest(".field").querySelector(".complaint");
  if (place) place.textContent = text ?? "";
}
