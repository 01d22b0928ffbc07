"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const find = (selector) => document.querySelector(selector);
const SVG = "http://www.w3.org/2000/svg";
const hidden = new Set();
const confidence = `${Math.round(1000 * content.confidence) / 10} %`;

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
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const className = (k) => (k === null ? "–" : k === content.abstain ? "abstains" : content.classes && content.classes[k] !== undefined ? content.classes[k] : String(k));

// Each run has a colour, dashes and markers of its own, so that curves that lie on one another are all seen.
const colour = (k) => `var(--c${k % 6})`;
const DASHES = ["none", "12 6", "5 5", "16 4 4 4", "24 4"];
const MARKERS = ["M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-4,-4h8v8h-8z", "M0,-5L5,4H-5z", "M0,-6L5,0L0,6L-5,0z"];
const stroke = (k) => ({ fill: "none", stroke: colour(k), "stroke-width": 2.5, "stroke-dasharray": DASHES[k % 5] });
const mark = (parent, k, at, above) => draw(parent, "path", { class: "marker", d: MARKERS[k % 4], fill: colour(k), transform: `translate(${at},${above})` });
function sample(k) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 44 14");
  svg.setAttribute("aria-hidden", "true");
  draw(svg, "path", { d: "M0,7H44", ...stroke(k) });
  mark(svg, k, 22, 7);
  return svg;
}

// The curves: the share of inputs with at least that radius, a step function given at its steps.
const box = { width: 900, height: 380, left: 50, right: 14, top: 12, bottom: 46 };
const curvesOf = (run) => (run.attack ? [run.curve, run.attack.curve] : [run.curve]);
const widest = Math.max(...content.runs.flatMap(curvesOf).map((curve) => curve[curve.length - 1][0]));
const x = (radius) => box.left + (radius / widest) * (box.width - box.left - box.right);
const y = (share) => box.top + (1 - share) * (box.height - box.top - box.bottom);
let bands = content.runs.length <= 3;

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
function niceStep(range, most) {
  const raw = range / most, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw);
}
// One unit of the drawing is one pixel, so that text has the same size on narrow screens and on paper.
function drawChart(width) {
  const svg = find("#chart svg"), shown = content.runs.map((run, k) => [run, k]).filter(([, k]) => !hidden.has(k));
  box.width = width || Math.max(280, find("#chart").clientWidth);
  box.height = box.width < 600 ? 300 : 380;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  for (let share = 0; share <= 1.001; share += 0.2) {
    draw(svg, "line", { class: "grid", x1: box.left, x2: box.width - box.right, y1: y(share), y2: y(share) });
    draw(svg, "text", { x: box.left - 8, y: y(share) + 4, "text-anchor": "end" }, `${Math.round(100 * share)} %`);
  }
  const step = niceStep(widest, box.width / 90);
  for (let k = 0; k * step <= widest; k++) {
    draw(svg, "text", { x: x(k * step), y: box.height - 26, "text-anchor": "middle" }, String(Number((k * step).toPrecision(6))));
  }
  draw(svg, "text", { x: (box.left + box.width) / 2, y: box.height - 6, "text-anchor": "middle" }, "radius");
  if (bands) shown.forEach(([run, k]) => {
    const back = run.curve.slice().reverse();
    let lower = "";
    back.forEach((point, i) => {
      const before = i + 1 < back.length ? back[i + 1][0] : 0;
      lower += `L${x(point[0])},${y(point[2])}L${x(before)},${y(point[2])}`;
    });
    draw(svg, "path", { class: "band", d: `${steps(run.curve, 3)}${lower}Z`, fill: colour(k), opacity: 0.13 });
  });
  shown.forEach(([run, k]) => {
    draw(svg, "path", { class: "curve", d: steps(run.curve, 1), ...stroke(k) });
    if (run.attack) draw(svg, "path", { class: "attacked", d: steps(toTheEnd(run.attack.curve), 1), ...stroke(k), "stroke-width": 2, "stroke-dasharray": "0.1 5", "stroke-linecap": "round" });
    for (let at = (k + 0.5) / content.runs.length; at < 6; at++) {
      const share = accuracyAt(run.curve, (at / 6) * widest);
      if (share > 0) mark(svg, k, x((at / 6) * widest), y(share));
    }
  });
  draw(svg, "line", { id: "cursor", class: "grid", x1: 0, x2: 0, y1: box.top, y2: box.height - box.bottom, visibility: "hidden" });
  find("#covered").textContent = covered(shown).join(" ");
}
// Curves that differ by less than a pixel or so at nearly all radii; the later one is drawn over the earlier one.
function covered(shown) {
  const radii = Array.from({ length: 200 }, (_, i) => ((i + 0.5) / 200) * widest);
  const coincide = (one, other) => {
    const pairs = radii.map((radius) => [accuracyAt(one.curve, radius), accuracyAt(other.curve, radius)]).filter(([a, b]) => a + b > 0);
    return pairs.filter(([a, b]) => Math.abs(a - b) < 0.005).length >= 0.95 * pairs.length;
  };
  return shown.flatMap(([run], j) => {
    const under = shown.slice(0, j).find(([other]) => coincide(other, run));
    return under ? [`The curve of ${run.name} covers that of ${under[0].name}.`] : [];
  });
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
    const upper = run.attack ? ` to ${percent(accuracyAt(toTheEnd(run.attack.curve), radius))}` : "";
    tip.append(make("div", {}, sample(k), `${percent(accuracyAt(run.curve, radius))}${upper}  ${run.name}`));
  });
  tip.hidden = false;
  const left = event.clientX - place.left;
  tip.style.left = `${left > place.width / 2 ? left - tip.offsetWidth - 14 : left + 14}px`;
  tip.style.top = "12px";
}
function toggle(checked, change, ...children) {
  const check = make("input", { type: "checkbox", checked });
  check.addEventListener("change", () => { change(check.checked); drawChart(); });
  find("#legend").append(make("label", {}, check, ...children));
}
function drawLegend() {
  content.runs.forEach((run, k) => toggle(true, (on) => (on ? hidden.delete(k) : hidden.add(k)), sample(k), run.name));
  toggle(bands, (on) => { bands = on; }, `${confidence} intervals (shaded)`);
}

