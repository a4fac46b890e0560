// The register bus: an AXI4-Lite master that performs queued accesses one at a time, in order.

#pragma once

#include <deque>

#include "common.h"

class RegisterBus {
public:
    struct Refused {
        uint32_t offset;
        uint32_t response;
    };

    RegisterBus(Stalls& stalls, Violation&) : stalls_(stalls) {}

    std::deque<Refused> refused_writes;

    void clear(Vtop& top) {
        accesses_.clear();
        refused_writes.clear();
        active_ = false;
        top.bar___05Fawvalid = top.bar___05Fwvalid = top.bar___05Farvalid = 0;
        top.bar___05Fbready = top.bar___05Frready = 0;
    }

    void write(uint32_t offset, uint32_t value) { accesses_.push_back({offset, value, true, 0}); }
    void read(uint32_t offset) { accesses_.push_back({offset, 0, false, ++last_read_}); }
    // Gives up on the accesses still queued, as a host does after a completion timeout.
    void abandon() { accesses_.erase(accesses_.begin() + active_, accesses_.end()); }

    // Whether accesses are on the bus, or wait for it.
    bool busy() const { return !accesses_.empty(); }
    // Whether the latest read was answered; answers to abandoned ones do not count.
    bool read_done() const { return answered_read_ == last_read_; }
    uint32_t read_value() const { return read_value_; }
    uint32_t read_response() const { return read_response_; }

    // Takes note of the transfers of a cycle.
    void sample(const Vtop& top, uint64_t) {
        if (!active_) return;
        address_done_ |= top.bar___05Fawvalid & top.bar___05Fawready;
        address_done_ |= top.bar___05Farvalid & top.bar___05Farready;
        data_done_ |= top.bar___05Fwvalid & top.bar___05Fwready;
        if (top.bar___05Fbvalid && top.bar___05Fbready) {
            if (top.bar___05Fbresp != 0) {
                refused_writes.push_back({accesses_.front().offset, top.bar___05Fbresp});
            }
            finish();
        } else if (top.bar___05Frvalid && top.bar___05Frready) {
            answered_read_ = accesses_.front().number;
            read_value_ = top.bar___05Frdata;
            read_response_ = top.bar___05Frresp;
            finish();
        }
    }

    // Sets the inputs of the design for the next cycle.
    void drive(Vtop& top) {
        if (!active_ && !accesses_.empty() && !stalls_()) {
            active_ = true;
            address_done_ = data_done_ = false;
        }
        const bool write = active_ && accesses_.front().write;
        const bool read = active_ && !accesses_.front().write;
        top.bar___05Fawvalid = write && !address_done_;
        top.bar___05Fwvalid = write && !data_done_;
        top.bar___05Farvalid = read && !address_done_;
        top.bar___05Fbready = write && address_done_ && data_done_ && !stalls_();
        top.bar___05Frready = read && address_done_ && !stalls_();
        if (!active_) return;
        const Access& access = accesses_.front();
        top.bar___05Fawaddr = top.bar___05Faraddr = access.offset;
        top.bar___05Fwdata = access.value;
        top.bar___05Fwstrb = 0xF;
    }

private:
    struct Access {
        uint32_t offset;
        uint32_t value;
        bool write;
        uint64_t number;  // of a read
    };

    void finish() {
        active_ = false;
        accesses_.pop_front();
    }

    Stalls& stalls_;
    std::deque<Access> accesses_;
    bool active_ = false;  // the front access is on the bus
    bool address_done_ = false, data_done_ = false;
    uint64_t last_read_ = 0, answered_read_ = 0;
    uint32_t read_value_ = 0, read_response_ = 0;
};
