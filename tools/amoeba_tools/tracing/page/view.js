// Draws the recording that is chosen, and listens to the reader: after recording.js, in the same script.

// Drawing ---------------------------------------------------------------------------------------------------------

function prepared(name, height) {
  const canvas = byId(name), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (height !== undefined) canvas.style.height = `${height}px`;
  const tall = height ?? canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(tall * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, tall);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  return { context, width, height: tall };
}

const chartWidth = () => byId("rows").clientWidth - labels;
const toPixel = (cycle) => labels + (cycle - view.from) / (view.to - view.from) * chartWidth();
const toCycle = (pixel) => view.from + (pixel - labels) / chartWidth() * (view.to - view.from);

function draw() {
  scheduled = false;
  const width = byId("rows").clientWidth;
  labels = width < 420 ? 140 : width < 600 ? 160 : 270;
  drawMap(); drawTracks(); drawRows();
  byId("facts").textContent = facts();
}

// The canvases need colours by value: the page's theme decides between those of a pair.
function chooseColours() {
  const probe = byId("tip");
  for (const name of ["back", "panel", "line", "text", "dim", "pick", "edge", "host", "send", "wire", "check", "memory",
    "answer", "finish", "wait", "move", "bad"]) {
    probe.style.outlineColor = `var(--${name})`;
    colours[name] = getComputedStyle(probe).outlineColor;
  }
  later();
}

function later() { if (!scheduled) { scheduled = true; requestAnimationFrame(draw); } }

function facts() {
  const shown = rows.filter((row) => !row.packet).length;
  const part = shown === run.count ? "" : `${format(shown)} of `;
  const cut = run.cutOff === null ? "" : `; recording ended in cycle ${format(run.cutOff)}: raise --events`;
  return `${part}${format(run.count)} operations, ${format(run.frames.cycle.length)} frames, ${format(run.length)} cycles; ` +
    `shown: ${format(view.from)} to ${format(view.to)}${cut}`;
}

function drawMap() {
  const { context, width, height } = prepared("map");
  const across = width - labels;
  const total = (from, to) => run.flows.reduce((sum, flows) => sum + flows.slice(0, 4).reduce((part, flow) => part + flow.mean(from, to), 0), 0);
  const means = [];
  for (let x = 0; x < across; ++x) means.push(total(x / across * run.length, (x + 1) / across * run.length));
  const most = Math.max(1e-9, ...means);
  context.fillStyle = colours.host;
  means.forEach((mean, x) => context.fillRect(labels + x, height - 2 - mean / most * (height - 6), 1, mean / most * (height - 6) + 2));
  context.fillStyle = colours.dim;
  label(context, "operations in flight", 8, 0, colours.dim, height);
  const left = labels + view.from / run.length * across, right = labels + view.to / run.length * across;
  context.strokeStyle = colours.edge; context.lineWidth = 1.5;
  context.strokeRect(left, 1, Math.max(right - left, 3), height - 2);
}

// What is drawn above the rows, from top to bottom: [height, function(context, y)].
function tracks() {
  const list = [];
  run.names.forEach((name, nic) => {
    SIDES.forEach((side, number) => {
      const flows = FLOWS.map((flow, index) => [flow, run.flows[nic][index]]).filter(([flow, steps]) => flow[2] === number && steps.most);
      if (flows.length) list.push({ height: TRACK, nic, side, flows, most: run.most[nic][number], draw: drawFlows });
    });
    (run.channels[nic] ?? []).forEach((channel, index) => {
      list.push({ height: BUS, nic, channel, name: data.channels[index], draw: drawChannel });
    });
  });
  return list;
}

function drawTracks() {
  const list = tracks();
  const { context, width } = prepared("tracks", AXIS + list.reduce((sum, track) => sum + track.height + 3, 0));
  let y = AXIS;
  for (const track of list) { track.draw(context, track, y, width); y += track.height + 3; }
  // of many NICs' tracks a part is on the screen: the cycles stay above it
  const top = byId("above").scrollTop;
  context.clearRect(0, top, width, AXIS);
  context.translate(0, top);
  drawAxis(context, width);
}