function drawFinding() {
  find("#finding").prepend(...content.finding.sentences.map((textContent) => make("p", { textContent })));
  find("#finding dl").append(...content.finding.numbers.map(([value, meaning, interval]) =>
    make("div", {}, make("dt", { textContent: meaning }, make("small", { textContent: `${confidence} interval ${interval}` })), make("dd", { textContent: value }))));
}
const head = (scope, text, className = "") => make("th", { scope, className }, make("span", { textContent: text }));
function drawSummary() {
  const radii = content.runs[0].radii, measured = content.runs.some((run) => run.clean);
  const titles = ["run", "inputs", ...(measured ? ["clean"] : []), ...radii.map((r) => `≥\u00a0${r}`), "average radius", "abstains"];
  const shown = ([value, interval]) => make("td", { textContent: value }, make("small", { textContent: interval }));
  const attacked = (run, title, shares) => make("tr", { className: "attacked" }, head("row", title),
    make("td", { textContent: run.attack.inputs }), ...(measured ? [make("td")] : []), ...shares.map(shown), make("td"), make("td"));
  const rows = content.runs.flatMap((run) => [make("tr", {},
    head("row", run.name), make("td", { textContent: run.inputs }),
    ...[...(measured ? [run.clean ?? ["-", ""]] : []), ...run.accuracy, run.average, run.abstains].map(shown)),
    ...(run.attack && run.attack.certified ? [attacked(run, "attacked inputs", run.attack.certified)] : []),
    ...(run.attack ? [attacked(run, `attacked: ${run.attack.broken} broken`, run.attack.accuracy)] : [])]);
  find("#summary caption span").textContent = `${find("#measure").textContent} in % at each radius, with ${confidence} intervals for the finite test set`;
  find("#summary").append(make("thead", {}, make("tr", {}, ...titles.map((text, k) => head("col", text, k ? "" : "left")))), make("tbody", {}, ...rows));
  find("#notes").append(...content.runs.flatMap((run) => run.notes.map((text) => make("div", { textContent: `${run.name}: ${text}` }))));
}
// Settings that all runs share are a list; the others are a table with a column for each run.
function drawSettings() {
  const names = [...new Set(content.runs.flatMap((run) => Object.keys(run.settings)))];
  const differ = names.filter((name) => content.runs.some((run) => run.settings[name] !== content.runs[0].settings[name]));
  find("#differences").parentElement.hidden = !differ.length;
  find("#differences").append(make("thead", {}, make("tr", {}, ...["setting", ...content.runs.map((run) => run.name)].map((text) => head("col", text)))),
    make("tbody", {}, ...differ.map((name) => make("tr", {}, head("row", name), ...content.runs.map((run) => make("td", { textContent: run.settings[name] ?? "–" }))))));
  find("#settings").append(...names.filter((name) => !differ.includes(name)).map((name) =>
    make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: content.runs[0].settings[name] }))));
  for (const text of new Set(content.runs.map((run) => run.guarantee))) {
    const of = content.runs.filter((run) => run.guarantee === text).map((run) => run.name);
    find("#guarantees").append(make("dt", { textContent: of.join(", ") }), make("dd", { textContent: text }));
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
function inputCell(input) {
  const cell = head("row", input.idx);
  if (input.name) cell.append(make("small", { textContent: input.name }));
  return cell;
}
const verdict = (row) => (row.predict === content.abstain ? "abstains" : row.correct === null ? "" : row.correct ? "right" : "wrong");
const SIGNS = { right: "✓ right", wrong: "✗ wrong" };
function inputRow(input, row, pictured) {
  const cell = (text, style = "") => make("td", { textContent: text, className: style });
  const image = make("td");
  if (input.picture && pictured) image.append(make("img", { src: input.picture, alt: `input ${input.idx}`, className: input.picture.startsWith("data:image/jpeg") ? "photo" : "" }));
  if (!row) return make("tr", {}, image, inputCell(input), cell("no row", "left"), ...Array.from({ length: columns.length - 3 }, () => cell("")));
  const said = verdict(row), predicted = cell(className(row.predict), "left");
  if (SIGNS[said]) predicted.append(make("small", { textContent: SIGNS[said], className: said }));
  const attacked = cell(row.attacked ?? "");
  if (row.broken) attacked.append(make("small", { textContent: "✗ broken", className: "wrong" }));
  return make("tr", {}, image, inputCell(input), cell(className(row.label), "left"), predicted,
    cell(row.shown), cell(row.map, "left"), cell(row.temperature ?? ""), cell(row.bound, "left"), ...(columns.length > 8 ? [attacked] : []));
}
function words(input, row) {
  return [input.idx, input.name || "", row ? className(row.label) : "", row ? className(row.predict) : "", row ? row.map : "", row ? row.bound : "", row ? verdict(row) : "", row && row.broken ? "broken" : ""].join(" ").toLowerCase();
}
// As in lvmrs safe: an answer that is certified at the radius, right or wrong, and that no attack broke.
const certifiedAt = (row, radius) => Boolean(row) && row.predict !== content.abstain && row.radius >= radius && !row.broken;
function drawInputs() {
  const run = content.runs[Number(find("#which").value)], least = find("#least").value;
  const wanted = find("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const key = columns[order.column][1];
  const shown = content.inputs.map((input) => [input, run.rows[input.idx]])
    .filter(([, row]) => least === "" || certifiedAt(row, Number(least)))
    .filter(([input, row]) => { const text = words(input, row); return wanted.every((word) => text.includes(word)); })
    .map(([input, row]) => [key(input, row), input, row])
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (order.down ? -1 : 1));
  find("#inputs thead").replaceChildren(make("tr", {}, ...columns.map(([name, value], k) => {
    if (!value) return make("td");
    const title = head("col", "", LEFT.has(name) ? "left" : ""), button = make("button", { type: "button", textContent: name });
    if (k === order.column) title.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    button.addEventListener("click", () => {
      order = { column: k, down: order.column === k ? !order.down : false };
      drawInputs();
      find(`#inputs thead tr > :nth-child(${k + 1}) button`).focus();
    });
    title.append(button);
    return title;
  })));
  find("#inputs tbody").replaceChildren(...shown.map(([, input, row]) => inputRow(input, row, run.pictured)));
  const wrong = shown.filter(([, , row]) => row && verdict(row) === "wrong").length;
  const certified = least === "" ? "" : ` certified at radius ≥ ${least}${content.measure === "certified accuracy" ? `, ${wrong} of them for a wrong class` : ""}`;
  const searched = wanted.length ? `, with “${wanted.join(" ")}”` : "";
  const more = content.unlisted ? `; ${content.unlisted} more are not listed here` : "";
  find("#count").textContent = `${shown.length} of ${content.inputs.length} inputs${certified}${searched}${more}`;
}

// Without labels, answers count whether or not they are right.
function nameMeasure() {
  if (content.measure === "certified accuracy") return;
  find("#measure").textContent = "Certified share";
  find("#counted").textContent = "The share of inputs with an answer, right or wrong (the inputs have no labels),";
}
function setUp() {
  const root = document.documentElement;
  document.title = `Certified robustness of ${content.runs.map((run) => run.name).join(", ")}`;
  root.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  find("#theme").addEventListener("click", () => root.classList.toggle("dark"));
  if (content.cautions.length) {
    find("#cautions").hidden = false;
    find("#cautions").append(...content.cautions.map((text) => make("div", { textContent: `⚠ ${text}` })));
  }
  content.runs.forEach((run, k) => find("#which").append(make("option", { value: k, textContent: run.name })));
  find("#which").value = "0";
  find("#which").addEventListener("change", drawInputs);
  for (const field of ["#least", "#search"]) find(field).addEventListener("input", drawInputs);
  find("#chart svg").addEventListener("pointermove", hover);
  find("#chart svg").addEventListener("pointerleave", () => { find("#tip").hidden = true; find("#cursor").setAttribute("visibility", "hidden"); });
  addEventListener("resize", () => drawChart());
  addEventListener("beforeprint", () => drawChart(700));
  addEventListener("afterprint", () => drawChart());
  find("footer").textContent = `Made by lvmrs ${content.version}. Radii are rounded down${content.runs.some((run) => run.attack) ? ", attacked distances up" : ""}.`;
  find("#dotted").hidden = !content.runs.some((run) => run.attack);
  nameMeasure(); drawFinding(); drawLegend(); drawChart(); drawSummary(); drawSettings(); drawInputs();
}
setUp();
