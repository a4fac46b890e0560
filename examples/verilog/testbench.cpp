// The NIC in a testbench of plain C++: read its registers, set up a context and a peer, ring a doorbell, see the NIC
// fetch descriptor and data from host memory, and take the frame that it sends. No Python, no driver: registers and
// descriptor are those of amoeba.h, buses those of AXI.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "amoeba.h"
#include "verilated.h"

constexpr unsigned BEAT = 16;  // bytes of the datapath: 128 bits
constexpr uint64_t HOST_BASE = 0x10000000;
constexpr unsigned HOST_SIZE = 0x10000;
constexpr unsigned PATIENCE = 20000;  // cycles

static void check(bool right, const char* what) {
    if (right) return;
    std::fprintf(stderr, "wrong: %s\n", what);
    std::exit(1);
}

// The NIC, a clock, and what is connected to its ports. Verilator writes "__" in names as "___05F".
struct Bench {
    VerilatedContext context;
    std::unique_ptr<Vtop> nic{new Vtop(&context)};
    uint64_t cycle = 0;
    std::vector<uint8_t> host = std::vector<uint8_t>(HOST_SIZE);
    struct Burst {
        uint64_t address;
        unsigned beats;
        uint8_t id;
    };
    std::deque<Burst> reads, writes;
    std::deque<uint8_t> written;  // IDs of bursts that are to be answered
    unsigned dma_reads = 0;
    std::vector<uint8_t> frame;  // the one that is arriving
    std::deque<std::vector<uint8_t>> frames;

    Bench() {
        nic->rst = 1;
        for (int i = 0; i < 4; i++) tick();
        nic->rst = 0;
        nic->host___05Farready = nic->host___05Fawready = nic->host___05Fwready = 1;
        nic->tx___05Ftready = nic->bar___05Frready = nic->bar___05Fbready = 1;
        tick();
    }

    // One clock cycle. Transfers are those of the rising edge; what they change is driven after it.
    void tick() {
        nic->clk = 0;
        nic->eval();
        const bool ar = nic->host___05Farvalid && nic->host___05Farready;
        const bool aw = nic->host___05Fawvalid && nic->host___05Fawready;
        const bool w = nic->host___05Fwvalid && nic->host___05Fwready;
        const bool r = nic->host___05Frvalid && nic->host___05Frready;
        const bool b = nic->host___05Fbvalid && nic->host___05Fbready;
        if (ar) {
            reads.push_back({nic->host___05Faraddr, nic->host___05Farlen + 1u, nic->host___05Farid});
            dma_reads++;
            std::printf("%6lu  DMA read of %u beats at %#lx\n", cycle, reads.back().beats, reads.back().address);
        }
        if (aw) writes.push_back({nic->host___05Fawaddr, nic->host___05Fawlen + 1u, nic->host___05Fawid});
        if (w) write_beat();
        if (nic->tx___05Ftvalid && nic->tx___05Ftready) take_beat();
        nic->clk = 1;
        nic->eval();
        if (r) next_beat();
        if (b) written.pop_front();
        drive();
        cycle++;
    }

    uint8_t* at(uint64_t address) {
        check(address >= HOST_BASE && address - HOST_BASE <= HOST_SIZE - BEAT, "a DMA access outside host memory");
        return host.data() + (address - HOST_BASE);
    }

    void write_beat() {
        check(!writes.empty(), "write data without an address");
        Burst& burst = writes.front();
        const uint8_t* data = reinterpret_cast<const uint8_t*>(&nic->host___05Fwdata[0]);
        uint8_t* line = at(burst.address & ~uint64_t(BEAT - 1));
        for (unsigned i = 0; i < BEAT; i++)
            if (nic->host___05Fwstrb >> i & 1) line[i] = data[i];
        burst.address = (burst.address & ~uint64_t(BEAT - 1)) + BEAT;
        if (--burst.beats) return;
        written.push_back(burst.id);
        writes.pop_front();
    }

