// Internal topics are folded into one line of each list. The choice is kept for the next visit.

import { $, attribute, text } from "./dom.js";

const KEY = "tidelog-internal";

let names = new Set();

export const internal = { shown: localStorage.getItem(KEY) === "shown" };

export function nameInternal(topics) {
  names = new Set(topics);
}

export function isInternal(topic) {
  return names.has(topic);
}

export function startInternal(changed) {
  for (const id of ["fold-partitions", "fold-timeline", "fold-topics"]) {
    $(id).addEventListener("click", () => toggleInternal(changed));
  }
}

export function toggleInternal(changed) {
  internal.shown = !internal.shown;
  localStorage.setItem(KEY, internal.shown ? "shown" : "folded");
  changed();
}

// Replaces the internal rows of a list by one line.
export function drawFold(id, count, words) {
  const button = $(id);
  button.hidden = count === 0;
  attribute(button, "aria-expanded", String(internal.shown));
  text(button, `${internal.shown ? "▾ Fold" : "▸ Show"} ${words}`);
}
