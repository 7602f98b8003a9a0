// The state of the cluster as the server reports it, and values computed from it. No document, no clock.

export const OFFLINE = "offline";
export const UNHEARD = "unheard";
export const UNDER_MIN = "undermin";
export const STALLED = "stalled";
export const UNDER = "under";
export const FINE = "fine";

// Each status has a sign, so that colour is never the only difference.
export const STATUS = {
  [OFFLINE]: { sign: "✕", words: "no leader", term: "leader", rank: 0 },
  [UNHEARD]: { sign: "?", words: "leader does not respond", term: "leader", rank: 1 },
  [UNDER_MIN]: { sign: "▼", words: "below min ISR", term: "min-isr", rank: 2 },
  [STALLED]: { sign: "‖", words: "HW stalled", term: "stalled", rank: 3 },
  [UNDER]: { sign: "◐", words: "under-replicated", term: "under-replicated", rank: 4 },
  [FINE]: { sign: "●", words: "in sync", term: "isr", rank: 5 },
};

// A node in one of these states serves no partition. The metadata may still name it leader, for lack of a quorum.
const DOWN = new Set(["killed", "crashed", "stopped", "paused"]);

const RATE_MS = 1000;
const SPARK_S = 60;

export function keyOf(topic, number) {
  return `${topic}\u0000${number}`;
}

function partitionOf(row) {
  const [topic, number, leader, epoch, partitionEpoch, replicas, isr, elr, recovering, asked, minIsr, stalled, held] = row;
  const byNode = new Map(held.map(([node, role, leaderEpoch, start, hw, lso, leo]) =>
    [node, { node, role, epoch: leaderEpoch, start, hw, lso, leo }]));
  raiseLeader(byNode.get(leader), byNode.values());
  return {
    key: keyOf(topic, number),
    name: `${topic}-${number}`,
    topic, number, leader, epoch, partitionEpoch, replicas, isr, elr, recovering, asked, minIsr, stalled,
    held: byNode,
  };
}

// Nodes report at different times. A follower gets its records of this epoch from the leader, so the leader has at least
// as many.
function raiseLeader(leading, replicas) {
  if (leading?.role !== "leader") return;
  for (const replica of replicas) {
    if (replica.epoch !== leading.epoch) continue;
    leading.leo = Math.max(leading.leo, replica.leo);
    // Without an open transaction the LSO equals the HW.
    const stable = leading.lso === leading.hw;
    leading.hw = Math.max(leading.hw, replica.hw);
    if (stable) leading.lso = leading.hw;
  }
}

function statusOf(partition, nodes) {
  if (partition.leader < 0) return OFFLINE;
  if (DOWN.has(nodes.get(partition.leader)?.state)) return UNHEARD;
  if (partition.minIsr !== null && partition.isr.length < partition.minIsr) return UNDER_MIN;
  if (partition.stalled !== null) return STALLED;
  if (partition.isr.length < partition.replicas.length) return UNDER;
  return FINE;
}

export function membership(partition, node) {
  if (partition.leader === node) return "leader";
  if (partition.isr.includes(node)) return "isr";
  if (partition.elr.includes(node)) return "elr";
  return "out";
}

// The end of the log: the leader's, or without a leader the highest of the replicas.
export function endOf(partition) {
  const leading = partition.held.get(partition.leader);
  if (leading) return leading.leo;
  let end = 0;
  for (const replica of partition.held.values()) end = Math.max(end, replica.leo);
  return end;
}

export function highWatermarkOf(partition) {
  const leading = partition.held.get(partition.leader);
  if (leading) return leading.hw;
  let hw = 0;
  for (const replica of partition.held.values()) hw = Math.max(hw, replica.hw);
  return hw;
}

export class State {
  constructor() {
    this.clear();
  }

  clear() {
    this.now = 0;
    this.partitions = new Map();
    this.nodes = new Map();
    this.groups = new Map();
    this.timeline = new Map();
    this.groupsTotal = 0;
    // Sorted keys, computed again only when partitions appear or disappear.
    this.order = null;
    this.changed = new Set();
    this.rates = new Map();
    this.perSecond = [];
  }

  // Applies one message. `changed` keeps the keys of partitions until the next drawing.
  apply(message) {
    const before = this.partitions;
    if (message.reset) {
      const { rates, perSecond } = this;
      this.clear();
      Object.assign(this, { rates, perSecond });
    }
    this.now = message.now;
    this.groupsTotal = message.groups_total;
    for (const row of message.partitions ?? []) this.takePartition(partitionOf(row), before);
    for (const [topic, number] of message.gone ?? []) this.dropPartition(keyOf(topic, number));
    for (const node of message.nodes ?? []) this.nodes.set(node.id, node);
    for (const group of message.groups ?? []) this.groups.set(group.id, group);
    for (const group of message.groups_gone ?? []) this.groups.delete(group);
    for (const entry of message.timeline ?? []) this.timeline.set(entry.id, entry);
    const most = 500;
    if (this.timeline.size > most) {
      for (const id of [...this.timeline.keys()].sort((a, b) => a - b).slice(0, this.timeline.size - most)) this.timeline.delete(id);
    }
  }

