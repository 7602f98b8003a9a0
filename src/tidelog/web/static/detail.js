// One partition in detail: bars with offsets, and a table of its replicas. Elements stay in place, so focus does too.

import { Bars } from "./bars.js";
import { $, attribute, h, text } from "./dom.js";
import { count, rate } from "./format.js";
import { STATUS, membership } from "./state.js";
import { isNarrow } from "./tabs.js";
import { term } from "./terms.js";

const MEMBERS = { leader: "leader", isr: "in ISR", elr: "in ELR", out: "out of sync" };
const FACTS = [
  ["leader", "leader"], ["leader epoch", "epoch"], ["partition epoch", "partition-epoch"],
  ["ISR", "isr"], ["ELR", "elr"], ["min ISR", "min-isr"], ["writes", null],
];
const COLUMNS = [["node", null], ["role", null], ["epoch", "epoch"], ["start", "log-start"], ["LSO", "lso"], ["HW", "hw"], ["LEO", "leo"], ["lag", "lag"]];

export class Detail {
  constructor(state, onClose) {
    this.state = state;
    this.box = $("detail");
    this.key = null;
    this.bars = new Bars(true);
    this.title = h("h2");
    this.status = h("p", { class: "status" });
    const facts = h("dl", { class: "facts wide" });
    this.facts = FACTS.map(([name, id]) => {
      const value = h("dd");
      facts.append(h("dt", {}, id ? term(id, name) : name), value);
      return value;
    });
    this.table = h("tbody");
    this.rows = [];
    const head = h("thead", {}, h("tr", {}, ...COLUMNS.map(([name, id], index) => h("th", { scope: "col", class: index < 2 ? null : "n" }, id ? term(id, name) : name))));
    this.box.append(
      h("div", { class: "panel-head" }, this.title, h("button", { type: "button", class: "close", text: "×", "aria-label": "Close this partition", onclick: onClose })),
      h("div", { class: "detail-body" }, this.status, this.bars.element, facts, h("table", { class: "figures-table" }, head, this.table)),
    );
  }

  show(key, focus) {
    this.key = key;
    this.draw();
    if (focus && !this.box.hidden && isNarrow()) this.box.scrollIntoView({ block: "nearest" });
  }

  draw() {
    const partition = this.state.partitions.get(this.key);
    this.box.hidden = !partition;
    if (!partition) return;
    const status = this.state.statusOf(partition);
    const { sign, words } = STATUS[status];
    text(this.title, partition.name);
    attribute(this.title, "title", partition.name);
    text(this.status, `${sign} ${words}${partition.recovering ? ", recovering from an unclean election" : ""}`);
    attribute(this.status, "class", `status ${status}`);
    this.bars.draw(partition, this.state.nodes, this.state.rateOf(partition.key));
    const facts = [
      partition.leader < 0 ? "none" : String(partition.leader),
      String(partition.epoch),
      partition.partitionEpoch < 0 ? "–" : String(partition.partitionEpoch),
      `[${partition.isr.join(", ")}]${partition.asked ? `, proposed [${partition.asked.join(", ")}]` : ""}`,
      `[${partition.elr.join(", ")}]`,
      String(partition.minIsr ?? "–"),
      `${rate(this.state.rateOf(partition.key))}/s`,
    ];
    facts.forEach((value, index) => text(this.facts[index], value));
    while (this.rows.length < partition.replicas.length) this.addRow();
    while (this.rows.length > partition.replicas.length) this.rows.pop().row.remove();
    const lead = partition.held.get(partition.leader);
    partition.replicas.forEach((node, index) => this.drawRow(this.rows[index], partition, node, lead));
  }

  addRow() {
    const chip = h("b");
    const cells = COLUMNS.slice(1).map((_, index) => h("td", { class: index === 0 ? null : "n" }));
    const row = h("tr", {}, h("th", { scope: "row" }, chip), ...cells);
    this.table.append(row);
    this.rows.push({ row, chip, cells });
  }

  drawRow({ chip, cells }, partition, node, lead) {
    const replica = partition.held.get(node);
    const member = membership(partition, node);
    attribute(chip, "class", `chip ${member}`);
    text(chip, String(node));
    const lag = lead && replica ? lead.leo - replica.leo : null;
    const known = this.state.nodes.get(node)?.heard ? "" : ", last known";
    const offsets = replica ? [String(replica.epoch), ...[replica.start, replica.lso, replica.hw, replica.leo, lag].map(count)] : ["–", "–", "–", "–", "–", "–"];
    [MEMBERS[member] + known, ...offsets].forEach((value, index) => text(cells[index], value));
  }
}
