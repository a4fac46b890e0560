// Drives the memory engine alone: streams requests in, answers its line reads and writes from a flat memory, and
// records what comes out, cycle by cycle. The generated lines that give widths and the positions of
// fields stand before it.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr size_t LINE = WIDTH / 8;

struct Random {
    uint64_t state;
    uint32_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<uint32_t>(state >> 32);
    }
    bool percent(uint32_t chance) { return next() % 100 < chance; }
    void fill(void* target, size_t size) {
        for (size_t i = 0; i < size; i += 4) {
            const uint32_t bytes = next();
            std::memcpy(static_cast<uint8_t*>(target) + i, &bytes, std::min<size_t>(4, size - i));
        }
    }
};

uint64_t field(const void* payload, size_t offset, size_t width) {
    unsigned __int128 window = 0;
    std::memcpy(&window, static_cast<const uint8_t*>(payload) + offset / 8, (offset % 8 + width + 7) / 8);
    return static_cast<uint64_t>(window >> (offset % 8)) & (~uint64_t{0} >> (64 - width));
}

void set_field(void* payload, size_t offset, size_t width, uint64_t value) {
    for (size_t i = 0; i < width; i++) {
        const size_t bit = offset + i;
        uint8_t& byte = static_cast<uint8_t*>(payload)[bit / 8];
        byte = static_cast<uint8_t>((byte & ~(1u << (bit % 8))) | (((value >> i) & 1) << (bit % 8)));
    }
}

// Holds a beat of one of the engine's outputs to the rule that what is offered stays until it is taken.
struct Offer {
    std::vector<uint8_t> payload;
    bool pending = false;
    bool check(bool valid, bool ready, const void* now, size_t size) {
        const auto* bytes = static_cast<const uint8_t*>(now);
        const bool kept = !pending || (valid && std::memcmp(payload.data(), bytes, size) == 0);
        pending = valid && !ready;
        payload.assign(bytes, bytes + size);
        return kept;
    }
};

}  // namespace

