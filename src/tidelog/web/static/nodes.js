// The nodes: what each is, and the buttons that do something to it.

import { $, attribute, h, text } from "./dom.js";
import { count } from "./format.js";

const SLOW_MS = 200;
const VERBS = ["kill", "start", "pause", "resume", "isolate", "slow"];
const ALIVE = new Set(["running", "starting", "paused", "stopping"]);

// What may be asked of a node in its state.
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

export class Nodes {
  constructor(state, press) {
    this.state = state;
    this.press = press;
    this.box = $("nodes");
    this.cards = new Map();
    this.busy = false;
    this.heal = h("button", { type: "button", class: "heal", text: "heal", onclick: () => this.do({ command: "heal" }) });
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
    this.heal.disabled = !faulty || this.busy;
  }

  make(id) {
    const card = { state: h("span", { class: "state" }), facts: h("dl", { class: "facts" }), links: h("span", { class: "links" }), buttons: new Map() };
    const buttons = h("div", { class: "buttons", role: "group", "aria-label": `Do to node ${id}` });
    for (const verb of VERBS) {
      const button = h("button", { type: "button", class: verb, text: verb, "aria-label": `${verb} node ${id}`, onclick: () => this.ask(verb, id) });
      card.buttons.set(verb, button);
      buttons.append(button);
    }
    card.buttonBox = buttons;
    card.rows = ["broker", "leads", "quorum", "metadata"].map((name) => {
      const value = h("dd");
      card.facts.append(h("dt", { text: name }), value);
      return value;
    });
    card.element = h("article", { class: "node", "aria-label": `Node ${id}` },
      h("header", {}, h("b", { class: "node-id", text: String(id) }), card.state, card.links, buttons), card.facts);
    return card;
  }

  ask(verb, node) {
    const row = this.state.nodes.get(node);
    const request = { command: verb, node };
    if (verb === "slow") request.ms = row.delay_ms > 0 ? 0 : SLOW_MS;
    this.do(request);
  }

  // One thing at a time: a second click must not meet the button that takes this one's place.
  async do(request) {
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
    const name = `node ${node.state}${node.heard ? "" : " silent"}${leads ? " controller" : ""}`;
    if (card.element.className !== name) card.element.className = name;
    text(card.state, leads ? `${node.state} · controller` : node.state);
    const [broker, lead, vote, metadata] = card.rows;
    text(broker, `${node.standing}${node.broker_epoch >= 0 ? `, epoch ${node.broker_epoch}` : ""}`);
    const apart = share.replicas - share.inIsr;
    text(lead, `${count(share.leads)} of ${count(share.replicas)}${apart > 0 ? ` · ${count(apart)} out` : ""}`);
    const role = node.quorum_role || (node.roles.includes("controller") ? "silent" : "observer");
    text(vote, node.quorum_epoch < 0 ? "–" : `${node.votes || !live ? role : "observer"}, epoch ${node.quorum_epoch}`);
    const behind = quorum.end >= 0 && node.metadata_end >= 0 ? quorum.end - node.metadata_end : null;
    text(metadata, node.metadata_end < 0 ? "–" : `${count(node.metadata_end)}${behind > 0 ? `, lag ${count(behind)}` : ""}`);
    const links = [];
    if (node.deaf.length) links.push(`deaf to ${node.deaf.join(",")}`);
    if (node.mute.length) links.push(`mute to ${node.mute.join(",")}`);
    if (node.delay_ms) links.push(`${node.delay_ms} ms late`);
    text(card.links, links.join(" · "));
    card.buttonBox.hidden = !live;
    for (const [verb, button] of card.buttons) {
      const possible = may(verb, node);
      button.disabled = !possible || this.busy;
      // Of two that exclude each other one is there.
      if (verb === "start") button.hidden = !possible;
      if (verb === "kill") button.hidden = may("start", node);
      if (verb === "resume") button.hidden = !possible;
      if (verb === "pause") button.hidden = may("resume", node);
      if (verb === "slow") {
        text(button, node.delay_ms > 0 ? "hurry" : "slow");
        attribute(button, "aria-label", node.delay_ms > 0 ? `let node ${node.id} be in time again` : `slow node ${node.id} by ${SLOW_MS} ms`);
      }
    }
  }
}
