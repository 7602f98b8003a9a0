// One tab list: all five views on a narrow screen; beside the nodes and partitions of a wide one, three.

import { $ } from "./dom.js";

const NARROW = matchMedia("(max-width: 899px)");
const ALWAYS_WIDE = new Set(["partitions", "nodes"]);

export function isNarrow() {
  return NARROW.matches;
}

export class Tabs {
  constructor(changed) {
    this.changed = changed;
    this.all = [...$("tabs").querySelectorAll("[role=tab]")];
    for (const tab of this.all) {
      tab.addEventListener("click", () => this.choose(viewOf(tab)));
      tab.addEventListener("keydown", (event) => this.onKey(event, tab));
    }
    NARROW.addEventListener("change", () => this.draw());
    this.draw();
  }

  get shown() {
    return this.all.filter((tab) => NARROW.matches || !ALWAYS_WIDE.has(viewOf(tab)));
  }

  choose(view) {
    document.body.dataset.tab = view;
    if (!ALWAYS_WIDE.has(view)) document.body.dataset.side = view;
    this.draw();
  }

  draw() {
    const chosen = NARROW.matches ? document.body.dataset.tab : document.body.dataset.side;
    for (const tab of this.all) {
      const view = viewOf(tab);
      const isTab = NARROW.matches || !ALWAYS_WIDE.has(view);
      tab.hidden = !isTab;
      tab.setAttribute("aria-selected", String(view === chosen));
      tab.tabIndex = view === chosen ? 0 : -1;
      const panel = $(view);
      // A view without a tab is a region of its own.
      if (isTab) {
        panel.setAttribute("role", "tabpanel");
        panel.setAttribute("aria-labelledby", tab.id);
      } else {
        panel.removeAttribute("role");
        panel.removeAttribute("aria-labelledby");
      }
    }
    this.changed();
  }

  onKey(event, tab) {
    const tabs = this.shown;
    const at = tabs.indexOf(tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = tabs[(to + tabs.length) % tabs.length];
    next.focus();
    this.choose(viewOf(next));
  }
}

function viewOf(tab) {
  return tab.getAttribute("aria-controls");
}
