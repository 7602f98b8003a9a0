// One offset axis for all replicas of a partition.
//
// On a plain axis a follower that lacks ten of a million records seems complete. So a long axis has a break: the common
// part is short at the left, and the last stretch, where the replicas differ, takes the rest.

const SHORT = 64;
const BREAK_AT = 0.2;
const GAP = 0.012;

// Grows in steps, so that bars stay still while records arrive.
function stretch(least) {
  let size = SHORT;
  while (size < least) size *= 2;
  return size;
}

// `starts` are log starts, `ends` the LEO and HW of each replica. `perSecond` is the write rate: nodes report ten times a
// second, so the records of a tenth are not lag.
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
