/* Calls of libtiny.so.1 by a program that knows nothing of Python: tiny TEST [ARGUMENTS]; 0 if all is as it should be. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct pair { int first; int64_t second; };
typedef void (*callback)(void *argument, int status);
int tiny_nop(int), tiny_open(uint64_t *), tiny_link(uint64_t, char *, size_t, uint16_t *), tiny_close(uint64_t);
int tiny_fill(void *, size_t, int), tiny_call(callback, void *, int), tiny_raise(int), tiny_pair(struct pair *);
int tiny_wait(uint64_t, int *, double), tiny_outer(int);
int64_t tiny_sum(const void *, size_t);
void *tiny_pointer(int);

#define CHECK(got, want)                                                                                               \
    do {                                                                                                               \
        long long got_ = (long long)(got), want_ = (long long)(want);                                                  \
        if (got_ != want_) {                                                                                           \
            fprintf(stderr, "line %d: %s: expected %lld, got %lld\n", __LINE__, #got, want_, got_);                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static long resident(void) { /* kB */
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
        exit(2);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int open_files(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        count += !access(path, F_OK);
    }
    return count;
}

static void add(void *argument, int status) { *(int *)argument += status; }
static void again(void *argument, int status) { *(int *)argument += tiny_nop(status); }
static void leave(void *argument, int status) { exit(*(int *)argument); }

static void calls(void) {
    struct pair pair = {-5, 0};
    uint8_t data[1000];
    int sum = 0;
    CHECK(tiny_nop(41), 41);
    CHECK(tiny_outer(3), 7);
    CHECK(tiny_fill(data, sizeof data, 7), 0);
    CHECK(tiny_sum(data, sizeof data), 7000);
    CHECK(tiny_pair(&pair), 0);
    CHECK(pair.second, -5);
    CHECK(tiny_call(add, &sum, 5), 0);
    CHECK(sum, 10);
    CHECK(tiny_call(again, &sum, 5), 0);
    CHECK(sum, 20);
    CHECK((intptr_t)tiny_pointer(0), 4096);
    CHECK((intptr_t)tiny_pointer(1), 0);
}

static void garbage(void) {
    uint64_t handle = 0, other = 0;
    CHECK(tiny_open(NULL), -22);
    CHECK(tiny_sum(NULL, 1), -22);
    CHECK(tiny_sum(NULL, 0), 0);
    CHECK(tiny_sum(&handle, SIZE_MAX), -22);
    CHECK(tiny_call(NULL, NULL, 1), -22);
    CHECK(tiny_close(0), -9);
    CHECK(tiny_close(UINT64_MAX), -9);
    CHECK(tiny_close((uint64_t)(uintptr_t)&handle), -9);
    CHECK(tiny_open(&handle), 0);
    CHECK(tiny_close(handle + 1), -9);
    CHECK(tiny_close(handle), 0);
    CHECK(tiny_close(handle), -9);
    CHECK(tiny_open(&other), 0);
    CHECK(other != handle, 1);
    CHECK(tiny_close(other), 0);
}

static void raises(void) {
    CHECK(tiny_raise(0), -11);
    for (int what = 1; what < 6; what++)
        CHECK(tiny_raise(what), -256);
    CHECK(tiny_nop(1 << 30), 1 << 30);
}

static void fork_in_the_middle(void) {
    uint64_t handle, other;
    char host[16];
    uint16_t port, second;
    int status;
    CHECK(tiny_open(&handle), 0);
    CHECK(tiny_link(handle, host, sizeof host, &port), 0);
    for (int child = 0; child < 3; child++)
        if (!fork()) {
            alarm(20);
            CHECK(tiny_nop(1), 1);
            CHECK(tiny_open(&other), 0);
            CHECK(tiny_link(other, host, sizeof host, &second), 0);
            CHECK(second != port, 1);
            CHECK(tiny_close(handle), 0);
            if (child == 1)
                _exit(tiny_close(other));
            exit(0);
        }
    for (int child = 0; child < 3; child++) {
        CHECK(wait(&status) > 0, 1);
        CHECK(status, 0);
    }
    CHECK(tiny_link(handle, host, sizeof host, &second), 0);
    CHECK(second, port);
    CHECK(tiny_close(handle), 0);
}

