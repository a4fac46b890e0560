// The network side of the NIC: AXI-Stream frames in both directions, one frame per packet, and the MAC's part of flow
// control: it lets no frame begin while its link partner has said so, and tells it how full its own buffer is.

#pragma once

#include <deque>
#include <vector>

#include "common.h"

class Link {
public:
    struct Frame {
        uint64_t cycle;
        std::vector<uint8_t> data;
    };

    Link(Stalls& stalls, Violation& violation) : stalls_(stalls), violation_(violation) {}

    struct Pause {
        uint64_t cycle;
        bool stop;
    };

    std::deque<Frame> coming;  // in order, for cycles ahead
    std::deque<Frame> sent;
    std::deque<Pause> stops;  // what the link partner says, for cycles ahead
    std::deque<Pause> told;   // what the link partner has been told, and not taken
    uint64_t overflowed = 0;  // frames that found no space

    // Bytes of frames that have arrived and may wait; above `stop_above` of them the link partner is told to stop, and
    // at `go_at` to go on.
    void bound(uint64_t space, uint64_t stop_above, uint64_t go_at) {
        space_ = space;
        stop_above_ = stop_above;
        go_at_ = go_at;
    }

    void clear(Vtop& top, uint64_t cycle) {
        coming.clear();
        arriving_.clear();
        sent.clear();
        held_ = 0;
        tell(cycle);
        building_.clear();
        position_ = 0;
        offered_ = false;
        tx_rule_.clear();
        top.rx___05Ftvalid = 0;
        top.tx___05Ftready = 0;
    }

    // Whether a frame is being received, or has been sent and not taken.
    bool busy() const { return position_ != 0 || offered_ || !building_.empty() || !sent.empty(); }

    // Takes note of the transfers of `cycle`.
    void sample(const Vtop& top, uint64_t cycle) {
        if (top.rx___05Ftvalid && top.rx___05Ftready) {
            offered_ = false;
            position_ += BEAT;
            if (top.rx___05Ftlast) {
                held_ -= arriving_.front().data.size();
                arriving_.pop_front();
                position_ = 0;
                tell(cycle);
            }
        }
        tx_rule_.check(top.tx___05Ftvalid, top.tx___05Ftready, &top.tx___05Ftdata, BEAT, cycle, violation_);
        if (top.tx___05Ftvalid && top.tx___05Ftready) sample_sent(top, cycle);
    }

    // Sets the inputs of the design for `cycle`.
    void drive(Vtop& top, uint64_t cycle) {
        while (!stops.empty() && stops.front().cycle <= cycle) {
            stopped_ = stops.front().stop;
            stops.pop_front();
        }
        // What has begun is sent to its end.
        top.tx___05Ftready = !stalls_() && !(stopped_ && building_.empty());
        admit(cycle);
        // What has been offered stays; a new beat may be withheld.
        offered_ = offered_ || (!arriving_.empty() && !stalls_());
        top.rx___05Ftvalid = offered_;
        if (offered_) drive_received(top);
    }

private:
    // Tells the link partner what follows from how much is held, if that is news.
    void tell(uint64_t cycle) {
        const bool stop = stopping_ ? held_ > go_at_ : held_ > stop_above_;
        if (stop == stopping_) return;
        stopping_ = stop;
        told.push_back({cycle, stop});
    }

    // What has arrived by now is held, or finds no space.
    void admit(uint64_t cycle) {
        while (!coming.empty() && coming.front().cycle <= cycle) {
            const uint64_t size = coming.front().data.size();
            if (held_ + size > space_) {
                ++overflowed;
            } else {
                held_ += size;
                arriving_.push_back(std::move(coming.front()));
            }
            coming.pop_front();
        }
        tell(cycle);
    }

    void sample_sent(const Vtop& top, uint64_t cycle) {
        const uint64_t keep = top.tx___05Ftkeep & FULL_BEAT;
        const uint32_t size = __builtin_popcountll(keep);
        const bool contiguous = (keep & (keep + 1)) == 0;
        if (!contiguous || (top.tx___05Ftlast ? size == 0 : size != BEAT)) {
            violation_.report(
                "cycle %llu: tx TKEEP %#llx with TLAST %d: expected all bytes, or on the last beat the lower ones",
                static_cast<unsigned long long>(cycle), static_cast<unsigned long long>(keep),
                static_cast<int>(top.tx___05Ftlast));
        }
        const auto* bytes = reinterpret_cast<const uint8_t*>(&top.tx___05Ftdata);
        building_.insert(building_.end(), bytes, bytes + size);
        if (top.tx___05Ftlast) {
            sent.push_back({cycle, std::move(building_)});
            building_.clear();
        }
    }

    void drive_received(Vtop& top) {
        const std::vector<uint8_t>& data = arriving_.front().data;
        const uint32_t left = data.size() - position_;
        const uint32_t size = left < BEAT ? left : BEAT;
        uint8_t beat[BEAT] = {0};
        memcpy(beat, data.data() + position_, size);
        memcpy(reinterpret_cast<uint8_t*>(&top.rx___05Ftdata), beat, BEAT);
        top.rx___05Ftkeep = FULL_BEAT >> (BEAT - size);
        top.rx___05Ftlast = left <= BEAT;
    }

    Stalls& stalls_;
    Violation& violation_;
    SourceRule tx_rule_{"tx"};
    std::vector<uint8_t> building_;
    uint32_t position_ = 0;  // of the beat on offer, in the frame at the front of `arriving_`
    bool offered_ = false;
    std::deque<Frame> arriving_;  // the front one may be on the wire
    uint64_t held_ = 0;           // bytes of them
    uint64_t space_ = ~uint64_t{0}, stop_above_ = ~uint64_t{0}, go_at_ = ~uint64_t{0};
    bool stopped_ = false;   // by the link partner
    bool stopping_ = false;  // the link partner
};
