// Puts the page together: what the server tells goes into the state, what changed is drawn in the next frame.

import { asked } from "./asking.js";
import { Detail } from "./detail.js";
import { $, h, text } from "./dom.js";
import { count, rate } from "./format.js";
import { Heat } from "./heat.js";
import { Groups, Topics } from "./lists.js";
import { Nodes } from "./nodes.js";
import { Player } from "./player.js";
import { Rows } from "./rows.js";
import { loadRules, ruleChip } from "./rules.js";
import { STATUS, State } from "./state.js";
import { nextTheme, startTheme } from "./theme.js";
import { Timeline } from "./timeline.js";

const TICK_MS = 500;
const DRAW_MS = 80;

const state = new State();
const rows = new Rows(state, (key, focus) => { detail.show(key, focus); later(); });
const detail = new Detail(state, () => { rows.select(null); detail.show(null); rows.box.focus(); });
const heat = new Heat(state, rows, (key, focus) => rows.select(key, focus));
const nodes = new Nodes(state, press);
const timeline = new Timeline(state);
const groups = new Groups(state);
const topics = new Topics(state);
const player = new Player(showFrame, listen, token);

const AGAIN_MS = 5000;
let stream = null;
let live = false;
// Between the browser's clock and that of the machine it looks at.
let ahead = 0;
let drawing = false;
let drawnAt = 0;
let nodesChanged = false;

function token() {
  return new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
}

// --- what is told ---

function listen() {
  live = true;
  topics.live = true;
  timeline.virtual = false;
  state.clear();
  rows.dirty = true;
  stream?.close();
  stream = new EventSource("/api/stream");
  stream.onmessage = (event) => take(JSON.parse(event.data));
  stream.onopen = () => connection("live", "live");
  stream.onerror = () => {
    connection("lost", "not connected");
    // A browser goes on by itself after a broken connection, and not after a refusal (too many pages are open).
    if (stream?.readyState === EventSource.CLOSED) setTimeout(againIfRefused, AGAIN_MS, stream);
  };
}

function againIfRefused(refused) {
  if (live && stream === refused) listen();
}

function take(message) {
  ahead = message.now - Date.now();
  state.apply(message);
  nodesChanged ||= Boolean(message.nodes || message.reset);
  later();
}

function showFrame(frame) {
  stream?.close();
  stream = null;
  live = false;
  topics.live = false;
  timeline.virtual = true;
  connection("trace", "a trace");
  $("play-close").hidden = !about.cluster;
  const selected = rows.selected;
  take({ ...frame, reset: true });
  state.settleRates(state.now);
  rows.selected = selected;
  rows.dirty = true;
}

function connection(kind, words) {
  document.body.classList.toggle("trace", kind === "trace");
  $("connection").className = `connection ${kind}`;
  text($("connection-text"), words);
}

// --- drawing ---

// Soon, and not more often than one can see.
function later() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => requestAnimationFrame(draw), Math.max(0, drawnAt + DRAW_MS - performance.now()));
}

function draw() {
  drawing = false;
  drawnAt = performance.now();
  rows.draw();
  if (nodesChanged) rows.drawAll();
  nodesChanged = false;
  nodes.draw(live);
  heat.draw();
  if (detail.key !== null) detail.draw();
  timeline.draw();
  groups.draw();
  topics.draw();
  figures();
  state.changed.clear();
}

function figures() {
  const totals = state.totals();
  const total = state.totalRate();
  const shown = [["partitions", count(totals.partitions), ""], ["records/s", rate(total), ""]];
  const silence = live ? state.silence() : null;
  if (silence) shown.push([...silence, "offline"]);
  for (const kind of ["offline", "unheard", "undermin", "stalled", "under"]) {
    if (totals[kind] > 0) shown.push([STATUS[kind].words, `${STATUS[kind].sign} ${count(totals[kind])}`, kind]);
  }
  if (shown.length === 2 && totals.partitions > 0) shown.push(["replication", "● in sync", "fine"]);
  $("figures").replaceChildren(...shown.map(([name, value, kind]) => h("div", { class: kind }, h("dt", { text: name }), h("dd", { text: value }))));
}

