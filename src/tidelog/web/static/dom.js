// Small helpers for the document. Text is always set as text, never as HTML: names come from clients.

export const $ = (id) => document.getElementById(id);

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Writes only a changed value: most values are unchanged.
export function text(element, value) {
  if (element.firstChild === null || element.textContent !== value) element.textContent = value;
}

export function attribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// A colour of the style sheet, for a canvas.
export function colour(name) {
  const probe = document.body;
  probe.style.setProperty("outline-color", `var(${name})`);
  const found = getComputedStyle(probe).outlineColor;
  probe.style.removeProperty("outline-color");
  return found;
}
