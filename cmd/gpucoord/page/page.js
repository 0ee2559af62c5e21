"use strict";
// Draws the data of /events: "status" (the object of /status.json), "points" (throughput and latency of each second) and
// "training". Texts are inserted as text, never as HTML.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const KEEP_POINTS = 600;
const GAP_MS = 5000; // between two points: nobody was watching meanwhile

const recents = new Map(); // the latest known operation of each communicator
let status = null, points = [], training = [], paused = false, heard = 0;

// ---- elements

function make(tag, attributes, ...children) {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(attributes || {}))
		if (v !== null && v !== undefined)
			e.setAttribute(k, v);
	e.append(...children);
	return e;
}

function draw(tag, attributes, text) {
	const e = document.createElementNS(SVG, tag);
	for (const [k, v] of Object.entries(attributes || {}))
		e.setAttribute(k, v);
	if (text !== undefined)
		e.textContent = text;
	return e;
}

function say(e, text) {
	if (e.textContent !== text)
		e.textContent = text;
}

// Updates the children of parent by key. Existing ones are kept, so that the focus and the reading position stay.
function keyed(parent, items, key, create, update) {
	const have = new Map([...parent.children].map((e) => [e.dataset.key, e]));
	items.forEach((item, i) => {
		const k = String(key(item));
		let e = have.get(k);
		if (!e) {
			e = create(item);
			e.dataset.key = k;
		}
		have.delete(k);
		if (parent.children[i] !== e)
			parent.insertBefore(e, parent.children[i] || null);
		update(e, item);
	});
	for (const e of have.values())
		e.remove();
}

// ---- numbers for people

function scaled(v, step, units) {
	let i = 0;
	for (; v >= step && i < units.length - 1; i++)
		v /= step;
	return [v >= 100 || v === 0 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2), units[i]];
}
const bytes = (v) => scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const count = (v) => scaled(v, 1000, ["", "k", "M", "G"]);
const micros = (v) => scaled(v, 1000, ["µs", "ms", "s"]);
const join = ([n, u]) => u ? n + " " + u : n;

function duration(s) {
	if (s < 10)
		return s.toFixed(1) + " s";
	if (s < 100)
		return Math.floor(s) + " s";
	const m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
	return d ? d + " d " + h % 24 + " h" : h ? h + " h " + m % 60 + " min" : m + " min";
}

function tile(id, [number, unit], more) {
	const e = $(id), text = number + (unit || "") + (more || "");
	if (e.dataset.text === text)
		return;
	e.dataset.text = text;
	e.replaceChildren(number, make("small", null, " " + (unit || "") + (more || "")));
}

// ---- devices

// Names a device by its rank, as the card does; its index can change, and its id is long.
function name(i) {
	const d = status.devices[i];
	return !d ? "?" : d.rank === null ? "device " + d.id : "rank " + d.rank;
}

function deviceRow() {
	const labels = ["Device", "Rank", "State", "Operation", "Waits for", "In", "Out", "Memory", "Busy"];
	const tr = make("tr");
	labels.forEach((l, i) => {
		const td = make(i ? "td" : "td", {"data-label": l});
		if (i === 5 || i === 6)
			td.className = "num";
		tr.append(td);
	});
	const [dev, rank, state, op, , , , mem, busy] = tr.children;
	dev.append(make("b"), make("span", {class: "id"}));
	rank.append(make("span"), make("span", {class: "id place"}));
	state.append(make("span", {class: "badge"}), make("span", {class: "note"}));
	op.append(make("span", {class: "op"}), make("span", {class: "bar"}, make("i")));
	for (const td of [mem, busy])
		td.append(make("span", {class: "op"}), make("span", {class: "bar"}, make("i")));
	return tr;
}

function bar(td, share, text) {
	say(td.firstChild, text);
	td.lastChild.firstChild.style.width = Math.min(100, Math.max(0, share * 100)) + "%";
}