    void next_beat() {
        Burst& burst = reads.front();
        burst.address = (burst.address & ~uint64_t(BEAT - 1)) + BEAT;
        if (!--burst.beats) reads.pop_front();
    }

    void take_beat() {
        const uint8_t* data = reinterpret_cast<const uint8_t*>(&nic->tx___05Ftdata[0]);
        for (unsigned i = 0; i < BEAT; i++)
            if (nic->tx___05Ftkeep >> i & 1) frame.push_back(data[i]);
        if (!nic->tx___05Ftlast) return;
        frames.push_back(frame);
        frame.clear();
    }

    void drive() {
        nic->host___05Frvalid = !reads.empty();
        if (!reads.empty()) {
            const Burst& burst = reads.front();
            std::memcpy(&nic->host___05Frdata[0], at(burst.address & ~uint64_t(BEAT - 1)), BEAT);
            nic->host___05Frid = burst.id;
            nic->host___05Frlast = burst.beats == 1;
            nic->host___05Frresp = 0;
        }
        nic->host___05Fbvalid = !written.empty();
        if (!written.empty()) nic->host___05Fbid = written.front();
    }

    uint32_t read(uint32_t offset) {
        nic->bar___05Faraddr = offset;
        nic->bar___05Farvalid = 1;
        for (unsigned i = 0; i < PATIENCE; i++) {
            nic->eval();
            const bool accepted = nic->bar___05Farvalid && nic->bar___05Farready;
            const bool answered = nic->bar___05Frvalid;
            const uint32_t value = nic->bar___05Frdata;
            tick();
            if (accepted) nic->bar___05Farvalid = 0;
            if (answered) return value;
        }
        check(false, "no answer to a register read");
        return 0;
    }

    void write(uint32_t offset, uint32_t value) {
        nic->bar___05Fawaddr = offset;
        nic->bar___05Fwdata = value;
        nic->bar___05Fwstrb = 0xF;
        nic->bar___05Fawvalid = nic->bar___05Fwvalid = 1;
        for (unsigned i = 0; i < PATIENCE; i++) {
            nic->eval();
            const bool address = nic->bar___05Fawvalid && nic->bar___05Fawready;
            const bool data = nic->bar___05Fwvalid && nic->bar___05Fwready;
            const bool answered = nic->bar___05Fbvalid;
            tick();
            if (address) nic->bar___05Fawvalid = 0;
            if (data) nic->bar___05Fwvalid = 0;
            if (answered) return;
        }
        check(false, "no answer to a register write");
    }

    // Where the block of a type begins: the BAR is a list of them.
    uint32_t block(uint32_t type) {
        uint32_t start = 0;
        do {
            if (read(start + AMOEBA_BLOCK_TYPE) == type) return start;
            start = read(start + AMOEBA_BLOCK_NEXT);
        } while (start);
        check(false, "a block of registers is missing");
        return 0;
    }
};