static void *many_calls(void *argument) {
    for (int i = 0; i < 2000; i++)
        CHECK(tiny_nop(i), i);
    return argument;
}

static int flag;
static uint64_t waiting_for;
static void *wait_for_flag(void *argument) {
    CHECK(tiny_wait(waiting_for, &flag, 60.0), 0);
    return argument;
}

static void threads(void) {
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, many_calls, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    CHECK(tiny_open(&waiting_for), 0);
    pthread_create(&thread[0], NULL, wait_for_flag, NULL);
    many_calls(NULL); /* while another waits */
    flag = 1;
    pthread_join(thread[0], NULL);
    CHECK(tiny_close(waiting_for), 0);
}

static void memory(void) {
    uint64_t handle;
    static uint8_t data[1001];
    long before = 0;
    int files = 0, sum = 0;
    for (int round = 0; round < 11; round++) {
        for (int i = 0; i < 1000; i++) {
            tiny_nop(i);
            tiny_sum(data, i);
            tiny_fill(data, i, i & 255);
            tiny_call(add, &sum, 1);
            tiny_raise(0);
            tiny_close(i);
            tiny_pointer(i & 1);
            tiny_fill(data, 1 + i, 0);
            tiny_link(i, NULL, 0, NULL);
            tiny_outer(i);
        }
        if (round == 0)
            before = resident();
    }
    if (resident() > before + 256) {
        fprintf(stderr, "100,000 calls: from %ld to %ld kB\n", before, resident());
        exit(1);
    }
    for (int i = 0; i < 10; i++) {
        CHECK(tiny_open(&handle), 0);
        CHECK(tiny_close(handle), 0);
        if (i == 0)
            files = open_files();
    }
    CHECK(open_files(), files);
}

static void cost(void) {
    struct timespec from, to;
    int calls = 100000;
    tiny_nop(0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int i = 0; i < calls; i++)
        tiny_nop(i);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    printf("%.3f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / calls / 1e3);
}

static void at_exit(void) { /* registered before Python's start: called when Python has ended */
    if (tiny_nop(1) != -107)
        _exit(3);
}

int main(int count, char **arguments) {
    const char *test = count > 1 ? arguments[1] : "";
    static uint64_t handle;
    int code = 5;
    if (!strcmp(test, "late"))
        atexit(at_exit);
    if (!strcmp(test, "failing")) {
        CHECK(tiny_nop(1), -107);
        CHECK(tiny_nop(1), -107);
        CHECK((intptr_t)tiny_pointer(0), 0);
        return 0;
    }
    if (!strcmp(test, "calls")) calls();
    else if (!strcmp(test, "garbage")) garbage();
    else if (!strcmp(test, "raises")) raises();
    else if (!strcmp(test, "fork")) fork_in_the_middle();
    else if (!strcmp(test, "threads")) threads();
    else if (!strcmp(test, "memory")) memory();
    else if (!strcmp(test, "cost")) cost();
    else if (!strcmp(test, "late")) CHECK(tiny_open(&handle), 0);
    else if (!strcmp(test, "sleep")) { CHECK(tiny_open(&handle), 0); puts("here"); fflush(stdout); pause(); }
    else if (!strcmp(test, "signal")) { CHECK(tiny_open(&handle), 0); puts("here"); fflush(stdout); tiny_wait(handle, &flag, 60); }
    else if (!strcmp(test, "leave")) { CHECK(tiny_open(&handle), 0); tiny_call(leave, &code, 1); }
    else return 9;
    return 0;
}
