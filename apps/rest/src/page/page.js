// The page of a node: it shows what the HTTP interface says, and makes its calls. Text from the node
// is only ever set as text, never as markup.
"use strict";

const PERIOD_MS = 1000;
// The node's cores are asked for their part of the status, so it is read less often.
const STATUS_EVERY = 3;
const POINTS_MAX = 120;
const EVENTS_MAX = 100;

const $ = (id) => document.getElementById(id);
const state = { token: sessionStorage.getItem("token"), status: null, jobs: [], intervals: [], activity: null };

/* Elements */

function element(tag, content, attributes = {}) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  for (const part of [content].flat()) if (part !== null && part !== undefined) made.append(part);
  return made;
}

// A table from columns [title, value of a row, is a number] and rows.
function fill(table, columns, rows, empty) {
  if (rows.length === 0) {
    table.replaceChildren(element("tbody", element("tr", element("td", empty, { class: "empty" }))));
    return;
  }
  const kind = (isNumber) => (isNumber ? { class: "number" } : {});
  const head = columns.map(([title, , isNumber]) => element("th", title, { scope: "col", ...kind(isNumber) }));
  const body = rows.map((row) => element("tr", columns.map(([, value, isNumber]) => element("td", value(row), kind(isNumber)))));
  table.replaceChildren(element("thead", element("tr", head)), element("tbody", body));
}

// A name that may be longer than a line.
const longName = (name) => element("span", name, { class: "name" });

/* Numbers */

function count(value) {
  if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(0) + " k";
  return value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1);
}

const whole = (value) => value.toLocaleString("en");

const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return (value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1)) + " " + units[unit];
}

function time(nanos) {
  if (nanos >= 1e9) return (nanos / 1e9).toFixed(1) + " s";
  if (nanos >= 1e6) return (nanos / 1e6).toFixed(1) + " ms";
  return nanos >= 1e3 ? (nanos / 1e3).toFixed(0) + " µs" : nanos.toFixed(0) + " ns";
}

function duration(seconds) {
  const [days, hours, minutes] = [seconds / 86400, (seconds / 3600) % 24, (seconds / 60) % 60].map(Math.floor);
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min` : `${seconds} s`;
}

// "16GiB" in bytes; null if it is none.
function parseSize(text) {
  const found = /^\s*(\d+)\s*(B|KiB|MiB|GiB|TiB)?\s*$/i.exec(text);
  if (!found) return null;
  const power = ["b", "kib", "mib", "gib", "tib"].indexOf((found[2] || "B").toLowerCase());
  return Number(found[1]) * 1024 ** power;
}

/* Requests */

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(method, path, body) {
  const headers = state.token ? { Authorization: `Bearer ${state.token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, said.error ? said.error.message : `HTTP ${answer.status}`);
}

const read = async (path) => (await ask("GET", path)).json();

/* The verdict */

function showVerdict(level, reasons) {
  const verdict = $("verdict");
  verdict.textContent = level;
  verdict.className = `verdict ${level}`;
  const list = $("reasons");
  list.className = `reasons ${level}`;
  list.hidden = reasons.length === 0;
  list.replaceChildren(...reasons.map((reason) => element("li", reason)));
}

/* Live figures */

const rate = (interval, field) => (interval[field] * 1000) / Math.max(interval.millis, 1);

const CHARTS = [
  { title: "Requests a second", show: count, lines: [
    ["reads", "reads", (it) => rate(it, "reads")],
    ["writes", "writes", (it) => rate(it, "writes")],
    ["errors", "problem", (it) => (it.errors > 0 ? rate(it, "errors") : null)],
  ] },
  { title: "Bytes a second", show: bytes, lines: [
    ["reads", "reads", (it) => rate(it, "read_bytes")],
    ["writes", "writes", (it) => rate(it, "written_bytes")],
  ] },
  { title: "Latency of reads", show: time, isLogarithmic: true, lines: latencyLines("read_latency") },
  { title: "Latency of writes", show: time, isLogarithmic: true, lines: latencyLines("write_latency") },
];

function latencyLines(field) {
  const of = (percentile) => (it) => (it[field] ? it[field][percentile] : null);
  return [["p50", "reads", of("p50_ns")], ["p99", "writes", of("p99_ns")], ["p99.9", "third", of("p999_ns")]];
}

