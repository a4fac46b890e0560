/* Rounds of operations of every kind, for a program in Python that looks at what they leave behind. */
#include "opened.h"

void begin(void) { open_all(); }
void finish(void) { close_all(); }

static void fails(int expected) {
    struct fi_cq_data_entry entry;
    struct fi_cq_err_entry error = { 0 };
    while (fi_cq_sread(cq, &entry, 1, NULL, 10000) == -FI_EAGAIN)
        ;
    IS(fi_cq_readerr(cq, &error, 0), 1);
    if (expected)
        IS(error.err, expected);
}

/* Ten operations each, of which one fails, and one is cancelled. */
void rounds(int count) {
    uint64_t one = 1, zero = 0, old, *target = (uint64_t *)memory;
    char in[64], out[64] = "message";
    for (int round = 0; round < count; round++) {
        int completions = 9;
        OK(fi_recv(ep, in, 64, NULL, FI_ADDR_UNSPEC, NULL));
        OK(fi_send(ep, out, 64, NULL, self, NULL));
        OK(fi_trecv(ep, in, 64, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
        OK(fi_tsend(ep, out, 64, NULL, self, 5, NULL));
        OK(fi_write(ep, out, 64, NULL, self, 64, 7, NULL));
        OK(fi_read(ep, in, 64, NULL, self, 64, 7, NULL));
        OK(fi_atomic(ep, &one, 1, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
        OK(fi_fetch_atomic(ep, &one, 1, NULL, &old, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
        OK(fi_compare_atomic(ep, &one, 1, NULL, &zero, NULL, &old, NULL, self, 8, 7, FI_UINT64, FI_CSWAP, NULL));
        OK(fi_inject_write(ep, out, 8, self, 256, 7));
        while (completions--)
            done();
        OK(fi_write(ep, &one, 8, NULL, self, 0, 4711, &one)); /* there is no such key */
        fails(0);
        OK(fi_recv(ep, in, 64, NULL, FI_ADDR_UNSPEC, in));
        OK(fi_cancel(&ep->fid, in));
        fails(FI_ECANCELED);
    }
    IS(target[1] == 1 && target[0] % 2 == 0, 1);
}