  takePartition(partition, known) {
    const before = known.get(partition.key);
    const written = before ? endOf(partition) - endOf(before) : 0;
    if (!this.partitions.has(partition.key)) this.order = null;
    this.partitions.set(partition.key, partition);
    this.changed.add(partition.key);
    if (written > 0) this.flow(partition.key, written);
  }

  dropPartition(key) {
    this.partitions.delete(key);
    this.rates.delete(key);
    this.order = null;
    this.changed.add(key);
  }

  // Counts written records for the rates.
  flow(key, written) {
    let seen = this.rates.get(key);
    if (!seen) this.rates.set(key, (seen = { since: this.now, records: 0, rate: 0 }));
    seen.records += written;
    const second = Math.floor(this.now / 1000);
    const last = this.perSecond.at(-1);
    if (last && last[0] === second) last[1] += written;
    else this.perSecond.push([second, written]);
    if (this.perSecond.length > SPARK_S + 2) this.perSecond.shift();
  }

  // Turns the counts into rates, now and then. Without new records a rate falls to zero.
  settleRates(now) {
    for (const [key, seen] of this.rates) {
      const passed = now - seen.since;
      if (passed < RATE_MS) continue;
      seen.rate = (seen.records * 1000) / passed;
      seen.records = 0;
      seen.since = now;
      if (seen.rate === 0) this.rates.delete(key);
      this.changed.add(key);
    }
  }

  rateOf(key) {
    return this.rates.get(key)?.rate ?? 0;
  }

  totalRate() {
    let total = 0;
    for (const seen of this.rates.values()) total += seen.rate;
    return total;
  }

  // Records of each of the last sixty complete seconds.
  spark(now) {
    const bySecond = new Map(this.perSecond);
    const last = Math.floor(now / 1000) - 1;
    return Array.from({ length: SPARK_S }, (_, i) => bySecond.get(last - SPARK_S + 1 + i) ?? 0);
  }

  sorted() {
    if (this.order === null) {
      this.order = [...this.partitions.values()]
        .sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.number - b.number))
        .map((partition) => partition.key);
    }
    return this.order;
  }

  statusOf(partition) {
    return statusOf(partition, this.nodes);
  }

  totals() {
    const totals = { partitions: this.partitions.size, [OFFLINE]: 0, [UNHEARD]: 0, [UNDER_MIN]: 0, [STALLED]: 0, [UNDER]: 0, [FINE]: 0 };
    for (const partition of this.partitions.values()) totals[this.statusOf(partition)] += 1;
    return totals;
  }

  // The share of one node: the partitions that it leads, its ISR memberships and its replicas.
  share(node) {
    let leads = 0, inIsr = 0, replicas = 0;
    for (const partition of this.partitions.values()) {
      if (partition.leader === node) leads += 1;
      if (partition.isr.includes(node)) inIsr += 1;
      if (partition.replicas.includes(node)) replicas += 1;
    }
    return { leads, inIsr, replicas };
  }

  // The leader of the metadata quorum, by the newest epoch that any node reports.
  quorum() {
    let leader = -1, epoch = -1, end = -1;
    for (const node of this.nodes.values()) {
      if (node.heard && node.quorum_epoch > epoch && node.quorum_leader >= 0) {
        epoch = node.quorum_epoch;
        leader = node.quorum_leader;
      }
    }
    end = this.nodes.get(leader)?.metadata_end ?? -1;
    return { leader, epoch, end };
  }

  // A reason why the page shows only the last known state, or null.
  silence() {
    const nodes = [...this.nodes.values()];
    // A running node is about to report: the page has just opened.
    if (nodes.length === 0 || nodes.some((node) => node.state === "running" && !node.heard)) return null;
    // The connections of a paused node stay open.
    const heard = nodes.filter((node) => node.heard && !DOWN.has(node.state));
    if (heard.length === 0) return ["this is the last known state", "✕ no node answers"];
    // A follower or candidate may still name a lost leader.
    return heard.some((node) => node.quorum_role === "leader") ? null : ["no election is possible", "✕ no quorum leader"];
  }

  // The lag of a group: for each partition, the distance to the high watermark.
  lagOf(group) {
    let lag = 0;
    const rows = group.offsets.map(([topic, number, offset, reader]) => {
      const partition = this.partitions.get(keyOf(topic, number));
      const hw = partition ? highWatermarkOf(partition) : null;
      const behind = hw === null || offset === null ? null : Math.max(0, hw - offset);
      lag += behind ?? 0;
      return { topic, number, offset, reader, behind };
    });
    return { lag, rows };
  }
}
