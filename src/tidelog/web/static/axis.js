// One offset axis for all replicas of a partition.
//
// A log of a million records whose follower lacks ten would be three equal bars. So a long axis is broken: what all have
// in common is drawn short at the left, the last stretch, in which they differ, takes the rest.

const SHORT = 64;
const BREAK_AT = 0.2;
const GAP = 0.012;

// Grows in steps, so that bars do not tremble as records come in.
function stretch(least) {
  let size = SHORT;
  while (size < least) size *= 2;
  return size;
}

// `starts`, `ends`: log starts, and every offset worth seeing: LEO and HW of each replica. `perSecond`: records that come
// in; nodes tell ten times a second, so what comes within a tenth is no lag.
export function axisOf(starts, ends, perSecond = 0) {
  const start = Math.min(...starts);
  const end = Math.max(...ends, start);
  const spread = end - Math.min(...ends);
  const tail = stretch(Math.max(2.5 * spread, 4 * perSecond));
  if (end - start <= tail * 1.5) {
    const size = Math.max(end - start, 1);
    return { start, end, brokenAt: null, at: (offset) => clamp((offset - start) / size) };
  }
  const from = end - tail;
  const at = (offset) => {
    if (offset >= from) return BREAK_AT + GAP + ((offset - from) / tail) * (1 - BREAK_AT - GAP);
    return ((offset - start) / (from - start)) * BREAK_AT;
  };
  return { start, end, brokenAt: BREAK_AT, gap: GAP, from, at: (offset) => clamp(at(offset)) };
}

function clamp(x) {
  return x < 0 ? 0 : x > 1 ? 1 : x;
}
