// All listed partitions at a glance, a cell each. Taller cells have writes; full cells are in trouble.

import { $, colour } from "./dom.js";

const LINES = 4;
const WIDEST = 16;
const NARROWEST = 3.5;

export class Heat {
  constructor(state, rows, onSelect) {
    this.state = state;
    this.rows = rows;
    this.canvas = $("heat");
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    this.canvas.addEventListener("click", (event) => {
      const key = this.keyAt(event);
      if (key) onSelect(key, true);
    });
    this.canvas.addEventListener("mousemove", (event) => {
      const partition = this.state.partitions.get(this.keyAt(event));
      this.canvas.title = partition ? partition.name : "";
    });
  }

  draw() {
    const keys = this.rows.keys;
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    // As wide as a few lines allow.
    this.size = Math.min(WIDEST, Math.max(NARROWEST, Math.floor((2 * LINES * width) / keys.length) / 2));
    this.perLine = Math.max(1, Math.floor(width / this.size));
    const lines = Math.max(1, Math.ceil(keys.length / this.perLine));
    this.line = this.size < 8 ? 10 : 14;
    const height = lines * this.line;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const colours = this.colours();
    const draw = this.canvas.getContext("2d");
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.clearRect(0, 0, width, height);
    keys.forEach((key, index) => {
      const partition = this.state.partitions.get(key);
      if (!partition) return;
      const status = this.state.statusOf(partition);
      const moving = this.state.rateOf(key) > 0;
      const x = (index % this.perLine) * this.size;
      const y = Math.floor(index / this.perLine) * this.line;
      draw.fillStyle = colours[status];
      // Height repeats the colour: low is idle, higher has writes, full is in trouble.
      const most = this.line - 2;
      const tall = Math.round(status === "fine" ? (moving ? 0.66 * most : 0.33 * most) : most);
      draw.fillRect(x, y + most - tall, this.size - 1, tall);
      if (key === this.rows.selected) {
        draw.fillStyle = colours.ink;
        draw.fillRect(x, y + most, this.size - 1, 2);
      }
    });
  }

  colours() {
    return {
      fine: colour("--committed-soft"), under: colour("--warning"), stalled: colour("--stall"),
      undermin: colour("--danger"), offline: colour("--danger"), unheard: colour("--danger"), ink: colour("--ink"),
    };
  }

  keyAt(event) {
    if (!this.perLine) return undefined;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    if (column >= this.perLine) return undefined;
    return this.rows.keys[Math.floor((event.clientY - box.top) / this.line) * this.perLine + column];
  }
}
