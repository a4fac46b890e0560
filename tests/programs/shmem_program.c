/* An OpenSHMEM 1.4 program: put, get and every atomic of every type that Open MPI 4.1 has them of, each against what it
 * must give.
 * What it calls is declared here, as the specification has it: no header is needed. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shmem_init(void);
void shmem_finalize(void);
int shmem_my_pe(void);
int shmem_n_pes(void);
void *shmem_malloc(size_t size);
void shmem_free(void *ptr);
void shmem_barrier_all(void);
void shmem_quiet(void);
void shmem_putmem(void *dest, const void *source, size_t nelems, int pe);
void shmem_getmem(void *dest, const void *source, size_t nelems, int pe);
void shmem_long_put(long *dest, const long *source, size_t nelems, int pe);
void shmem_long_iput(long *dest, const long *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe);
void shmem_long_p(long *dest, long value, int pe);
long shmem_long_g(const long *source, int pe);

#ifndef LEAST_SWAPPED
#define LEAST_SWAPPED 1 /* bytes of the least that is compared and swapped */
#endif
static int me, pes, left, right;
#define IS(got, expected) do { if (!((got) == (expected))) { \
    printf("line %d, PE %d: %s is not %s\n", __LINE__, me, #got, #expected); fflush(stdout); abort(); } } while (0)

#define EXTENDED(name, type) \
    type shmem_##name##_atomic_fetch(const type *source, int pe); \
    void shmem_##name##_atomic_set(type *dest, type value, int pe); \
    type shmem_##name##_atomic_swap(type *dest, type value, int pe);
#define STANDARD(name, type) EXTENDED(name, type) \
    type shmem_##name##_atomic_compare_swap(type *dest, type cond, type value, int pe); \
    type shmem_##name##_atomic_fetch_inc(type *dest, int pe); \
    void shmem_##name##_atomic_inc(type *dest, int pe); \
    type shmem_##name##_atomic_fetch_add(type *dest, type value, int pe); \
    void shmem_##name##_atomic_add(type *dest, type value, int pe);
#define BITWISE(name, type) \
    type shmem_##name##_atomic_fetch_and(type *dest, type value, int pe); \
    void shmem_##name##_atomic_and(type *dest, type value, int pe); \
    type shmem_##name##_atomic_fetch_or(type *dest, type value, int pe); \
    void shmem_##name##_atomic_or(type *dest, type value, int pe); \
    type shmem_##name##_atomic_fetch_xor(type *dest, type value, int pe); \
    void shmem_##name##_atomic_xor(type *dest, type value, int pe);

/* One variable for each PE, of whom its left neighbour alone is the writer: what comes of each is known. */
#define TRY_EXTENDED(name, type) static void name##_extended(void) { \
        type *cell = shmem_malloc(sizeof *cell); \
        *cell = (type)me; \
        shmem_barrier_all(); \
        IS(shmem_##name##_atomic_fetch(cell, right), (type)right); \
        shmem_##name##_atomic_set(cell, (type)100, right); \
        shmem_quiet(); \
        IS(shmem_##name##_atomic_swap(cell, (type)77, right), (type)100); \
        shmem_barrier_all(); \
        IS(*cell, (type)77); \
        shmem_free(cell); \
    }
#define TRY_STANDARD(name, type) static void name##_standard(void) { \
        type *cell = shmem_malloc(sizeof *cell), *all = shmem_malloc(sizeof *all); \
        *cell = (type)5, *all = 0; \
        shmem_barrier_all(); \
        if (sizeof(type) >= LEAST_SWAPPED) { \
            IS(shmem_##name##_atomic_compare_swap(cell, (type)4, (type)9, right), (type)5); \
            IS(shmem_##name##_atomic_compare_swap(cell, (type)5, (type)9, right), (type)5); \
        } else { \
            shmem_##name##_atomic_set(cell, (type)9, right); \
            shmem_quiet(); \
        } \
        IS(shmem_##name##_atomic_fetch_inc(cell, right), (type)9); \
        shmem_##name##_atomic_inc(cell, right); \
        shmem_quiet(); \
        IS(shmem_##name##_atomic_fetch_add(cell, (type)20, right), (type)11); \
        shmem_##name##_atomic_add(cell, (type)-1, right); \
        shmem_##name##_atomic_add(all, (type)(me + 1), 0); /* of everybody's, at one place */ \
        shmem_barrier_all(); \
        IS(*cell, (type)30); \
        if (!me) IS(*all, (type)(pes * (pes + 1) / 2)); \
        shmem_free(all); \
        shmem_free(cell); \
    }
#define TRY_BITWISE(name, type) static void name##_bitwise(void) { \
        type *cell = shmem_malloc(sizeof *cell); \
        *cell = (type)0x6C; \
        shmem_barrier_all(); \
        IS(shmem_##name##_atomic_fetch_and(cell, (type)0x7E, right), (type)0x6C); \
        shmem_##name##_atomic_and(cell, (type)0x0F, right); \
        shmem_quiet(); \
        IS(shmem_##name##_atomic_fetch_or(cell, (type)0x10, right), (type)0x0C); \
        shmem_##name##_atomic_or(cell, (type)0x01, right); \
        shmem_quiet(); \
        IS(shmem_##name##_atomic_fetch_xor(cell, (type)0xFF, right), (type)0x1D); \
        shmem_##name##_atomic_xor(cell, (type)0x02, right); \
        shmem_barrier_all(); \
        IS(*cell, (type)0xE0); \
        shmem_free(cell); \
    }

#define EXTENDED_ONLY(X) X(float, float) X(double, double)
#define STANDARD_TYPES(X) X(int, int) X(long, long) X(longlong, long long) X(uint, unsigned) X(ulong, unsigned long) \
    X(ulonglong, unsigned long long)
#define BITWISE_TYPES(X) X(uint, unsigned) X(ulong, unsigned long) X(ulonglong, unsigned long long) \
    X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)
EXTENDED_ONLY(EXTENDED)
STANDARD_TYPES(STANDARD)
BITWISE_TYPES(BITWISE)
EXTENDED_ONLY(TRY_EXTENDED)
STANDARD_TYPES(TRY_EXTENDED)
STANDARD_TYPES(TRY_STANDARD)
BITWISE_TYPES(TRY_BITWISE)

static void transfers(void) {
    enum { COUNT = 4096 };
    long *there = shmem_malloc(COUNT * sizeof *there), here[COUNT], *flag = shmem_malloc(sizeof *flag);
    memset(there, 0, COUNT * sizeof *there);
    *flag = 0;
    shmem_barrier_all();
    for (int index = 0; index < COUNT; index++)
        here[index] = 1000 * me + index;
    shmem_long_put(there, here, COUNT, right);
    shmem_barrier_all();
    for (int index = 0; index < COUNT; index++)
        IS(there[index], 1000 * left + index);
    memset(here, 0, sizeof here);
    shmem_getmem(here, there, sizeof here, right);
    for (int index = 0; index < COUNT; index++)
        IS(here[index], 1000 * me + index);
    shmem_barrier_all();
    shmem_long_p(&there[7], -me, right);
    shmem_putmem(&there[9], "amoeba!", 8, right);
    shmem_long_iput(&there[20], here, 3, 2, 5, right);
    shmem_quiet();
    shmem_long_p(flag, 1, right);
    while (shmem_long_g(flag, me) != 1) /* for which every implementation has its own number to wait with */
        ;
    IS(there[7], -left);
    IS(memcmp(&there[9], "amoeba!", 8), 0);
    for (int index = 0; index < 5; index++)
        IS(there[20 + 3 * index], 1000 * left + 2 * index);
    IS(shmem_long_g(&there[7], right), -me);
    shmem_barrier_all();
    shmem_free(flag);
    shmem_free(there);
}

int main(void) {
    shmem_init();
    me = shmem_my_pe(), pes = shmem_n_pes();
    right = (me + 1) % pes, left = (me + pes - 1) % pes;
    transfers();
#define CALL_EXTENDED(name, type) name##_extended();
#define CALL_STANDARD(name, type) name##_standard();
#define CALL_BITWISE(name, type) name##_bitwise();
    EXTENDED_ONLY(CALL_EXTENDED)
    STANDARD_TYPES(CALL_EXTENDED)
    STANDARD_TYPES(CALL_STANDARD)
    BITWISE_TYPES(CALL_BITWISE)
    shmem_barrier_all();
    if (!me)
        puts("every part is right");
    fflush(stdout);
    shmem_finalize();
    return 0;
}