const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// From a value to its height in percent, and back. Percentiles differ by orders of magnitude, so latencies
// have a logarithmic scale.
function scale(known, isLogarithmic) {
  const top = Math.max(1, ...known) * 1.1;
  if (!isLogarithmic) return [(value) => (value / top) * 100, (height) => (top * height) / 100];
  const positive = known.filter((value) => value > 0);
  const bottom = Math.min(top / 2, ...positive) / 1.1;
  const decades = Math.log(top / bottom);
  const height = (value) => Math.max(0, (Math.log(Math.max(value, bottom) / bottom) / decades) * 100);
  return [height, (at) => bottom * Math.exp((decades * at) / 100)];
}

function chart({ title, show, lines, isLogarithmic }) {
  const intervals = state.intervals;
  const values = lines.map(([, , of]) => intervals.map(of));
  const known = values.flat().filter((value) => value !== null);
  const [height, at] = scale(known, isLogarithmic);
  const newest = intervals.length ? intervals[intervals.length - 1].ended_at_ms : 0;
  const x = (interval) => 1000 - (newest - interval.ended_at_ms) / POINTS_MAX;
  const svg = drawn("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": title });
  for (const y of [0, 50, 100]) svg.append(drawn("line", { x1: 0, x2: 1000, y1: y, y2: y, class: "grid" }));
  values.forEach((of, line) => {
    // A gap in the values ends a line.
    const parts = [[]];
    of.forEach((value, index) => {
      if (value === null) parts.push([]);
      else parts[parts.length - 1].push(`${x(intervals[index]).toFixed(1)},${(100 - height(value)).toFixed(2)}`);
    });
    for (const points of parts.filter((it) => it.length > 0)) {
      if (points.length === 1) points.push(points[0]);
      svg.append(drawn("polyline", { points: points.join(" "), class: lines[line][1] }));
    }
  });
  const last = (of) => (of.length && of[of.length - 1] !== null ? show(of[of.length - 1]) : "–");
  const shown = lines.map((it, line) => [...it, line]).filter(([name, , , line]) => name !== "errors" || values[line].some((it) => it !== null));
  const legend = shown.map(([name, colour, , line]) => element("i", `${name} ${last(values[line])}`, { class: colour }));
  const plot = element("div", [svg, element("span", show(at(100)), { class: "top" }), element("span", show(at(50)), { class: "middle" }),
    ...(isLogarithmic ? [element("span", show(at(0)), { class: "bottom" })] : [])], { class: "plot" });
  const axis = element("div", [element("span", "2 minutes ago"), element("span", "now")], { class: "axis" });
  return element("div", [element("h3", [element("span", title), ...legend]), plot, axis], { class: "chart" });
}

function showFigures() {
  const last = state.intervals[state.intervals.length - 1];
  const tile = (value, name) => element("div", [element("b", value), element("span", name)], { class: "tile" });
  const p99 = (latency) => (latency ? time(latency.p99_ns) : "–");
  $("tiles").replaceChildren(...(last ? [
    tile(count(rate(last, "reads")), "reads a second"),
    tile(count(rate(last, "writes")), "writes a second"),
    tile(bytes(rate(last, "read_bytes")), "read a second"),
    tile(bytes(rate(last, "written_bytes")), "written a second"),
    tile(p99(last.read_latency), "p99 of reads"),
    tile(p99(last.write_latency), "p99 of writes"),
    tile(whole(last.in_flight), "in flight"),
  ] : [tile("…", "measuring the first second")]));
  $("charts").replaceChildren(...CHARTS.map(chart));
}

/* Resources */

function ioColumns(ioOf) {
  const perSecond = (field, show) => (row) => {
    const io = ioOf(row);
    return io && io[field] ? show(rate({ ...io, millis: io.millis }, field)) : "–";
  };
  const p99 = (field) => (row) => {
    const io = ioOf(row);
    return io && io[field] ? time(io[field].p99_ns) : "–";
  };
  return [
    ["Reads/s", perSecond("reads", count), true],
    ["Writes/s", perSecond("writes", count), true],
    ["Read/s", perSecond("read_bytes", bytes), true],
    ["Written/s", perSecond("written_bytes", bytes), true],
    ["p99 read", p99("read_latency"), true],
    ["p99 write", p99("write_latency"), true],
  ];
}

