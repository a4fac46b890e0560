/* What libfabric's calls cost between two processes of this host: bench/libfabric.py compiles, runs and explains this.
 *
 * libfabric PROVIDER OPERATIONS WINDOW prints a JSON object: for each call, operations per second of CPU time of both
 * processes, nanoseconds of CPU time in the call alone, and microseconds by the clock for each. Exits with 1, and a line
 * on stderr, if anything fails. */

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WINDOW = 256, TAG = 7, NAME_SIZE = 256, EMPTY_READS = 64, SECONDS = 60 };
enum call { FETCH_ATOMIC, WRITE, TAGGED_SEND, CALLS };

static const char *const names[CALLS] = {"fi_fetch_atomic", "fi_write, 8 bytes", "fi_tsend, 8 bytes"};

/* What one process tells the other, over a pair of sockets. */
struct introduction {
    uint8_t name[NAME_SIZE];
    uint64_t addr, key;
};

/* One of the two processes: an endpoint with what it stands on, and memory for its operations and its peer's. */
struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;
    fi_addr_t peer;
    uint64_t addr, key; /* of the peer's memory */
    int link;           /* to the other process */
    struct {
        uint64_t target, operand, results[MAX_WINDOW], inbox[MAX_WINDOW];
    } memory;
    struct fi_context2 contexts[MAX_WINDOW];
};

static void check(const char *what, int64_t status)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-status));
        exit(1);
    }
}

