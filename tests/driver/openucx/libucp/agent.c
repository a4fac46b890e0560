/* An agent as NIXL has it: an extension of a program in Python, with a progress thread that knows nothing of Python. */
#define EXPORTED __attribute__((visibility("default")))
#include "program.h"

static pthread_t thread;
static volatile int stop;
static volatile long turns;
static int mode; /* 0: polls, 1: sleeps once it may, 2: makes progress until it may sleep, as NIXL does */
static struct pollfd waited = { .events = POLLIN };
static char out[64] = "from the agent", in[64];

static void sleep_until_something(void) {
    ucs_status_t armed = ucp_worker_arm(worker);
    while (mode == 2 && armed == UCS_ERR_BUSY) {
        ucp_worker_progress(worker);
        armed = ucp_worker_arm(worker);
    }
    if (armed == UCS_OK)
        poll(&waited, 1, 10);
}

static void *progress(void *unused) {
    while (!stop) {
        if (!ucp_worker_progress(worker) && mode)
            sleep_until_something();
        turns++;
    }
    return NULL;
}

EXPORTED int agent_new(int wanted) {
    open_all();
    mode = wanted, stop = 0;
    OK(ucp_worker_get_efd(worker, &waited.fd));
    return pthread_create(&thread, NULL, progress, NULL);
}

/* The thread makes progress, and this one waits. */
EXPORTED int agent_exchange(void) {
    ucp_request_param_t plain = { 0 };
    void *receive = ucp_tag_recv_nbx(worker, in, sizeof in, 1, -1, &plain);
    void *send = ucp_tag_send_nbx(ep, out, sizeof out, 1, &plain);
    TRUE(!UCS_PTR_IS_ERR(receive) && !UCS_PTR_IS_ERR(send));
    while (receive && ucp_request_check_status(receive) == UCS_INPROGRESS)
        usleep(100);
    if (receive)
        ucp_request_free(receive);
    while (send && ucp_request_check_status(send) == UCS_INPROGRESS)
        usleep(100);
    if (send)
        ucp_request_free(send);
    return strcmp(in, out);
}

EXPORTED long agent_turns(void) { return turns; }

/* With Python's lock held, as extensions do. */
EXPORTED int agent_delete(void) {
    stop = 1;
    OK(pthread_join(thread, NULL));
    close_all();
    return 0;
}
