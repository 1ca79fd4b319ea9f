// Before anything is drawn: the colours that were chosen last time.
(() => {
  try {
    const chosen = localStorage.getItem("degroot-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    /* no storage: as the system says */
  }
})();
