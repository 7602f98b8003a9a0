// Consumer groups with their lag, and topics with their configs. Rows stay in place while they are open.

import { asked } from "./asking.js";
import { $, attribute, h, text } from "./dom.js";
import { count, plural, rate, showing } from "./format.js";
import { drawFold, internal, isInternal } from "./internal.js";
import { STATUS } from "./state.js";
import { term } from "./terms.js";

// Puts elements into a box in this order and touches only those that moved.
export function place(box, elements) {
  elements.forEach((element, index) => {
    if (box.children[index] !== element) box.insertBefore(element, box.children[index] ?? null);
  });
  while (box.children.length > elements.length) box.lastChild.remove();
}

class Rows {
  constructor(box, none) {
    this.box = box;
    this.none = h("p", { class: "empty", text: none });
    this.rows = new Map();
  }

  // `names` in their order; `make` returns a row with its `element`.
  draw(names, make) {
    const wanted = new Set(names);
    for (const name of this.rows.keys()) if (!wanted.has(name)) this.rows.delete(name);
    for (const name of names) if (!this.rows.has(name)) this.rows.set(name, make(name));
    place(this.box, names.length ? names.map((name) => this.rows.get(name).element) : [this.none]);
  }
}

export class Groups {
  constructor(state) {
    this.state = state;
    this.list = new Rows($("group-list"), "No consumer group has committed an offset.");
  }

  draw() {
    const groups = [...this.state.groups.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    text($("groups-count"), showing(groups.length, Math.max(this.state.groupsTotal, groups.length)));
    this.list.draw(groups.map((group) => group.id), (name) => this.make(name));
    let total = 0;
    for (const group of groups) {
      const { lag, rows } = this.state.lagOf(group);
      total += lag;
      this.drawRow(this.list.rows.get(group.id), group, lag, rows);
    }
    text($("groups-lag"), total > 0 ? `lag ${rate(total)}` : "");
  }

  make(name) {
    const row = { members: h("span", { class: "muted" }), lag: h("span", { class: "n" }), body: h("tbody"), drawn: "" };
    const head = h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "partition" }), h("th", { scope: "col", class: "n", text: "committed" }),
      h("th", { scope: "col", class: "n" }, term("lag", "lag")), h("th", { scope: "col", text: "consumer" })));
    row.element = h("details", {}, h("summary", {}, h("span", { class: "line-of" }, h("span", { class: "name", text: name }), row.members, row.lag)), h("table", { class: "figures-table assigned" }, head, row.body));
    row.element.addEventListener("toggle", () => { row.drawn = ""; this.draw(); });
    return row;
  }

  drawRow(row, group, lag, rows) {
    const members = group.members === null ? "" : plural(group.members, "member");
    text(row.members, [group.state.toLowerCase(), members].filter(Boolean).join(", "));
    text(row.lag, `lag ${count(lag)}`);
    attribute(row.lag, "class", lag ? "n behind" : "n");
    const now = row.element.open ? JSON.stringify(rows) : "";
    if (now === row.drawn) return;
    row.drawn = now;
    row.body.replaceChildren(...(row.element.open ? rows : []).map((each) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: "named", title: `${each.topic}-${each.number}` }, h("span", { class: "topic", text: each.topic }), h("span", { text: `-${each.number}` }))),
      h("td", { class: "n", text: count(each.offset) }), h("td", { class: "n", text: count(each.behind) }), h("td", {}, h("span", { class: "named" }, h("span", { class: "topic", title: each.reader, text: each.reader ?? "" }))))));
  }
}

export class Topics {
  constructor(state) {
    this.state = state;
    this.list = new Rows($("topic-list"), "No topics yet.");
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
    const all = [...topics.values()].sort((a, b) => isInternal(a.name) - isInternal(b.name) || (a.name < b.name ? -1 : 1));
    const folded = all.filter((topic) => isInternal(topic.name));
    const shown = all.filter((topic) => internal.shown || !isInternal(topic.name));
    text($("topics-count"), showing(shown.length, all.length));
    const trouble = folded.filter((topic) => topic.worst !== "fine").length;
    drawFold("fold-topics", folded.length, plural(folded.length, "internal topic") + (trouble ? `, ${count(trouble)} in trouble` : ""));
    this.list.draw(shown.map((topic) => topic.name), (name) => this.make(name));
    for (const topic of shown) this.drawRow(this.list.rows.get(topic.name), topic);
  }

  make(name) {
    const row = { sign: h("span"), size: h("span", { class: "muted" }), body: h("div", { class: "configs" }) };
    row.element = h("details", {}, h("summary", {}, row.sign, h("span", { class: "line-of" }, h("span", { class: "name", text: name }), row.size)), row.body);
    row.element.addEventListener("toggle", () => this.toggled(row, name));
    return row;
  }

  drawRow(row, topic) {
    const { sign, words } = STATUS[topic.worst];
    attribute(row.sign, "class", `sign ${topic.worst}`);
    attribute(row.sign, "title", words);
    text(row.sign, sign);
    text(row.size, `${plural(topic.partitions, "partition")} × ${plural(topic.replicas, "replica")}`);
  }

  async toggled(row, name) {
    if (!row.element.open) {
      row.body.replaceChildren();
      return;
    }
    if (!this.live) {
      row.body.replaceChildren(h("p", { class: "empty", text: "A trace does not record the configs of a topic." }));
      return;
    }
    row.body.replaceChildren(h("p", { class: "empty", text: "Loading configs…" }));
    const { told, error } = await asked(`/api/topics/${encodeURIComponent(name)}/configs`);
    if (error) row.body.replaceChildren(h("p", { class: "empty error", text: `Cannot read the configs: ${error}` }));
    else row.body.replaceChildren(...configRows(told));
    // The row stays where it was clicked; its configs follow it, and as many as fit come into view.
    row.element.scrollIntoView({ block: "nearest" });
  }
}

const SOURCES = { DYNAMIC_TOPIC_CONFIG: "topic", DYNAMIC_BROKER_CONFIG: "broker", DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers", STATIC_BROKER_CONFIG: "file", DEFAULT_CONFIG: "default" };

// Topic configs first, defaults last.
function configRows(configs) {
  const rank = (source) => (source.startsWith("DYNAMIC_TOPIC") ? 0 : source === "DEFAULT_CONFIG" ? 2 : 1);
  return [...configs].sort((a, b) => rank(a[2]) - rank(b[2])).map(([name, value, source]) => h("div", { class: rank(source) === 0 ? "config own" : "config" },
    h("span", { class: "config-name" }, ...breakable(name)), h("span", { class: "config-value" }, ...breakable(value || "–")),
    h("span", { class: "config-source", title: source, text: SOURCES[source] ?? source.toLowerCase().replaceAll("_", " ") })));
}

// A name may continue on the next line after a dot or an underscore, a value after a comma, never inside a word.
function breakable(name) {
  return name.split(/(?<=[._,])/).flatMap((part, index) => (index === 0 ? [part] : [h("wbr"), part]));
}
