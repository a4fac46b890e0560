// Moves pages of this process into a file, in one call: whatever of the interpreter lies there must not change between
// the copy and the exchange.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <sys/mman.h>

extern "C" {

// Copies to `alias`, where the file's bytes from `offset` on are mapped, and maps these in place of the original.
int share_pages(uint8_t* start, uint64_t size, int rights, int file, uint64_t offset, uint8_t* alias) {
    memcpy(alias, start, size);
    void* found = mmap(start, size, rights, MAP_SHARED | MAP_FIXED, file, offset);
    return found == start ? 0 : errno;
}

// Whether a page is that of the file, which is mapped at `alias`, too: what is written here appears there.
int is_shared(volatile uint8_t* page, volatile uint8_t* alias) {
    unsigned char resident;
    if (mincore(const_cast<uint8_t*>(page), 1, &resident) != 0) return 0;
    const uint8_t before = *alias;
    bool same = true;
    for (const uint8_t value : {uint8_t{0x5A}, uint8_t{0xA5}}) {  // two: one may stand in another page by chance
        *alias = value;
        same &= *page == value;
    }
    *alias = before;
    return same;
}

}  // extern "C"
