// Scaled dot-product attention, one operation at a time; every matrix was computed by torch.
Play.register("attention-steps", (root, data) => {
  const { el, table, stepper, numbers } = Play;
  const view = el("div", { class: "play-view", role: "region", "aria-label": "Matrix of this step", tabindex: "0" });
  const text = el("p", { class: "play-note" });
  let at = data.start || 0;

  function draw() {
    const stage = data.stages[at];
    text.textContent = stage.note;
    const span = Math.max(...stage.values.flat().filter((v) => v !== null).map(Math.abs)) || 1;
    const heat = (v) => (v === null ? 0 : Math.abs(v) / span);
    view.replaceChildren(table({ ...stage, heat, corner: stage.shape }));
  }
  const steps = stepper(root, { label: "Step", names: data.stages.map((s) => s.name), value: at, oninput: (i) => { at = i; draw(); } });
  root.append(text, view);
  draw();
  return {
    set({ step }) { at = step; steps.set(step); draw(); },
    read: () => numbers(view.querySelectorAll("tbody td")),
  };
});
