// Weights of one query over its keys, for a head size, a scale and a temperature. Scores come from torch.
Play.register("softmax-slider", (root, data) => {
  const { el, num, slider, toggle, softmax, numbers } = Play;
  const state = { size: data.start.size, scaled: data.start.scaled, log_temperature: 0 };
  const bars = el("div", { class: "play-bars" });
  const facts = el("p", { class: "play-note", role: "status" });

  function draw() {
    const d = data.sizes[state.size];
    const t = 2 ** state.log_temperature * (state.scaled ? Math.sqrt(d) : 1);
    const weights = softmax(data.scores[state.size].map((s) => s / t));
    bars.replaceChildren(...weights.map((w, j) => el("div", { class: "play-bar" },
      el("span", {}, data.keys[j]),
      el("span", { class: "play-track" }, el("span", { class: "play-fill", style: `width:${(100 * w).toFixed(2)}%` })),
      el("span", { class: "play-value" }, num(w, 3)))));
    const top = Math.max(...weights);
    const entropy = -weights.reduce((sum, w) => sum + (w > 0 ? w * Math.log2(w) : 0), 0);
    facts.textContent = `Largest weight ${num(top, 3)}; entropy ${num(entropy, 2)} of ${num(Math.log2(weights.length), 2)} bits.`;
  }
  const size = slider(root, { label: "Head size d", min: 0, max: data.sizes.length - 1, value: state.size,
    format: (i) => `${data.sizes[i]}`, oninput: (i) => { state.size = i; draw(); } });
  const scaled = toggle(root, { label: "divide by √d", value: state.scaled, oninput: (v) => { state.scaled = v; draw(); } });
  const warm = slider(root, { label: "Temperature", min: -4, max: 4, step: 0.5, value: 0,
    format: (v) => num(2 ** v, 2), oninput: (v) => { state.log_temperature = v; draw(); } });
  root.append(bars, facts);
  draw();
  return {
    set(next) {
      Object.assign(state, next);
      size.set(state.size); scaled.set(state.scaled); warm.set(state.log_temperature);
      draw();
    },
    read: () => numbers(bars.querySelectorAll(".play-value")),
  };
});
