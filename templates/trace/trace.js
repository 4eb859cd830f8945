// Zoom of plots.
const make = (name, properties, parent) => parent.appendChild(Object.assign(document.createElement(name), properties));

// Round values between two ends; of what is counted, the middles of things that are 1 wide.
const ticks = ({ whole, names }, from, to) => {
  const raw = (to - from) / 6;
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = [1, 2, 5, 10].map((of) => of * power).find((of) => of >= raw * 0.999) ?? raw;
  if (whole) step = names.length > 0 && to - from <= 12 ? 1 : Math.max(1, Math.ceil(step));
  const digits = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const all = [];
  for (let at = Math.ceil((whole ? from - 0.5 : from) / step - 1e-9) * step; at <= (whole ? to - 0.5 : to) + step * 1e-9 && all.length < 20; at += step) {
    all.push({ at: whole ? at + 0.5 : at, label: (whole && names[Math.round(at)]) || at.toFixed(digits) });
  }
  return all;
};

const plots = document.querySelectorAll(".plot");
if (plots.length > 0) {
  const hint = "Zoom with the buttons, with Ctrl and the wheel, or with a double click; drag to move. With the keyboard: + and − zoom, arrows move, 0 shows all.";
  plots[0].closest("figure").before(Object.assign(document.createElement("p"), { className: "note tools hint", textContent: hint }));
}
for (const plot of plots) {
  const axes = JSON.parse(plot.dataset.axes);
  const svg = plot.querySelector("svg");
  const marks = plot.querySelector(".marks");
  const [left, top, width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const first = marks.innerHTML;
  // what is seen of the whole, from 0 to 1 along both axes, y upwards
  let seen = { x: 0, y: 0, w: 1, h: 1 };
  const show = (x, y, w, h) => {
    w = Math.min(1, Math.max(1e-4, w));
    h = Math.min(1, Math.max(1e-4, h));
    seen = { x: Math.min(1 - w, Math.max(0, x)), y: Math.min(1 - h, Math.max(0, y)), w, h };
    svg.setAttribute("viewBox", [left + seen.x * width, top + (1 - seen.y - h) * height, w * width, h * height].join(" "));
    if (w === 1 && h === 1) {
      marks.innerHTML = first;
      return;
    }
    marks.replaceChildren();
    for (const [name, side, at, length] of [["x", "left", seen.x, w], ["y", "bottom", seen.y, h]]) {
      const { from, to } = axes[name];
      const low = from + at * (to - from), span = length * (to - from);
      for (const { at: value, label } of ticks(axes[name], low, low + span)) {
        const mark = make("span", { className: name }, marks);
        mark.style[side] = `${(value - low) / span * 100}%`;
        make("b", { textContent: label }, mark);
      }
    }
  };
  // bursts and rates are looked at along time only
  const along = plot.closest("figure").querySelector(".d0, .d1, .d2") ? 1 : 0;
  const zoom = (by, x = 0.5, y = 0.5) => {
    const w = Math.min(1, seen.w * by), h = along ? Math.min(1, seen.h * by) : 1;
    show(seen.x + (seen.w - w) * x, seen.y + (seen.h - h) * y, w, h);
  };
  const move = (x, y) => show(seen.x + x * seen.w, seen.y + y * seen.h, seen.w, seen.h);
  const reset = () => show(0, 0, 1, 1);

  const tools = make("div", { className: "tools" }, document.createDocumentFragment());
  for (const [text, label, act] of [
    ["+", "Zoom in", () => zoom(0.5)], ["−", "Zoom out", () => zoom(2)], ["←", "Earlier", () => move(-0.25, 0)], ["→", "Later", () => move(0.25, 0)],
    ...(along ? [["↑", "Up", () => move(0, 0.25)], ["↓", "Down", () => move(0, -0.25)]] : []), ["Reset", "Show all", reset],
  ]) {
    const button = make("button", { type: "button", textContent: text, title: label, onclick: act }, tools);
    button.setAttribute("aria-label", label);
  }
  plot.closest("figure").querySelector(".bar").append(tools);

  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", "Plot: plus and minus zoom, arrows move, 0 shows all");
  const keys = {
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": reset, Escape: reset,
    ArrowLeft: () => move(-0.25, 0), ArrowRight: () => move(0.25, 0), ArrowUp: () => move(0, 0.25), ArrowDown: () => move(0, -0.25),
  };
  plot.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height];
  };
  // the page goes on scrolling over a plot that shows all, unless Ctrl is held or it has been zoomed
  svg.addEventListener("wheel", (event) => {
    if (event.ctrlKey || seen.w < 1 || seen.h < 1 || document.activeElement === plot) {
      event.preventDefault();
      zoom(event.deltaY < 0 ? 0.8 : 1.25, ...place(event));
    }
  }, { passive: false });
  let from = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0) {
      from = place(event);
      svg.setPointerCapture(event.pointerId);
    }
  });
  svg.addEventListener("pointermove", (event) => {
    if (from) {
      const to = place(event);
      move(from[0] - to[0], from[1] - to[1]);
      from = to;
    }
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { from = null; });
  svg.addEventListener("dblclick", (event) => zoom(0.5, ...place(event)));
}