function drawAxis(context, width) {
  const step = niceStep((view.to - view.from) / Math.max(2, chartWidth() / 110));
  context.fillStyle = colours.dim; context.strokeStyle = colours.line; context.lineWidth = 1;
  context.fillText("cycle", 8, AXIS / 2);
  for (let cycle = Math.ceil(view.from / step) * step; cycle <= view.to; cycle += step) {
    const x = Math.round(toPixel(cycle)) + .5;
    context.beginPath(); context.moveTo(x, AXIS - 5); context.lineTo(x, AXIS); context.stroke();
    if (x < width - 30) context.fillText(format(cycle), x + 3, AXIS / 2);
  }
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return Math.max(1, power * [1, 2, 5, 10].find((factor) => factor * power >= least));
}

function drawFlows(context, { nic, side, flows, most }, y, width) {
  for (let x = labels; x < width; ++x) {
    const from = toCycle(x), to = toCycle(x + 1);
    let base = y + TRACK;
    for (const [[, group], steps] of flows) {
      const tall = steps.mean(from, to) / most * (TRACK - 2);
      context.fillStyle = colours[group];
      context.fillRect(x, base - tall, 1, tall);
      base -= tall;
    }
  }
  label(context, `NIC ${nic}: ${side}, ≤ ${most}`, 8, y, colours.text);
  label(context, `of these ${flows.map(([[name], steps]) => `${steps.most} ${name}`)[pickFlow(flows)]}`, 8, y + 17, colours.dim);
  context.strokeStyle = colours.line;
  context.strokeRect(labels + .5, y + .5, width - labels - 1, TRACK);
}

// The flow with the most in it is the one worth naming.
function pickFlow(flows) {
  return flows.reduce((best, [, steps], index) => (steps.most > flows[best][1].most ? index : best), 0);
}

function drawChannel(context, { channel, name, nic }, y, width) {
  for (let x = labels; x < width; ++x) {
    const from = toCycle(x), to = toCycle(x + 1);
    const moves = channel.moves.mean(from, to) * BUS, waits = channel.waits.mean(from, to) * BUS;
    if (moves > 0) { context.fillStyle = colours.move; context.fillRect(x, y + BUS - moves, 1, moves); }
    if (waits > 0) {
      const tall = Math.max(waits, 1);
      context.fillStyle = colours.wait; context.fillRect(x, y + BUS - moves - tall, 1, tall);
    }
  }
  context.font = "10px system-ui, sans-serif";
  label(context, `NIC ${nic}: ${name}`, 8, y, colours.dim, BUS);
  context.font = "12px system-ui, sans-serif";
  context.strokeStyle = colours.line;
  context.beginPath(); context.moveTo(labels, y + BUS + .5); context.lineTo(width, y + BUS + .5); context.stroke();
}

function drawRows() {
  const scroll = byId("scroll");
  byId("height").style.height = `${Math.max(0, rows.length * ROW + 4 - scroll.clientHeight)}px`;
  const { context, width, height } = prepared("rows", scroll.clientHeight);
  const first = Math.floor(scroll.scrollTop / ROW);
  for (let index = first; index < Math.min(rows.length, first + height / ROW + 1); ++index) {
    drawRow(context, rows[index], index * ROW - scroll.scrollTop, width);
  }
  if (!rows.length) { context.fillStyle = colours.dim; context.fillText("No operation has all these words.", 8, 20); }
  if (pointer && pointer.x > labels) {
    context.strokeStyle = colours.dim; context.lineWidth = .5;
    context.beginPath(); context.moveTo(pointer.x, 0); context.lineTo(pointer.x, height); context.stroke();
  }
}

function drawRow(context, { operation, packet }, y, width) {
  if (operation.number === selected) { context.fillStyle = colours.pick; context.fillRect(0, y, width, ROW); }
  const packets = packet ? [packet] : operation.packets;
  const crowded = packets.length > 1;
  context.save();
  context.beginPath(); context.rect(labels, y, width - labels, ROW); context.clip();
  if (crowded) for (const [from, to] of run.bars(operation, null)) drawBar(context, from, to, y);
  if (crowded) context.globalAlpha = Math.max(.25, 1 / packets.length);
  for (const each of packets.length ? packets : [null]) {
    for (const [from, to] of run.bars(operation, each)) drawBar(context, from, to, y);
  }
  context.restore();
  if (packet) { label(context, `psn ${packet.psn}`, 34, y, colours.dim); return; }
  if (operation.packets.length > 1) label(context, open.has(operation.number) ? "▾" : "▸", 4, y, colours.text);
  const mark = operation.failed ? colours.bad : operation.again ? colours.send : colours.text;
  label(context, `${operation.route}  ${operation.text}`, 18, y, mark);
}