int main(int argc, char** argv) {
    Bench bench;
    bench.context.commandArgs(argc, argv);

    // What the NIC is.
    const uint32_t device = bench.block(AMOEBA_DEVICE_TYPE);
    check(bench.read(device + AMOEBA_DEVICE_ABI_VERSION) == AMOEBA_ABI_VERSION, "the ABI's version");
    check(bench.read(device + AMOEBA_DEVICE_DATA_WIDTH) == 8 * BEAT, "the datapath's width");
    std::printf("%6lu  a NIC of %u bits, %u context(s), %u peers\n", bench.cycle, 8 * BEAT,
                bench.read(device + AMOEBA_DEVICE_CONTEXTS), bench.read(device + AMOEBA_DEVICE_PEERS));

    // Its address, a context with its rings, and the peer: 02:00:00:00:00:02, 10.0.0.2.
    bench.write(device + AMOEBA_DEVICE_MAC_LOW, 1);
    bench.write(device + AMOEBA_DEVICE_MAC_HIGH, 0x0200);
    bench.write(device + AMOEBA_DEVICE_IP, 0x0A000001);
    const uint32_t contexts = bench.block(AMOEBA_CONTEXTS_TYPE);
    const uint64_t ring = HOST_BASE, completions = HOST_BASE + 0x1000, source = HOST_BASE + 0x2000;
    bench.write(contexts + AMOEBA_CONTEXTS_TRANSMIT_BASE_LOW, ring);
    bench.write(contexts + AMOEBA_CONTEXTS_TRANSMIT_SIZE, 4);
    bench.write(contexts + AMOEBA_CONTEXTS_COMPLETION_BASE_LOW, completions);
    bench.write(contexts + AMOEBA_CONTEXTS_COMPLETION_SIZE, 4);
    bench.write(contexts + AMOEBA_CONTEXTS_DOMAIN, 1);
    bench.write(contexts + AMOEBA_CONTEXTS_JOB_ID, 0xABCDE);
    bench.write(contexts + AMOEBA_CONTEXTS_PID_ON_FEP, 1);
    bench.write(contexts + AMOEBA_CONTEXTS_CONTROL, AMOEBA_CONTEXT_CONTROL_ENABLE);
    const uint32_t peers = bench.block(AMOEBA_PEERS_TYPE);
    bench.write(peers + AMOEBA_PEERS_MAC_LOW, 2);
    bench.write(peers + AMOEBA_PEERS_MAC_HIGH, 0x0200);
    bench.write(peers + AMOEBA_PEERS_IP, 0x0A000002);
    bench.write(peers + AMOEBA_PEERS_JOB_ID, 0xABCDE);
    bench.write(peers + AMOEBA_PEERS_PID_ON_FEP, 1);
    bench.write(peers + AMOEBA_PEERS_INITIAL_PSN, 0x1000);
    bench.write(peers + AMOEBA_PEERS_ENTROPY, 0xC000);
    bench.write(peers + AMOEBA_PEERS_FLAGS, AMOEBA_PEER_FLAGS_VALID);
    bench.write(peers + AMOEBA_PEERS_STORE, 0);

    // An RMA write of 32 bytes: a descriptor in the ring, data in the buffer, and the doorbell.
    const char text[] = "Hello from a plain C++ testbench";
    const unsigned length = sizeof text - 1;
    std::memcpy(bench.at(source), text, length);
    amoeba_tx_descriptor descriptor = {};
    descriptor.opcode = AMOEBA_DESCRIPTOR_OPCODE_WRITE;
    descriptor.flags = AMOEBA_DESCRIPTOR_FLAGS_COMPLETION;
    descriptor.length = length;
    descriptor.remote_key = 0x1234;
    descriptor.local = source;
    std::memcpy(bench.at(ring), &descriptor, sizeof descriptor);
    std::printf("%6lu  doorbell\n", bench.cycle);
    bench.write(AMOEBA_DOORBELL_PAGE + AMOEBA_DOORBELL_TRANSMIT_TAIL, 1);

    for (unsigned i = 0; i < PATIENCE && bench.frames.empty(); i++) bench.tick();
    check(!bench.frames.empty(), "no frame has come");
    check(bench.dma_reads == 2, "expected two DMA reads: descriptor and data");
    const std::vector<uint8_t> frame = bench.frames.front();
    std::printf("%6lu  frame of %zu bytes:", bench.cycle, frame.size());
    for (size_t i = 0; i < frame.size(); i++) std::printf("%s%02x", i % 16 ? " " : "\n        ", frame[i]);
    std::printf("\n");
    const uint8_t ethernet[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00};  // to, from, IPv4
    check(frame.size() > sizeof ethernet + length, "the frame is too short");
    check(!std::memcmp(frame.data(), ethernet, sizeof ethernet), "the Ethernet header");
    check(memmem(frame.data(), frame.size(), text, length), "the data is not in the frame");
    const uint32_t counters = bench.block(AMOEBA_COUNTERS_TYPE) + AMOEBA_COUNTERS_VALUE;
    check(bench.read(counters + 4 * AMOEBA_COUNTER_REQUESTS_SENT) == 1, "the counter of requests");
    std::printf("%6lu  all as it should be\n", bench.cycle);
    return 0;
}
