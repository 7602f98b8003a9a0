// The glossary: the terms of the page, a button for each, and the dialog that explains them.

import { $, h } from "./dom.js";

const TERMS = [
  ["replica", "Replica", "A copy of a partition's log on one node. One replica leads, the others follow it."],
  ["leader", "Leader", "The replica that takes writes and serves reads. Without a leader the partition is offline."],
  ["follower", "Follower", "A replica that fetches from the leader and appends the same records."],
  ["isr", "ISR, in-sync replicas", "The replicas that have caught up with the leader. A record is committed when every ISR member has it, and a new leader comes from the ISR."],
  ["min-isr", "min ISR", "The config min.insync.replicas. With acks=all, the leader refuses writes while the ISR is smaller than this."],
  ["under-replicated", "Under-replicated", "The ISR lacks at least one of the assigned replicas."],
  ["elr", "ELR, eligible leader replicas", "Replicas that left the ISR but still have every committed record. One of them may lead when the ISR is empty."],
  ["leo", "LEO, log end offset", "The offset of the next record that a replica will append."],
  ["hw", "HW, high watermark", "The offset up to which every ISR member has the log. Records below it are committed, and consumers read up to it."],
  ["stalled", "HW stalled", "Records wait to be committed, and the high watermark has not moved for 2 seconds."],
  ["lso", "LSO, last stable offset", "The first offset of the oldest open transaction, or the high watermark without one. Consumers with read_committed stop here."],
  ["log-start", "Log start", "The first offset that a replica still keeps. Retention moves it."],
  ["lag", "Lag", "Of a replica: the records that the leader has and the replica lacks. Of a group: the committed records that it has not consumed yet."],
  ["epoch", "Epoch, leader epoch", "A number that rises with each new leader of a partition. A request with an older epoch is refused, so a deposed leader cannot write."],
  ["partition-epoch", "Partition epoch", "A number that rises with each change of a partition's leader, ISR or assignment."],
  ["broker", "Broker, broker epoch", "A node in the role that stores partitions. Each registration of its process with the controller gets a higher broker epoch."],
  ["fenced", "Fenced", "The controller has excluded this broker: it cannot lead or join an ISR. It is unfenced when it runs and has the current metadata."],
  ["quorum", "Metadata quorum", "The nodes that elect a quorum leader and replicate the metadata log. A change of metadata needs a majority of them."],
  ["controller", "Controller", "The leader of the metadata quorum. It elects partition leaders, changes ISRs and fences brokers."],
  ["observer", "Observer", "A node that reads the metadata log and has no vote in the quorum."],
  ["metadata", "Metadata log", "The replicated log of all topics, partitions, ISRs and brokers. The page shows how far each node has read it."],
  ["links", "Links", "The network between a node and the other nodes. isolate cuts it, slow delays it, heal repairs it. Clients still reach the node."],
  ["truncation", "Truncation", "A follower removes records that its leader does not have. They were never committed, unless an unclean election took place."],
  ["unclean", "Unclean election", "The election of a replica that may lack committed records. Those records are lost. The config unclean.leader.election.enable allows it."],
  ["internal", "Internal topics", "Topics that the cluster keeps for itself, such as __consumer_offsets. The page folds them into one line."],
];

const KEYS = [
  ["/", "filter partitions by name"], ["arrows, j, k", "move through the partitions"], ["Enter", "open the selected partition"],
  ["Esc", "close the open dialog, partition or message"], ["x", "only partitions in trouble"], ["t", "colours: dark, light, same as the system"],
  ["i", "show or fold internal topics"], ["← →", "trace: previous or next line"], ["Shift ← →", "trace: previous or next event"],
  ["Home, End", "trace: go to the start or the end"], ["Space", "trace: play or pause"], ["?", "this glossary"],
];

// Words of running text that open the glossary.
const FOUND = [
  ["high watermark", "hw"], ["under-replicated", "under-replicated"], ["min.insync.replicas", "min-isr"], ["unclean leader", "unclean"],
  ["unclean election", "unclean"], ["leader epoch", "epoch"], ["broker epoch", "broker"], ["metadata log", "metadata"], ["controller", "controller"],
  ["truncates", "truncation"], ["truncate", "truncation"], ["fenced", "fenced"], ["fences", "fenced"], ["unfenced", "fenced"], ["quorum", "quorum"],
  ["epochs", "epoch"], ["epoch", "epoch"], ["ISRs", "isr"], ["ISR", "isr"], ["ELR", "elr"],
];
const PATTERN = new RegExp(`(?<![\\w.-])(${FOUND.map(([words]) => words.replaceAll(".", "\\.")).join("|")})(?![\\w-]|\\.\\w)`, "g");

export function term(id, words) {
  return h("button", { type: "button", class: "term", "data-term": id, text: words, "aria-haspopup": "dialog" });
}

// Text with a button for the first use of each term.
export function withTerms(text) {
  const parts = [];
  const used = new Set();
  let from = 0;
  for (const match of text.matchAll(PATTERN)) {
    const [, id] = FOUND.find(([words]) => words === match[0]);
    if (used.has(id)) continue;
    used.add(id);
    const end = match.index + match[0].length;
    // A comma stays on the line of its word.
    const mark = /^[.,;:)]+/.exec(text.slice(end))?.[0] ?? "";
    const button = term(id, match[0]);
    parts.push(text.slice(from, match.index), mark ? h("span", { class: "together" }, button, mark) : button);
    from = end + mark.length;
  }
  return [...parts, text.slice(from)].filter((part) => part !== "");
}

export function openGlossary(id = null) {
  const dialog = $("glossary");
  if (dialog.open) return;
  if (!dialog.firstChild) fill(dialog);
  for (const each of dialog.querySelectorAll(".chosen")) each.classList.remove("chosen");
  showDialog(dialog);
  const entry = id === null ? null : $(`term-${id}`);
  if (entry) {
    entry.classList.add("chosen");
    entry.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "center" });
  } else {
    dialog.querySelector(".glossary").scrollTop = 0;
    dialog.querySelector(".close").focus();
  }
}

function fill(dialog) {
  dialog.append(
    h("div", { class: "dialog-head" }, h("h2", { id: "glossary-title", text: "Glossary and keys" }),
      h("button", { type: "button", class: "close", text: "×", "aria-label": "Close the glossary", onclick: () => dialog.close() })),
    h("div", { class: "glossary", tabindex: "0", role: "region", "aria-label": "Terms and keys" },
      h("dl", { class: "terms" }, ...TERMS.map(([id, name, words]) => h("div", { id: `term-${id}`, tabindex: "-1" }, h("dt", { text: name }), h("dd", { text: words })))),
      h("h3", { text: "Keys" }),
      h("dl", { class: "keys" }, ...KEYS.flatMap(([key, words]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: words })]))),
  );
}

// A modal dialog holds the focus. Afterwards the focus returns to the previous element, or to the help button if that
// element no longer exists.
export function showDialog(dialog) {
  const before = document.activeElement;
  dialog.addEventListener("close", () => {
    const target = before?.isConnected && before !== document.body ? before : $("help-button");
    target.focus();
  }, { once: true });
  dialog.showModal();
}

export function startTerms() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.term");
    if (!button) return;
    event.preventDefault();
    openGlossary(button.dataset.term);
  });
  for (const dialog of [$("glossary"), $("rule")]) {
    // A click on the backdrop closes: its target is the dialog itself.
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }
}
