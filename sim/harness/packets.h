// The transaction layer packets of a NIC on PCI Express, kept while somebody wants to see them.

#pragma once

#include <vector>

#include "nic.h"

class Packets {
public:
    bool enabled = false;

    void clear() { events_.clear(); }

    // Takes note of a packet whose first beat is transferred.
    void note(const amoeba_packet& packet) {
        if (enabled) events_.push_back(packet);
    }

    const amoeba_packet* take(uint64_t& count) {
        taken_.swap(events_);
        events_.clear();
        count = taken_.size();
        return taken_.data();
    }

private:
    std::vector<amoeba_packet> events_, taken_;
};
