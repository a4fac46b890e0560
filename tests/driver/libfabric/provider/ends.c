/* A process that ends as its argument says, and one that has it for a peer.
 *
 * ends serve HOW: prints the endpoint's name, and ends when a line comes. ends peer NAME: writes there, and at the next
 * line once more; prints what became of it, and after how many milliseconds. */
#include "opened.h"
#include <pthread.h>
#include <signal.h>
#include <time.h>

static void next_line(void) {
    char heard[16];
    if (!fgets(heard, sizeof heard, stdin))
        exit(2);
}

static void *wait_for_ever(void *unused) {
    struct fi_cq_data_entry entry;
    fi_cq_sread(cq, &entry, 1, NULL, -1);
    return NULL;
}

static void *kill_all(void *unused) {
    usleep(100000);
    raise(SIGKILL);
    return NULL;
}

static void *exit_all(void *unused) {
    usleep(100000);
    exit(0);
}

static int serve(const char *how) {
    char name[64];
    size_t length = sizeof name;
    pthread_t thread;
    open_all();
    OK(fi_getname(&ep->fid, name, &length));
    for (size_t at = 0; at < length; at++)
        printf("%02x", (unsigned char)name[at]);
    puts("");
    fflush(stdout);
    next_line();
    if (!strcmp(how, "return"))
        return 0;
    if (!strcmp(how, "exit"))
        exit(0);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "terminated"))
        raise(SIGTERM);
    if (!strcmp(how, "killed"))
        raise(SIGKILL);
    if (!strcmp(how, "returns beside a call")) {
        pthread_create(&thread, NULL, wait_for_ever, NULL);
        usleep(100000);
        return 0;
    }
    pthread_create(&thread, NULL, strcmp(how, "killed in a call") ? exit_all : kill_all, NULL);
    wait_for_ever(NULL);
    for (;;)
        pause(); /* the call has returned as the process ends: that is the other thread's to do */
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int peer(const char *hex) {
    unsigned char name[64];
    fi_addr_t there;
    struct fi_cq_data_entry entry;
    struct fi_cq_err_entry error = { 0 };
    uint64_t value = 1;
    for (size_t at = 0; at < strlen(hex) / 2 && at < sizeof name; at++)
        sscanf(hex + 2 * at, "%2hhx", &name[at]);
    open_all();
    IS(fi_av_insert(av, name, 1, &there, 0, NULL), 1);
    OK(fi_write(ep, &value, 8, NULL, there, 0, 7, NULL));
    done();
    puts("reached");
    fflush(stdout);
    next_line();
    double begin = seconds();
    OK(fi_write(ep, &value, 8, NULL, there, 0, 7, &value));
    puts("posted");
    fflush(stdout);
    ssize_t got;
    while ((got = fi_cq_sread(cq, &entry, 1, NULL, 1000)) == -FI_EAGAIN)
        ;
    IS(got, -FI_EAVAIL);
    IS(fi_cq_readerr(cq, &error, 0), 1);
    IS(error.op_context == &value, 1);
    printf("%s %.0f\n", fi_strerror(error.err), 1e3 * (seconds() - begin));
    OK(fi_write(ep, &value, 8, NULL, self, 0, 7, NULL)); /* all others are as they were */
    done();
    close_all();
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    return strcmp(argv[1], "serve") ? peer(argv[2]) : serve(argv[2]);
}