function spark() {
  const values = state.spark(live ? Date.now() + ahead : state.now);
  const most = Math.max(...values, 1);
  const points = values.map((value, i) => `${((i * 120) / (values.length - 1)).toFixed(1)},${(23 - (21 * value) / most).toFixed(1)}`);
  const svg = $("spark");
  svg.replaceChildren();
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  const area = document.createElementNS("http://www.w3.org/2000/svg", "polygon");
  area.setAttribute("points", `0,24 ${points.join(" ")} 120,24`);
  svg.append(area, line);
}

// --- buttons ---

async function press(request) {
  const outcome = $("outcome");
  outcome.hidden = false;
  outcome.className = "outcome";
  outcome.replaceChildren(h("span", { text: `${request.command}${request.node ? ` node ${request.node}` : ""} …` }));
  const { told, error } = await asked("/api/command", {
    method: "POST", headers: { "Content-Type": "application/json", "X-Tidelog-Token": token() }, body: JSON.stringify(request),
  });
  outcome.className = error ? "outcome error" : "outcome";
  outcome.replaceChildren(h("span", { text: error ?? told.text }), ...(error ? [] : told.rules.map(ruleChip)));
}

// --- keys, tabs, switches ---

const KEYS = [
  ["/", "filter partitions"], ["arrows, j, k", "move through the partitions"], ["Enter", "show the chosen one"], ["Esc", "close what is open"],
  ["t", "dark, light, as the system"], ["x", "only those in trouble"], ["← →", "a trace: line back, line forward"],
  ["Shift ← →", "a trace: event before, next event"], ["Space", "a trace: play, hold"], ["?", "this list"],
];

function help() {
  const dialog = $("help");
  dialog.replaceChildren(
    h("h2", { text: "Keys" }),
    h("dl", { class: "keys" }, ...KEYS.flatMap(([key, words]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: words })])),
    h("button", { type: "button", text: "close", onclick: () => dialog.close() }),
  );
  dialog.showModal();
}

function choose(which) {
  $("which").value = which;
  rows.which = which;
  rows.dirty = true;
  later();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox], [type=range], [type=file]), select, textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  else if (event.key === "Escape" && detail.key !== null) { rows.select(null); detail.show(null); }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const onButton = event.target.closest?.("button, summary, label");
  if (player.isOpen && !(onButton && event.key === " ") && event.target !== rows.box && player.onKey(event)) return;
  const actions = { "/": () => $("filter").focus(), t: () => nextTheme(later), x: () => choose(rows.which === "trouble" ? "all" : "trouble"), "?": help };
  if (event.key in actions) {
    event.preventDefault();
    actions[event.key]();
  } else if (event.target === document.body || ((event.key === "j" || event.key === "k") && event.target !== rows.box)) {
    rows.onKey(event);
    // It has been taken: the next arrow is meant for the list, too.
    if (event.defaultPrevented) rows.box.focus();
  }
});

$("filter").addEventListener("input", (event) => { rows.filter = event.target.value; rows.dirty = true; rows.box.scrollTop = 0; later(); });
$("which").addEventListener("change", (event) => choose(event.target.value));
$("internal").addEventListener("change", (event) => { rows.internal = event.target.checked; rows.dirty = true; later(); });
$("kinds").addEventListener("change", (event) => { timeline.kind = event.target.value; later(); });
$("theme").addEventListener("click", () => nextTheme(later));
$("help-button").addEventListener("click", help);

const tabs = [...document.querySelectorAll("[role=tab]")];
function tab(chosen) {
  for (const each of tabs) {
    const selected = each === chosen;
    each.setAttribute("aria-selected", String(selected));
    each.tabIndex = selected ? 0 : -1;
  }
  document.body.dataset.tab = chosen.getAttribute("aria-controls");
  rows.dirty = true;
  later();
}
tabs.forEach((each, index) => {
  each.addEventListener("click", () => tab(each));
  each.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    const next = tabs[(index + step + tabs.length) % tabs.length];
    next.focus();
    tab(next);
  });
});

setInterval(() => {
  if (live) state.settleRates(Date.now() + ahead);
  spark();
  if (state.changed.size > 0) later();
}, TICK_MS);

// --- begin ---

startTheme();
tab(tabs[0]);
await loadRules();
const about = await (await fetch("/api/about")).json();
document.title = about.cluster ? `Tidelog · ${about.cluster.bootstrap}` : "Tidelog · a trace";
if (about.trace !== null) await player.open(about.trace);
else if (about.cluster) listen();
else connection("trace", "choose a trace");
