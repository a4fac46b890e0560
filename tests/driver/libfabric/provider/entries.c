/* Every function of every table, which programs reach through libfabric's inline functions, with arguments that nobody
 * expects: of the wrong kind, NULL, nothing but zeros, the largest numbers. entries.h is made from the tables. */
#include "opened.h"
#include <rdma/fi_collective.h>

enum { SLICE = 4096, SLICES = 16, VARIANTS = 16 };
static unsigned char arena[SLICES * SLICE] __attribute__((aligned(4096)));

/* Argument `which` of a call, and the numbers that it has. */
static void *pointer(int variant, int which) {
    return variant < 2 || variant == 4 + which ? NULL : arena + which * SLICE;
}
static uint64_t number(int variant) { return variant == 0 ? 0 : variant < 3 ? ~0ull : 1; }
#define P(which) pointer(variant, which)
#define NUMBER number(variant)

enum returns { STATUS, OTHER };
struct entry {
    const char *table, *name;
    enum returns returns;
    int pointers; /* how many arguments are some */
    int answers;  /* whether it does more than to say that it is not there */
    long (*call)(const void *table, void *object, int variant);
};
static struct fid_ep *sep, *srx, *alias, *gone;
static char text[256];
static struct fid_stx *stx;
static struct fid_pep *pep;
static struct fid_wait *waits;
static struct fid_poll *polled;
static struct fi_info *msg_info;

#include "entries.h" /* entries, and table_of(name) */

struct object {
    void *object;
    const char *tables; /* those that are for it */
};
#define OF_ENDPOINTS "fi_ops fi_ops_ep fi_ops_cm fi_ops_msg fi_ops_rma fi_ops_tagged fi_ops_atomic fi_ops_collective"

static int has(const char *tables, const char *table) {
    size_t length = strlen(table);
    for (const char *at = tables; (at = strstr(at, table)) != NULL; at += length)
        if (at[length] == ' ' || !at[length])
            return 1;
    return 0;
}

static void check(const struct entry *entry, const struct object *object, int variant) {
    memset(arena, 0, sizeof arena);
    line = __LINE__;
    snprintf(text, sizeof text, "%s.%s on object %s, variant %d", entry->table, entry->name, object->tables, variant);
    puts(text); /* the last one, should the program end here */
    long got = entry->call(table_of(entry->table), object->object, variant);
    if (variant > 2) /* a number of 1, and pointers at zeros: nobody may write more than some entries */
        for (int slice = 0; slice < SLICES; slice++)
            for (int at = SLICE / 2; at < SLICE; at++)
                if (arena[slice * SLICE + at])
                    fail("written far behind the argument", slice * SLICE + at, 0);
    if (!entry->answers && entry->returns == STATUS)
        IS(got, -FI_ENOSYS);
    else if (entry->returns == STATUS && !has(object->tables, entry->table) && got >= 0)
        fail(text, got, -1);
}

static void open_others(void) {
    struct fi_wait_attr wait_attr = { .wait_obj = FI_WAIT_UNSPEC };
    struct fi_poll_attr poll_attr = { 0 };
    struct fid_ep *second;
    OK(fi_scalable_ep(domain, info, &sep, NULL));
    OK(fi_stx_context(domain, info->tx_attr, &stx, NULL));
    OK(fi_srx_context(domain, info->rx_attr, &srx, NULL));
    OK(fi_wait_open(fabric, &wait_attr, &waits));
    OK(fi_poll_open(domain, &poll_attr, &polled));
    msg_info = ask(FI_EP_MSG, FI_MSG);
    OK(fi_passive_ep(fabric, msg_info, &pep, NULL));
    OK(fi_ep_alias(ep, &alias, FI_TRANSMIT));
    OK(fi_endpoint(domain, info, &second, NULL));
    OK(fi_close(&second->fid));
    gone = second;
}

int main(void) {
    static unsigned char forged[256];
    open_all();
    open_others();
    memcpy(forged, ep, sizeof(struct fid_ep)); /* it looks like one, and nobody has made it */
    struct object objects[] = {
        { NULL, "" }, { forged, "" }, { gone, "" },
        { ep, OF_ENDPOINTS }, { alias, OF_ENDPOINTS }, { sep, OF_ENDPOINTS }, { srx, OF_ENDPOINTS },
        { stx, "fi_ops fi_ops_ep" }, { pep, "fi_ops fi_ops_ep fi_ops_cm" },
        { fabric, "fi_ops fi_ops_fabric" }, { domain, "fi_ops fi_ops_domain fi_ops_mr" },
        { av, "fi_ops fi_ops_av" }, { mr, "fi_ops" }, { cq, "fi_ops fi_ops_cq" }, { eq, "fi_ops fi_ops_eq" },
        { cntr, "fi_ops fi_ops_cntr" }, { waits, "fi_ops fi_ops_wait" }, { polled, "fi_ops fi_ops_poll" },
    };
    int calls = 0;
    for (size_t which = 0; which < sizeof objects / sizeof *objects; which++)
        for (size_t index = 0; index < sizeof entries / sizeof *entries; index++) {
            const struct entry *entry = &entries[index];
            if (!strcmp(entry->name, "close") && objects[which].tables[0])
                continue; /* it would succeed */
            for (int variant = 0; variant < 4 + entry->pointers && variant < VARIANTS; variant++, calls++)
                check(entry, &objects[which], variant);
        }
    /* whatever was said, what works goes on to work */
    uint64_t value = 4711;
    struct fi_cq_data_entry entry = { 0 };
    OK(fi_write(ep, &value, 8, NULL, self, 0, 7, &value));
    while (entry.op_context != &value) {
        struct fi_cq_err_entry error = { 0 };
        if (fi_cq_sread(cq, &entry, 1, NULL, 10000) == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1 &&
            error.op_context == &value)
            fail("fi_write", -error.err, 0);
    }
    OK(memcmp(memory, &value, 8));
    printf("%d calls\n", calls);
    return 0;
}
