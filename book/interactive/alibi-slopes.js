// One slope per head: how fast attention fades with distance when all contents score the same.
Play.register("alibi-slopes", (root, data) => {
  const { el, num, slider, numbers } = Play;
  const bars = el("div", { class: "play-bars" });
  const note = el("p", { class: "play-note", role: "status" });
  let head = data.start;

  function draw() {
    const weights = data.weights[head];
    const half = weights.reduce(([sum, n], w) => (sum >= 0.5 ? [sum, n] : [sum + w, n + 1]), [0, 0])[1];
    note.textContent = `Slope ${num(data.slopes[head], 4)}. Half of the weight lies on the nearest ${half} of ${weights.length} keys.`;
    bars.replaceChildren(...weights.map((w, i) => el("div", { class: "play-bar" }, el("span", {}, `${i} away`),
      el("span", { class: "play-track" }, el("span", { class: "play-fill", style: `width:${(100 * w).toFixed(2)}%` })),
      el("span", { class: "play-value" }, num(w, 3)))));
  }
  const control = slider(root, { label: "Head", min: 0, max: data.slopes.length - 1, value: head, format: (h) => `${h + 1} of ${data.slopes.length}`,
    oninput: (h) => { head = h; draw(); } });
  root.append(note, bars);
  draw();
  return { set(next) { head = next.head; control.set(head); draw(); }, read: () => numbers(bars.querySelectorAll(".play-value")) };
});
