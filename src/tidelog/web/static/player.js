// Plays a trace of a simulation. The server computes its states; the player keeps the position.

import { asked } from "./asking.js";
import { $, colour, text } from "./dom.js";
import { count } from "./format.js";
import { say } from "./messages.js";
import { permission, reasonWithout, token } from "./permission.js";

const FRAME_MS = 100;

export class Player {
  // `show` draws a frame as a state of the board; `leave` returns to the cluster.
  constructor(show, leave) {
    this.show = show;
    this.trace = null;
    this.step = 0;
    this.seconds = 0;
    this.playing = null;
    this.asked = 0;
    const on = (id, handler) => $(id).addEventListener("click", handler);
    on("play-first", () => this.goTo(0));
    on("play-back", () => this.goTo(this.step - 1));
    on("play-forward", () => this.goTo(this.step + 1));
    on("play-previous-notable", () => this.goTo(this.notable(-1)));
    on("play-next-notable", () => this.goTo(this.notable(1)));
    on("play-toggle", () => this.toggle());
    on("play-close", () => { this.close(); leave(); });
    $("play-slider").addEventListener("input", (event) => this.goTo(Number(event.target.value)));
    $("trace-file").addEventListener("click", (event) => {
      if (permission.given) return;
      event.preventDefault();
      say(reasonWithout(), { error: true });
    });
    $("trace-file").addEventListener("change", (event) => this.take(event.target.files[0]));
  }

  get isOpen() {
    return this.trace !== null;
  }

  async take(file) {
    if (!file) return;
    const { told, error } = await asked("/api/trace", { method: "POST", headers: { "X-Tidelog-Token": token() }, body: file });
    $("trace-file").value = "";
    if (error) this.fail(error);
    else await this.begin(told);
  }

  async open(id) {
    const { told, error } = await asked(`/api/trace/${id}`);
    if (error) this.fail(error);
    else await this.begin(told);
  }

  async begin(trace) {
    this.trace = trace;
    $("player").hidden = false;
    const slider = $("play-slider");
    slider.max = String(trace.steps);
    this.marks();
    await this.goTo(0);
    slider.focus();
  }

  close() {
    this.hold();
    this.trace = null;
    $("player").hidden = true;
  }

  fail(reason) {
    say(reason, { error: true });
  }

  // The next or previous notable line.
  notable(direction) {
    const steps = this.trace.notable.map(([step]) => step);
    if (direction > 0) return steps.find((step) => step > this.step) ?? this.trace.steps;
    return steps.findLast((step) => step < this.step) ?? 0;
  }

  async goTo(step) {
    if (!this.trace) return;
    await this.ask(`step=${Math.min(Math.max(step, 0), this.trace.steps)}`);
  }

  async ask(where) {
    const number = ++this.asked;
    const { told: frame, error } = await asked(`/api/trace/${this.trace.id}/frame?${where}`);
    if (error) {
      this.hold();
      this.fail(error);
      return;
    }
    // A later request has overtaken this one.
    if (number !== this.asked || !this.trace) return;
    this.step = frame.step;
    this.seconds = frame.line ? frame.line.t : 0;
    $("play-slider").value = String(frame.step);
    $("play-slider").setAttribute("aria-valuetext", `line ${frame.step}, ${this.seconds.toFixed(3)} seconds: ${frame.words}`);
    text($("play-where"), `seed ${this.trace.seed} · ${this.seconds.toFixed(3)} s of ${this.trace.seconds.toFixed(1)} s · line ${count(frame.step)} of ${count(this.trace.steps)}`);
    text($("play-words"), frame.words);
    this.show(frame);
  }

  toggle() {
    if (this.playing !== null) this.hold();
    else {
      if (this.step >= this.trace.steps) this.seconds = 0;
      let busy = false;
      this.playing = setInterval(async () => {
        if (busy) return;
        busy = true;
        const next = this.seconds + (FRAME_MS / 1000) * Number($("play-speed").value);
        await this.ask(`at=${next}`);
        // Time passes between two lines, too.
        this.seconds = next;
        busy = false;
        if (!this.trace || this.step >= this.trace.steps) this.hold();
      }, FRAME_MS);
    }
    this.drawToggle();
  }

  hold() {
    if (this.playing !== null) clearInterval(this.playing);
    this.playing = null;
    this.drawToggle();
  }

  drawToggle() {
    text($("play-toggle"), this.playing === null ? "▶ play" : "❚❚ pause");
    $("play-toggle").setAttribute("aria-label", this.playing === null ? "Play" : "Pause");
  }

  onKey(event) {
    const steps = {
      ArrowRight: () => this.goTo(event.shiftKey ? this.notable(1) : this.step + 1),
      ArrowLeft: () => this.goTo(event.shiftKey ? this.notable(-1) : this.step - 1),
      Home: () => this.goTo(0),
      End: () => this.goTo(this.trace.steps),
      " ": () => this.toggle(),
    };
    if (!(event.key in steps)) return false;
    event.preventDefault();
    steps[event.key]();
    return true;
  }

  // Marks of faults, elections and ISR changes above the slider.
  marks() {
    if (this.trace === null) return;
    const canvas = $("play-marks");
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    const colours = { fault: colour("--danger"), metadata: colour("--leader"), node: colour("--muted") };
    const tall = { fault: 1, metadata: 0.7, node: 0.35, run: 0.35 };
    const draw = canvas.getContext("2d");
    for (const [step, , source] of this.trace.notable) {
      draw.fillStyle = colours[source] ?? colours.node;
      const high = canvas.height * (tall[source] ?? 0.3);
      draw.fillRect((step / this.trace.steps) * (canvas.width - ratio), canvas.height - high, ratio, high);
    }
  }
}