function showVolumes() {
  const last = state.intervals[state.intervals.length - 1];
  const busy = new Map((state.activity ? state.activity.volumes : []).map((it) => [it.volume, { ...it, millis: last ? last.millis : 1000 }]));
  fill($("volumes"), [
    ["Name", (it) => it.name],
    ["Size", (it) => bytes(it.bytes), true],
    ["Device", (it) => it.device],
    ["Subsystem NQN", (it) => longName(it.nqn)],
    ...ioColumns((it) => busy.get(it.name)),
    ["", (it) => element("button", "Remove", { click: () => removeVolume(it) })],
  ], state.status.volumes, "No volumes.");
}

function showHosts() {
  const { hosts, initiators, clients } = state.status;
  const last = state.intervals[state.intervals.length - 1];
  // Clients without a name are counted together, and have one row.
  const counted = (state.activity ? state.activity.hosts : []).filter((it) => !it.several);
  const busy = new Map(counted.map((it) => [it.host || null, { ...it, millis: last ? last.millis : 1000 }]));
  const isAnonymous = (it) => it.is_in && !it.credential;
  const anonymous = clients.filter(isAnonymous);
  const inFlight = anonymous.reduce((sum, it) => sum + it.in_flight, 0);
  const from = anonymous.length === 1 ? anonymous[0].from : plural(anonymous.length, "connection");
  const rows = [
    ...hosts.map((it) => ({ name: it.host, door: "NVMe/TCP", from: it.address, to: it.nqn, about: plural(it.io_queues, "I/O queue") })),
    ...initiators.map((it) => ({ name: it.initiator, door: "iSCSI", from: it.address, to: it.target || "discovery", about: plural(it.connections, "connection") })),
    ...clients.filter((it) => !isAnonymous(it)).map((it) => (
      { name: it.credential, door: "direct", from: it.from, about: it.is_in ? `${it.in_flight} in flight` : "logging in" })),
    ...(anonymous.length ? [{ name: null, door: "direct", from, about: `${inFlight} in flight` }] : []),
  ];
  fill($("hosts"), [
    ["Host", (it) => it.name ? longName(it.name) : it.about === "logging in" ? "–" : "anonymous"],
    ["Protocol", (it) => it.door],
    ["From", (it) => it.from],
    ["To", (it) => it.to ? longName(it.to) : "–"],
    ["", (it) => it.about],
    ...ioColumns((it) => it.about === "logging in" ? undefined : busy.get(it.name)),
  ], rows, "No hosts are connected.");
}

function showAddresses() {
  const status = state.status;
  const of = (door, addresses, onlyTls) => (addresses || []).map((it) => (
    { door, address: it, tls: (onlyTls || []).includes(it) ? "required" : "not required" }));
  const socket = (door, path) => path ? [{ door, address: path, tls: "–" }] : [];
  const http = status.http ? [status.http] : [];
  fill($("addresses"), [
    ["Protocol", (it) => it.door],
    ["Address", (it) => longName(it.address)],
    ["TLS", (it) => it.tls],
  ], [
    ...of("NVMe/TCP", status.nvme_tcp, status.nvme_tcp_tls),
    ...of("direct", status.direct, status.direct_tls),
    ...socket("direct", status.direct_local),
    ...of("iSCSI", status.iscsi),
    ...of("HTTP", http, http),
    ...socket("HTTP", status.http_local),
  ], "No addresses.");
}

function showDevices() {
  const used = (it) => it.data_bytes - it.free_bytes;
  const health = (it) => {
    const room = it.backing ? it.backing.state : "enough";
    const free = it.backing ? `: ${bytes(it.backing.free_bytes)} free in its file system` : "";
    if (it.truncated) return element("span", "truncated", { class: "problem" });
    if (!it.suspect && (it.flash || it.pcm || {}).worn_out) return "worn out";
    if (!it.suspect && room !== "enough") return element("span", room + free, { class: "problem" });
    if (!it.suspect) return "ok";
    return [element("span", "suspect ", { class: "problem" }), element("button", "Clear", { click: () => clearDevice(it) })];
  };
  fill($("devices"), [
    ["Name", (it) => it.name],
    ["Kind", (it) => it.kind],
    ["Size", (it) => bytes(it.bytes), true],
    ["Used", (it) => [element("meter", null, { max: it.data_bytes, value: used(it), title: bytes(used(it)) }), ` ${bytes(it.free_bytes)} free`]],
    ["Cache", (it) => (it.volatile_cache ? "volatile" : "none")],
    ["Health", health],
  ], state.status.devices, "No devices.");
}

