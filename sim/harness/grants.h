// The IOMMU: which addresses the NIC may access, and where they lie in this process. Found in O(log n).
//
// A grant is for one context, or for all. Grants may overlap if they translate alike, which the caller sees to. They
// are kept, for each context, as the segments into which they cut the address space, each with the number of grants
// that hold it.

#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "common.h"

// What one context may access.
class Reach {
public:
    void add(uint64_t address, uint64_t length, bool writable, uint64_t host) {
        const uint64_t end = address + length, shift = host - address;
        auto segment = split(address);
        split(end);
        for (uint64_t at = address; at < end; at = segment->second.end, ++segment) {
            if (segment == segments_.end() || segment->first != at) {
                const uint64_t until = segment == segments_.end() ? end : std::min(end, segment->first);
                segment = segments_.insert(segment, {at, {until, shift, 0, 0}});
            }
            ++segment->second.grants;
            segment->second.writable += writable;
        }
        join(address, end);
    }

    void remove(uint64_t address, uint64_t length, bool writable) {
        const uint64_t end = address + length;
        auto segment = split(address);
        split(end);
        while (segment != segments_.end() && segment->first < end) {
            segment->second.writable -= writable;
            segment = --segment->second.grants == 0 ? segments_.erase(segment) : std::next(segment);
        }
        join(address, end);
    }

    // Copies [start, end) to `target`, or returns false if that is not allowed. AXI reads whole beats, so it may
    // reach beyond what is granted, within the first beat and the last; bytes that no grant covers read as zero.
    bool read(uint64_t start, uint64_t end, uint8_t* target) const {
        if (end <= start) return false;  // the last page of the address space
        if (!readable(start, end)) return false;
        copy(start, end, target);
        return true;
    }

    // Copies [start, end) to `target`; bytes that no grant covers read as zero.
    void copy(uint64_t start, uint64_t end, uint8_t* target) const {
        memset(target, 0, end - start);
        for (auto segment = first_beyond(start); segment != segments_.end() && segment->first < end; ++segment) {
            const uint64_t from = std::max(start, segment->first), to = std::min(end, segment->second.end);
            memcpy(target + (from - start), reinterpret_cast<const void*>(from + segment->second.shift), to - from);
        }
    }

    // Whether something is granted in the page of 4 KiB that holds `address`: an IOMMU knows pages only.
    bool page_readable(uint64_t address) const {
        const uint64_t page = address & ~uint64_t{4095};
        const auto segment = first_beyond(page);
        return segment != segments_.end() && (segment->first < page || segment->first - page < 4096);
    }

    // Whether every byte of [start, end) lies in a writable grant.
    bool writable(uint64_t start, uint64_t end) const {
        if (end <= start) return false;  // the last page of the address space
        for (auto segment = first_beyond(start); start < end; start = segment->second.end, ++segment) {
            if (segment == segments_.end() || segment->first > start || segment->second.writable == 0) return false;
        }
        return true;
    }

    // Copies to [start, end), which is writable.
    void write(uint64_t start, uint64_t end, const uint8_t* source) const {
        for (auto segment = first_beyond(start); segment != segments_.end() && segment->first < end; ++segment) {
            const uint64_t from = std::max(start, segment->first), to = std::min(end, segment->second.end);
            memcpy(reinterpret_cast<void*>(from + segment->second.shift), source + (from - start), to - from);
        }
    }

private:
    struct Segment {
        uint64_t end;
        uint64_t shift;  // what is added to an address, modulo 2^64, for where it lies in this process
        uint32_t grants, writable;
    };
    using Segments = std::map<uint64_t, Segment>;

    // The first segment that ends beyond `address`.
    Segments::const_iterator first_beyond(uint64_t address) const {
        auto segment = segments_.upper_bound(address);
        if (segment != segments_.begin() && std::prev(segment)->second.end > address) --segment;
        return segment;
    }

    // Whether granted bytes without a gap begin in the first beat of [start, end) and reach its last.
    bool readable(uint64_t start, uint64_t end) const {
        const uint64_t first_end = (start | (BEAT - 1)) + 1;
        auto segment = first_beyond(start);
        while (segment != segments_.end() && segment->first < first_end && segment->first < end) {
            uint64_t reach = segment->second.end;
            for (++segment; reach < end && segment != segments_.end() && segment->first == reach; ++segment) {
                reach = segment->second.end;
            }
            if (end <= ((reach + BEAT - 1) & -uint64_t{BEAT})) return true;
        }
        return false;
    }

    // Lets no segment go across `address`; the first that does not begin before it.
    Segments::iterator split(uint64_t address) {
        auto segment = segments_.lower_bound(address);
        if (segment == segments_.begin()) return segment;
        Segment& before = std::prev(segment)->second;
        if (before.end <= address) return segment;
        segment = segments_.insert(segment, {address, before});
        before.end = address;
        return segment;
    }

    // Makes one of those neighbours that could be, from the segment before `address` to the one at `end`.
    void join(uint64_t address, uint64_t end) {
        auto segment = segments_.lower_bound(address);
        if (segment == segments_.begin() && segment != segments_.end()) ++segment;
        while (segment != segments_.end() && segment->first <= end) {
            Segment &before = std::prev(segment)->second, &own = segment->second;
            if (before.end == segment->first && before.shift == own.shift && before.grants == own.grants &&
                before.writable == own.writable) {
                before.end = own.end;
                segment = segments_.erase(segment);
            } else {
                ++segment;
            }
        }
    }

    Segments segments_;
};

class Grants {
public:
    static constexpr int ALL = -1;

    void add(uint64_t address, uint64_t length, bool writable, uint64_t host, int context) {
        grants_[{address, length, context}].push_back({writable, host});
        if (context != ALL) {
            Own& own = reach_of(context);
            ++own.grants;
            own.reach.add(address, length, writable, host);
            return;
        }
        common_.add(address, length, writable, host);
        for (auto& own : owns_) own.second.reach.add(address, length, writable, host);
    }

    // Of equal grants the oldest.
    bool remove(uint64_t address, uint64_t length, int context) {
        const auto alike = grants_.find({address, length, context});
        if (alike == grants_.end()) return false;
        const bool writable = alike->second.front().writable;
        alike->second.pop_front();
        if (alike->second.empty()) grants_.erase(alike);
        if (context == ALL) {
            common_.remove(address, length, writable);
            for (auto& own : owns_) own.second.reach.remove(address, length, writable);
            return true;
        }
        const auto own = owns_.find(context);
        if (--own->second.grants == 0) {
            owns_.erase(own);
        } else {
            own->second.reach.remove(address, length, writable);
        }
        return true;
    }

    // What a context may access; for ALL, what any may.
    const Reach& of(int context) const {
        const auto own = owns_.find(context);
        return own == owns_.end() ? common_ : own->second.reach;
    }

private:
    struct Grant {
        bool writable;
        uint64_t host;
    };
    struct Own {
        uint32_t grants;
        Reach reach;  // what is granted to all, too
    };

    Own& reach_of(int context) {
        const auto found = owns_.find(context);
        if (found != owns_.end()) return found->second;
        Own& own = owns_[context] = {0, {}};
        for (const auto& [place, alike] : grants_) {
            const auto& [address, length, whose] = place;
            if (whose != ALL) continue;
            for (const Grant& grant : alike) own.reach.add(address, length, grant.writable, grant.host);
        }
        return own;
    }

    std::map<std::tuple<uint64_t, uint64_t, int>, std::deque<Grant>> grants_;  // the oldest first
    Reach common_;
    std::map<int, Own> owns_;
};
