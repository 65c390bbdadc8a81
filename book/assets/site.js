// Anything that scrolls sideways can be reached with the keyboard, at every width and with every font.
document.addEventListener("DOMContentLoaded", () => {
  const wide = ".katex-display, .pst-scrollable-table-container, div.highlight pre, .play-view, .table-scroll, .cell_output, .cell_output pre, .fig-scroll";
  const boxes = [...document.querySelectorAll(wide)];
  const update = () => {
    for (const box of boxes) {
      if (box.scrollWidth <= box.clientWidth) continue;
      box.tabIndex = 0; // kept when the window grows: a moment without it would lose the focus
      if (!box.hasAttribute("role")) { box.setAttribute("role", "region"); box.setAttribute("aria-label", box.dataset.label || "scrolls sideways"); }
    }
  };
  update();
  // A box changes with the window, its content with fonts that arrive late or a cell that is unfolded.
  const watch = new ResizeObserver(update);
  for (const box of boxes) {
    watch.observe(box);
    for (const child of box.children) watch.observe(child);
  }
  document.fonts.addEventListener("loadingdone", update);
  addEventListener("load", update);
});
