// What happened, the newest first; each line opens to why, with the rules behind it.

import { $, h, text } from "./dom.js";
import { clock, count, virtualClock } from "./format.js";
import { ruleChip } from "./rules.js";

const SIGNS = { election: "♔", isr: "◐", stall: "‖", fault: "⚡", truncation: "✂", quorum: "⌘", node: "▪", topic: "+", group: "⚭" };
const MOST = 150;

export class Timeline {
  constructor(state) {
    this.state = state;
    this.list = $("entries");
    this.kind = "";
    this.open = new Set();
    this.drawn = new Map();
    this.virtual = false;
  }

  draw() {
    const chosen = [...this.state.timeline.values()]
      .filter((entry) => !this.kind || entry.kind === this.kind)
      .sort((a, b) => b.id - a.id)
      .slice(0, MOST);
    text($("timeline-count"), count(this.state.timeline.size));
    const keep = new Map();
    const elements = chosen.map((entry) => {
      const known = this.drawn.get(entry.id);
      const element = known && known.entry.count === entry.count && known.entry.text === entry.text && known.virtual === this.virtual ? known.element : this.make(entry);
      keep.set(entry.id, { entry, element, virtual: this.virtual });
      return element;
    });
    this.drawn = keep;
    // Only those that moved are touched: focus and what is open stay.
    elements.forEach((element, index) => {
      if (this.list.children[index] !== element) this.list.insertBefore(element, this.list.children[index] ?? null);
    });
    while (this.list.children.length > elements.length) this.list.lastChild.remove();
    if (elements.length === 0) this.list.append(h("li", { class: "empty", text: "Nothing yet. Elections, ISR changes, stalls and faults are told here as they happen." }));
  }

  make(entry) {
    const more = entry.count > 1 ? h("b", { class: "times", text: `×${count(entry.count)}` }) : null;
    const time = h("time", { text: this.virtual ? virtualClock(entry.time_ms) : clock(entry.time_ms) });
    const sign = h("span", { class: "sign", "aria-hidden": "true", text: SIGNS[entry.kind] ?? "·" });
    const kind = h("span", { class: "hidden", text: `${entry.kind}, ${entry.severity}: ` });
    const summary = h("summary", {}, time, sign, h("span", { class: "what" }, kind, entry.text, more));
    const why = h("p", { class: "why" }, entry.why, " ", ...entry.rules.map(ruleChip));
    const names = entry.count > 1 ? h("p", { class: "names", text: entry.partitions.join("  ") + (entry.count > entry.partitions.length ? " …" : "") }) : null;
    const details = h("details", { ontoggle: (event) => (event.target.open ? this.open.add(entry.id) : this.open.delete(entry.id)) }, summary, why, names);
    details.open = this.open.has(entry.id);
    return h("li", { class: `of-${entry.kind} ${entry.severity}` }, details);
  }
}