function showDevice(tr, d) {
	const [dev, rank, state, op, waits, into, out, mem, busy] = tr.children;
	const idle = !d.op;
	tr.dataset.state = d.state;
	say(dev.firstChild, d.id);
	say(dev.lastChild, "gpu " + d.gpu + " · pid " + d.pid);
	say(rank.firstChild, d.rank === null ? "" : d.comm + ":" + d.rank);
	say(rank.lastChild, d.place);
	say(state.firstChild, d.state);
	say(state.lastChild, d.note);
	op.classList.toggle("void", idle);
	op.lastChild.hidden = idle || !d.steps;
	bar(op, d.steps ? d.step / d.steps : 0,
	    idle ? "" : d.op + (d.steps ? " · step " + d.step + "/" + d.steps : "") +
		(typeof d.chunkDone === "number" ? ", " + Math.floor(d.chunkDone * 100) + " %" : ""));
	say(waits, d.waitsFor === null ? "" : name(d.waitsFor) + " for " + duration(d.waitSeconds));
	say(into, d.inBytesPerSecond ? join(bytes(d.inBytesPerSecond)) + "/s" : "");
	say(out, d.outBytesPerSecond ? join(bytes(d.outBytesPerSecond)) + "/s" : "");
	bar(mem, d.memorySize ? d.memoryUsed / d.memorySize : 0,
	    d.memorySize ? join(bytes(d.memoryUsed)) + " of " + join(bytes(d.memorySize)) : "");
	bar(busy, d.busy, Math.round(d.busy * 100) + " %");
}

// ---- communicators: positions of ranks in the picture, by which rank sends to which

function neighbours(n, edges) {
	const near = Array.from({length: n}, () => new Set());
	for (const [a, b] of edges) {
		near[a].add(b);
		near[b].add(a);
	}
	return near;
}

// Returns the layers of a tree from the root down, or null. A tree is connected and has one link fewer than ranks.
function treeLayers(n, near) {
	const links = near.reduce((s, x) => s + x.size, 0) / 2;
	if (n < 3 || links !== n - 1 || near.every((x) => x.size <= 2))
		return null;
	const depth = Array(n).fill(-1), layers = [[0]];
	depth[0] = 0;
	for (let at = 0; at < layers.length; at++) {
		const next = [];
		for (const r of layers[at])
			for (const k of [...near[r]].sort((a, b) => a - b))
				if (depth[k] < 0) {
					depth[k] = at + 1;
					next.push(k);
				}
		if (next.length)
			layers.push(next);
	}
	return layers.flat().length === n ? layers : null;
}

function layout(n, edges) {
	const layers = treeLayers(n, neighbours(n, edges));
	const at = Array(n);
	if (layers) {
		layers.forEach((layer, y) => layer.forEach((r, x) => {
			at[r] = [360 * (x + 1) / (layer.length + 1), 34 + y * (212 / Math.max(1, layers.length - 1))];
		}));
		return {shape: "tree", at};
	}
	for (let r = 0; r < n; r++) {
		const turn = 2 * Math.PI * r / n - Math.PI / 2;
		at[r] = [180 + (n > 1 ? 118 : 0) * Math.cos(turn), 140 + (n > 1 ? 100 : 0) * Math.sin(turn)];
	}
	const ring = edges.length === n && edges.every(([a, b]) => b === (a + 1) % n);
	return {shape: ring ? "ring" : edges.length ? "mesh" : "all", at};
}

// Draws a line from a to b that ends at the nodes' rims, bent by `bend`, and its head.
function arrow(a, b, rim, bend, style) {
	const dx = b[0] - a[0], dy = b[1] - a[1], len = Math.hypot(dx, dy) || 1;
	const mid = [(a[0] + b[0]) / 2 - dy / len * bend, (a[1] + b[1]) / 2 + dx / len * bend];
	const toward = (p, q, r) => {
		const l = Math.hypot(q[0] - p[0], q[1] - p[1]) || 1;
		return [p[0] + (q[0] - p[0]) / l * r, p[1] + (q[1] - p[1]) / l * r];
	};
	const from = toward(a, mid, rim + 2), tip = toward(b, mid, rim + 3), neck = toward(b, mid, rim + 11);
	const ux = (tip[0] - neck[0]) / 8, uy = (tip[1] - neck[1]) / 8;
	const xy = (p) => p[0].toFixed(1) + " " + p[1].toFixed(1);
	return [draw("path", {class: style, d: `M${xy(from)} Q${xy(mid)} ${xy(neck)}`}),
		draw("path", {class: style.replace("edge", "head") + (style.startsWith("wait") ? " head" : ""),
			d: `M${xy(tip)} L${xy([neck[0] - uy * 5, neck[1] + ux * 5])} L${xy([neck[0] + uy * 5, neck[1] - ux * 5])} Z`})];
}

