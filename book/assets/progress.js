// Chapters read and quizzes done, kept in this browser only. No account, nothing is sent.
(() => {
  const KEY = "attention-course-progress";
  const empty = () => ({ read: {}, quizzes: {} });
  function load() {
    try { return { ...empty(), ...JSON.parse(localStorage.getItem(KEY) || "{}") }; } catch { return empty(); }
  }
  function save(state) {
    try { localStorage.setItem(KEY, JSON.stringify(state)); } catch { /* private mode: progress lasts one page */ }
  }
  const state = load();
  const page = (href) => decodeURIComponent(href.split(/[?#]/)[0].split("/").pop()).replace(/\.html$/, "");

  function markSidebar() {
    for (const link of document.querySelectorAll(".bd-links a.reference.internal, .bd-links__title a")) {
      const name = page(link.getAttribute("href") === "#" ? location.pathname : link.getAttribute("href"));
      if (!state.read[name] || link.querySelector(".progress-tick")) continue;
      const tick = document.createElement("span");
      tick.className = "progress-tick";
      tick.innerHTML = '<span aria-hidden="true">✓</span><span class="visually-hidden">read</span>';
      link.append(" ", tick);
    }
  }

  function summary() {
    const box = document.querySelector(".progress-summary");
    if (!box) return;
    const chapters = JSON.parse(box.dataset.chapters);
    const names = Object.keys(chapters);
    const read = names.filter((name) => state.read[name]).length;
    const total = Object.values(chapters).reduce((a, b) => a + b, 0);
    const done = Object.keys(state.quizzes).filter((id) => names.some((name) => id.startsWith(`quiz-${name}-`))).length;
    box.querySelector(".progress-text").textContent =
      `Chapters read: ${read} of ${names.length}. Quizzes answered: ${done} of ${total}. This is remembered in this browser only.`;
    if (!read && !done || box.querySelector("button")) return;
    const forget = document.createElement("button");
    forget.type = "button";
    forget.textContent = "Forget my progress";
    forget.addEventListener("click", () => { save(empty()); location.reload(); });
    box.append(forget);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const here = page(location.pathname);
    const end = document.querySelector(".prev-next-footer");
    if (/^\d\d_/.test(here) && end) {
      new IntersectionObserver((entries, watcher) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        watcher.disconnect();
        state.read[here] = true; save(state); markSidebar();
      }).observe(end);
    }
    document.addEventListener("quiz-done", (event) => { state.quizzes[event.detail] = true; save(state); });
    markSidebar(); summary();
  });
})();
