// The totals in the header, and the curve of writes. Elements stay in place, so that a click or the focus hits them.

import { $, attribute, h, text } from "./dom.js";
import { count, rate } from "./format.js";
import { STATUS } from "./state.js";
import { term } from "./terms.js";

const TROUBLE = ["offline", "unheard", "undermin", "stalled", "under"];

export class Figures {
  constructor(state) {
    this.state = state;
    this.box = $("figures");
    this.all = new Map();
    this.add("partitions", "partitions");
    this.add("rate", "records/s");
    this.box.append(h("div", { class: "break", "aria-hidden": "true" }));
    this.add("silence", "", "offline");
    for (const kind of TROUBLE) this.add(kind, term(STATUS[kind].term, STATUS[kind].words), kind);
    this.add("fine", term("isr", "in sync"), "fine");
  }

  add(name, label, kind = null) {
    const figure = { label: h("dt", {}, label), value: h("dd") };
    figure.element = h("div", { class: kind, hidden: true }, figure.label, figure.value);
    this.all.set(name, figure);
    this.box.append(figure.element);
  }

  set(name, value) {
    const { element, value: box } = this.all.get(name);
    element.hidden = value === null;
    if (value !== null) text(box, value);
  }

  draw(live) {
    const totals = this.state.totals();
    this.set("partitions", count(totals.partitions));
    text(this.all.get("partitions").label, totals.partitions === 1 ? "partition" : "partitions");
    this.set("rate", rate(this.state.totalRate()));
    const silence = live ? this.state.silence() : null;
    if (silence) text(this.all.get("silence").label, silence[0]);
    this.set("silence", silence ? silence[1] : null);
    let kinds = silence ? 1 : 0;
    for (const kind of TROUBLE) {
      this.set(kind, totals[kind] > 0 ? `${STATUS[kind].sign} ${count(totals[kind])}` : null);
      attribute(this.all.get(kind).element, "title", STATUS[kind].words);
      if (totals[kind] > 0) kinds += 1;
    }
    this.set("fine", kinds === 0 && totals.partitions > 0 ? STATUS.fine.sign : null);
    attribute(this.box, "data-kinds", String(kinds));
  }
}

export function drawSpark(values) {
  const most = Math.max(...values, 1);
  const points = values.map((value, i) => `${((i * 120) / (values.length - 1)).toFixed(1)},${(23 - (21 * value) / most).toFixed(1)}`);
  const svg = $("spark");
  const area = document.createElementNS("http://www.w3.org/2000/svg", "polygon");
  area.setAttribute("points", `0,24 ${points.join(" ")} 120,24`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  svg.replaceChildren(area, line);
}
