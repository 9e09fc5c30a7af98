"use strict";
// The theme, before anything is drawn: what was chosen here, else what the system has. The button comes with the page.
(() => {
  const root = document.documentElement;
  const names = { "": "automatic", light: "light", dark: "dark" };
  const remembered = () => {
    try {
      return localStorage.getItem("webstone-theme") || "";
    } catch {
      return "";
    }
  };
  const remember = (/** @type {string} */ theme) => {
    try {
      localStorage.setItem("webstone-theme", theme);
    } catch {
      /* a browser may have no storage */
    }
  };
  /** @type {"" | "light" | "dark"} */
  let theme = "";
  const stored = remembered();
  if (stored === "light" || stored === "dark") theme = stored;
  const apply = () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = "Theme: " + names[theme];
  };
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme")?.addEventListener("click", () => {
      theme = theme === "" ? "light" : theme === "light" ? "dark" : "";
      apply();
      remember(theme);
      dispatchEvent(new CustomEvent("themed"));
    });
  });
})();