function showJobs() {
  const isOver = (it) => ["done", "failed", "cancelled"].includes(it.state);
  const progress = (it) => isOver(it) ? (it.error ? it.error.message : "")
    : [element("progress", null, { max: it.total_bytes || 1, value: it.done_bytes }), ` ${bytes(it.done_bytes)} of ${bytes(it.total_bytes)}${waits(it.waits_for || [])}`];
  const waits = (nodes) => nodes.length ? `, waits for ${nodes.map((it) => `${it.node} (${it.reason})`).join(", ")}` : "";
  fill($("jobs"), [
    ["Job", (it) => String(it.id), true],
    ["Change", (it) => it.kind],
    ["Volume", (it) => it.volume],
    ["State", (it) => element("span", it.state, { class: it.state === "failed" ? "problem" : "" })],
    ["Progress", progress],
    ["", (it) => isOver(it) ? "" : element("button", "Cancel", { click: () => cancelJob(it) })],
  ], [...state.jobs].reverse().slice(0, 8), "No jobs.");
}

function showCluster() {
  const cluster = state.status.cluster;
  $("cluster").hidden = !cluster;
  if (!cluster) return;
  $("cluster").querySelector("p").textContent = `Node '${cluster.node}'. ${cluster.verdict}: ${cluster.reason}`;
  const progress = (it) => [element("progress", null, { max: it.bytes, value: it.done_bytes }), ` ${bytes(it.done_bytes)} of ${bytes(it.bytes)}`];
  fill($("nodes"), [
    ["Node", (it) => it.name],
    ["State", (it) => element("span", it.is_running ? "runs" : "is down", { class: it.is_running ? "" : "problem" })],
    ["Space", (it) => bytes(it.data_bytes), true],
    ["Free", (it) => bytes(it.free_bytes), true],
    ["Replicas", (it) => String(it.replicas), true],
    ["Primaries", (it) => String(it.primaries), true],
    ["Version", (it) => it.version],
  ], cluster.nodes, "The nodes are unknown.");
  fill($("copies"), [["Volume", (it) => it.volume], ["Mirror", (it) => String(it.mirror), true], ["Copied", progress]],
    cluster.copies, "No mirror is being copied.");
}

function showCores() {
  fill($("cores"), [
    ["Core", (it) => String(it.core), true],
    ["Connections", (it) => whole(it.connections), true],
    ["In flight", (it) => whole(it.in_flight), true],
    ["Free memory", (it) => bytes(it.pool_free_bytes), true],
    ["Errors", (it) => whole(it.errors), true],
  ], state.status.cores, "No core has answered.");
}

function showStatus() {
  const { node, version, uptime_seconds, verdict } = state.status;
  $("about").textContent = `node ${node.slice(0, 8)}, version ${version}, serving for ${duration(uptime_seconds)}`;
  document.title = `${verdict.level} – nearflash ${node.slice(0, 8)}`;
  showVerdict(verdict.level, verdict.reasons || []);
  const select = $("create").elements.device;
  const names = state.status.devices.filter((it) => it.kind !== "remote" && it.kind !== "mirror").map((it) => it.name);
  // Without a device, the volume lies in the space of the cluster.
  const places = [...(state.status.cluster ? [["", "the cluster"]] : []), ...names.map((name) => [name, name])];
  if (JSON.stringify(places.map(([value]) => value)) !== JSON.stringify([...select.options].map((it) => it.value))) {
    select.replaceChildren(...places.map(([value, text]) => element("option", text, { value })));
  }
  for (const show of [showAddresses, showDevices, showCluster, showCores]) show();
}

/* Actions */

