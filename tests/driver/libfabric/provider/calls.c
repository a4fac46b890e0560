/* Calls that a program can get wrong, on libfabric's own functions: each gets a status, and nothing else happens.
 * One test per run, named by the argument. */
#include "opened.h"
#include <dirent.h>
#include <pthread.h>

/* What works, so that the others' refusals say something. */
static void test_everything_works(void) {
    uint64_t one = 1, old = 99, compare = 1, swapped = 0;
    char out[8] = "hello", in[8];
    open_all();
    OK(fi_write(ep, out, 8, NULL, self, 0, 7, NULL));
    done();
    OK(memcmp(memory, out, 8));
    OK(fi_read(ep, in, 8, NULL, self, 0, 7, NULL));
    done();
    OK(memcmp(in, out, 8));
    memset(memory, 0, 8);
    OK(fi_fetch_atomic(ep, &one, 1, NULL, &old, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
    done();
    IS(old, 0);
    one = 77;
    OK(fi_compare_atomic(ep, &one, 1, NULL, &compare, NULL, &swapped, NULL, self, 0, 7, FI_UINT64, FI_CSWAP, NULL));
    done();
    IS(swapped, 1);
    IS(*(uint64_t *)memory, 77);
    OK(fi_recv(ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    OK(fi_send(ep, out, 8, NULL, self, NULL));
    done();
    done();
    OK(fi_trecv(ep, in, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    OK(fi_tinject(ep, out, 8, self, 5));
    done();
    close_all();
}

static void test_null_arguments(void) {
    struct fi_cq_attr attr = { 0 };
    struct fid_cq *made;
    size_t length = 0;
    uint64_t flags = 0;
    open_all();
    FAILS(fi_domain(fabric, NULL, &domain, NULL));
    FAILS(fi_endpoint(domain, NULL, &ep, NULL));
    FAILS(fi_cq_open(domain, NULL, &made, NULL));
    FAILS(fi_cq_open(domain, &attr, NULL, NULL));
    FAILS(fi_av_open(domain, NULL, &av, NULL));
    FAILS(fi_getname(&ep->fid, memory, NULL));
    FAILS(fi_getname(&ep->fid, NULL, &length));
    FAILS(fi_av_insert(av, NULL, 1, &self, 0, NULL));
    FAILS(fi_av_insertsvc(av, NULL, "1", &self, 0, NULL));
    FAILS(fi_av_insertsvc(av, "127.0.0.1", NULL, &self, 0, NULL));
    FAILS(fi_av_lookup(av, 0, memory, NULL));
    FAILS(fi_av_remove(av, NULL, 1, 0));
    FAILS(fi_write(ep, NULL, 8, NULL, self, 0, 7, NULL));
    FAILS(fi_atomic(ep, NULL, 1, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
    FAILS(fi_fetch_atomic(ep, memory, 1, NULL, NULL, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
    FAILS(fi_send(ep, NULL, 8, NULL, self, NULL));
    FAILS(fi_sendmsg(ep, NULL, 0));
    FAILS(fi_recvmsg(ep, NULL, 0));
    FAILS(fi_tsendmsg(ep, NULL, 0));
    FAILS(fi_trecvmsg(ep, NULL, 0));
    FAILS(fi_writemsg(ep, NULL, 0));
    FAILS(fi_readmsg(ep, NULL, 0));
    FAILS(fi_atomicmsg(ep, NULL, 0));
    FAILS(fi_cq_read(cq, NULL, 1));
    FAILS(fi_mr_reg(domain, NULL, 8, FI_REMOTE_WRITE, 0, 8, 0, &mr, NULL));
    FAILS(fi_control(&ep->fid, FI_GETOPSFLAG, NULL));
    FAILS(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &flags, NULL));
    FAILS(fi_ep_bind(ep, &cq->fid, 0));
    close_all();
}

static void test_closed_objects(void) {
    struct fid_ep *old_ep;
    struct fid_cq *old_cq;
    struct fid_mr *old_mr;
    struct fid_av *old_av;
    struct fi_cq_data_entry entry;
    uint64_t one = 1;
    open_all();
    old_ep = ep, old_cq = cq, old_mr = mr, old_av = av;
    close_all();
    IS(fi_close(&old_ep->fid), -FI_EBADF);
    IS(fi_close(&old_mr->fid), -FI_EBADF);
    IS(fi_send(old_ep, &one, 8, NULL, 0, NULL), -FI_EBADF);
    IS(fi_recv(old_ep, &one, 8, NULL, 0, NULL), -FI_EBADF);
    IS(fi_tsend(old_ep, &one, 8, NULL, 0, 1, NULL), -FI_EBADF);
    IS(fi_write(old_ep, &one, 8, NULL, 0, 0, 7, NULL), -FI_EBADF);
    IS(fi_atomic(old_ep, &one, 1, NULL, 0, 0, 7, FI_UINT64, FI_SUM, NULL), -FI_EBADF);
    IS(fi_cq_read(old_cq, &entry, 1), -FI_EBADF);
    IS(fi_av_insert(old_av, memory, 1, NULL, 0, NULL), -FI_EBADF);
    IS(fi_enable(old_ep), -FI_EBADF);
}

static void test_open_ones_keep_what_they_need(void) {
    open_all();
    IS(fi_close(&domain->fid), -FI_EBUSY);
    IS(fi_close(&fabric->fid), -FI_EBUSY);
    IS(fi_close(&cq->fid), -FI_EBUSY);
    IS(fi_close(&av->fid), -FI_EBUSY);
    close_all();
}

static void test_absurd_numbers(void) {
    struct fi_cq_attr attr = { .format = 99 };
    struct fi_av_attr av_attr = { .type = 99 };
    struct fid_cq *made;
    struct fid_av *vector;
    struct iovec iov = { memory, 8 };
    struct fi_rma_iov remote = { 0, 8, 7 };
    struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = (size_t)-1, .addr = self, .rma_iov = &remote,
                              .rma_iov_count = 1 };
    uint64_t one = 1;
    size_t count;
    open_all();
    FAILS(fi_cq_open(domain, &attr, &made, NULL));
    attr.format = FI_CQ_FORMAT_DATA, attr.wait_obj = 77;
    FAILS(fi_cq_open(domain, &attr, &made, NULL));
    attr.wait_obj = FI_WAIT_SET;
    FAILS(fi_cq_open(domain, &attr, &made, NULL));
    attr.wait_obj = FI_WAIT_NONE, attr.flags = ~0ull;
    FAILS(fi_cq_open(domain, &attr, &made, NULL));
    FAILS(fi_av_open(domain, &av_attr, &vector, NULL));
    FAILS(fi_writemsg(ep, &msg, 0));
    msg.iov_count = 1, msg.rma_iov_count = (size_t)-1;
    FAILS(fi_writemsg(ep, &msg, 0));
    msg.rma_iov_count = 1;
    FAILS(fi_writemsg(ep, &msg, ~0ull));
    FAILS(fi_write(ep, memory, (size_t)-1, NULL, self, 0, 7, NULL));
    FAILS(fi_write(ep, memory, 8, NULL, 12345, 0, 7, NULL));
    FAILS(fi_send(ep, memory, (size_t)1 << 40, NULL, self, NULL));
    FAILS(fi_inject(ep, memory, 4000, self));
    IS(fi_atomic(ep, &one, 1, NULL, self, 0, 7, (enum fi_datatype)200, FI_SUM, NULL), -FI_EOPNOTSUPP);
    IS(fi_atomic(ep, &one, 1, NULL, self, 0, 7, FI_UINT64, (enum fi_op)200, NULL), -FI_EOPNOTSUPP);
    IS(fi_atomicvalid(ep, (enum fi_datatype)200, FI_SUM, &count), -FI_EOPNOTSUPP);
    FAILS(fi_atomic(ep, &one, (size_t)-1, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
    FAILS(fi_av_insert(av, memory, (size_t)1 << 60, NULL, 0, NULL));
    FAILS(fi_control(&ep->fid, 4711, NULL));
    FAILS(fi_mr_reg(domain, memory, 8, ~0ull, 0, 8, 0, &mr, NULL));
    FAILS(fi_mr_reg(domain, memory, 8, FI_REMOTE_READ, 0, 7, 0, &mr, NULL)); /* the key is in use */
    FAILS(fi_cancel(&ep->fid, memory));
    FAILS(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 99, &one, 8));
    FAILS(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &one, 3));
    close_all();
}

static void test_wrong_kinds_of_objects(void) {
    open_all();
    FAILS(fi_ep_bind(ep, &fabric->fid, 0));
    FAILS(fi_ep_bind(ep, &domain->fid, 0));
    FAILS(fi_mr_bind(mr, &cq->fid, 0));
    FAILS(fi_listen((struct fid_pep *)ep));
    FAILS(fi_connect(ep, memory, NULL, 0));
    close_all();
}

/* Nothing is written beyond what the arguments allow. */
static void test_short_buffers(void) {
    unsigned char guarded[64];
    size_t length;
    struct fi_eq_cm_entry event;
    uint32_t kind;
    char text[8];
    open_all();
    for (size_t space = 0; space < 16; space++) {
        memset(guarded, 0xEE, sizeof guarded);
        length = space;
        IS(fi_getname(&ep->fid, guarded, &length), -FI_ETOOSMALL);
        IS(length, 16);
        for (size_t at = space; at < sizeof guarded; at++)
            IS(guarded[at], 0xEE);
        memset(guarded, 0xEE, sizeof guarded);
        length = space;
        OK(fi_av_lookup(av, self, guarded, &length));
        for (size_t at = space; at < sizeof guarded; at++)
            IS(guarded[at], 0xEE);
    }
    for (size_t space = 1; space < 24; space++) {
        memset(guarded, 0xEE, sizeof guarded);
        length = space;
        char name[16];
        size_t sixteen = 16;
        OK(fi_getname(&ep->fid, name, &sixteen));
        fi_av_straddr(av, name, (char *)guarded, &length);
        for (size_t at = space; at < sizeof guarded; at++)
            IS(guarded[at], 0xEE);
    }
    IS(fi_eq_read(eq, &kind, &event, 3, 0), -FI_EAGAIN);
    memset(text, 'x', sizeof text);
    fi_cq_strerror(cq, 1, NULL, text, 4);
    IS(text[4], 'x');
    close_all();
}

/* A read gives as many entries as there is space for, and keeps the others. */
static void test_entries_one_at_a_time(void) {
    struct { struct fi_cq_data_entry entry; uint64_t guard; } place = { .guard = 0xABCD };
    uint64_t one = 1;
    open_all();
    for (int index = 0; index < 5; index++)
        OK(fi_atomic(ep, &one, 1, NULL, self, 0, 7, FI_UINT64, FI_SUM, (void *)(intptr_t)(index + 1)));
    for (int index = 0; index < 5; index++) {
        IS(fi_cq_sread(cq, &place.entry, 1, NULL, 10000), 1);
        IS((intptr_t)place.entry.op_context, index + 1);
        IS(place.guard, 0xABCD);
    }
    IS(fi_cq_read(cq, &place.entry, 1), -FI_EAGAIN);
    IS(*(uint64_t *)memory, 5);
    close_all();
}

static void test_failures_are_completions_with_errors(void) {
    struct fi_cq_err_entry error = { 0 };
    struct fi_cq_data_entry entry;
    uint64_t one = 1;
    open_all();
    OK(fi_write(ep, &one, 8, NULL, self, 0, 4711, &one)); /* there is no such key */
    while (fi_cq_sread(cq, &entry, 1, NULL, 10000) == -FI_EAGAIN)
        ;
    IS(fi_cq_readerr(cq, &error, 0), 1);
    IS(error.err > 0, 1);
    IS(error.op_context == &one, 1);
    IS(fi_cq_readerr(cq, &error, 0), -FI_EAGAIN);
    OK(fi_write(ep, &one, 8, NULL, self, sizeof memory, 7, NULL)); /* behind the region */
    while (fi_cq_sread(cq, &entry, 1, NULL, 10000) == -FI_EAGAIN)
        ;
    IS(fi_cq_readerr(cq, &error, 0), 1);
    close_all();
}

static void test_descriptors_tell(void) {
    struct pollfd waited = { .events = POLLIN };
    struct fid *fids[1] = { NULL };
    uint64_t one = 1;
    open_all();
    OK(fi_control(&cq->fid, FI_GETWAIT, &waited.fd));
    fids[0] = &cq->fid;
    OK(fi_trywait(fabric, fids, 1));
    OK(fi_write(ep, &one, 8, NULL, self, 0, 7, NULL));
    for (int tries = 0; tries < 1000; tries++) {
        struct fi_cq_data_entry entry;
        if (fi_trywait(fabric, fids, 1) == 0)
            poll(&waited, 1, 100);
        if (fi_cq_read(cq, &entry, 1) == 1) {
            close_all();
            return;
        }
    }
    fail("no completion", 0, 1);
}

static void test_a_child_has_nothing_of_its_parents(void) {
    int status = -1;
    uint64_t one = 1;
    open_all();
    pid_t child = fork();
    if (!child) {
        FAILS(fi_write(ep, &one, 8, NULL, self, 0, 7, NULL));
        open_all(); /* and can have its own */
        OK(fi_write(ep, &one, 8, NULL, self, 0, 7, NULL));
        done();
        close_all();
        exit(0);
    }
    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    OK(fi_write(ep, &one, 8, NULL, self, 0, 7, NULL));
    done();
    close_all();
}

static long resident(void) {
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        pages = 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE) / 1024;
}

static int entries_of(const char *folder) {
    int count = 0;
    DIR *opened = opendir(folder);
    while (readdir(opened))
        count++;
    closedir(opened);
    return count;
}

/* A thread that has ended is in the folder until the kernel has removed it: waits for at most five seconds. */
static int threads_once_there_are(int expected) {
    int found = entries_of("/proc/self/task");
    for (int waited = 0; found != expected && waited < 5000; waited++) {
        usleep(1000);
        found = entries_of("/proc/self/task");
    }
    return found;
}

/* Objects that are closed leave neither threads nor sockets. */
static void test_nothing_is_left_of_what_is_closed(void) {
    open_all(); /* Python stays */
    close_all();
    usleep(200000);
    int threads = entries_of("/proc/self/task"), files = entries_of("/proc/self/fd");
    open_all();
    IS(entries_of("/proc/self/fd") > files, 1);
    close_all();
    IS(threads_once_there_are(threads), threads);
    IS(entries_of("/proc/self/fd"), files);
}

static struct fid_cq *waited;
static void *wait_for_ever(void *unused) {
    struct fi_cq_data_entry entry;
    return (void *)(intptr_t)fi_cq_sread(waited, &entry, 1, NULL, -1);
}

/* Neither Python's lock nor ours is held by who waits. */
static void test_others_call_while_one_waits(void) {
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
    pthread_t thread;
    uint64_t one = 1;
    void *ended;
    open_all();
    OK(fi_cq_open(domain, &attr, &waited, NULL));
    OK(pthread_create(&thread, NULL, wait_for_ever, NULL));
    usleep(100000); /* it waits, or will: either is right */
    for (int index = 0; index < 50; index++) {
        OK(fi_atomic(ep, &one, 1, NULL, self, 0, 7, FI_UINT64, FI_SUM, NULL));
        done();
    }
    IS(*(uint64_t *)memory, 50);
    OK(fi_cq_signal(waited));
    OK(pthread_join(thread, &ended));
    IS((intptr_t)ended, -FI_ECANCELED);
    OK(fi_close(&waited->fid));
    close_all();
}

static void test_opened_and_closed_often(void) {
    long before = 0;
    for (int round = 0; round < 60; round++) {
        if (round == 20)
            before = resident();
        open_all();
        close_all();
    }
    printf("grown by %ld KiB\n", resident() - before);
    IS(resident() - before < 4096, 1);
}

static void test_ends_without_closing_anything(void) {
    uint64_t one = 1;
    open_all();
    OK(fi_write(ep, &one, 8, NULL, self, 0, 7, NULL));
}

/* As Sandia OpenSHMEM's main branch does. */
static void test_binds_after_enabling(void) {
    open_all();
    for (int turn = 0; turn < 1000; turn++)
        IS(fi_ep_bind(ep, &cntr->fid, FI_WRITE), -FI_EOPBADSTATE);
    close_all();
}

#define T(name) { #name, test_##name }
static const struct { const char *name; void (*run)(void); } tests[] = {
    T(everything_works), T(null_arguments), T(closed_objects), T(open_ones_keep_what_they_need), T(absurd_numbers),
    T(wrong_kinds_of_objects), T(short_buffers), T(entries_one_at_a_time), T(failures_are_completions_with_errors),
    T(descriptors_tell), T(a_child_has_nothing_of_its_parents), T(nothing_is_left_of_what_is_closed),
    T(others_call_while_one_waits), T(opened_and_closed_often), T(ends_without_closing_anything),
    T(binds_after_enabling),
};

int main(int argc, char **argv) {
    for (size_t index = 0; index < sizeof tests / sizeof *tests; index++)
        if (argc == 2 && !strcmp(argv[1], tests[index].name)) {
            tests[index].run();
            return 0;
        }
    for (size_t index = 0; argc == 1 && index < sizeof tests / sizeof *tests; index++)
        puts(tests[index].name);
    return argc != 1;
}
