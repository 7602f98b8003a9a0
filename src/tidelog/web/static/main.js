// Connects the parts of the page: messages of the server change the state, and the next frame draws the changes.

import { asked } from "./asking.js";
import { Detail } from "./detail.js";
import { $, text } from "./dom.js";
import { Figures, drawSpark } from "./figures.js";
import { Heat } from "./heat.js";
import { nameInternal, startInternal, toggleInternal } from "./internal.js";
import { drawLegend } from "./legend.js";
import { Groups, Topics } from "./lists.js";
import { hush, isSaying, say } from "./messages.js";
import { Nodes } from "./nodes.js";
import { permit, reasonWithout, startPermission, token } from "./permission.js";
import { Player } from "./player.js";
import { Rows } from "./rows.js";
import { loadRules } from "./rules.js";
import { State } from "./state.js";
import { Tabs } from "./tabs.js";
import { openGlossary, startTerms } from "./terms.js";
import { nextTheme, startTheme } from "./theme.js";
import { Timeline } from "./timeline.js";

const TICK_MS = 500;
const DRAW_MS = 80;
const AGAIN_MS = 5000;

let stream = null;
let live = false;
// The server's clock minus the browser's clock.
let ahead = 0;
let drawing = false;
let drawnAt = 0;
let nodesChanged = false;

const state = new State();
const rows = new Rows(state, (key, focus) => { detail.show(key, focus); later(); });
const detail = new Detail(state, closeDetail);
const heat = new Heat(state, rows, (key, focus) => rows.select(key, focus));
const nodes = new Nodes(state, press);
const timeline = new Timeline(state);
const groups = new Groups(state);
const topics = new Topics(state);
const figures = new Figures(state);
const player = new Player(showFrame, listen);
new Tabs(chosenAgain);

// --- messages of the server ---

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
    // A browser reconnects by itself after a broken connection, but not after a refusal (too many open pages).
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
  connection("trace", "trace");
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

// Draws soon, but not more often than an eye can follow.
function later() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => requestAnimationFrame(draw), Math.max(0, drawnAt + DRAW_MS - performance.now()));
}

// Chooses the listed partitions again.
function chosenAgain() {
  rows.dirty = true;
  later();
}

function draw() {
  drawing = false;
  drawnAt = performance.now();
  rows.draw();
  if (nodesChanged) rows.drawAll();
  nodesChanged = false;
  rows.drawFold();
  nodes.draw(live);
  heat.draw();
  player.marks();
  if (detail.key !== null) detail.draw();
  timeline.draw();
  groups.draw();
  topics.draw();
  figures.draw(live);
  state.changed.clear();
}

// --- commands ---

async function press(request) {
  say(`${request.command}${request.node ? ` node ${request.node}` : ""} …`);
  const { told, error } = await asked("/api/command", {
    method: "POST", headers: { "Content-Type": "application/json", "X-Tidelog-Token": token() }, body: JSON.stringify(request),
  });
  if (error) say(error, { error: true });
  else say(told.text, { rules: told.rules });
}

// --- keys and switches ---

function closeDetail() {
  rows.select(null);
  detail.show(null);
  rows.box.focus({ preventScroll: true });
}

function choose(which) {
  $("which").value = which;
  rows.which = which;
  chosenAgain();
}

const ACTIONS = {
  "/": () => $("filter").focus(),
  t: () => nextTheme(later),
  x: () => choose(rows.which === "trouble" ? "all" : "trouble"),
  i: () => toggleInternal(chosenAgain),
  "?": () => openGlossary(),
};

function escape(typing, target) {
  if (typing) target.blur();
  else if (detail.key !== null) closeDetail();
  else if (isSaying()) hush();
}

document.addEventListener("keydown", (event) => {
  // An open dialog takes every key; the browser closes it with Esc.
  if (document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input:not([type=checkbox], [type=range], [type=file]), select, textarea");
  if (event.key === "Escape") escape(typing, event.target);
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const onButton = event.target.closest?.("button, summary, label");
  if (player.isOpen && !(onButton && event.key === " ") && event.target !== rows.box && player.onKey(event)) return;
  if (event.key in ACTIONS) {
    event.preventDefault();
    ACTIONS[event.key]();
  } else if (event.target === document.body || ((event.key === "j" || event.key === "k") && event.target !== rows.box)) {
    rows.onKey(event);
    // The next arrow key is meant for the list, too.
    if (event.defaultPrevented) rows.box.focus();
  }
});

$("filter").addEventListener("input", (event) => { rows.filter = event.target.value; rows.box.scrollTop = 0; chosenAgain(); });
$("which").addEventListener("change", (event) => choose(event.target.value));
$("kinds").addEventListener("change", (event) => { timeline.kind = event.target.value; later(); });
$("theme").addEventListener("click", () => nextTheme(later));
$("help-button").addEventListener("click", () => openGlossary());
$("read-only").addEventListener("click", () => say(reasonWithout(), { error: true }));

// Canvases keep the colours of the scheme in which they were drawn.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);

setInterval(() => {
  if (live) state.settleRates(Date.now() + ahead);
  drawSpark(state.spark(live ? Date.now() + ahead : state.now));
  if (state.changed.size > 0) later();
}, TICK_MS);

// --- start ---

startTheme();
startTerms();
startPermission();
startInternal(chosenAgain);
drawLegend();
await loadRules();
const about = await (await fetch("/api/about", { headers: { "X-Tidelog-Token": token() } })).json();
nameInternal(about.internal_topics);
permit(about.has_token);
// A token pasted into the address takes effect at once.
addEventListener("hashchange", async () => {
  const { told } = await asked("/api/about", { headers: { "X-Tidelog-Token": token() } });
  if (told) permit(told.has_token);
  later();
});
document.title = about.cluster ? `Tidelog · ${about.cluster.bootstrap}` : "Tidelog · trace";
if (about.trace !== null) await player.open(about.trace);
else if (about.cluster) listen();
else connection("trace", "choose a trace");
