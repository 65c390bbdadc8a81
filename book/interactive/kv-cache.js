// Decoding token by token: what has to be computed at each step, without and with a cache.
Play.register("kv-cache", (root, data) => {
  const { el, stepper, table, numbers } = Play;
  const view = el("div", { class: "play-view", role: "region", "aria-label": "Work at this step", tabindex: "0" });
  const line = el("p", { class: "play-tokens" });
  const memory = el("p", { class: "play-note", role: "status" });
  let at = data.start;

  function draw() {
    const s = data.steps[at];
    line.replaceChildren(...data.tokens.slice(0, at + 1).map((t, i) => el("span", { class: "play-token play-heat", style: `--w:${i === at ? 1 : 0.25}` },
      t, el("small", {}, i === at ? "new" : "cached"))));
    memory.replaceChildren("The cache holds ", el("b", { class: "play-bytes" }, String(s.bytes)), ` bytes of keys and values for ${at + 1} tokens.`);
    view.replaceChildren(table({ rows: ["rows projected", "scores computed", "rows, all steps", "scores, all steps"], cols: ["no cache", "cache"],
      values: [s.projected, s.scores, s.rows_total, s.scores_total], digits: 0 }));
  }
  const steps = stepper(root, { label: "Token", names: data.tokens, value: at, oninput: (i) => { at = i; draw(); } });
  root.append(line, view, memory);
  draw();
  return { set({ step }) { at = step; steps.set(step); draw(); }, read: () => numbers([...view.querySelectorAll("tbody td"), memory.querySelector(".play-bytes")]) };
});