// The label is placed away from the middle, where no edge runs.
function node([x, y], radius, rank, d, label, [ux, uy]) {
	const g = draw("g", {class: "node", "data-state": d ? d.state : "lost"});
	const share = d && d.op && d.steps ? Math.min(1, d.step / d.steps) : 0;
	const length = 2 * Math.PI * radius;
	g.append(draw("circle", {cx: x, cy: y, r: radius}));
	if (share)
		g.append(draw("circle", {class: "done", cx: x, cy: y, r: radius, transform: `rotate(-90 ${x} ${y})`,
			"stroke-dasharray": `${(length * share).toFixed(1)} ${length.toFixed(1)}`}));
	g.append(draw("circle", {class: "core", cx: x, cy: y, r: radius - 4}));
	g.append(draw("text", {x, y}, rank));
	if (label && radius > 13)
		g.append(draw("text", {class: "under", x: x + ux * (radius + 7), y: y + uy * (radius + 13),
			"text-anchor": ux > 0.3 ? "start" : ux < -0.3 ? "end" : "middle"}, label));
	g.append(draw("title", null, d ? `rank ${rank}${d.place && ` (${d.place})`}: device ${d.id} ${d.state}${d.op ? ", " + d.op : ""}` : `rank ${rank}: unknown`));
	return g;
}

// Draws squares: there are too many ranks for circles.
function field(svg, c) {
	const n = c.devices.length, across = Math.ceil(Math.sqrt(n * 1.35)), size = Math.min(26, 350 / across);
	svg.setAttribute("viewBox", `0 0 360 ${Math.ceil(n / across) * size + 10}`);
	svg.replaceChildren(...c.devices.map((i, r) => {
		const d = status.devices[i], g = draw("g", {class: "node", "data-state": d ? d.state : "lost"});
		g.append(draw("rect", {x: 5 + r % across * size, y: 5 + Math.floor(r / across) * size, width: size - 3,
			height: size - 3, rx: 3, fill: "var(--tone)"}));
		g.append(draw("title", null, `rank ${r}${d && d.place && ` (${d.place})`}: ${d ? "device " + d.id + " " + d.state : "unknown"}`));
		return g;
	}));
}

function outward([x, y], shape) {
	const l = Math.hypot(x - 180, y - 140);
	return shape === "tree" || l < 1 ? [0, 1] : [(x - 180) / l, (y - 140) / l];
}

function picture(svg, c) {
	const n = c.devices.length, devices = c.devices.map((i) => status.devices[i]);
	const recent = c.recent && c.recent.edges ? c.recent : null;
	const edges = recent && recent.edges.length ? recent.edges : [];
	const {shape, at} = layout(n, edges);
	const radius = n <= 8 ? 21 : n <= 16 ? 16 : n <= 32 ? 11 : 8;
	const runs = recent && recent.runs, parts = [];
	const both = new Set(edges.map(([a, b]) => a + "," + b));
	if (n > 48) {
		field(svg, c);
		return shape;
	}
	svg.setAttribute("viewBox", c.grid ? "-30 -6 420 294" : "0 -6 360 294"); // places are longer than numbers
	if (!edges.length && n > 1)
		for (let r = 0; r < n; r++)
			parts.push(draw("path", {class: "edge", d: `M${at[r].join(" ")} L${at[(r + 1) % n].join(" ")}`}));
	for (const [a, b] of edges)
		if (a < n && b < n)
			parts.push(...arrow(at[a], at[b], radius + 2, both.has(b + "," + a) && shape !== "tree" ? 10 : 0,
				runs ? "edge on" : "edge"));
	const gpus = new Set(devices.map((d) => d && d.gpu)).size === n; // each device has its own number
	devices.forEach((d, r) => parts.push(node(at[r], radius, r, d, d && d.place || (gpus && d ? "gpu " + d.gpu : ""), outward(at[r], shape))));
	devices.forEach((d, r) => {
		const to = d && d.waitsFor !== null ? c.devices.indexOf(d.waitsFor) : -1;
		if (to >= 0 && to !== r)
			parts.push(...arrow(at[r], at[to], radius + 2, 34,
				"wait" + (devices[to] && (devices[to].blamed || c.culprit === d.waitsFor) ? " blame" : "")));
	});
	if (recent && n > 3 && shape !== "tree" && n <= 16) {
		parts.push(draw("text", {class: "centre big", x: 180, y: 134}, recent.collective));
		parts.push(draw("text", {class: "centre", x: 180, y: 153}, recent.algorithm));
	}
	svg.replaceChildren(...parts);
	return shape;
}

