/* Calls that wait, each in a thread of its own, while three others work: blocks TEST PROGRESS. */
#include "opened.h"
#include <pthread.h>

#define WORKERS 3
#define FAIR_LOCK 20

static struct fid_wait *wait_set;
static struct fid_cntr *member;
static struct fid_eq *events;
static volatile int went_on;

static void open_everything(void) {
    struct fi_wait_attr wait_attr = { .wait_obj = FI_WAIT_UNSPEC };
    struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_SET };
    struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE };
    open_all();
    OK(fi_eq_open(fabric, &eq_attr, &events, NULL));
    OK(fi_wait_open(fabric, &wait_attr, &wait_set));
    attr.wait_set = wait_set;
    OK(fi_cntr_open(domain, &attr, &member, NULL));
}

static void close_everything(void) {
    OK(fi_close(&member->fid));
    OK(fi_close(&wait_set->fid));
    OK(fi_close(&events->fid));
    close_all();
}

/* Each worker's reads are of counters and queues that nobody else has, so that all are safe with either progress. */
static void *works(void *unused) {
    struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
    struct fid_cntr *mine;
    OK(fi_cntr_open(domain, &attr, &mine, NULL));
    for (int turn = 1; turn <= FAIR_LOCK; turn++) {
        uint32_t kind;
        struct fi_eq_cm_entry event;
        OK(fi_cntr_add(mine, 1));
        OK(fi_cntr_wait(mine, turn, -1));
        IS(fi_eq_read(eq, &kind, &event, sizeof event, 0), -FI_EAGAIN);
    }
    OK(fi_close(&mine->fid));
    return NULL;
}

static void atomics(void) {
    uint64_t one = 1;
    for (int turn = 0; turn < FAIR_LOCK; turn++) {
        OK(fi_atomic(ep, &one, 1, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
        done();
    }
    IS(*(uint64_t *)memory, FAIR_LOCK);
}

static void beside(void *(*waits)(void *), void (*let_go)(void)) {
    pthread_t waiting, working[WORKERS];
    open_everything();
    OK(pthread_create(&waiting, NULL, waits, NULL));
    usleep(100000); /* it waits, or will: either is right */
    for (int index = 0; index < WORKERS; index++)
        OK(pthread_create(&working[index], NULL, works, NULL));
    atomics();
    for (int index = 0; index < WORKERS; index++)
        OK(pthread_join(working[index], NULL));
    IS(went_on, 0);
    let_go();
    OK(pthread_join(waiting, NULL));
    IS(went_on, 1);
    close_everything();
}

static void add_to_counter(void) { OK(fi_cntr_add(cntr, 5)); }
static void add_to_member(void) { OK(fi_cntr_add(member, 1)); }
static void write_event(void) {
    struct fi_eq_entry event = { 0 };
    IS(fi_eq_write(events, FI_NOTIFY, &event, sizeof event, 0), (long)sizeof event);
}

static struct fid_cq *other;
static void signal_other(void) { OK(fi_cq_signal(other)); }

static void *waits_for_counter(void *unused) {
    OK(fi_cntr_wait(cntr, 5, -1));
    went_on = 1;
    return NULL;
}
static void *waits_for_failure(void *unused) {
    IS(fi_cntr_wait(cntr, 5, -1), -FI_EAVAIL);
    went_on = 1;
    return NULL;
}
static void *waits_for_set(void *unused) {
    OK(fi_wait(wait_set, -1));
    went_on = 1;
    return NULL;
}
static void *waits_for_event(void *unused) {
    struct fi_eq_entry event;
    uint32_t kind;
    IS(fi_eq_sread(events, &kind, &event, sizeof event, -1, 0), (long)sizeof event);
    went_on = 1;
    return NULL;
}
static void *waits_for_completion(void *unused) {
    struct fi_cq_data_entry entry;
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
    OK(fi_cq_open(domain, &attr, &other, NULL));
    IS(fi_cq_sread(other, &entry, 1, NULL, -1), -FI_ECANCELED);
    went_on = 1;
    OK(fi_close(&other->fid));
    return NULL;
}
static void fail_counter(void) { OK(fi_cntr_adderr(cntr, 1)); }

static void *waits_in_vain(void *unused) {
    uint32_t kind;
    struct fi_eq_entry event;
    struct fi_cq_data_entry entry;
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
    OK(fi_cq_open(domain, &attr, &other, NULL));
    IS(fi_cntr_wait(cntr, 5, 20), -FI_ETIMEDOUT);
    IS(fi_wait(wait_set, 20), -FI_ETIMEDOUT);
    IS(fi_eq_sread(events, &kind, &event, sizeof event, 20, 0), -FI_EAGAIN);
    IS(fi_cq_sread(other, &entry, 1, NULL, 20), -FI_EAGAIN);
    OK(fi_close(&other->fid));
    return NULL;
}

static void test_a_counter(void) { beside(waits_for_counter, add_to_counter); }
static void test_a_failure(void) { beside(waits_for_failure, fail_counter); }
static void test_a_wait_set(void) { beside(waits_for_set, add_to_member); }
static void test_an_event(void) { beside(waits_for_event, write_event); }
static void test_a_completion(void) { beside(waits_for_completion, signal_other); }
static void test_nothing(void) {
    pthread_t waiting;
    open_everything();
    OK(pthread_create(&waiting, NULL, waits_in_vain, NULL));
    atomics();
    OK(pthread_join(waiting, NULL));
    close_everything();
}

#define T(name) { #name, test_##name }
static const struct { const char *name; void (*run)(void); } tests[] = {
    T(a_counter), T(a_failure), T(a_wait_set), T(an_event), T(a_completion), T(nothing),
};

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    progress = strcmp(argv[2], "automatic") ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO;
    for (size_t index = 0; index < sizeof tests / sizeof *tests; index++)
        if (!strcmp(argv[1], tests[index].name)) {
            tests[index].run();
            return 0;
        }
    return 2;
}
