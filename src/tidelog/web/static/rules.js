// The numbered rules. docs/internals/behaviours.md has their texts.

import { $, h } from "./dom.js";
import { showDialog } from "./terms.js";

let texts = {};

export async function loadRules() {
  const answer = await fetch("/static/rules.json");
  texts = answer.ok ? await answer.json() : {};
}

export function ruleChip(number) {
  return h("button", {
    type: "button", class: "rule", text: number, title: texts[number] ?? number, "aria-label": `rule ${number}`, "aria-haspopup": "dialog",
    onclick: (event) => {
      event.preventDefault();
      const dialog = $("rule");
      dialog.replaceChildren(
        h("div", { class: "dialog-head" }, h("h2", { id: "rule-title", text: `Rule ${number}` }),
          h("button", { type: "button", class: "close", text: "×", "aria-label": "Close this rule", onclick: () => dialog.close() })),
        h("p", { class: "rule-text", tabindex: "0", text: texts[number] ?? "This rule has no text." }),
      );
      showDialog(dialog);
    },
  });
}