function label(context, text, x, y, colour, height = ROW) {
  context.save();
  context.beginPath(); context.rect(x, y, labels - x - 6, height); context.clip();
  context.fillStyle = colour; context.fillText(text, x, y + height / 2);
  context.restore();
}

// The initiator's part is the upper half of a row, the target's the lower one, the way between them a slope.
function drawBar(context, from, to, y) {
  const { cycle, stage } = run.events;
  const left = toPixel(cycle[from]), right = Math.max(toPixel(cycle[to]), left + 1);
  if (right < labels || left > labels + chartWidth()) return;
  const kind = data.stages[stage[to]], half = ROW / 2 - 2;
  context.fillStyle = colours[kind.group];
  if (kind.group === "wire") {
    const down = data.atTarget[stage[to]];
    const [start, end] = down ? [y + 2, y + 2 + half] : [y + 2 + half, y + 2];
    context.beginPath();
    context.moveTo(left, start); context.lineTo(right, end); context.lineTo(right, end + half); context.lineTo(left, start + half);
    context.globalAlpha *= .55; context.fill(); context.globalAlpha /= .55;
    return;
  }
  context.fillRect(left, data.atTarget[stage[to]] ? y + 2 + half : y + 2, right - left, half);
  if (run.events.status[to] > data.ok) { context.fillStyle = colours.bad; context.fillRect(right - 2, y + 1, 3, ROW - 2); }
}

// The page beside the rows ----------------------------------------------------------------------------------------

function showSide() {
  byId("side").innerHTML = selected < 0 ? summaryOf(run) : detailsOf(run.operations[selected]);
  for (const each of byId("side").querySelectorAll("details[data-frame]")) {
    each.addEventListener("toggle", () => {
      if (each.open && each.children.length === 1) each.insertAdjacentHTML("beforeend", frameTable(Number(each.dataset.frame)));
    });
  }
}

function summaryOf() {
  const nics = run.names.map((name, number) => `<tr><td>NIC ${number}</td><td>${escaped(name)}</td></tr>`).join("");
  const rows = run.durations.map(([stage, count, ...numbers]) =>
    `<tr><td>${swatch(stage)}${STAGE[stage]}</td><td class="n">${format(count)}</td>` +
    numbers.map((number) => `<td class="n">${format(number)}</td>`).join("") + "</tr>").join("");
  return `<table>${nics}</table><h2>Cycles until a stage is reached, from the one before</h2>
    <table id="durations"><tr><th>stage</th><th class="n">times</th><th class="n">least</th><th class="n">median</th>
    <th class="n">95 %</th><th class="n">most</th></tr>${rows}</table>
    <p class="dim">Stages that take far more than their least had to wait. Click an operation for its stages and frames.
    Wheel: rows; with Ctrl, or over the tracks: zoom. Drag: move. Keys: + &minus; 0 Home, arrows.</p>`;
}

function swatch(stage) {
  return `<i style="display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:5px;background:var(--${data.stages[stage].group})"></i>`;
}

