"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const find = (selector) => document.querySelector(selector);
const SVG = "http://www.w3.org/2000/svg";
const hidden = new Set();

// Text is inserted as text, never as HTML: names come from files.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children);
  return element;
}
function draw(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}
const colour = (k) => `var(--c${k % 6})`;
const className = (k) => (k === content.abstain ? "abstains" : content.classes && content.classes[k] !== undefined ? content.classes[k] : String(k));

// The curves: the share of inputs with at least that radius, a step function given at its steps.
const box = { width: 900, height: 380, left: 48, right: 12, top: 10, bottom: 42 };
const curvesOf = (run) => (run.attack ? [run.curve, run.attack.curve] : [run.curve]);
const widest = Math.max(...content.runs.flatMap(curvesOf).map((curve) => curve[curve.length - 1][0]));
const x = (radius) => box.left + (radius / widest) * (box.width - box.left - box.right);
const y = (share) => box.top + (1 - share) * (box.height - box.top - box.bottom);

function steps(curve, k) {
  // The value at a step holds from the previous step on.
  let path = "", last = 0;
  for (const point of curve) { path += `${path ? "L" : "M"}${x(last)},${y(point[k])}L${x(point[0])},${y(point[k])}`; last = point[0]; }
  return path;
}
// Inputs without a found point stay unbroken up to the end of the axis.
function toTheEnd(curve) {
  const last = curve[curve.length - 1];
  return last[0] < widest ? [...curve, [widest, ...last.slice(1)]] : curve;
}
function niceStep(range) {
  const raw = range / 8, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw);
}
function drawChart() {
  const svg = find("#chart svg");
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  for (let share = 0; share <= 1.001; share += 0.2) {
    draw(svg, "line", { class: "grid", x1: box.left, x2: box.width - box.right, y1: y(share), y2: y(share) });
    draw(svg, "text", { x: box.left - 8, y: y(share) + 4, "text-anchor": "end" }, `${Math.round(100 * share)} %`);
  }
  const step = niceStep(widest);
  for (let k = 0; k * step <= widest; k++) {
    draw(svg, "text", { x: x(k * step), y: box.height - 22, "text-anchor": "middle" }, String(Number((k * step).toPrecision(6))));
  }
  draw(svg, "text", { x: (box.left + box.width) / 2, y: box.height - 4, "text-anchor": "middle" }, "radius");
  content.runs.forEach((run, k) => {
    if (hidden.has(k)) return;
    const back = run.curve.slice().reverse();
    let lower = "";
    back.forEach((point, i) => {
      const before = i + 1 < back.length ? back[i + 1][0] : 0;
      lower += `L${x(point[0])},${y(point[2])}L${x(before)},${y(point[2])}`;
    });
    draw(svg, "path", { class: "band", d: `${steps(run.curve, 3)}${lower}Z`, fill: colour(k), opacity: 0.13 });
    draw(svg, "path", { class: "curve", d: steps(run.curve, 1), fill: "none", stroke: colour(k), "stroke-width": 2 });
    if (run.attack) draw(svg, "path", { class: "attacked", d: steps(toTheEnd(run.attack.curve), 1), fill: "none", stroke: colour(k), "stroke-width": 1.5, "stroke-dasharray": "6 4" });
  });
  draw(svg, "line", { id: "cursor", class: "grid", x1: 0, x2: 0, y1: box.top, y2: box.height - box.bottom, visibility: "hidden" });
}
function accuracyAt(curve, radius) {
  const point = curve.find((candidate) => candidate[0] >= radius);
  return point ? point[1] : 0;
}
function hover(event) {
  const svg = find("#chart svg"), place = svg.getBoundingClientRect(), tip = find("#tip"), cursor = find("#cursor");
  const along = ((event.clientX - place.left) / place.width) * box.width;
  const radius = ((along - box.left) / (box.width - box.left - box.right)) * widest;
  if (radius < 0 || radius > widest) { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); return; }
  cursor.setAttribute("x1", along); cursor.setAttribute("x2", along); cursor.setAttribute("visibility", "visible");
  tip.replaceChildren(make("b", { textContent: `radius ${(Math.floor(1000 * radius) / 1000).toFixed(3)}` }));
  content.runs.forEach((run, k) => {
    if (hidden.has(k)) return;
    const upper = run.attack ? ` to ${(100 * accuracyAt(toTheEnd(run.attack.curve), radius)).toFixed(1)}` : "";
    const line = make("div", { textContent: `${(100 * accuracyAt(run.curve, radius)).toFixed(1)}${upper} %  ${run.name}` });
    line.style.color = colour(k);
    tip.append(line);
  });
  tip.hidden = false;
  const left = event.clientX - place.left;
  tip.style.left = `${left > place.width / 2 ? left - tip.offsetWidth - 14 : left + 14}px`;
  tip.style.top = "12px";
}
function drawLegend() {
  content.runs.forEach((run, k) => {
    const check = make("input", { type: "checkbox", checked: true });
    check.addEventListener("change", () => { check.checked ? hidden.delete(k) : hidden.add(k); drawChart(); });
    const line = make("i");
    line.style.background = colour(k);
    find("#legend").append(make("label", {}, check, line, run.name));
  });
}

