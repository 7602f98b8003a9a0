// The list of partitions. Only the visible ones are in the document: a thousand cost as much as thirty.

import { Bars, inWords } from "./bars.js";
import { $, attribute, h, text } from "./dom.js";
import { count, plural, rate, showing } from "./format.js";
import { drawFold, internal, isInternal } from "./internal.js";
import { STATUS, endOf, highWatermarkOf } from "./state.js";

const LEAST_WIDTH = 430;
const HEAD = 20;
const LINE = 12;
const PADDING = 15;
const BEYOND = 2;

export class Rows {
  constructor(state, onSelect) {
    this.state = state;
    this.onSelect = onSelect;
    this.box = $("rows");
    this.space = h("div", { class: "space" });
    this.none = h("p", { class: "empty", hidden: true });
    this.box.append(this.space);
    this.box.before(this.none);
    this.cells = new Map();
    this.keys = [];
    this.selected = null;
    this.filter = "";
    this.which = "all";
    this.dirty = true;
    this.box.addEventListener("scroll", () => this.layOut(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    this.box.addEventListener("click", (event) => {
      const cell = event.target.closest("[data-key]");
      if (cell) this.select(cell.dataset.key, true);
    });
    new ResizeObserver(() => this.layOut()).observe(this.box);
  }

  // Chooses the listed partitions: when partitions appear or disappear, and all the time for a list by status.
  choose() {
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [];
    for (const key of this.state.sorted()) {
      const partition = this.state.partitions.get(key);
      if (!internal.shown && isInternal(partition.topic)) continue;
      if (!words.every((word) => partition.name.toLowerCase().includes(word))) continue;
      if (this.which === "trouble" && this.state.statusOf(partition) === "fine") continue;
      if (this.which === "moving" && this.state.rateOf(key) === 0) continue;
      chosen.push(key);
    }
    this.keys = chosen;
    this.none.hidden = chosen.length > 0;
    text(this.none, this.state.partitions.size > 0 ? "No partition matches." : "No partitions yet. Create a topic: tidelog topics create NAME");
    text($("count"), showing(chosen.length, this.state.partitions.size));
  }

  draw() {
    if (this.dirty || this.state.order === null || this.which !== "all") {
      this.dirty = false;
      this.choose();
      this.layOut();
      return;
    }
    for (const key of this.state.changed) {
      const cell = this.cells.get(key);
      if (cell) this.drawCell(cell, this.state.partitions.get(key));
    }
  }

  // After a change of the nodes: any bar may be stale.
  drawAll() {
    for (const [key, cell] of this.cells) this.drawCell(cell, this.state.partitions.get(key));
  }

  layOut() {
    const width = this.box.clientWidth;
    this.columns = Math.max(1, Math.floor(width / LEAST_WIDTH));
    let replicas = 1;
    for (const key of this.keys) replicas = Math.max(replicas, this.state.partitions.get(key)?.replicas.length ?? 1);
    this.height = HEAD + LINE * Math.min(replicas, 6) + PADDING;
    const lines = Math.ceil(this.keys.length / this.columns);
    this.space.style.height = `${lines * this.height}px`;
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - BEYOND);
    const last = Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + BEYOND;
    const shown = new Set(this.keys.slice(first * this.columns, last * this.columns));
    for (const [key, cell] of this.cells) {
      if (!shown.has(key)) {
        cell.element.remove();
        this.cells.delete(key);
      }
    }
    this.keys.slice(first * this.columns, last * this.columns).forEach((key, index) => {
      const position = first * this.columns + index;
      let cell = this.cells.get(key);
      if (!cell) {
        cell = this.makeCell(key);
        this.cells.set(key, cell);
        this.space.append(cell.element);
      }
      const column = position % this.columns;
      cell.element.style.transform = `translate(${(column * width) / this.columns}px, ${Math.floor(position / this.columns) * this.height}px)`;
      cell.element.style.width = `${width / this.columns}px`;
      attribute(cell.element, "aria-posinset", String(position + 1));
      attribute(cell.element, "aria-setsize", String(this.keys.length));
      cell.element.style.height = `${this.height}px`;
      attribute(cell.element, "aria-posinset", String(position + 1));
      attribute(cell.element, "aria-setsize", String(this.keys.length));
      this.drawCell(cell, this.state.partitions.get(key));
    });
  }

  makeCell(key) {
    const cell = {
      sign: h("span", { class: "sign", "aria-hidden": "true" }),
      topic: h("span", { class: "topic" }),
      number: h("span"),
      epoch: h("span", { class: "epoch" }),
      isr: h("span", { class: "insync" }),
      hw: h("span", { class: "offsets" }),
      rate: h("span", { class: "rate" }),
      bars: new Bars(),
    };
    cell.name = h("span", { class: "name" }, cell.topic, cell.number);
    const head = h("div", { class: "head" }, cell.sign, cell.name, cell.epoch, cell.isr, cell.hw, cell.rate);
    cell.element = h("div", { class: "cell", role: "option", "data-key": key, id: `p-${hash(key)}` }, head, cell.bars.element);
    return cell;
  }

  drawCell(cell, partition) {
    if (!partition) return;
    const status = this.state.statusOf(partition);
    const { sign, words } = STATUS[status];
    const selected = partition.key === this.selected;
    const name = `cell ${status}${selected ? " selected" : ""}`;
    if (cell.element.className !== name) cell.element.className = name;
    attribute(cell.element, "aria-selected", String(selected));
    text(cell.sign, sign);
    text(cell.topic, partition.topic);
    text(cell.number, `-${partition.number}`);
    attribute(cell.name, "title", partition.name);
    text(cell.epoch, `epoch ${partition.epoch}`);
    const least = partition.minIsr === null ? "" : ` min ${partition.minIsr}`;
    text(cell.isr, `ISR ${partition.isr.length}/${partition.replicas.length}${least}`);
    const hw = highWatermarkOf(partition);
    const waiting = endOf(partition) - hw;
    text(cell.hw, waiting > 0 ? `HW ${count(hw)} +${count(waiting)}` : `HW ${count(hw)}`);
    const flowing = this.state.rateOf(partition.key);
    text(cell.rate, flowing > 0 ? `${rate(flowing)}/s` : "");
    cell.bars.draw(partition, this.state.nodes, flowing);
    attribute(
      cell.element,
      "aria-label",
      `${partition.name}, ${words}, epoch ${partition.epoch}, ${partition.replicas.map((node) => inWords(partition, node)).join("; ")}`,
    );
  }

  select(key, focus = false) {
    const before = this.selected;
    this.selected = key;
    for (const each of [before, key]) {
      const cell = this.cells.get(each);
      if (cell) this.drawCell(cell, this.state.partitions.get(each));
    }
    const position = this.keys.indexOf(key);
    if (position >= 0) {
      const top = Math.floor(position / this.columns) * this.height;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      else if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + this.height - this.box.clientHeight;
      this.layOut();
      this.box.setAttribute("aria-activedescendant", `p-${hash(key)}`);
    }
    this.onSelect(key, focus);
  }

  onKey(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, j: this.columns, k: -this.columns };
    const at = this.keys.indexOf(this.selected);
    let to = null;
    if (event.key in steps) to = at < 0 ? 0 : at + steps[event.key];
    else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = this.keys.length - 1;
    else if (event.key === "Enter" && at >= 0) return this.onSelect(this.selected, true);
    if (to === null || this.keys.length === 0 || event.metaKey || event.ctrlKey || event.altKey) return undefined;
    event.preventDefault();
    event.stopPropagation();
    return this.select(this.keys[Math.min(Math.max(to, 0), this.keys.length - 1)]);
  }

  // One line below the list replaces the partitions of internal topics.
  drawFold() {
    let folded = 0, trouble = 0;
    for (const partition of this.state.partitions.values()) {
      if (!isInternal(partition.topic)) continue;
      folded += 1;
      if (this.state.statusOf(partition) !== "fine") trouble += 1;
    }
    drawFold("fold-partitions", folded, `${plural(folded, "partition")} of internal topics${trouble ? `, ${count(trouble)} in trouble` : ""}`);
  }
}

function hash(key) {
  let value = 0;
  for (const letter of key) value = (Math.imul(value, 31) + letter.codePointAt(0)) >>> 0;
  return value.toString(36);
}