function detailsOf(operation) {
  const number = operation.number, { cycle, nic, stage, status } = run.events;
  const events = run.chain(operation, operation.packets);
  let last = operation.begin;
  const runs = [];  // events of one stage behind each other, as of the lines of a long write, take one row
  for (const at of events) {
    const before = runs[runs.length - 1];
    if (before && stage[before[0]] === stage[at] && nic[before[0]] === nic[at] && status[before[0]] === status[at]) before.push(at);
    else runs.push([at]);
  }
  const table = runs.slice(0, MOST_SHOWN).map((together) => {
    const at = together[0], passed = cycle[at] - last;
    last = cycle[together[together.length - 1]];
    const times = together.length > 1 ? `, ${together.length} times until ${format(last - operation.begin)}` : "";
    const code = status[at] && status[at] !== data.ok ? ` <span class="bad">${statusName(status[at])}</span>` : "";
    return `<tr><td class="n">${format(cycle[at] - operation.begin)}</td><td class="n">+${format(passed)}</td><td>${nic[at]}</td>
      <td>${swatch(stage[at])}${STAGE[stage[at]]}${times}${code}</td><td class="dim">${data.stages[stage[at]].component}</td></tr>`;
  }).join("");
  const frames = operation.packets.flatMap((packet) => packet.frames);
  const shown = frames.slice(0, MOST_SHOWN).map((frame) => {
    const { cycle: left, sender, size, remark, summary } = run.frames;
    const fate = run.texts[remark[frame]] ? ` <span class="bad">${escaped(run.texts[remark[frame]])}</span>` : "";
    return `<details data-frame="${frame}"><summary>NIC ${sender[frame]}, cycle ${format(left[frame])}, ${size[frame]} bytes: ` +
      `${escaped(run.texts[summary[frame]])}${fate}</summary></details>`;
  }).join("");
  const state = run.ops.status[number] < 0 ? "no completion" : statusName(run.ops.status[number]);
  const more = (list) => (list.length > MOST_SHOWN ? `<p class="dim">and ${format(list.length - MOST_SHOWN)} more</p>` : "");
  return `<b>${escaped(operation.text)}</b><table>
    <tr><td>NIC</td><td>${escaped(operation.route)}</td></tr><tr><td>context</td><td>${run.ops.context[number]}, ring index ${run.ops.index[number] < 0 ? "unknown" : run.ops.index[number]}</td></tr>
    <tr><td>PDC</td><td>${run.ops.pdc[number]}, ${operation.packets.length} packets${operation.again ? `, <span class="bad">sent again ${operation.again} times</span>` : ""}</td></tr>
    <tr><td>status</td><td class="${operation.failed ? "bad" : ""}">${state}</td></tr>
    <tr><td>cycles</td><td>${format(operation.begin)} to ${format(operation.end)}: ${format(operation.end - operation.begin)}</td></tr></table>
    <h2>Stages</h2><table id="stages"><tr><th class="n">cycle</th><th class="n"></th><th>NIC</th><th>stage</th><th>component</th></tr>${table}</table>${more(runs)}
    <h2>Frames</h2>${shown || '<p class="dim">none</p>'}${more(frames)}`;
}

function frameTable(number) {
  return layers(number).map(([name, fields]) => `<table><tr><th colspan="2">${escaped(name)}</th></tr>` +
    fields.filter(([field]) => !field.startsWith("reserved")).map(([field, value]) =>
      `<tr><td>${escaped(field)}</td><td class="word">${escaped(value)}</td></tr>`).join("") + "</table>").join("");
}

// What the reader does --------------------------------------------------------------------------------------------

function choose(number) {
  selected = number;
  showSide(); later();
}

function list() {
  const words = byId("filter").value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  const phrase = byId("filter").value.toLowerCase().split(",").map((each) => each.trim()).filter(Boolean);
  const wanted = phrase.length ? phrase : words;
  let found = run.operations.filter((each) => wanted.every((word) => each.search.includes(word)));
  if (byId("order").value === "longest") found = [...found].sort((one, other) => other.end - other.begin - (one.end - one.begin));
  rows = found.flatMap((operation) => [
    { operation }, ...(open.has(operation.number) ? operation.packets.map((packet) => ({ operation, packet })) : []),
  ]);
  later();
}

function show(from, to) {
  const least = Math.min(20, run.length), length = Math.min(Math.max(to - from, least), run.length * 1.02);
  const begin = Math.min(Math.max(from, -run.length * .01), run.length * 1.01 - length);
  view = { from: begin, to: begin + length };
  later();
}

function zoom(factor, pixel) {
  const cycle = toCycle(pixel ?? labels + chartWidth() / 2);
  show(cycle - (cycle - view.from) * factor, cycle + (view.to - cycle) * factor);
}

function visibleRows() {
  const scroll = byId("scroll"), first = Math.floor(scroll.scrollTop / ROW);
  return rows.slice(first, first + Math.ceil(scroll.clientHeight / ROW)).map((row) => row.operation);
}

// The time that the rows on the screen take.
function showRows() {
  const visible = visibleRows();
  if (!visible.length) return;
  const from = Math.min(...visible.map((each) => each.begin)), to = Math.max(...visible.map((each) => each.end));
  show(from - (to - from) * .02, to + (to - from) * .02);
}

