"use strict";
// Draws recordings: a map of all the time, tracks of the operations in flight and of the buses, and a row for each operation.
// Cycles are counted from the first event. `view` is the piece of time that is shown.

const ROW = 20, AXIS = 20, TRACK = 38, BUS = 9;
const MOST_SHOWN = 200;  // events and frames of one operation in the table beside
const byId = (name) => document.getElementById(name);
const format = (number) => (Math.round(number) || 0).toLocaleString("en-US");  // never -0
const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

let data, bytes, run, view = { from: 0, to: 1 }, rows = [], selected = -1, open = new Set(), scheduled = false;
let pointer = null, colours = {};
let labels = 270;  // pixels left of the time

async function unpacked(name) {
  const text = atob(byId(name).textContent.trim());
  const packed = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// What happened ---------------------------------------------------------------------------------------------------

class Run {
  constructor(raw) {
    Object.assign(this, raw);
    this.count = this.ops.nic.length;
    this.operations = [];
    let event = 0, packet = 0, frame = 0;
    for (let number = 0; number < this.count; ++number) {
      const operation = { number, own: [event, event += this.ops.events[number]], packets: [] };
      for (let left = this.ops.packets[number]; left > 0; --left, ++packet) {
        operation.packets.push({
          psn: this.packets.psn[packet], target: this.packets.target[packet],
          events: [event, event += this.packets.events[packet]],
          frames: this.packetFrames.slice(frame, frame += this.packets.frames[packet]),
        });
      }
      this.measure(operation, event);
      this.operations.push(operation);
    }
    this.flows = this.countUnderWay();
    this.channels = this.buses.map((channels) => channels.map((channel) => new Channel(channel, this.length)));
  }

  measure(operation, end) {
    const cycles = this.events.cycle.slice(operation.own[0], end);
    operation.begin = cycles.reduce((least, cycle) => Math.min(least, cycle), Infinity);
    operation.end = cycles.reduce((most, cycle) => Math.max(most, cycle), 0);
    const status = this.ops.status[operation.number];
    operation.failed = status >= 0 && status !== data.ok;
    operation.again = 0;
    for (const packet of operation.packets) {
      let sent = 0;
      for (let at = packet.events[0]; at < packet.events[1]; ++at) sent += STAGE[this.events.stage[at]] === "request sent";
      operation.again += Math.max(0, sent - 1);
    }
    const targets = [...new Set(operation.packets.map((packet) => packet.target))];
    const to = targets.length ? ` → ${targets.map((nic) => (nic < 0 ? "?" : nic)).join(",")}` : "";
    operation.route = `${this.ops.nic[operation.number]}${to}`;
    operation.text = this.texts[this.ops.text[operation.number]];
    operation.search = [
      operation.text, `nic ${this.ops.nic[operation.number]}`, `context ${this.ops.context[operation.number]}`,
      `pdc ${this.ops.pdc[operation.number]}`, operation.failed ? `failed ${statusName(status)}` : "",
      operation.again ? "sent again" : "",
    ].join(" ").toLowerCase();
  }

  // The events of a chain: of one packet with what precedes it, or of all the operation.
  chain(operation, packets) {
    const chosen = [];
    const add = ([from, to]) => { for (let at = from; at < to; ++at) chosen.push(at); };
    add(operation.own);
    for (const packet of packets) add(packet.events);
    return chosen.sort((one, other) => this.events.cycle[one] - this.events.cycle[other] || one - other);
  }

  // Bars of one packet, or, of an operation of several packets or of none, its own: [event before, event].
  bars(operation, packet) {
    const { cycle } = this.events, bars = [];
    const events = this.chain(operation, packet ? [packet] : []);
    for (let index = 1; index < events.length; ++index) bars.push([events[index - 1], events[index]]);
    if (operation.packets.length < 2) return bars;
    if (packet) return bars.filter(([, event]) => event >= packet.events[0] && event < packet.events[1]);
    // what comes behind the last packet begins with its end, not with the descriptor
    const last = operation.packets.reduce((latest, each) => {
      const end = each.events[1] - 1;
      return end >= each.events[0] && (latest < 0 || cycle[end] > cycle[latest]) ? end : latest;
    }, -1);
    return bars.map(([from, to]) => [last >= 0 && cycle[from] < cycle[last] && cycle[last] <= cycle[to] ? last : from, to]);
  }

  // How many operations are where, as steps: by NIC, at the initiator and at the target.
  countUnderWay() {
    const flows = this.names.map(() => FLOWS.map(() => []));
    const note = (nic, flow, from, to) => {
      if (nic < 0 || from === undefined || to === undefined || to <= from) return;
      flows[nic][flow].push([from, 1], [to, -1]);
    };
    for (const operation of this.operations) {
      const nic = this.ops.nic[operation.number];
      const own = this.firsts(operation.own);
      note(nic, 0, own["doorbell"], own["descriptor"]);
      let answered;
      for (const packet of operation.packets) {
        const at = this.firsts(packet.events);
        const executed = at["executed"] ?? at["request checked"];
        note(nic, 1, packet === operation.packets[0] ? own["descriptor"] : undefined, at["request sent"]);
        note(nic, 2, at["request sent"], at["response received"]);
        note(packet.target, 4, at["request received"], at["request checked"]);
        note(packet.target, 5, at["request checked"], executed);
        note(packet.target, 6, executed, at["response sent"]);
        answered = at["response received"];
      }
      note(nic, 3, answered, own["completion written"]);
    }
    this.most = flows.map((flow) => SIDES.map((_, side) => new Steps(flow.filter((_, index) => FLOWS[index][2] === side).flat()).most));
    return flows.map((flow) => flow.map((changes) => new Steps(changes)));
  }

  firsts([from, to]) {
    const found = {};
    for (let at = from; at < to; ++at) found[STAGE[this.events.stage[at]]] ??= this.events.cycle[at];
    return found;
  }
}

const FLOWS = [
  ["in the ring", "host", 0], ["to be sent", "send", 0], ["unanswered", "wire", 0], ["to be completed", "finish", 0],
  ["to be checked", "check", 1], ["in memory", "memory", 1], ["to be answered", "answer", 1],
];
const SIDES = ["initiator", "target"];
let STAGE = [];

// A number that changes in steps, and its mean over any piece of time.
class Steps {
  constructor(changes) {
    changes.sort((one, other) => one[0] - other[0]);
    this.cycle = [0]; this.value = [0]; this.total = [0];
    this.most = 0;
    for (const [cycle, change] of changes) {
      const last = this.cycle.length - 1;
      const value = this.value[last] + change;
      if (cycle === this.cycle[last]) { this.value[last] = value; continue; }
      this.total.push(this.total[last] + this.value[last] * (cycle - this.cycle[last]));
      this.cycle.push(cycle); this.value.push(value);
    }
    for (const value of this.value) this.most = Math.max(this.most, value);
  }

  until(cycle) {
    const at = before(this.cycle, cycle);
    return this.total[at] + this.value[at] * (cycle - this.cycle[at]);
  }

  mean(from, to) { return (this.until(to) - this.until(from)) / (to - from); }
  at(cycle) { return this.value[before(this.cycle, cycle)]; }
}

// One channel of a bus: the parts of the time in which beats move, and wait.
class Channel {
  constructor({ cycle, state }, length) {
    const steps = (wanted) => {
      const changes = [];
      state.forEach((each, index) => {
        if (each === wanted) changes.push([cycle[index], 1], [cycle[index + 1] ?? length, -1]);
      });
      return new Steps(changes);
    };
    this.moves = steps(1); this.waits = steps(2);
  }
}

// The last place in an ascending list that is not above a number; the first one if all are.
function before(list, number) {
  let low = 0, high = list.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (list[middle] <= number) low = middle; else high = middle - 1;
  }
  return low;
}