function commCard() {
	const svg = draw("svg", {role: "img", viewBox: "0 0 1 1"});
	return make("article", {class: "card"},
		make("header", null, make("h3"), make("span", {class: "facts"})),
		make("p", {class: "now"}), make("p", {class: "reason"}), svg);
}

function showComm(card, c) {
	const key = c.id + "." + c.epoch;
	c.recent = c.recent || recents.get(key) || null;
	recents.set(key, c.recent);
	if (c.recent && c.state === "failed")
		c.recent.runs = false;
	const [header, now, reason, svg] = card.children, r = c.recent;
	card.dataset.state = c.state === "failed" ? "failed" : "well";
	say(header.firstChild, `Communicator ${c.id}`);
	say(header.lastChild, [`${c.devices.length} rank${c.devices.length === 1 ? "" : "s"}`, c.grid && "grid " + c.grid, `epoch ${c.epoch}`,
		c.recoveries ? `${c.recoveries} recover${c.recoveries === 1 ? "y" : "ies"}` : "",
		c.state === "failed" ? "failed" : ""].filter(Boolean).join(" · "));
	say(now, !r ? "no operation yet" : `${r.collective} #${r.number}, ${join(count(r.count))} × ${r.type}` +
		(r.algorithm ? ` by ${r.algorithm}` : "") +
		(r.runs && r.secondsAgo < 1 ? ", running" : r.runs ? `, running for ${duration(r.secondsAgo)}` : (r.secondsAgo < 1 ? ", ended just now" : `, ended ${duration(r.secondsAgo)} ago`)));
	say(reason, c.reason);
	const shape = picture(svg, c);
	const states = c.devices.map((i, k) => `rank ${k} ${status.devices[i] ? status.devices[i].state : "unknown"}`);
	svg.setAttribute("aria-label", `Communicator ${c.id} as a ${shape === "all" ? "circle" : shape}: ${states.join(", ")}`);
}

// ---- lines

// The least 1, 2 or 5 times a power of ten that is not less than v; for bytes the least power of two.
function smallest(v, binary) {
	const p = 10 ** Math.floor(Math.log10(v));
	return binary ? 2 ** Math.ceil(Math.log2(v)) : [1, 2, 5, 10].map((k) => k * p).find((x) => x >= v * 0.999);
}

// series: arrays of [x, y]; y from 0 (or, with log, from the least decade) to a round number.
function chart(svg, series, {log, binary, form, x0, x1, left, right, top, label}) {
	const W = svg.clientWidth || 480, H = 170, L = 6, R = 6, T = 10, B = 24;
	const ys = series.flat().map((p) => p[1]).filter((v) => v !== null && (!log || v > 0));
	const parts = [];
	svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
	svg.setAttribute("aria-label", label);
	if (!ys.length) {
		svg.replaceChildren(draw("text", {class: "none", x: W / 2, y: H / 2}, "no data yet"));
		return;
	}
	let lo = log ? 10 ** Math.floor(Math.log10(Math.min(...ys))) : 0;
	let hi = top || (log ? 10 ** Math.ceil(Math.log10(Math.max(...ys) * 1.001)) : smallest(Math.max(...ys, 1e-9), binary));
	if (hi <= lo)
		hi = lo * 10 || 1;
	const sy = (v) => T + (H - T - B) * (1 - (log ? Math.log(Math.max(v, lo) / lo) / Math.log(hi / lo) : (v - lo) / (hi - lo)));
	const sx = (v) => L + (W - L - R) * (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5);
	const ticks = log ? [] : [0, 0.5, 1].map((k) => lo + k * (hi - lo));
	for (let v = lo; log && v <= hi * 1.01; v *= 10)
		ticks.push(v);
	for (const v of ticks) {
		parts.push(draw("path", {class: "grid", d: `M${L} ${sy(v).toFixed(1)} H${W - R}`}));
		parts.push(draw("text", {class: "axis", x: L + 2, y: sy(v) + (sy(v) < 24 ? 12 : -4)}, form(v)));
	}
	series.forEach((points, k) => {
		let d = "", from = null, last = null, area = "";
		for (const [x, y] of points) {
			if (y === null || (log && y <= 0)) {
				last = null;
				continue;
			}
			const p = sx(x).toFixed(1) + " " + sy(y).toFixed(1);
			if (last === null || x - last > (form.gap || Infinity)) {
				area += from === null ? "" : `V${H - B} H${from} Z`;
				from = sx(x).toFixed(1);
				area += `M${from} ${H - B} L${p}`;
				d += "M" + p;
			} else {
				d += "L" + p;
				area += "L" + p;
			}
			last = x;
		}
		if (k === 0 && from !== null)
			parts.push(draw("path", {class: "fill", d: area + `V${H - B} H${from} Z`}));
		parts.push(draw("path", {class: "l l" + k, d}));
		if (points.length < 40 && points.length && !form.gap)
			for (const [x, y] of points)
				if (y !== null)
					parts.push(draw("circle", {class: "dot", cx: sx(x), cy: sy(y), r: 2.5}));
	});
	parts.push(draw("text", {class: "axis", x: L + 2, y: H - 7}, left));
	parts.push(draw("text", {class: "axis", x: W - R - 2, y: H - 7, "text-anchor": "end"}, right));
	svg.replaceChildren(...parts);
}

