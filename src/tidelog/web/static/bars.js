// The replicas of one partition as bars over one offset axis.

import { axisOf } from "./axis.js";
import { h, text } from "./dom.js";
import { count } from "./format.js";
import { membership } from "./state.js";

const MEMBERS = { leader: "leader", isr: "in the ISR", elr: "in the ELR", out: "out of sync" };

export function axisFor(partition, perSecond) {
  const held = partition.replicas.map((node) => partition.held.get(node)).filter(Boolean);
  if (held.length === 0) return axisOf([0], [0]);
  return axisOf(held.map((each) => each.start), held.flatMap((each) => [each.hw, each.leo]), perSecond);
}

// The bar in words, for screen readers and tooltips.
export function inWords(partition, node) {
  const replica = partition.held.get(node);
  const member = MEMBERS[membership(partition, node)];
  if (!replica) return `node ${node}, ${member}: no report`;
  return `node ${node}, ${member}: log start ${replica.start}, HW ${replica.hw}, LSO ${replica.lso}, LEO ${replica.leo}, epoch ${replica.epoch}`;
}

export class Bars {
  // A large bar shows its offsets.
  constructor(large = false) {
    this.large = large;
    this.element = h("div", { class: large ? "bars large" : "bars" });
    this.lines = new Map();
  }

  draw(partition, nodes, perSecond) {
    const axis = axisFor(partition, perSecond);
    const wanted = partition.replicas;
    // The order matters: the first is the preferred leader, and a reassignment may change it.
    const drawn = [...this.lines.keys()];
    if (wanted.length !== drawn.length || wanted.some((node, place) => node !== drawn[place])) this.make(wanted);
    for (const node of wanted) this.drawLine(this.lines.get(node), partition, node, axis, nodes.get(node));
  }

  make(wanted) {
    this.lines = new Map();
    this.element.replaceChildren();
    for (const node of wanted) {
      const line = {
        row: h("div", { class: "line" }),
        chip: h("b", { class: "chip", text: String(node) }),
        track: h("div", { class: "track" }),
        committed: h("i", { class: "committed" }),
        uncommitted: h("i", { class: "uncommitted" }),
        start: h("i", { class: "start" }),
        lso: h("i", { class: "lso" }),
        gap: h("i", { class: "gap" }),
        figure: h("span", { class: "figure" }),
      };
      line.track.append(line.committed, line.uncommitted, line.start, line.lso, line.gap);
      line.row.append(line.chip, line.track, line.figure);
      this.element.append(line.row);
      this.lines.set(node, line);
    }
  }

  drawLine(line, partition, node, axis, nodeRow) {
    const replica = partition.held.get(node);
    const member = membership(partition, node);
    const asked = partition.asked;
    const joining = asked?.includes(node) && !partition.isr.includes(node);
    const leaving = asked && !asked.includes(node) && partition.isr.includes(node);
    const stale = !nodeRow?.heard || nodeRow.state === "paused";
    const kind = `chip ${member}${joining ? " joining" : ""}${leaving ? " leaving" : ""}`;
    if (line.chip.className !== kind) line.chip.className = kind;
    const row = `line${stale ? " stale" : ""}${member === "out" || member === "elr" ? " apart" : ""}`;
    if (line.row.className !== row) line.row.className = row;
    const label = inWords(partition, node) + (stale ? " (last known)" : "");
    if (line.row.title !== label) line.row.title = label;
    if (!replica) {
      for (const mark of [line.committed, line.uncommitted, line.start, line.lso, line.gap]) mark.hidden = true;
      text(line.figure, this.large ? "no report" : "");
      return;
    }
    const [start, hw, leo, lso] = [replica.start, replica.hw, replica.leo, replica.lso].map(axis.at);
    place(line.committed, start, hw);
    place(line.uncommitted, hw, leo);
    mark(line.start, start, replica.start > 0);
    mark(line.lso, lso, replica.lso < replica.hw);
    mark(line.gap, axis.brokenAt, axis.brokenAt !== null);
    if (this.large) text(line.figure, `${count(replica.hw)} · ${count(replica.leo)}`);
    else {
      const lead = partition.held.get(partition.leader);
      const lag = lead && lead !== replica ? lead.leo - replica.leo : 0;
      text(line.figure, lag > 0 ? `−${count(lag)}` : "");
    }
  }
}

function place(element, from, to) {
  element.hidden = to <= from;
  const left = `${(100 * from).toFixed(2)}%`;
  const width = `${(100 * (to - from)).toFixed(2)}%`;
  if (element.style.left !== left) element.style.left = left;
  if (element.style.width !== width) element.style.width = width;
}

function mark(element, at, shown) {
  element.hidden = !shown;
  if (shown) {
    const left = `${(100 * at).toFixed(2)}%`;
    if (element.style.left !== left) element.style.left = left;
  }
}
