// Measured curves with a cursor: move it and read every curve at that place. Linear or log axes.
Play.register("series", (root, data) => {
  const { el, svg, num, slider, numbers } = Play;
  const W = 520, H = 260, L = 56, R = 12, T = 12, B = 40;
  const fx = data.log_x ? Math.log10 : (v) => v, fy = data.log_y ? Math.log10 : (v) => v;
  const names = Object.keys(data.series);
  const ys = names.flatMap((n) => data.series[n]).filter((v) => v !== null && (!data.log_y || v > 0)).map(fy);
  const pad = data.log_y ? 0.3 : 0.05 * (Math.max(...ys) - Math.min(...ys) || 1);
  const [y0, y1] = [Math.min(...ys) - pad, Math.max(...ys) + pad];
  const [x0, x1] = [fx(data.x[0]), fx(data.x[data.x.length - 1])];
  const X = (v) => L + (W - L - R) * (fx(v) - x0) / (x1 - x0 || 1);
  const Y = (v) => T + (H - T - B) * (1 - (Math.max(fy(v), y0) - y0) / (y1 - y0 || 1));
  const short = (v) => (v === 0 ? "0" : Math.abs(v) >= 1e4 || Math.abs(v) < 1e-2 ? v.toExponential(1).replace("-", "−") : num(v, Math.abs(v) < 10 ? 2 : 0));
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "play-svg", role: "img", "aria-label": data.label });
  const list = el("dl", { class: "play-facts", "aria-live": "polite" });
  let at = data.start ?? Math.floor(data.x.length / 2);

  const raised = (n) => String(n).replace(/[-\d]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);

  // Places of the horizontal lines: whole powers of ten on a logarithmic axis, else 1, 2 or 5 times one.
  function ticks() {
    const raw = (y1 - y0) / 4, unit = 10 ** Math.floor(Math.log10(raw));
    const step = data.log_y ? Math.max(1, Math.ceil(raw)) : unit * [1, 2, 5, 10].find((n) => n * unit >= raw);
    const places = [];
    for (let f = Math.ceil(y0 / step) * step; f <= y1 + 1e-9; f += step) places.push(f);
    return places.map((f) => (data.log_y ? { value: 10 ** f, text: f < 4 && f > -3 ? short(10 ** f) : `10${raised(Math.round(f))}` }
      : { value: f, text: num(f, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))) }));
  }
  function axes() {
    return [...ticks().flatMap(({ value, text }) => [
      svg("line", { x1: L, x2: W - R, y1: Y(value), y2: Y(value), class: "play-grid" }),
      svg("text", { x: L - 6, y: Y(value) + 4, "text-anchor": "end", class: "play-tick" }, text)]),
    svg("text", { x: (L + W) / 2, y: H - 6, "text-anchor": "middle", class: "play-tick" }, data.x_label)];
  }
  function draw() {
    const x = X(data.x[at]);
    picture.replaceChildren(...axes(),
      ...names.map((n, i) => svg("path", { class: `play-curve c${i}`,
        d: data.series[n].map((v, j) => (v === null ? "" : `${j && data.series[n][j - 1] !== null ? "L" : "M"}${X(data.x[j]).toFixed(1)} ${Y(v).toFixed(1)}`)).join("") })),
      svg("line", { x1: x, x2: x, y1: T, y2: H - B, class: "play-cursor" }),
      ...names.filter((n) => data.series[n][at] !== null).map((n) => svg("circle", { cx: x, cy: Y(data.series[n][at]), r: 4, class: `play-dot c${names.indexOf(n)}` })));
    list.replaceChildren(...names.map((n, i) => el("div", {}, el("dt", {}, el("span", { class: `play-key c${i}`, "aria-hidden": "true" }), n),
      el("dd", {}, data.series[n][at] === null ? "none" : short(data.series[n][at])))));
  }
  const control = slider(root, { label: data.x_label, min: 0, max: data.x.length - 1, value: at,
    format: (i) => `${data.x[i]}`, oninput: (i) => { at = i; draw(); } });
  root.append(el("p", { class: "play-note" }, data.y_label), picture, list);
  draw();
  return { set({ index }) { at = index; control.set(index); draw(); }, read: () => numbers(list.querySelectorAll("dd")) };
});