const withGap = (f) => Object.assign(f, {gap: GAP_MS});
const rateForm = withGap((v) => join(bytes(v)) + "/s");
const timeForm = withGap((v) => join(micros(v)));

function showLines() {
	const now = points.length ? points[points.length - 1][0] : 0;
	const span = Math.max(60000, points.length ? now - points[0][0] : 0);
	const axis = {x0: now - span, x1: now, left: duration(span / 1000) + " ago", right: "now"};
	const last = points[points.length - 1];
	chart($("c-bytes"), [points.map((p) => [p[0], p[1]])], {...axis, form: rateForm, binary: true,
		label: last ? `Throughput over ${duration(span / 1000)}, now ${rateForm(last[1])}` : "Throughput: no data yet"});
	chart($("c-latency"), [points.map((p) => [p[0], p[3] || null]), points.map((p) => [p[0], p[4] || null])],
		{...axis, log: true, form: timeForm,
			label: last ? `Latency over ${duration(span / 1000)}, now ${timeForm(last[3])} median` : "Latency: no data yet"});
}

function showTraining() {
	const t = training[0], p = t ? t.points : [];
	$("training").hidden = !p.length;
	if (!p.length)
		return;
	const last = p[p.length - 1], x = {x0: Math.min(p[0][0], 1), x1: last[0], left: "epoch " + p[0][0], right: "epoch " + last[0]};
	const loss = last[2] === null ? "?" : last[2].toFixed(4), accuracy = last[3] === null ? "?" : (last[3] * 100).toFixed(2) + " %";
	say($("training-about"), `${t.name}: epoch ${last[0]} of ${t.epochs}, ${last[1]} steps, loss ${loss}, test accuracy ${accuracy}, ${join(count(last[4] || 0))} samples/s`);
	chart($("c-loss"), [p.map((q) => [q[0], q[2]])], {...x, form: (v) => String(+v.toPrecision(3)), label: `Loss by epoch, now ${loss}`});
	chart($("c-accuracy"), [p.map((q) => [q[0], q[3]])], {...x, top: 1, form: (v) => v * 100 + " %", label: `Test accuracy by epoch, now ${accuracy}`});
}

// ---- events

const WHY = {
	"started": "Devices register with the coordinator and send heartbeats. A restarted coordinator reads its state and continues.",
	"joined": "The device is now free for communicators.",
	"lost": "Its process ended, or its heartbeats stopped. Operations in which it takes part cannot end without it.",
	"ended": "What started the process has told how it ended.",
	"back": "Its heartbeats arrive again.",
	"restarted": "A new process serves its memory, which outlived the old one.",
	"replaced": "The spare has taken the lost device's rank, with its memory.",
	"given-up": "The device cannot be restarted: communicators that need it fail.",
	"comm-failed": "Its operations end with an error on every rank. Create another communicator, or use --on-failure shrink, respawn or spare.",
	"recovered": "The interrupted operations run again from copies of their inputs: the results are the same as without the failure.",
};

