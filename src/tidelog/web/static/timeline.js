// Events, the newest first. A line opens to its explanation and the rules behind it.

import { $, h, text } from "./dom.js";
import { clock, count, plural, showing, virtualClock } from "./format.js";
import { drawFold, internal } from "./internal.js";
import { place } from "./lists.js";
import { ruleChip } from "./rules.js";
import { withTerms } from "./terms.js";

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
    const all = [...this.state.timeline.values()].filter((entry) => !this.kind || entry.kind === this.kind);
    const folded = all.filter((entry) => entry.internal).length;
    const chosen = all.filter((entry) => internal.shown || !entry.internal).sort((a, b) => b.id - a.id).slice(0, MOST);
    text($("timeline-count"), showing(chosen.length, this.state.timeline.size));
    drawFold("fold-timeline", folded, `${plural(folded, "event")} of internal topics`);
    const keep = new Map();
    const elements = chosen.map((entry) => {
      const known = this.drawn.get(entry.id);
      const element = known && known.entry.count === entry.count && known.entry.text === entry.text && known.virtual === this.virtual ? known.element : this.make(entry);
      keep.set(entry.id, { entry, element, virtual: this.virtual });
      return element;
    });
    this.drawn = keep;
    place(this.list, elements);
    const none = $("no-entries");
    none.hidden = elements.length > 0;
    text(none, this.state.timeline.size > 0 ? "No event matches." : "No events yet. Elections, ISR changes, stalls and faults appear here.");
  }

  make(entry) {
    const more = entry.count > 1 ? h("b", { class: "times", text: `×${count(entry.count)}` }) : null;
    const time = h("time", { text: this.virtual ? virtualClock(entry.time_ms) : clock(entry.time_ms) });
    const sign = h("span", { class: "sign", "aria-hidden": "true", text: SIGNS[entry.kind] ?? "·" });
    const kind = h("span", { class: "hidden", text: `${entry.kind}, ${entry.severity}: ` });
    const summary = h("summary", {}, time, sign, h("span", { class: "what" }, kind, entry.text, more));
    const why = h("p", { class: "why" }, ...withTerms(entry.why || "This event has no further explanation."), " ", ...entry.rules.map(ruleChip));
    const details = h("details", { ontoggle: (event) => (event.target.open ? this.open.add(entry.id) : this.open.delete(entry.id)) }, summary, why, names(entry));
    details.open = this.open.has(entry.id);
    return h("li", { class: `of-${entry.kind} ${entry.severity}` }, details);
  }
}

function names(entry) {
  if (entry.count < 2) return null;
  const missing = entry.count - entry.partitions.length;
  return h("p", { class: "names", text: entry.partitions.join("  ") + (missing > 0 ? `  and ${count(missing)} more` : "") });
}