// Asks a person. With `word`, it must be typed.
function confirmed(question, action, word) {
  const dialog = $("question");
  dialog.querySelector("p").textContent = question;
  const [label, button] = [dialog.querySelector("label"), dialog.querySelector("button.danger")];
  button.textContent = action;
  label.hidden = !word;
  const input = label.querySelector("input");
  input.value = "";
  input.placeholder = word || "";
  button.disabled = Boolean(word);
  input.oninput = () => { button.disabled = input.value !== word; };
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

async function act(what, call) {
  try {
    await call();
  } catch (error) {
    note(`${what}: refused: ${error.message}`, "problem");
  }
  await look(true);
}

async function removeVolume({ name }) {
  const question = `Remove volume '${name}' and its data? Type its name to confirm.`;
  if (await confirmed(question, "Remove", name)) {
    await act(`remove volume '${name}'`, () => ask("DELETE", `v1/volumes/${encodeURIComponent(name)}`));
  }
}

async function cancelJob({ id, volume }) {
  if (await confirmed(`Cancel job ${id} of volume '${volume}'? Its change is undone.`, "Cancel the job")) {
    await act(`cancel job ${id}`, () => ask("DELETE", `v1/jobs/${id}`));
  }
}

async function clearDevice({ name }) {
  const question = `Return device '${name}' to service? Acknowledged writes that it has lost stay lost.`;
  if (await confirmed(question, "Return to service")) {
    await act(`clear device '${name}'`, () => ask("POST", `v1/devices/${encodeURIComponent(name)}/clear`));
  }
}

$("create").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const [name, size] = [form.elements.name.value, parseSize(form.elements.size.value)];
  const failure = form.querySelector(".failure");
  failure.textContent = size === null ? "A size is a number with a unit, for example 16GiB." : "";
  if (size === null) return;
  try {
    const device = form.elements.device.value;
    await ask("POST", "v1/volumes", { name, bytes: size, ...(device ? { device } : {}) });
    form.reset();
    $("creation").open = false;
  } catch (error) {
    failure.textContent = error.message;
  }
  await look(true);
});

/* Events */

function note(text, kind = "", at = new Date()) {
  const time = element("time", at.toLocaleTimeString(), { datetime: at.toISOString(), title: at.toLocaleString() });
  $("events").prepend(element("li", [time, element("span", text, { class: kind })]));
  while ($("events").children.length > EVENTS_MAX) $("events").lastChild.remove();
}

function noteEvent({ at_ms, level, text, fields = {} }) {
  const { call, subject, who, result } = fields;
  const change = `${call}${subject ? ` '${subject}'` : ""} by ${who}: ${result}`;
  const named = Object.entries(fields).map(([name, value]) => `${name} ${value}`).join(", ");
  const kind = { warning: "warning", error: "problem" }[level] || "";
  note(call ? change : text + (named && ` (${named})`), kind, new Date(at_ms));
}

async function lookAtEvents() {
  const { events } = await read(`v1/log${state.event ? `?after=${state.event}` : ""}`);
  for (const event of events.slice(-EVENTS_MAX)) noteEvent(event);
  if (events.length) state.event = events[events.length - 1].number;
}

/* The loop */

let turn = 0;
let looking = false;

async function look(isWhole) {
  if (looking) return;
  looking = true;
  try {
    const last = state.intervals[state.intervals.length - 1];
    const activity = await read(`v1/activity${last ? `?since=${last.number}` : ""}`);
    if (isWhole || turn % STATUS_EVERY === 0) {
      const [status, { jobs }] = await Promise.all([read("v1/status"), read("v1/jobs")]);
      if (state.status && state.status.pid !== status.pid) state.intervals = [];
      await lookAtEvents();
      [state.status, state.jobs] = [status, jobs];
      showStatus();
      showJobs();
    }
    turn += 1;
    state.activity = activity;
    state.intervals = [...state.intervals, ...activity.intervals].slice(-POINTS_MAX);
    $("login").hidden = true;
    $("node").hidden = false;
    showFigures();
    showVolumes();
    showHosts();
  } catch (error) {
    failed(error);
  } finally {
    looking = false;
  }
}

function failed(error) {
  if (error.status === 401) {
    $("login").hidden = false;
    $("node").hidden = true;
    showVerdict("locked", []);
    $("login").querySelector(".failure").textContent = state.token ? error.message : "";
    state.token = null;
    sessionStorage.removeItem("token");
    return;
  }
  turn = 0;
  showVerdict("problem", [error.status ? error.message : "the node does not answer: this page asks again every second"]);
}

$("login").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  state.token = event.target.elements.token.value.trim();
  sessionStorage.setItem("token", state.token);
  event.target.reset();
  await look(true);
});

// Nothing is asked while nobody sees the page, or while it waits for a token.
setInterval(() => {
  const waitsForToken = !$("login").hidden;
  if (!document.hidden && !waitsForToken) look(false);
}, PERIOD_MS);
look(true);
