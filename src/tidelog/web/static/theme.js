// Dark, light, or the same as the system.

import { $ } from "./dom.js";

const THEMES = ["auto", "dark", "light"];
const WORDS = { auto: "same as the system", dark: "dark", light: "light" };
const KEY = "tidelog-theme";

function set(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = theme;
  $("theme").setAttribute("aria-label", `Colours: ${WORDS[theme]}`);
}

export function startTheme() {
  const kept = localStorage.getItem(KEY);
  set(THEMES.includes(kept) ? kept : "auto");
}

export function nextTheme(then) {
  const now = document.documentElement.dataset.theme ?? "auto";
  const theme = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  localStorage.setItem(KEY, theme);
  set(theme);
  then();
}
