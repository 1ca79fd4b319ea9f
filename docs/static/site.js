// What the theme leaves out for those who use a keyboard or a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".highlight pre")) block.tabIndex = 0; // it scrolls
  for (const caption of document.querySelectorAll('p.caption[role="heading"]')) caption.setAttribute("aria-level", "2");
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent); // its text is hidden below the picture
  }
});
