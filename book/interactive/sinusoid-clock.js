// The sinusoidal table as clocks: one hand for each pair of columns, fast on the left, slow on the right.
Play.register("sinusoid-clock", (root, data) => {
  const { el, svg, num, slider, numbers } = Play;
  const box = el("div", { class: "play-clocks" });
  const short = (v) => (v < 100 ? num(v, 1) : Math.round(v).toLocaleString("en"));
  let at = data.start;

  function clock(i) {
    const x = data.cos[at][i], y = data.sin[at][i];
    return el("div", { class: "play-clock" },
      svg("svg", { viewBox: "-36 -36 72 72", role: "img", "aria-label": `Pair ${i}: sine ${num(y, 2)}, cosine ${num(x, 2)}` },
        svg("circle", { r: 32, class: "play-axis" }), svg("line", { x1: 0, y1: 0, x2: 32 * x, y2: -32 * y, class: "play-arrow c1" })),
      el("span", {}, `pair ${i}`), el("small", {}, `turn: ${short(data.wavelengths[i])}`),
      el("span", { class: "play-pair" }, el("span", { class: "play-value" }, num(y, 2)), " ", el("span", { class: "play-value" }, num(x, 2))));
  }
  const draw = () => box.replaceChildren(...data.wavelengths.map((_, i) => clock(i)));
  const control = slider(root, { label: "Position", min: 0, max: data.sin.length - 1, value: at, oninput: (v) => { at = v; draw(); } });
  root.append(el("p", { class: "play-note" }, "Under each clock: positions for one full turn, then sine and cosine."), box);
  draw();
  return { set({ position }) { at = position; control.set(at); draw(); }, read: () => numbers(box.querySelectorAll(".play-value")) };
});
