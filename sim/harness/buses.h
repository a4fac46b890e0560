// What the NIC's buses do, cycle by cycle, kept as changes: where beats move, and where one waits for the other side.
// Of a NIC on PCI Express only the Ethernet ones.

#pragma once

#include <vector>

#include "common.h"
#include "nic.h"

class Buses {
public:
    void clear() {
        events_.clear();
        for (uint32_t& state : states_) state = IDLE;
    }

    // Takes note of the handshakes of `cycle`.
    void sample(const Vtop& top, uint64_t cycle) {
#if !AMOEBA_PCIE
        note(0, top.host___05Farvalid, top.host___05Farready, cycle);
        note(1, top.host___05Frvalid, top.host___05Frready, cycle);
        note(2, top.host___05Fawvalid, top.host___05Fawready, cycle);
        note(3, top.host___05Fwvalid, top.host___05Fwready, cycle);
        note(4, top.host___05Fbvalid, top.host___05Fbready, cycle);
#endif
        note(5, top.rx___05Ftvalid, top.rx___05Ftready, cycle);
        note(6, top.tx___05Ftvalid, top.tx___05Ftready, cycle);
    }

    // From `cycle` on nothing is known any more.
    void end(uint64_t cycle) {
        for (uint32_t channel = 0; channel < CHANNELS; ++channel) change(channel, IDLE, cycle);
    }

    const amoeba_bus_event* take(uint64_t& count) {
        taken_.swap(events_);
        events_.clear();
        count = taken_.size();
        return taken_.data();
    }

private:
    static constexpr uint32_t CHANNELS = 7;
    static constexpr uint32_t IDLE = 0, MOVES = 1, WAITS = 2;

    void note(uint32_t channel, bool valid, bool ready, uint64_t cycle) {
        change(channel, !valid ? IDLE : ready ? MOVES : WAITS, cycle);
    }

    void change(uint32_t channel, uint32_t state, uint64_t cycle) {
        if (states_[channel] == state) return;
        states_[channel] = state;
        events_.push_back({cycle, channel, state});
    }

    std::vector<amoeba_bus_event> events_, taken_;
    uint32_t states_[CHANNELS] = {};
};
