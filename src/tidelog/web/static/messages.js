// Messages cover a corner of the page, so they never move it. The region is permanent for screen readers.

import { $, h } from "./dom.js";
import { ruleChip } from "./rules.js";
import { withTerms } from "./terms.js";

const SHOWN_MS = 30_000;

let timer = null;

export function say(text, { rules = [], error = false } = {}) {
  const box = $("outcome");
  clearTimeout(timer);
  box.className = error ? "outcome error" : "outcome";
  const words = h("p", {}, ...withTerms(text), ...(rules.length ? [" "] : []), ...rules.map(ruleChip));
  box.replaceChildren(words, h("button", { type: "button", class: "close", text: "×", "aria-label": "Close this message", onclick: hush }));
  box.hidden = false;
  // An error stays until someone closes it. The timeline keeps the rest.
  if (!error) expire();
}

export function hush() {
  clearTimeout(timer);
  const box = $("outcome");
  if (box.contains(document.activeElement)) $("work").focus({ preventScroll: true });
  box.hidden = true;
}

export function isSaying() {
  return !$("outcome").hidden;
}

function expire() {
  timer = setTimeout(() => {
    const box = $("outcome");
    if (box.matches(":hover, :focus-within") || document.querySelector("dialog[open]")) expire();
    else hush();
  }, SHOWN_MS);
}