// Rows that have nothing in the view say nothing: move it to them.
function follow() {
  const visible = visibleRows();
  if (visible.length && !visible.some((each) => each.end >= view.from && each.begin <= view.to)) {
    const middle = visible[visible.length >> 1], length = view.to - view.from;
    show(middle.begin - length * .1, middle.begin + length * .9);
  }
  later();
}

function rowAt(y) {
  const scroll = byId("scroll");
  return rows[Math.floor((y - scroll.getBoundingClientRect().top + scroll.scrollTop) / ROW)];
}

function barAt(row, x) {
  const cycle = toCycle(x);
  for (const packet of row.packet ? [row.packet] : row.operation.packets.length ? row.operation.packets : [null]) {
    for (const [from, to] of run.bars(row.operation, packet)) {
      if (run.events.cycle[from] <= cycle && cycle <= run.events.cycle[to]) return [from, to];
    }
  }
  return null;
}

function tipText(event) {
  const x = event.clientX - byId("rows").getBoundingClientRect().left;
  if (event.target.id === "tracks") return trackText(event, x);
  const row = event.target.closest("#scroll") && rowAt(event.clientY);
  if (!row) return "";
  const { operation } = row, lines = [`${operation.route}  ${operation.text}`];
  const bar = x > labels && barAt(row, x);
  if (bar) {
    const [from, to] = bar.map((at) => run.events.cycle[at]), kind = data.stages[run.events.stage[bar[1]]];
    lines.push(`until ${kind.name}: ${format(to - from)} cycles, ${format(from)} to ${format(to)}`,
      `NIC ${run.events.nic[bar[1]]}, ${kind.component}`);
  } else lines.push(`${format(operation.end - operation.begin)} cycles, ${format(operation.begin)} to ${format(operation.end)}`);
  if (operation.failed) lines.push(statusName(run.ops.status[operation.number]));
  if (operation.again) lines.push(`sent again ${operation.again} times`);
  return lines.join("\n");
}

function trackText(event, x) {
  let y = event.clientY - byId("tracks").getBoundingClientRect().top - AXIS;
  const cycle = toCycle(x);
  for (const track of tracks()) {
    if (y >= 0 && y < track.height + 3 && x > labels) {
      if (track.flows) {
        return [`NIC ${track.nic}, ${track.side}, cycle ${format(cycle)}`,
          ...track.flows.map(([[name], steps]) => `${steps.at(cycle)} ${name}, at most ${steps.most}`)].join("\n");
      }
      const share = (steps) => `${(100 * steps.mean(view.from, view.to)).toFixed(1)} %`;
      return `NIC ${track.nic}, ${track.name}\nof the time shown: beats move ${share(track.channel.moves)}, ` +
        `wait for the other side ${share(track.channel.waits)}`;
    }
    y -= track.height + 3;
  }
  return "";
}

function tell(event) {
  const tip = byId("tip"), text = tipText(event);
  tip.hidden = !text;
  tip.textContent = text;
  tip.style.left = `${Math.max(0, Math.min(event.clientX + 14, innerWidth - 390))}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - 90)}px`;
}

