// One partition at length: bars with figures, and a table of what every replica says.

import { Bars } from "./bars.js";
import { $, h } from "./dom.js";
import { count, rate } from "./format.js";
import { STATUS, membership } from "./state.js";

const WORDS = { leader: "leads", isr: "in ISR", elr: "in ELR", out: "out" };

export class Detail {
  constructor(state, onClose) {
    this.state = state;
    this.box = $("detail");
    this.key = null;
    this.bars = new Bars(true);
    this.title = h("h2");
    this.status = h("p", { class: "status" });
    this.facts = h("dl", { class: "facts wide" });
    this.table = h("tbody");
    const head = h("thead", {}, h("tr", {}, ...["node", "role", "epoch", "start", "LSO", "HW", "LEO", "lag"].map((name) => h("th", { scope: "col", text: name }))));
    this.box.append(
      h("div", { class: "panel-head" }, this.title, h("button", { type: "button", class: "close", text: "×", "aria-label": "Close this partition", onclick: onClose })),
      this.status, this.bars.element, this.facts, h("table", { class: "figures-table" }, head, this.table),
    );
  }

  show(key, focus) {
    this.key = key;
    this.draw();
    if (focus && !this.box.hidden && matchMedia("(max-width: 899px)").matches) this.box.scrollIntoView({ block: "nearest" });
  }

  draw() {
    const partition = this.state.partitions.get(this.key);
    this.box.hidden = !partition;
    if (!partition) return;
    const { sign, words } = STATUS[this.state.statusOf(partition)];
    this.title.textContent = partition.name;
    this.status.textContent = `${sign} ${words}${partition.recovering ? ", recovering from an unclean election" : ""}`;
    this.status.className = `status ${this.state.statusOf(partition)}`;
    this.bars.draw(partition, this.state.nodes, this.state.rateOf(partition.key));
    const facts = [
      ["leader", partition.leader < 0 ? "nobody" : String(partition.leader)],
      ["leader epoch", partition.epoch],
      ["partition epoch", partition.partitionEpoch < 0 ? "–" : partition.partitionEpoch],
      ["ISR", `[${partition.isr.join(", ")}]${partition.asked ? ` → [${partition.asked.join(", ")}] asked` : ""}`],
      ["ELR", `[${partition.elr.join(", ")}]`],
      ["min ISR", partition.minIsr ?? "–"],
      ["records", `${rate(this.state.rateOf(partition.key))}/s`],
    ];
    this.facts.replaceChildren(...facts.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: String(value) })]));
    const lead = partition.held.get(partition.leader);
    this.table.replaceChildren(...partition.replicas.map((node) => {
      const replica = partition.held.get(node);
      const member = membership(partition, node);
      const lag = lead && replica ? lead.leo - replica.leo : null;
      const values = replica
        ? [replica.epoch, count(replica.start), count(replica.lso), count(replica.hw), count(replica.leo), lag === null ? "–" : count(lag)]
        : ["–", "–", "–", "–", "–", "–"];
      const known = this.state.nodes.get(node)?.heard ? "" : " (last known)";
      return h("tr", {}, h("th", { scope: "row" }, h("b", { class: `chip ${member}`, text: String(node) })), h("td", { text: WORDS[member] + known }), ...values.map((value) => h("td", { class: "n", text: String(value) })));
    }));
  }
}