extern "C" {

struct Stream {
    const uint8_t* beats;
    uint64_t count;
};

struct Setup {
    Stream requests, operands, compares;
    uint8_t* memory;
    uint64_t base, size;              // of the memory
    uint64_t refused_from, refused_to;  // line reads that touch these addresses are refused
    uint64_t latency;                 // cycles from a line read to its data
    uint64_t seed;
    uint32_t request_chance, operand_chance, result_chance, read_chance, data_chance, write_chance;
    uint64_t writes_blocked_until;    // cycle before which no line write is taken
    uint64_t reset_at;                // cycle of a reset after which everything begins anew; 0: none
    uint64_t limit;                   // cycles
    uint64_t answers;                 // packets to wait for
};

struct Report {
    uint8_t* results;
    uint64_t* result_cycles;
    uint64_t results_space;
    uint64_t results_count;
    uint64_t* write_cycles;   // of each accepted line write
    uint64_t* write_lines;
    uint64_t writes_space;
    uint64_t writes_count;
    uint64_t* executed_cycles;
    uint64_t executed_space;
    uint64_t executed_count;
    uint64_t cycles;
    uint64_t most_reads;      // line reads on the way at the same time
    uint64_t atomic_beats, line_reads, line_writes, line_hits;
    uint64_t stream_errors, address_errors;
};

void memory_engine_run(const Setup* setup, Report* report) {
    Vtop top;
    Random random{setup->seed * 2654435761u + 88172645463325252u};
    struct Answer {
        uint64_t due;
        bool refused;
        uint8_t bytes[LINE];
    };
    std::deque<Answer> answers;
    const Stream* inputs[3] = {&setup->requests, &setup->operands, &setup->compares};
    uint64_t next[3] = {0, 0, 0};
    bool offered[3] = {false, false, false};
    bool data_offered = false;
    Offer results, line_reads, line_writes;
    uint64_t finished = 0, still = 0;
    const std::vector<uint8_t> image(setup->memory, setup->memory + setup->size);

    for (uint64_t cycle = 0; cycle < setup->limit; cycle++) {
        void* payloads[3] = {&top.requests___05Fpayload, &top.operands___05Fpayload, &top.compares___05Fpayload};
        uint8_t* valids[3] = {&top.requests___05Fvalid, &top.operands___05Fvalid, &top.compares___05Fvalid};
        const size_t sizes[3] = {REQUEST_BYTES, BEAT_BYTES, BEAT_BYTES};
        for (int i = 0; i < 3; i++) {
            const uint32_t chance = i ? setup->operand_chance : setup->request_chance;
            offered[i] = next[i] < inputs[i]->count && (offered[i] || random.percent(chance));
            *valids[i] = offered[i];
            if (offered[i]) std::memcpy(payloads[i], inputs[i]->beats + next[i] * sizes[i], sizes[i]);
            else random.fill(payloads[i], sizes[i] - 1);
        }
        data_offered = !answers.empty() && answers.front().due <= cycle && (data_offered || random.percent(setup->data_chance));
        top.line_data___05Fvalid = data_offered;
        random.fill(&top.line_data___05Fpayload, LINE);
        if (data_offered) {
            if (!answers.front().refused) std::memcpy(&top.line_data___05Fpayload, answers.front().bytes, LINE);
            set_field(&top.line_data___05Fpayload, READ_BEAT_LAST, 1, 1);
            set_field(&top.line_data___05Fpayload, READ_BEAT_ERROR, 1, answers.front().refused);
        }
        top.results___05Fready = random.percent(setup->result_chance);
        top.line_reads___05Fready = random.percent(setup->read_chance);
        top.line_writes___05Fready = cycle >= setup->writes_blocked_until && random.percent(setup->write_chance);
        // A register says whether a line is on offer, so the handshake is known before.
        top.line_writes_ordered = top.line_writes___05Fvalid && top.line_writes___05Fready;
        top.rst = setup->reset_at && cycle == setup->reset_at;
        top.clk = 0;
        top.eval();

        if (top.rst) {
            std::memcpy(setup->memory, image.data(), image.size());
            answers.clear();
            results = line_reads = line_writes = Offer{};
            for (int i = 0; i < 3; i++) next[i] = 0, offered[i] = false;
            data_offered = false;
            finished = still = 0;
            report->results_count = report->writes_count = report->executed_count = 0;
            top.clk = 1;
            top.eval();
            continue;
        }
        report->stream_errors += !results.check(top.results___05Fvalid, top.results___05Fready, &top.results___05Fpayload, BEAT_BYTES);
        report->stream_errors += !line_reads.check(top.line_reads___05Fvalid, top.line_reads___05Fready, &top.line_reads___05Fpayload, READ_REQUEST_BYTES);
        report->stream_errors += !line_writes.check(top.line_writes___05Fvalid, top.line_writes___05Fready, &top.line_writes___05Fpayload, WRITE_BEAT_BYTES);
        const uint8_t readies[3] = {top.requests___05Fready, top.operands___05Fready, top.compares___05Fready};
        for (int i = 0; i < 3; i++) {
            if (offered[i] && readies[i]) {
                next[i]++;
                offered[i] = false;
                still = 0;
            }
        }
        if (data_offered && top.line_data___05Fready) {
            answers.pop_front();
            data_offered = false;
            still = 0;
        }
        if (top.results___05Fvalid && top.results___05Fready) {
            if (report->results_count < report->results_space) {
                std::memcpy(report->results + report->results_count * BEAT_BYTES, &top.results___05Fpayload, BEAT_BYTES);
                report->result_cycles[report->results_count] = cycle;
            }
            report->results_count++;
            finished += field(&top.results___05Fpayload, PACKET_BEAT_LAST, 1);
            still = 0;
        }
        if (top.line_reads___05Fvalid && top.line_reads___05Fready) {
            const uint64_t address = field(&top.line_reads___05Fpayload, 0, 64);
            const uint64_t length = field(&top.line_reads___05Fpayload, 64, 13);
            Answer answer{cycle + setup->latency, address < setup->refused_to && address + LINE > setup->refused_from, {}};
            if (address % LINE || length != LINE || address - setup->base >= setup->size) report->address_errors++;
            else std::memcpy(answer.bytes, setup->memory + (address - setup->base), LINE);
            answers.push_back(answer);
            if (answers.size() > report->most_reads) report->most_reads = answers.size();
            still = 0;
        }
        if (top.line_writes___05Fvalid && top.line_writes___05Fready) {
            const auto* beat = reinterpret_cast<const uint8_t*>(&top.line_writes___05Fpayload);
            const uint64_t address = field(beat, 0, 64);
            const bool whole = field(beat, 64, 8) == 1 && field(beat, WRITE_BEAT_FIRST, 1) && field(beat, WRITE_BEAT_LAST, 1);
            if (address % LINE || !whole || address - setup->base >= setup->size) {
                report->address_errors++;
            } else {
                const uint64_t strobe = field(beat, WRITE_BEAT_STROBE, LINE);
                for (size_t i = 0; i < LINE; i++) {
                    if (strobe >> i & 1) setup->memory[address - setup->base + i] = beat[WRITE_BEAT_DATA / 8 + i];
                }
            }
            if (report->writes_count < report->writes_space) {
                report->write_cycles[report->writes_count] = cycle;
                report->write_lines[report->writes_count] = address;
            }
            report->writes_count++;
            still = 0;
        }
        if (field(&top.trace_executed, 0, 1)) {
            if (report->executed_count < report->executed_space) report->executed_cycles[report->executed_count] = cycle;
            report->executed_count++;
        }
        report->atomic_beats += top.count_atomic_beats;
        report->line_reads += top.count_line_reads;
        report->line_writes += top.count_line_writes;
        report->line_hits += top.count_line_hits;
        top.clk = 1;
        top.eval();
        report->cycles = cycle + 1;
        // The end, or a standstill that no chance and no latency explains.
        if (finished >= setup->answers && ++still > 100) break;
        if (++still > 20000 + setup->latency + setup->writes_blocked_until) break;
    }
}

}
