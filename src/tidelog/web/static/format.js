// Formats numbers and times.

const GROUPED = new Intl.NumberFormat("en", { useGrouping: true });

export function count(value) {
  return value === null || value === undefined ? "–" : GROUPED.format(value).replaceAll(",", "\u202f");
}

// A number in three digits.
export function rate(value) {
  if (value < 0.5) return "0";
  if (value < 1000) return String(Math.round(value));
  if (value < 1e6) return `${(value / 1e3).toFixed(value < 1e4 ? 1 : 0)}k`;
  if (value < 1e9) return `${(value / 1e6).toFixed(value < 1e8 ? 1 : 0)}M`;
  return `${(value / 1e9).toFixed(1)}G`;
}

export function clock(ms) {
  const at = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

// Time of a trace: virtual seconds since its start.
export function virtualClock(ms) {
  return `${(ms / 1000).toFixed(3)} s`;
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// A count that agrees with its list.
export function showing(shown, all) {
  return shown === all ? count(all) : `showing ${count(shown)} of ${count(all)}`;
}
