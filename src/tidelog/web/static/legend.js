// The legend below the partitions. Its terms open the glossary.

import { $, h } from "./dom.js";
import { term } from "./terms.js";

export function drawLegend() {
  const key = (kind, ...words) => h("span", {}, h("i", { class: `key ${kind}`, "aria-hidden": "true" }), h("span", {}, ...words));
  const chip = (kind, ...words) => h("span", {}, h("b", { class: `chip ${kind}`, "aria-hidden": "true", text: "1" }), h("span", {}, ...words));
  $("legend").append(
    key("committed", "committed, up to ", term("hw", "HW")), key("uncommitted", "not committed, up to ", term("leo", "LEO")),
    key("lso", term("lso", "LSO")), key("start", term("log-start", "log start")), key("stale", "last known"),
    chip("leader", term("leader", "leader")), chip("isr", "in ", term("isr", "ISR")), chip("elr", "in ", term("elr", "ELR")), chip("out", "out of sync"),
  );
}
