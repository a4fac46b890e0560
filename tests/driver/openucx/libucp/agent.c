/* An agent as NIXL has it: an extension of a program in Python, with a progress thread that knows nothing of Python. */
#define EXPORTED __attribute__((visibility("default")))
#include "program.h"

static pthread_t thread;
static volatile int stop;
static volatile long turns;
static int mode; /* 0: polls, 1: sleeps once it may, 2: makes progress until it may sleep, as NIXL does, 3: waits */
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

/* What its progress thread does for other threads, which wait for it, as in ucxx. */
static void (*volatile errand)(void);
static void by_progress_thread(void (*what)(void)) {
    if (pthread_equal(pthread_self(), thread)) {
        what();
        return;
    }
    for (errand = what; errand;)
        usleep(100);
}

static void *progress(void *unused) {
    while (!stop) {
        if (errand) {
            errand();
            errand = NULL;
        }
        if (!ucp_worker_progress(worker) && mode) {
            if (mode == 3)
                OK(ucp_worker_wait(worker));
            else
                sleep_until_something();
        }
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

static ucp_conn_request_h asked;
static ucp_ep_h client, server;
static volatile ucs_status_t of_client = UCS_OK;
static volatile int sent;

static void accept_it(void) {
    ucp_ep_params_t answers = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = asked };
    OK(ucp_ep_create(worker, &answers, &server));
}

static void on_connection(ucp_conn_request_h request, void *unused) {
    asked = request;
    by_progress_thread(accept_it);
}

static void query_it(void) {
    ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE };
    OK(ucp_worker_query(worker, &attr));
}

static void on_send(void *request, ucs_status_t status, void *unused) {
    by_progress_thread(query_it);
    OK(status);
    sent = 1;
}

static void close_client(void) {
    ucp_request_param_t force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE };
    void *request = ucp_ep_close_nbx(client, &force);
    TRUE(!UCS_PTR_IS_ERR(request));
    if (request)
        ucp_request_free(request);
}

static void on_error(void *unused, ucp_ep_h which, ucs_status_t status) {
    TRUE(which == client);
    by_progress_thread(close_client);
    of_client = status;
}

/* Every callback waits until the progress thread has called UCX. */
EXPORTED int agent_connect(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ucp_listener_params_t params = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                   UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                     .sockaddr = { (struct sockaddr *)&at, sizeof at },
                                     .conn_handler = { on_connection, NULL } };
    ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
    ucp_ep_params_t calls = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = { on_error, NULL } };
    ucp_request_param_t told = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_send }, plain = { 0 };
    ucp_listener_h listener;
    void *receive, *send;
    OK(ucp_listener_create(worker, &params, &listener));
    OK(ucp_listener_query(listener, &attr));
    calls.sockaddr = (ucs_sock_addr_t){ (struct sockaddr *)&attr.sockaddr, sizeof at };
    OK(ucp_ep_create(worker, &calls, &client));
    receive = ucp_tag_recv_nbx(worker, in, sizeof in, 2, -1, &plain);
    send = ucp_tag_send_nbx(client, out, sizeof out, 2, &told); /* it waits until the client is connected */
    TRUE(UCS_PTR_IS_PTR(send));
    while (!sent || (UCS_PTR_IS_PTR(receive) && ucp_request_check_status(receive) == UCS_INPROGRESS))
        usleep(100);
    ucp_request_free(send);
    if (receive)
        ucp_request_free(receive);
    receive = ucp_ep_close_nbx(server, &plain);
    while (of_client == UCS_OK || (UCS_PTR_IS_PTR(receive) && ucp_request_check_status(receive) == UCS_INPROGRESS))
        usleep(100);
    IS(of_client, UCS_ERR_CONNECTION_RESET);
    if (UCS_PTR_IS_PTR(receive))
        ucp_request_free(receive);
    ucp_listener_destroy(listener);
    return strcmp(in, out);
}

static void until_it_stops(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *unused) {
    sent = 1;
    while (!stop)
        usleep(100);
    usleep(50000); /* most likely until the worker is being destroyed */
    sent = 2;
}

/* Leaves a callback that goes on while the progress thread ends. */
EXPORTED int agent_linger(void) {
    ucp_request_param_t told = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.recv = until_it_stops }, plain = { 0 };
    void *receive = ucp_tag_recv_nbx(worker, in, sizeof in, 3, -1, &told);
    void *send = ucp_tag_send_nbx(ep, out, sizeof out, 3, &plain);
    TRUE(UCS_PTR_IS_PTR(receive) && !UCS_PTR_IS_ERR(send));
    while (!sent)
        usleep(100);
    ucp_request_free(receive);
    if (send)
        ucp_request_free(send);
    return 0;
}

/* Whether the callback has returned. */
EXPORTED int agent_lingered(void) { return sent == 2; }

EXPORTED long agent_turns(void) { return turns; }

/* With Python's lock held, as extensions do; a thread that waits is to be waited for without it. */
EXPORTED int agent_delete(void) {
    stop = 1;
    if (mode == 3)
        OK(ucp_worker_signal(worker));
    OK(pthread_join(thread, NULL));
    close_all();
    return 0;
}
