/* A program that can run Python itself, as LAMMPS does, and uses libtiny.so.1: host TEST [LIBRARY]. */
#include <Python.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

static int (*nop)(int), (*poll_once)(int), (*opened)(uint64_t *), (*closed)(uint64_t);

#define CHECK(got, want)                                                                                               \
    do {                                                                                                               \
        long long got_ = (long long)(got), want_ = (long long)(want);                                                  \
        if (got_ != want_) {                                                                                           \
            fprintf(stderr, "line %d: %s: expected %lld, got %lld\n", __LINE__, #got, want_, got_);                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void load(const char *library) {
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!loaded)
        exit(3);
    nop = (int (*)(int))dlsym(loaded, "tiny_nop");
    poll_once = (int (*)(int))dlsym(loaded, "tiny_poll");
    opened = (int (*)(uint64_t *))dlsym(loaded, "tiny_open");
    closed = (int (*)(uint64_t))dlsym(loaded, "tiny_close");
    dlclose(loaded); /* plugins' loaders do so, and call nevertheless what stays */
}

static uint64_t handle;
static void open_and_close(void) {
    uint64_t own;
    CHECK(opened(&own), 0);
    CHECK(closed(own), 0);
}
static void *in_a_thread(void *function) {
    ((void (*)(void))function)();
    return NULL;
}
static void elsewhere(void (*function)(void)) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_a_thread, (void *)function);
    pthread_join(thread, NULL);
}

static void finalize(void) {
    if (Py_IsInitialized())
        Py_Finalize();
}
static void finalize_ex(void) { CHECK(Py_FinalizeEx(), 0); }

static void test_finalizes_behind(void) {
    open_and_close();
    finalize();
}
static void test_finalizes_before(void) {
    CHECK(opened(&handle), 0);
    finalize();
    CHECK(nop(7), 7);
    CHECK(closed(handle), 0);
}
static void test_finalizes_with_all_open(void) {
    CHECK(opened(&handle), 0);
    finalize_ex();
}
static void test_finalizes_in_another_thread(void) {
    open_and_close();
    elsewhere(finalize);
    open_and_close();
}
static void test_starts_in_another_thread(void) {
    elsewhere(open_and_close);
    finalize_ex();
    finalize();
}
static void test_begins_and_ends_afterwards(void) {
    CHECK(opened(&handle), 0);
    for (int round = 0; round < 3; round++) {
        Py_InitializeEx(0);
        CHECK(PyRun_SimpleString("print('mine', end='')"), 0);
        CHECK(nop(round), round);
        Py_Finalize();
        elsewhere(open_and_close);
    }
    CHECK(closed(handle), 0);
}
static void test_begins_with_python_first(void) {
    Py_Initialize();
    CHECK(PyRun_SimpleString("print('mine', end='')"), 0);
    CHECK(opened(&handle), 0);
    finalize();
    CHECK(Py_IsInitialized(), 0);
    CHECK(nop(7), -107);
    CHECK(closed(handle), -107);
}
static void *polls_in_vain(void *unused) {
    while (poll_once(7) != -11)
        ;
    return NULL;
}
/* With Python's lock held: the thread gets it at most before, and is told that it cannot have it. */
static void joins_with_the_lock(void) {
    pthread_t thread;
    CHECK(PyGILState_Check(), 1);
    pthread_create(&thread, NULL, polls_in_vain, NULL);
    pthread_join(thread, NULL);
    CHECK(poll_once(7), 7);
    CHECK(closed(handle), 0);
}
static void test_joins_with_the_lock_of_its_own(void) {
    Py_Initialize();
    CHECK(opened(&handle), 0);
    joins_with_the_lock();
    finalize();
}
static void test_joins_with_the_lock_of_ours(void) {
    CHECK(opened(&handle), 0);
    Py_Initialize();
    joins_with_the_lock();
    finalize();
}
static volatile int stage;
static void *starts_and_polls(void *unused) {
    CHECK(opened(&handle), 0);
    stage = 1;
    while (stage != 2)
        usleep(1000);
    return polls_in_vain(NULL);
}
static void test_joins_the_starter_with_the_lock(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, starts_and_polls, NULL);
    while (!stage)
        usleep(1000);
    Py_Initialize();
    stage = 2;
    pthread_join(thread, NULL);
    CHECK(closed(handle), 0);
    finalize();
}
static void test_exits_by_python(void) {
    CHECK(opened(&handle), 0);
    Py_Exit(0);
}

#define T(name) { #name, test_##name }
static const struct { const char *name; void (*run)(void); } tests[] = {
    T(finalizes_behind), T(finalizes_before), T(finalizes_with_all_open), T(finalizes_in_another_thread),
    T(starts_in_another_thread), T(begins_and_ends_afterwards), T(begins_with_python_first), T(joins_with_the_lock_of_its_own),
    T(joins_with_the_lock_of_ours), T(joins_the_starter_with_the_lock), T(exits_by_python),
};

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    load(argv[2]);
    for (size_t index = 0; index < sizeof tests / sizeof *tests; index++)
        if (!strcmp(argv[1], tests[index].name)) {
            tests[index].run();
            return 0;
        }
    return 2;
}