function statusName(status) { return data.statuses[status] ?? `status ${status}`; }

// Frames ----------------------------------------------------------------------------------------------------------

// The layers of a frame as [name, [[field, value], ...]], as amoeba_model.wire.render tells them.
function layers(number) {
  const { kind, kinds, at, size, payload } = run.frames;
  const names = kinds[kind[number]];
  let place = at[number];
  if (!(names[0] in data.records)) return [["undecodable", [["cause", names[0].split(": ")[1]], ["bytes", hex(place, size[number])]]]];
  const found = [];
  for (const name of names) {
    const fields = data.records[name];
    const width = fields.reduce((sum, field) => sum + field[1], 0);
    let word = 0n;
    for (let index = 0; index < width / 8; ++index) word = word << 8n | BigInt(bytes[place + index]);
    let left = width;
    found.push([name, fields.map(([field, bits, numbers]) => {
      left -= bits;
      return [field, fieldText(field, bits, numbers, word >> BigInt(left) & (1n << BigInt(bits)) - 1n)];
    })]);
    place += width / 8;
  }
  if (payload[number]) {
    const kept = Math.min(payload[number], 32);
    found.push(["payload", [[`${payload[number]} bytes`, hex(place, kept) + (payload[number] > kept ? " ..." : "")]]]);
    place += kept;
  }
  let crc = 0n;
  for (let index = 3; index >= 0; --index) crc = crc << 8n | BigInt(bytes[place + index]);
  found.push(["crc", [["crc32c", "0x" + crc.toString(16).padStart(8, "0")]]]);
  return found;
}

function hex(place, count) {
  return Array.from(bytes.subarray(place, place + count), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

function fieldText(name, bits, numbers, value) {
  const known = data.enums[numbers];
  if (known?.flags) {
    const set = known.members.filter(([flag]) => BigInt(flag) & value).map(([, flag]) => flag);
    return `0x${value.toString(16)}` + (set.length ? ` (${set.join("|")})` : "");
  }
  if (known) {
    const member = known.members.find(([number]) => BigInt(number) === value);
    return `${value} (${member ? member[1] : `unknown 0x${value.toString(16)}`})`;
  }
  if (bits === 48) return value.toString(16).padStart(12, "0").match(/../g).join(":");
  if (bits === 32 && (name === "source" || name === "destination")) {
    return [24n, 16n, 8n, 0n].map((shift) => value >> shift & 255n).join(".");
  }
  return value > 9n ? `${value} (0x${value.toString(16)})` : String(value);
}
