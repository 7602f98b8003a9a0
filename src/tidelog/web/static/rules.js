// The numbered rules, for whoever wants to read one. The texts are those of docs/internals/behaviours.md.

import { $, h } from "./dom.js";

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
        h("h2", { text: `Rule ${number}` }),
        h("p", { text: texts[number] ?? "" }),
        h("form", { method: "dialog" }, h("button", { type: "button", text: "close", onclick: () => dialog.close() })),
      );
      dialog.showModal();
    },
  });
}
