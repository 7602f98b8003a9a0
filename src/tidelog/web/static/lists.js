// Consumer groups with their lag, and topics with their configs.

import { asked } from "./asking.js";
import { $, h, text } from "./dom.js";
import { count, plural } from "./format.js";
import { STATUS, isInternal } from "./state.js";

export class Groups {
  constructor(state) {
    this.state = state;
    this.box = $("group-list");
    this.open = new Set();
    this.drawn = "";
  }

  draw() {
    const groups = [...this.state.groups.values()].sort((a, b) => (a.id < b.id ? -1 : 1)).map((group) => ({ group, ...this.state.lagOf(group) }));
    text($("groups-count"), count(groups.length));
    const now = JSON.stringify(groups.map(({ group, lag, rows }) => [group.id, group.state, group.members, lag, this.open.has(group.id) ? rows : 0]));
    if (now === this.drawn) return;
    this.drawn = now;
    if (groups.length === 0) {
      this.box.replaceChildren(h("p", { class: "empty", text: "no group has committed anything" }));
      return;
    }
    this.box.replaceChildren(...groups.map(({ group, lag, rows }) => {
      const members = group.members === null ? "" : plural(group.members, "member");
      const summary = h("summary", {}, h("span", { class: "name", text: group.id }), h("span", { class: "muted", text: [group.state, members].filter(Boolean).join(", ") }), h("span", { class: `n${lag ? " behind" : ""}`, text: `lag ${count(lag)}` }));
      const body = rows.map((row) => h("tr", {},
        h("th", { scope: "row", text: `${row.topic}-${row.number}` }), h("td", { class: "n", text: count(row.offset) }), h("td", { class: "n", text: count(row.behind) }), h("td", { text: row.reader ?? "" })));
      const head = h("thead", {}, h("tr", {}, ...["partition", "committed", "lag", "read by"].map((name) => h("th", { scope: "col", text: name }))));
      const details = h("details", { ontoggle: (event) => (event.target.open ? this.open.add(group.id) : this.open.delete(group.id)) }, summary, h("table", { class: "figures-table" }, head, h("tbody", {}, ...body)));
      details.open = this.open.has(group.id);
      return details;
    }));
  }
}

export class Topics {
  constructor(state) {
    this.state = state;
    this.box = $("topic-list");
    this.open = new Set();
    this.configs = new Map();
    this.drawn = "";
    this.live = true;
  }

  draw() {
    const topics = new Map();
    for (const partition of this.state.partitions.values()) {
      const topic = topics.get(partition.topic) ?? { name: partition.topic, partitions: 0, replicas: 0, worst: "fine" };
      topic.partitions += 1;
      topic.replicas = Math.max(topic.replicas, partition.replicas.length);
      const status = this.state.statusOf(partition);
      if (STATUS[status].rank < STATUS[topic.worst].rank) topic.worst = status;
      topics.set(topic.name, topic);
    }
    const sorted = [...topics.values()].sort((a, b) => isInternal(a.name) - isInternal(b.name) || (a.name < b.name ? -1 : 1));
    text($("topics-count"), count(sorted.length));
    const now = JSON.stringify([sorted, [...this.open], [...this.configs.keys()], this.live]);
    if (now === this.drawn) return;
    this.drawn = now;
    if (sorted.length === 0) {
      this.box.replaceChildren(h("p", { class: "empty", text: "no topics yet" }));
      return;
    }
    this.box.replaceChildren(...sorted.map((topic) => this.make(topic)));
  }

  make(topic) {
    const { sign, words } = STATUS[topic.worst];
    const summary = h("summary", {}, h("span", { class: `sign ${topic.worst}`, title: words, text: sign }), h("span", { class: "name", text: topic.name }),
      h("span", { class: "muted", text: `${plural(topic.partitions, "partition")} × ${plural(topic.replicas, "replica")}` }));
    if (!this.live) return h("details", {}, summary);
    const configs = this.configs.get(topic.name);
    const rows = configs?.map(([name, value, source]) => h("tr", { class: source.startsWith("DYNAMIC_TOPIC") ? "own" : "" }, h("th", { scope: "row", text: name }), h("td", { text: value ?? "" }), h("td", { class: "muted", text: source.toLowerCase().replaceAll("_", " ") })));
    const body = rows ? h("table", { class: "figures-table configs" }, h("tbody", {}, ...rows)) : h("p", { class: "empty", text: "…" });
    const details = h("details", { ontoggle: (event) => this.toggled(topic.name, event.target.open) }, summary, body);
    details.open = this.open.has(topic.name);
    return details;
  }

  async toggled(name, open) {
    if (!open) {
      this.open.delete(name);
      return;
    }
    if (this.open.has(name)) return;
    this.open.add(name);
    this.configs.delete(name);
    const { told, error } = await asked(`/api/topics/${encodeURIComponent(name)}/configs`);
    // What was set for the topic first, then what comes from elsewhere, defaults last.
    const rank = (source) => (source.startsWith("DYNAMIC_TOPIC") ? 0 : source === "DEFAULT_CONFIG" ? 2 : 1);
    this.configs.set(name, error ? [["not told", error, ""]] : told.sort((a, b) => rank(a[2]) - rank(b[2])));
    this.drawn = "";
    this.draw();
  }
}
