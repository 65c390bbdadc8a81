// Anything that scrolls sideways can be reached with the keyboard, at every width.
document.addEventListener("DOMContentLoaded", () => {
  const wide = ".katex-display, .pst-scrollable-table-container, div.highlight pre, .play-view, .table-scroll, .cell_output, .cell_output pre, .fig-scroll";
  const update = () => {
    for (const box of document.querySelectorAll(wide)) {
      if (box.scrollWidth > box.clientWidth + 1) {
        box.tabIndex = 0;
        if (!box.hasAttribute("role")) { box.setAttribute("role", "region"); box.setAttribute("aria-label", box.dataset.label || "scrolls sideways"); }
      } else if (!box.hasAttribute("data-keep")) box.removeAttribute("tabindex");
    }
  };
  update();
  addEventListener("resize", update);
  addEventListener("load", update);
});
