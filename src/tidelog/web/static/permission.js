// Without the cluster's token the buttons are drawn as disabled. The keyboard still reaches them, and a tip explains why.

import { $, attribute } from "./dom.js";

const NARROW_GAP = 6;

export const permission = { given: false };

export function token() {
  return new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
}

export function permit(given) {
  permission.given = given;
  $("read-only").hidden = given;
  for (const button of document.querySelectorAll("[data-needs-token]")) guard(button);
  guard($("open-trace"));
  const file = $("trace-file");
  if (given) file.removeAttribute("aria-describedby");
  else file.setAttribute("aria-describedby", "no-token");
  attribute(file, "aria-disabled", String(!given));
}

// Marks a button that changes something.
export function guard(button) {
  if (permission.given) {
    button.removeAttribute("aria-disabled");
    button.removeAttribute("aria-describedby");
  } else {
    attribute(button, "aria-disabled", "true");
    attribute(button, "aria-describedby", "no-token");
  }
}

export function reasonWithout() {
  return $("no-token").textContent;
}

// The tip belongs to the button under the pointer or with the focus. Esc hides it.
export function startPermission() {
  const tip = $("no-token");
  let owner = null;
  const show = (event) => {
    const button = permission.given ? null : event.target.closest?.("[aria-disabled=true], #read-only");
    if (!button || button === owner) return;
    owner = button;
    tip.hidden = false;
    const box = button.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + NARROW_GAP;
    const top = below + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - NARROW_GAP : below;
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  };
  const hide = () => { owner = null; tip.hidden = true; };
  document.addEventListener("pointerover", (event) => {
    if (event.target.closest?.("#no-token")) return;
    if (owner && !owner.contains(event.target) && owner !== document.activeElement) hide();
    show(event);
  });
  document.addEventListener("focusin", (event) => { hide(); show(event); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("scroll", hide, { capture: true, passive: true });
}