static void check_system(const char *what, bool good)
{
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static double cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static double clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void tell(struct side *side, const void *bytes, size_t size)
{
    check_system("write to the other process", write(side->link, bytes, size) == (ssize_t)size);
}

static void hear(struct side *side, void *bytes, size_t size)
{
    check_system("read from the other process", recv(side->link, bytes, size, MSG_WAITALL) == (ssize_t)size);
}

static void open_side(struct side *side, const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 4 * MAX_WINDOW};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    bool loopback = strstr(provider, "tcp") != NULL;

    hints->caps = FI_TAGGED | FI_RMA | FI_ATOMIC;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    check("fi_getinfo",
          fi_getinfo(FI_VERSION(1, 14), loopback ? "127.0.0.1" : NULL, NULL, loopback ? FI_SOURCE : 0, hints,
                     &side->info));
    fi_freeinfo(hints);
    check("fi_fabric", fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
    check("fi_domain", fi_domain(side->fabric, side->info, &side->domain, NULL));
    check("fi_cq_open", fi_cq_open(side->domain, &cq_attr, &side->cq, NULL));
    check("fi_av_open", fi_av_open(side->domain, &av_attr, &side->av, NULL));
    check("fi_endpoint", fi_endpoint(side->domain, side->info, &side->ep, NULL));
    check("fi_ep_bind", fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    check("fi_ep_bind", fi_ep_bind(side->ep, &side->av->fid, 0));
    check("fi_enable", fi_enable(side->ep));
    check("fi_mr_reg", fi_mr_reg(side->domain, &side->memory, sizeof side->memory,
                                 FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0,
                                 &side->mr, NULL));
}

/* Exchange names, addresses and keys with the other process. */
static void meet(struct side *side)
{
    struct introduction mine = {.key = fi_mr_key(side->mr)}, other;
    size_t size = sizeof mine.name;

    if (side->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        mine.addr = (uintptr_t)&side->memory.target;
    check("fi_getname", fi_getname(&side->ep->fid, mine.name, &size));
    tell(side, &mine, sizeof mine);
    hear(side, &other, sizeof other);
    side->addr = other.addr;
    side->key = other.key;
    if (fi_av_insert(side->av, other.name, 1, &side->peer, 0, NULL) != 1)
        check("fi_av_insert", -FI_EINVAL);
}

/* Take up to count completions, which also lets the provider work. After many reads without any, the other process
 * may need the processor. */
static size_t take(struct side *side, struct fi_cq_tagged_entry *entries, size_t count)
{
    static unsigned empty;
    ssize_t taken = fi_cq_read(side->cq, entries, count);

    if (taken == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(side->cq, &error, 0);
        taken = -error.err;
    }
    if (taken != -FI_EAGAIN) {
        check("completion", taken);
        empty = 0;
        return (size_t)taken;
    }
    if (++empty % EMPTY_READS == 0)
        sched_yield();
    return 0;
}

static ssize_t post(struct side *side, enum call call, size_t slot)
{
    void *desc = fi_mr_desc(side->mr), *context = &side->contexts[slot];
    uint64_t *operand = &side->memory.operand;

    switch (call) {
    case FETCH_ATOMIC:
        return fi_fetch_atomic(side->ep, operand, 1, desc, &side->memory.results[slot], desc, side->peer, side->addr,
                               side->key, FI_UINT64, FI_SUM, context);
    case WRITE:
        return fi_write(side->ep, operand, sizeof *operand, desc, side->peer, side->addr, side->key, context);
    default:
        return fi_tsend(side->ep, operand, sizeof *operand, desc, side->peer, TAG, context);
    }
}

/* Do operations, a window at a time; returns the CPU time in the calls that were accepted. */
static double operate(struct side *side, enum call call, size_t operations, size_t window)
{
    struct fi_cq_tagged_entry entries[MAX_WINDOW];
    double posting = 0;

    for (size_t done = 0; done < operations; done += window) {
        size_t count = operations - done < window ? operations - done : window, ended = 0;
        double start = cpu_now();
        for (size_t slot = 0; slot < count;) {
            ssize_t status = post(side, call, slot);
            if (status == -FI_EAGAIN) {
                posting += cpu_now() - start;
                ended += take(side, entries, MAX_WINDOW);
                start = cpu_now();
                continue;
            }
            check(names[call], status);
            slot++;
        }
        posting += cpu_now() - start;
        while (ended < count)
            ended += take(side, entries, count - ended);
    }
    return posting;
}

static void receive(struct side *side, size_t slot)
{
    ssize_t status;

    while ((status = fi_trecv(side->ep, &side->memory.inbox[slot], sizeof side->memory.inbox[slot],
                              fi_mr_desc(side->mr), side->peer, TAG, 0, &side->contexts[slot])) == -FI_EAGAIN)
        take(side, NULL, 0);
    check("fi_trecv", status);
}

/* Let the peer operate until it says that it is done: keep the provider going, and receives posted. */
static void serve(struct side *side)
{
    struct fi_cq_tagged_entry entries[MAX_WINDOW];
    char over;

    for (unsigned turn = 0;; turn++) {
        size_t count = take(side, entries, MAX_WINDOW);
        for (size_t index = 0; index < count; index++)
            if (entries[index].flags & FI_RECV)
                receive(side, (size_t)((struct fi_context2 *)entries[index].op_context - side->contexts));
        if (turn % EMPTY_READS == 0) {
            ssize_t heard = recv(side->link, &over, 1, MSG_DONTWAIT);
            if (heard == 1)
                return;
            check_system("the other process is gone", heard != 0);
        }
    }
}

static void target(struct side *side, size_t window)
{
    for (size_t slot = 0; slot < window; slot++)
        receive(side, slot);
    tell(side, "", 1);
    for (int phase = 0; phase < 2 * CALLS; phase++) {
        double begin = cpu_seconds();
        serve(side);
        double spent = cpu_seconds() - begin;
        tell(side, &spent, sizeof spent);
        if (phase == 2 * FETCH_ATOMIC + 1)
            tell(side, &side->memory.target, sizeof side->memory.target);
    }
}

static void initiator(struct side *side, size_t operations, size_t window)
{
    char ready;

    side->memory.operand = 1;
    hear(side, &ready, 1);
    for (enum call call = 0; call < CALLS; call++)
        for (int warm = 0; warm < 2; warm++) {
            size_t count = warm ? operations : window;
            double clock = clock_now(), begin = cpu_seconds(), posting = operate(side, call, count, window);
            clock = clock_now() - clock;
            tell(side, "", 1);
            double spent = cpu_seconds() - begin, other;
            hear(side, &other, sizeof other);
            if (!warm)
                continue;
            if (call == FETCH_ATOMIC) {
                uint64_t sum;
                hear(side, &sum, sizeof sum);
                if (sum != operations + window) {
                    fprintf(stderr, "%zu sums of %zu\n", (size_t)sum, operations + window);
                    exit(1);
                }
            }
            printf("%c\"%s\": {\"per_second\": %.1f, \"call_ns\": %.1f, \"clock_us\": %.3f}", call ? ',' : '{',
                   names[call], count / (spent + other), posting / count * 1e9, clock / count * 1e6);
        }
    printf("}\n");
}

int main(int argc, char **argv)
{
    static struct side side;
    int links[2], status = 0;
    size_t operations = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    size_t window = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;

    if (operations == 0 || window == 0 || window > MAX_WINDOW) {
        fprintf(stderr, "usage: %s PROVIDER OPERATIONS WINDOW, a window of 1 to %d\n", argv[0], MAX_WINDOW);
        return 2;
    }
    check_system("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, links) == 0);
    pid_t other = fork();
    check_system("fork", other >= 0);
    alarm(SECONDS);
    side.link = links[other != 0];
    close(links[other == 0]);
    open_side(&side, argv[1]);
    meet(&side);
    if (other == 0) {
        target(&side, window);
        return 0;
    }
    initiator(&side, operations, window);
    check_system("waitpid", waitpid(other, &status, 0) == other);
    return status != 0;
}
