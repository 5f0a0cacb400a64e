// A panel: a heading, what to look for, a figure by Plotly that is drawn when it comes into view, and its numbers.

const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true, plotlyServerURL: "" };
const panels = [];
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) {
    const panel = panels.find(one => one.figure === entry.target);
    panel.visible = entry.isIntersecting;
    if (panel.visible && panel.stale) drawPanel(panel);
  }
}, { rootMargin: "300px" });

// `draw` returns {traces, layout, table: {head, rows}, clicked, hovered} or {missing, keep: the tools}.
function addPanel(parent, { title, note, draw, height = 320, wide = false, tools = [], id = null }) {
  const plot = el("div", { class: "plot", role: "img", "aria-label": title });
  plot.style.height = `${height}px`;
  const numbers = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers of: ${title}` });
  const details = el("details", {}, el("summary", {}, "Numbers"), numbers);
  const caption = el("figcaption", {}, note || "");
  const empty = el("p", { class: "empty", hidden: true });
  const panel = { plot, numbers, details, caption, empty, draw, height, stale: true, visible: false, tools: el("div", { class: "tools" }, tools) };
  const figure = el("figure", { class: wide ? "panel wide" : "panel", ...(id ? { id } : {}) }, el("h3", {}, title), caption, tools.length ? panel.tools : null, plot, empty, details);
  details.addEventListener("toggle", () => details.open && panel.drawn && fillTable(panel));
  panel.figure = figure;
  parent.append(figure);
  panels.push(panel);
  seen.observe(figure); // not the plot, which is not there while something is missing
  return panel;
}

function redraw(some = panels) {
  for (const panel of some) {
    panel.stale = true;
    if (panel.visible) drawPanel(panel);
  }
}

function drawPanel(panel) {
  panel.stale = false;
  const drawn = (panel.drawn = panel.draw());
  const missing = drawn.missing || null;
  panel.empty.hidden = !missing;
  panel.empty.textContent = missing || "";
  panel.details.hidden = Boolean(missing) || !drawn.table;
  panel.plot.style.display = missing ? "none" : "";
  panel.tools.style.display = missing && !drawn.keep ? "none" : "";
  if (drawn.note) panel.caption.textContent = drawn.note;
  if (missing) return;
  panel.plot.style.height = `${drawn.height || panel.height}px`;
  Plotly.react(panel.plot, drawn.traces, layoutOf(drawn.layout || {}), CONFIG);
  if (!panel.wired) {
    panel.wired = true;
    panel.plot.on("plotly_click", event => panel.drawn.clicked && panel.drawn.clicked(event.points[0], event.event));
    panel.plot.on("plotly_hover", event => panel.drawn.hovered && panel.drawn.hovered(event.points[0], event.event));
    panel.plot.on("plotly_unhover", hideHover);
  }
  if (panel.details.open) fillTable(panel);
}

function fillTable(panel) {
  if (!panel.drawn.table) return;
  const { head, rows, matrix } = panel.drawn.table;
  const line = row => el("tr", {}, row.map((cell, i) => (cell && cell.nodeType ? el("td", {}, cell) : i ? el("td", {}, cell ?? "–") : el("th", { scope: "row" }, cell ?? "–"))));
  const table = el("table", { class: matrix ? "matrix" : "" }, el("thead", {}, el("tr", {}, head.map(name => el("th", { scope: "col" }, name)))), el("tbody", {}, rows.map(line)));
  panel.numbers.replaceChildren(table);
}

function axis(title, more = {}) {
  const line = css("--line");
  return { title: { text: title, standoff: 8, font: { size: 12 } }, gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true, ...more };
}

function layoutOf(given) {
  const soft = css("--soft"), ink = css("--ink");
  const held = {
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: soft },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 56, r: 12, t: 10, b: 44 },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--soft"), font: { color: ink } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { color: ink, size: 12 } },
    showlegend: runs.length > 1, dragmode: false, ...given,
  };
  return held;
}

// One hue, even in lightness, so it reads in grey; more stands out from the ground, be it dark or light.
const isDark = () => document.documentElement.dataset.theme === "dark";
const shades = (faint = false) => ({ colorscale: isDark() ? [[0, faint ? "#3c4f63" : "#22292f"], [1, "#b9dcff"]] : [[0, faint ? "#bccfe2" : "#f1f5f9"], [1, "#08264a"]] });
const bars = i => ({ color: look(i).line.color, pattern: { shape: ["", "/", "x", "."][i % 4], fillmode: "overlay", fgcolor: css("--card"), solidity: 0.3 } });

function band(x, low, high, colour, name) {
  return { x: [...x, ...x.slice().reverse()], y: [...high, ...low.slice().reverse()], fill: "toself", fillcolor: fade(colour, 0.16), line: { width: 0 }, hoverinfo: "skip", showlegend: false, name, type: "scatter", mode: "lines" };
}

function fade(colour, alpha) {
  const value = parseInt(colour.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}

function section(id, title, lede) {
  const made = el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title`, tabindex: "-1" }, title), el("p", { class: "lede" }, lede));
  byId("main").append(made);
  byId("nav").append(el("a", { href: `#${id}` }, title));
  return made;
}

function grid(parent) {
  const made = el("div", { class: "grid" });
  parent.append(made);
  return made;
}
