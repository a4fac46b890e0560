/* Calls of C's threads in a process whose program runs Python, too: they never wait for Python's lock for long.
 *
 * The program may keep the lock for ever: an extension's main thread joins its progress thread while it holds it. A thread
 * that has begun to wait for the lock cannot stop waiting, so a deputy waits in its place, and makes the call. The caller
 * waits for the deputy, for a short time. A call that has not begun by then is never made; one that has goes on.
 *
 * A call that asks to be woken may have a bell instead, an eventfd: C rings it without Python, and the caller wakes. */
#include <Python.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LONGEST 20000000L /* nanoseconds: several turns of Python's threads, which have 5 ms each */
#define SECOND 1000000000L

enum stage { FREE, ORDERED, BEGUN, DONE };
static struct {
    enum stage stage;
    int abandoned; /* nobody waits for its end */
    intptr_t (*call)(uintptr_t);
    uintptr_t argument;
    intptr_t result;
} order;
static pthread_mutex_t desk = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static int there;
static __thread int is_deputy;
static struct bell {
    uintptr_t object;
    int descriptor;
    struct bell *next;
} *bells;

static void *deputy(void *unused) {
    is_deputy = 1;
    pthread_mutex_lock(&desk);
    for (;;) {
        PyGILState_STATE gil;
        while (order.stage != ORDERED)
            pthread_cond_wait(&changed, &desk);
        pthread_mutex_unlock(&desk);
        gil = PyGILState_Ensure(); /* as long as it takes; the thread ends here if Python does */
        pthread_mutex_lock(&desk);
        if (order.stage == ORDERED && !order.abandoned) {
            intptr_t result;
            order.stage = BEGUN;
            pthread_mutex_unlock(&desk);
            result = order.call(order.argument);
            pthread_mutex_lock(&desk);
            order.result = result;
        }
        order.stage = order.abandoned ? FREE : DONE;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&desk);
        PyGILState_Release(gil);
        pthread_mutex_lock(&desk);
    }
    return NULL;
}

/* Whether there is one, from now on if need be. Called at the desk. */
static int appoint(void) {
    pthread_condattr_t clock;
    pthread_t thread;
    if (there)
        return 1;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &clock);
    pthread_condattr_destroy(&clock);
    there = !pthread_create(&thread, NULL, deputy, NULL);
    if (there)
        pthread_detach(thread);
    return there;
}

static int wait_until(const struct timespec *deadline) {
    return pthread_cond_timedwait(&changed, &desk, deadline) != ETIMEDOUT;
}

int amoeba_is_deputy(void) { return is_deputy; }

/* Have the deputy make a call; whether it has returned in time, and what. */
int amoeba_by_deputy(intptr_t (*call)(uintptr_t), uintptr_t argument, intptr_t *result) {
    struct timespec deadline;
    int in_time = 1;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += LONGEST;
    if (deadline.tv_nsec >= SECOND)
        deadline.tv_sec++, deadline.tv_nsec -= SECOND;
    pthread_mutex_lock(&desk);
    in_time = appoint();
    while (in_time && order.stage != FREE)
        in_time = wait_until(&deadline);
    if (in_time) {
        order.call = call, order.argument = argument, order.abandoned = 0, order.stage = ORDERED;
        pthread_cond_broadcast(&changed);
        while (in_time && order.stage != DONE)
            in_time = wait_until(&deadline);
        if (order.stage == DONE) {
            *result = order.result;
            order.stage = FREE;
            pthread_cond_broadcast(&changed);
        } else
            order.abandoned = 1;
    }
    pthread_mutex_unlock(&desk);
    return in_time;
}

/* Give an object a bell, a copy of this eventfd; -1: it has none any more. Whether this was possible. */
int amoeba_set_bell(uintptr_t object, int eventfd) {
    struct bell **place = &bells, *found;
    int done = 1;
    pthread_mutex_lock(&desk);
    while (*place && (*place)->object != object)
        place = &(*place)->next;
    if ((found = *place)) {
        *place = found->next;
        close(found->descriptor);
        free(found);
    }
    if (eventfd >= 0) {
        found = malloc(sizeof *found);
        if (found && (found->descriptor = dup(eventfd)) >= 0) {
            found->object = object, found->next = bells;
            bells = found;
        } else {
            free(found);
            done = 0;
        }
    }
    pthread_mutex_unlock(&desk);
    return done;
}

/* Ring the bell of an object; whether it has one. */
int amoeba_ring(uintptr_t object) {
    struct bell *each;
    pthread_mutex_lock(&desk);
    for (each = bells; each && each->object != object;)
        each = each->next;
    if (each)
        eventfd_write(each->descriptor, 1);
    pthread_mutex_unlock(&desk);
    return each != NULL;
}

/* A child of the process has none of its threads. */
void amoeba_deputy_forked(void) {
    pthread_mutex_init(&desk, NULL);
    order.stage = FREE;
    there = 0;
    bells = NULL;
}