function drawSummary() {
  const radii = content.runs[0].radii, measured = content.runs.some((run) => run.clean);
  const head = ["run", "inputs", ...(measured ? ["clean"] : []), ...radii.map((r) => `≥ ${r}`), "average radius", "abstains"];
  const shown = ([value, interval]) => make("td", { textContent: value }, make("small", { textContent: interval }));
  const attacked = (run) => make("tr", { className: "attacked" },
    make("td", {}, `attacked: ${run.attack.broken} broken`, make("small", { textContent: run.attack.ratio ? `attacked/certified ${run.attack.ratio} on average, each at risk ${run.attack.beta}` : "" })),
    make("td", { textContent: run.attack.inputs }), ...(measured ? [make("td")] : []), ...run.attack.accuracy.map(shown), make("td"), make("td"));
  const rows = content.runs.flatMap((run) => [make("tr", {},
    make("td", { textContent: run.name }), make("td", { textContent: run.inputs }),
    ...[...(measured ? [run.clean ?? ["-", ""]] : []), ...run.accuracy, run.average, run.abstains].map(shown)),
    ...(run.attack ? [attacked(run)] : [])]);
  find("#summary").append(make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { textContent: text })))), make("tbody", {}, ...rows));
}
function drawSettings() {
  for (const run of content.runs) {
    const list = make("dl");
    for (const [name, value] of Object.entries(run.settings)) list.append(make("dt", { textContent: name }), make("dd", { textContent: value }));
    find("#settings").append(make("article", {}, make("h3", { textContent: run.name }), list, make("p", { textContent: run.guarantee })));
  }
}

// The inputs, sorted by radius at first.
const columns = [
  ["", null], ["index", (input) => input.idx], ["label", (input, row) => (row ? className(row.label) : "")],
  ["prediction", (input, row) => (row ? className(row.predict) : "")],
  ["radius", (input, row) => (row ? row.radius : -2)],
  ["map", (input, row) => (row ? row.map : "")], ["temperature", (input, row) => (row && row.temperature ? Number(row.temperature) : 0)],
  ["bound", (input, row) => (row ? row.bound : "")],
  ...(content.runs.some((run) => run.attack) ? [["attacked", (input, row) => (row && row.attacked ? Number(row.attacked) : -1)]] : []),
];
const LEFT = new Set(["", "label", "prediction", "map", "bound"]);
let order = { column: 4, down: true };

// The number of an input, and its name below it.
const inputCell = (input) => make("td", { textContent: input.idx }, ...(input.name ? [make("small", { textContent: input.name })] : []));
const verdict = (row) => (row.predict === content.abstain ? "abstains" : row.correct ? "right" : "wrong");
function inputRow(input, row, pictured) {
  const cell = (text, style = "") => make("td", { textContent: text, className: style });
  const image = make("td");
  if (input.picture && pictured) image.append(make("img", { src: input.picture, alt: `input ${input.idx}`, className: input.picture.startsWith("data:image/jpeg") ? "photo" : "" }));
  if (!row) return make("tr", {}, image, inputCell(input), cell("no row", "left"), ...Array.from({ length: columns.length - 3 }, () => cell("")));
  return make("tr", {}, image, inputCell(input), cell(className(row.label), "left"), cell(className(row.predict), `left ${verdict(row)}`),
    cell(row.shown), cell(row.map, "left"), cell(row.temperature ?? ""), cell(row.bound, "left"),
    ...(columns.length > 8 ? [cell(row.attacked ?? "", row.broken ? "wrong" : "")] : []));
}
function words(input, row) {
  return [input.idx, input.name || "", row ? className(row.label) : "", row ? className(row.predict) : "", row ? row.map : "", row ? row.bound : "", row ? verdict(row) : "", row && row.broken ? "broken" : ""].join(" ").toLowerCase();
}
function drawInputs() {
  const run = content.runs[Number(find("#which").value)];
  const wanted = find("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const key = columns[order.column][1];
  const shown = content.inputs.map((input) => [input, run.rows[input.idx]])
    .filter(([input, row]) => { const text = words(input, row); return wanted.every((word) => text.includes(word)); })
    .map(([input, row]) => [key(input, row), input, row])
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (order.down ? -1 : 1));
  find("#inputs thead").replaceChildren(make("tr", {}, ...columns.map(([name], k) => {
    const head = make("th", { textContent: name, className: LEFT.has(name) ? "left" : "" });
    if (k === order.column) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    if (columns[k][1]) head.addEventListener("click", () => { order = { column: k, down: order.column === k ? !order.down : false }; drawInputs(); });
    return head;
  })));
  find("#inputs tbody").replaceChildren(...shown.map(([, input, row]) => inputRow(input, row, run.pictured)));
  const more = content.unlisted ? `; ${content.unlisted} more are not listed here` : "";
  find("#count").textContent = `${shown.length} of ${content.inputs.length} inputs${more}`;
}

function setUp() {
  const root = document.documentElement;
  root.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  find("#theme").addEventListener("click", () => root.classList.toggle("dark"));
  find("#confidence").textContent = `${Math.round(1000 * content.confidence) / 10} %`;
  if (content.cautions.length) {
    find("#cautions").hidden = false;
    find("#cautions").append(...content.cautions.map((text) => make("div", { textContent: text })));
  }
  content.runs.forEach((run, k) => find("#which").append(make("option", { value: k, textContent: run.name })));
  find("#which").value = "0";
  find("#which").addEventListener("change", drawInputs);
  find("#search").addEventListener("input", drawInputs);
  find("#chart svg").addEventListener("pointermove", hover);
  find("#chart svg").addEventListener("pointerleave", () => { find("#tip").hidden = true; find("#cursor").setAttribute("visibility", "hidden"); });
  find("footer").textContent = `Made by lvmrs ${content.version}. Radii are rounded down${content.runs.some((run) => run.attack) ? ", attacked distances up" : ""}.`;
  find("#dashed").hidden = !content.runs.some((run) => run.attack);
  drawLegend(); drawChart(); drawSummary(); drawSettings(); drawInputs();
}
setUp();