function showEvent(li, e) {
	const [time, kind, text, why] = li.children, at = new Date(e.atMs);
	li.dataset.kind = e.kind;
	time.dateTime = at.toISOString();
	time.title = at.toISOString();
	say(time, at.toTimeString().slice(0, 8));
	say(kind, e.kind.replace("comm-failed", "failed").replace("-", " "));
	say(text, e.text);
	say(why, WHY[e.kind] || "");
}

function showEvents() {
	const list = status.events.slice().reverse();
	keyed($("events"), list, (e) => e.number,
		() => make("li", null, make("time"), make("span", {class: "kind"}), make("span", {class: "text"}), make("span", {class: "why"})),
		showEvent);
	$("events-empty").hidden = list.length > 0;
}

// ---- the page

function showTiles() {
	const r = status.rates, states = {};
	for (const d of status.devices)
		states[d.state] = (states[d.state] || 0) + 1;
	tile("t-devices", [String(status.devices.length), ""]);
	say($("t-devices-more"), Object.entries(states).map(([s, n]) => n + " " + s).join(", ") || "none");
	tile("t-bytes", bytes(r.bytesPerSecond), "/s");
	tile("t-ops", count(r.opsPerSecond), "/s");
	if (r.p50Microseconds) {
		tile("t-latency", micros(r.p50Microseconds));
		say($("t-latency-more"), "median; 99 % within " + join(micros(r.p99Microseconds)));
	} else {
		tile("t-latency", ["–", ""]);
		say($("t-latency-more"), "no operation ended recently");
	}
	tile("t-waiting", [(r.waiting * 100).toFixed(r.waiting < 0.1 ? 1 : 0), "%"]);
}

function show() {
	if (!status || paused)
		return;
	const lost = status.devices.filter((d) => d.state === "lost" || d.state === "gone").length;
	document.title = (lost ? `${lost} lost · ` : status.culprit ? "waiting · " : "") + "gpusim";
	say($("where"), `${status.version} · coordinator ${status.address} · pid ${status.pid} · up ${duration(status.uptimeMs / 1000)}`);
	say($("culprit"), status.culprit);
	$("culprit").hidden = !status.culprit;
	showTiles();
	keyed($("comm-list"), status.comms, (c) => c.id, commCard, showComm);
	$("comms-empty").hidden = status.comms.length > 0;
	say($("comms-made"), status.commsMade === 0 ? "No communicator yet." : status.commsMade === 1
		? "No communicator now: 1 has ended." : `No communicator now: ${status.commsMade} have ended.`);
	keyed($("device-rows"), status.devices, (d) => d.id, deviceRow, showDevice);
	$("devices-empty").hidden = status.devices.length > 0;
	document.querySelector("#devices .scroll").hidden = status.devices.length === 0;
	showEvents();
}

function link(state, text) {
	const e = $("link");
	e.dataset.state = state;
	say(e, text);
}

function listen() {
	const source = new EventSource("/events");
	const on = (event, f) => source.addEventListener(event, (e) => {
		heard = Date.now();
		link("live", "live");
		f(JSON.parse(e.data));
	});
	on("status", (s) => {
		status = s;
		show();
	});
	on("points", (p) => {
		const last = points.length ? points[points.length - 1][0] : 0;
		points = points.concat(p.filter((q) => q[0] > last)).slice(-KEEP_POINTS);
		if (!paused)
			showLines();
	});
	on("training", (t) => {
		training = t;
		if (!paused)
			showTraining();
	});
	source.onerror = () => {
		link("off", source.readyState === EventSource.CLOSED ? "refused; retrying" : "no connection; retrying");
		if (source.readyState === EventSource.CLOSED)
			setTimeout(listen, 5000);
	};
}

function pause() {
	paused = !paused;
	$("pause").setAttribute("aria-pressed", String(paused));
	say($("pause"), paused ? "Resume" : "Pause");
	show();
	showLines();
	showTraining();
}

$("pause").addEventListener("click", pause);
document.addEventListener("keydown", (e) => {
	if (e.key === "p" && !e.ctrlKey && !e.metaKey && !e.altKey)
		pause();
});
addEventListener("resize", () => {
	showLines();
	showTraining();
});
setInterval(() => {
	if (heard && Date.now() - heard > 4000)
		link("off", "silent for " + duration((Date.now() - heard) / 1000));
}, 1000);
showLines();
listen();
