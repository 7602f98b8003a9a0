// The nodes: state, role and links of each, and its buttons.

import { $, attribute, h, text } from "./dom.js";
import { count } from "./format.js";
import { guard, permission, reasonWithout } from "./permission.js";
import { say } from "./messages.js";
import { term } from "./terms.js";

const SLOW_MS = 200;
const VERBS = ["kill", "start", "pause", "resume", "isolate", "slow"];
const ALIVE = new Set(["running", "starting", "paused", "stopping"]);
const HELP = {
  kill: "SIGKILL: no flush, no goodbye", start: "start the process again", pause: "SIGSTOP: connections stay open",
  resume: "SIGCONT: the process continues", isolate: "cut the network to the other nodes", slow: `delay traffic to the other nodes by ${SLOW_MS} ms`,
};

// Whether a command makes sense for a node in its state.
function may(verb, node) {
  const cut = node.deaf.length > 0 || node.mute.length > 0;
  switch (verb) {
    case "kill": return ALIVE.has(node.state);
    case "start": return !ALIVE.has(node.state) && node.state !== "unknown";
    case "pause": return node.state === "running";
    case "resume": return node.state === "paused";
    case "isolate": return ALIVE.has(node.state) && !cut;
    case "slow": return ALIVE.has(node.state);
    default: return true;
  }
}

// In a few words, so that a fault moves nothing on the page.
function linksOf(node) {
  const words = [];
  const cut = new Set([...node.deaf, ...node.mute]).size;
  if (cut > 0) words.push(node.deaf.length === cut && node.mute.length === cut ? "cut off" : "partly cut off");
  if (node.delay_ms) words.push(`+${count(node.delay_ms)} ms`);
  return words.join(", ");
}

function linksAtLength(node) {
  const words = [];
  const [deaf, mute] = [node.deaf.join(", "), node.mute.join(", ")];
  if (deaf && deaf === mute) words.push(`cut off from ${deaf}`);
  else {
    if (deaf) words.push(`receives nothing from ${deaf}`);
    if (mute) words.push(`cannot reach ${mute}`);
  }
  if (node.delay_ms) words.push(`${count(node.delay_ms)} ms delay`);
  return words.join("; ");
}

export class Nodes {
  constructor(state, press) {
    this.state = state;
    this.press = press;
    this.box = $("nodes");
    this.cards = new Map();
    this.busy = false;
    this.heal = h("button", { type: "button", class: "heal", text: "heal", "data-needs-token": true, title: "end isolate and slow on all nodes", onclick: () => this.do({ command: "heal" }) });
    this.healBox = h("div", { class: "heal-box" }, this.heal, h("small", { text: "ends isolate and slow" }));
  }

  draw(live) {
    const quorum = this.state.quorum();
    const ids = [...this.state.nodes.keys()].sort((a, b) => a - b);
    if (ids.length !== this.cards.size || ids.some((id) => !this.cards.has(id))) {
      this.cards = new Map(ids.map((id) => [id, this.make(id)]));
      this.box.replaceChildren(...[...this.cards.values()].map((card) => card.element), this.healBox);
    }
    let faulty = false;
    for (const id of ids) {
      const node = this.state.nodes.get(id);
      faulty ||= node.deaf.length > 0 || node.mute.length > 0 || node.delay_ms > 0;
      this.drawCard(this.cards.get(id), node, quorum, live);
    }
    this.healBox.hidden = !live;
    this.heal.disabled = permission.given && (!faulty || this.busy);
    guard(this.heal);
  }

  make(id) {
    const card = { state: h("span", { class: "state" }), facts: h("dl", { class: "facts" }), buttons: new Map() };
    const buttons = h("div", { class: "buttons", role: "group", "aria-label": `Commands for node ${id}` });
    for (const verb of VERBS) {
      const button = h("button", { type: "button", class: verb, text: verb, title: HELP[verb], "data-needs-token": true, "aria-label": `${verb} node ${id}`, onclick: () => this.ask(verb, id) });
      card.buttons.set(verb, button);
      buttons.append(button);
    }
    card.buttonBox = buttons;
    const fact = (id, name) => {
      const value = h("dd");
      card.facts.append(h("dt", {}, term(id, name)), value);
      return value;
    };
    card.broker = fact("broker", "broker");
    card.lead = fact("leader", "leads");
    card.vote = fact("quorum", "quorum");
    card.inSync = fact("isr", "in sync");
    card.metadata = fact("metadata", "metadata");
    card.links = fact("links", "links");
    card.standing = term("fenced", "");
    card.brokerEpoch = h("span");
    card.broker.append(card.standing, card.brokerEpoch);
    card.element = h("article", { class: "node", "aria-label": `Node ${id}` },
      h("header", {}, h("b", { class: "node-id", text: String(id) }), card.state, buttons), card.facts);
    return card;
  }

  ask(verb, node) {
    const row = this.state.nodes.get(node);
    const request = { command: verb, node };
    if (verb === "slow") request.ms = row.delay_ms > 0 ? 0 : SLOW_MS;
    this.do(request);
  }

  // One command at a time: a second click must not hit the button that replaces the first.
  async do(request) {
    if (!permission.given) {
      say(reasonWithout(), { error: true });
      return;
    }
    this.busy = true;
    this.draw(true);
    try {
      await this.press(request);
    } finally {
      this.busy = false;
      this.draw(true);
    }
  }

  drawCard(card, node, quorum, live) {
    const share = this.state.share(node.id);
    const leads = quorum.leader === node.id && node.heard;
    attribute(card.element, "class", `node ${node.state}${node.heard ? "" : " silent"}${leads ? " controller" : ""}`);
    text(card.state, leads ? `${node.state} · controller` : node.state);
    text(card.standing, node.standing);
    text(card.brokerEpoch, node.broker_epoch >= 0 ? `, epoch ${node.broker_epoch}` : "");
    text(card.lead, `${count(share.leads)} of ${count(share.replicas)}`);
    text(card.inSync, `${count(share.inIsr)} of ${count(share.replicas)}`);
    card.inSync.classList.toggle("apart", share.inIsr < share.replicas);
    const role = node.quorum_role || (node.roles.includes("controller") ? "silent" : "observer");
    text(card.vote, node.quorum_epoch < 0 ? "–" : `${node.votes || !live ? role : "observer"}, epoch ${node.quorum_epoch}`);
    const behind = quorum.end >= 0 && node.metadata_end >= 0 ? quorum.end - node.metadata_end : null;
    text(card.metadata, node.metadata_end < 0 ? "–" : `${count(node.metadata_end)}${behind > 0 ? `, lag ${count(behind)}` : ""}`);
    const links = linksOf(node);
    text(card.links, links || "fine");
    attribute(card.links, "title", linksAtLength(node));
    card.links.classList.toggle("faulty", links !== "");
    card.buttonBox.hidden = !live;
    for (const [verb, button] of card.buttons) this.drawButton(verb, button, node);
  }

  drawButton(verb, button, node) {
    const possible = may(verb, node);
    button.disabled = permission.given && (!possible || this.busy);
    guard(button);
    // Of two opposite commands one is visible.
    if (verb === "start" || verb === "resume") button.hidden = !possible;
    if (verb === "kill") button.hidden = may("start", node);
    if (verb === "pause") button.hidden = may("resume", node);
    if (verb === "slow") {
      const late = node.delay_ms > 0;
      text(button, late ? "hurry" : "slow");
      attribute(button, "title", late ? "end the delay" : HELP.slow);
      attribute(button, "aria-label", late ? `end the delay of node ${node.id}` : `slow node ${node.id} by ${SLOW_MS} ms`);
    }
  }
}