function listen() {
  let drag = null;
  const chart = byId("chart"), scroll = byId("scroll"), map = byId("map");
  chart.addEventListener("wheel", (event) => {
    const x = event.clientX - chart.getBoundingClientRect().left;
    const above = byId("above"), fits = above.scrollHeight <= above.clientHeight;
    if (event.ctrlKey || (event.target.id === "tracks" && fits)) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * .002), Math.max(x, labels));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const part = (event.deltaX || event.deltaY) / chartWidth() * (view.to - view.from);
      show(view.from + part, view.to + part);
    }
  }, { passive: false });
  chart.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, y: event.clientY, view: { ...view }, top: scroll.scrollTop, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    pointer = event.target.closest?.("#scroll") ? { x: event.clientX - chart.getBoundingClientRect().left } : null;
    if (drag) {
      const across = event.clientX - drag.x, down = event.clientY - drag.y;
      drag.moved ||= Math.hypot(across, down) > 4;
      if (drag.moved) {
        const part = across / chartWidth() * (drag.view.to - drag.view.from);
        show(drag.view.from - part, drag.view.to - part);
        scroll.scrollTop = drag.top - down;
      }
    }
    tell(event); later();
  });
  window.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved && event.target.closest?.("#scroll")) {
      const row = rowAt(event.clientY), x = event.clientX - chart.getBoundingClientRect().left;
      if (row && x < 18 && row.operation.packets.length > 1) {
        open.has(row.operation.number) ? open.delete(row.operation.number) : open.add(row.operation.number);
        list();
      } else choose(row ? row.operation.number : -1);
    }
    drag = null;
  });
  window.addEventListener("pointercancel", () => { drag = null; });  // the browser scrolls by this finger
  scroll.addEventListener("dblclick", (event) => {
    const row = rowAt(event.clientY);
    if (row) { const part = (row.operation.end - row.operation.begin) * .05; show(row.operation.begin - part, row.operation.end + part); }
  });
  scroll.addEventListener("scroll", follow);
  byId("above").addEventListener("scroll", later);
  const go = (event) => {
    const x = event.clientX - map.getBoundingClientRect().left - labels, half = (view.to - view.from) / 2;
    const middle = x / (map.clientWidth - labels) * run.length;
    show(middle - half, middle + half);
    scrollTo(middle);
  };
  map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); go(event); });
  map.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  window.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select")) return;
    const part = (view.to - view.from) * .2;
    const act = { "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6), 0: () => show(0, run.length), Home: showRows,
      ArrowLeft: () => show(view.from - part, view.to - part), ArrowRight: () => show(view.from + part, view.to + part),
      ArrowUp: () => step(-1), ArrowDown: () => step(1), Escape: () => choose(-1) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  byId("in").onclick = () => zoom(.6);
  byId("out").onclick = () => zoom(1 / .6);
  byId("all").onclick = () => show(0, run.length);
  byId("rows-view").onclick = showRows;
  byId("filter").oninput = () => { scroll.scrollTop = 0; list(); };
  byId("order").onchange = () => { scroll.scrollTop = 0; list(); showRows(); };
  byId("run").onchange = () => load(Number(byId("run").value));
  new ResizeObserver(later).observe(chart);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", chooseColours);
  window.addEventListener("message", (event) => {  // a page that embeds this one chooses: light, dark or auto
    if (!event.data?.theme) return;
    document.documentElement.dataset.theme = event.data.theme;
    chooseColours();
  });
}

// Rows in order begin one after the other: bring those to the screen that begin at a cycle.
function scrollTo(cycle) {
  if (byId("order").value !== "begin") return;
  const index = rows.findIndex((row) => row.operation.begin >= cycle);
  if (index >= 0) byId("scroll").scrollTop = Math.max(0, index * ROW - byId("scroll").clientHeight / 2);
}

function step(by) {
  const at = rows.findIndex((row) => row.operation.number === selected && !row.packet);
  let next = at < 0 ? 0 : at + by;
  while (rows[next]?.packet) next += by;
  if (!rows[next]) return;
  choose(rows[next].operation.number);
  const scroll = byId("scroll"), top = next * ROW;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top + ROW > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + ROW - scroll.clientHeight;
}

function load(number) {
  run = new Run(data.runs[number]);
  selected = -1; open.clear();
  byId("scroll").scrollTop = 0;
  list(); showSide();
  show(0, run.length);
  if (run.count > 60) showRows();
}

function legend() {
  const meanings = { host: "descriptor, from host memory", send: "made and sent", wire: "on the wire", check: "checked",
    memory: "memory, host and engine", answer: "answered", finish: "result and completion", wait: "bus waits", move: "bus moves" };
  byId("legend").innerHTML = Object.entries(meanings).map(([name, meaning]) =>
    `<span><i style="background:var(--${name})"></i>${meaning}</span>`).join("") +
    "<span>upper half of a row: initiator, lower half: target</span>";
}

async function main() {
  data = JSON.parse(new TextDecoder().decode(await unpacked("data")));
  bytes = await unpacked("bytes");
  STAGE = data.stages.map((stage) => stage.name);
  byId("run").innerHTML = data.runs.map((each, number) =>
    `<option value="${number}">network ${number}: ${format(each.ops.nic.length)} operations</option>`).join("");
  byId("run").hidden = data.runs.length < 2;
  legend(); listen(); chooseColours();
  if (data.runs.length) load(0);
  document.body.dataset.ready = "yes";
}

main();
