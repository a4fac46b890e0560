/* Sleeping, threads, listeners, and what is told about objects. One test per run, named by the argument. */
#include "program.h"

#include <fcntl.h>
#include <semaphore.h>

static char out[64] = "waits", in[64];
static ucp_request_param_t plain;

static ucp_worker_h new_worker(int event_fd, void *user_data) {
    ucp_worker_params_t params = { .field_mask = 0, .event_fd = event_fd, .user_data = user_data };
    ucp_worker_h made;
    if (event_fd >= 0)
        params.field_mask = UCP_WORKER_PARAM_FIELD_EVENT_FD | UCP_WORKER_PARAM_FIELD_USER_DATA;
    OK(ucp_worker_create(context, &params, &made));
    return made;
}

static int armed(ucp_worker_h which) {
    ucs_status_t status;
    while ((status = ucp_worker_arm(which)) == UCS_ERR_BUSY)
        while (ucp_worker_progress(which))
            ;
    return status;
}

static void test_descriptors_tell(void) {
    struct pollfd poll_fd = { .events = POLLIN };
    struct epoll_event event;
    int epoll = epoll_create(1), mark;
    ucp_worker_h other;
    open_all();
    OK(ucp_worker_get_efd(worker, &poll_fd.fd));
    OK(armed(worker));
    OK(ucp_worker_signal(worker));
    IS(poll(&poll_fd, 1, 5000), 1);
    IS(ucp_worker_arm(worker), UCS_ERR_BUSY);
    OK(ucp_worker_signal(worker));
    OK(ucp_worker_wait(worker)); /* at once */
    OK(ended(ucp_tag_send_nbx(ep, out, 8, 1, &plain)));
    while (!ucp_tag_probe_nb(worker, 1, -1, 0, &(ucp_tag_recv_info_t){ 0 })) {
        if (!ucp_worker_progress(worker))
            OK(ucp_worker_wait(worker));
    }
    other = new_worker(epoll, &mark);
    FAILS(ucp_worker_get_efd(other, &poll_fd.fd));
    OK(armed(other));
    OK(ucp_worker_signal(other));
    IS(epoll_wait(epoll, &event, 1, 5000), 1);
    TRUE(event.data.ptr == &mark);
    ucp_worker_destroy(other);
    close_all();
}

static volatile int stage;
static void *asleep(void *argument) {
    OK(armed(worker));
    stage = 1;
    OK(ucp_worker_wait(worker));
    stage = 2;
    return NULL;
}

static void test_a_thread_that_waits_holds_up_nobody(void) {
    pthread_t thread;
    ucp_context_h mine;
    open_all();
    pthread_create(&thread, NULL, asleep, NULL);
    while (!stage)
        usleep(1000);
    mine = new_context(UCP_FEATURE_TAG); /* meanwhile others have their turns */
    ucp_cleanup(mine);
    OK(ucp_worker_signal(worker));
    pthread_join(thread, NULL);
    IS(stage, 2);
    close_all();
}

static void *watches(void *argument) {
    ucp_worker_wait_mem(worker, memory + 64);
    stage++;
    return NULL;
}

static void *flushes(void *argument) {
    for (int turn = 0; turn < 20; turn++) {
        OK(ucp_put(ep, out, 64, there, rkey));
        OK(ucp_worker_flush(worker));
    }
    return NULL;
}

static void test_memory_is_watched(void) {
    pthread_t thread;
    open_all();
    pthread_create(&thread, NULL, watches, NULL);
    usleep(20000);
    OK(ucp_put(ep, out, 8, there + 64, rkey));
    pthread_join(thread, NULL);
    IS(stage, 1);
    close_all();
}

static void test_threads_take_turns(void) {
    pthread_t threads[3];
    open_all();
    for (int index = 0; index < 3; index++)
        pthread_create(&threads[index], NULL, flushes, NULL);
    for (int index = 0; index < 3; index++)
        pthread_join(threads[index], NULL);
    close_all();
}

static ucp_conn_request_h asked;
static void *whose;
static void on_connection(ucp_conn_request_h request, void *arg) { asked = request, whose = arg, called++; }
static ucp_ep_h accepted;
static void on_accepted(ucp_ep_h made, void *arg) { accepted = made, called++; }
static ucp_ep_h failed;
static void on_error(void *arg, ucp_ep_h which, ucs_status_t status) {
    failed = which, told = status, called++;
    TRUE(arg == &failed);
}

static void until_told(void) {
    int before = called;
    until_called(before + 1);
}

static void test_listeners(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    ucp_listener_params_t params = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                   UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                     .sockaddr = { (struct sockaddr *)&at, sizeof at },
                                     .conn_handler = { on_connection, &at } };
    ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
    ucp_conn_request_attr_t client = { .field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR |
                                                     UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID };
    ucp_ep_params_t calls = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = { on_error, &failed } };
    ucp_ep_params_t answers = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST };
    ucp_ep_attr_t its = { .field_mask = UCP_EP_ATTR_FIELD_NAME | UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR |
                                        UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR };
    ucp_listener_h listener, old;
    ucp_ep_h here, other;
    void *request;
    open_all();
    OK(ucp_listener_create(worker, &params, &listener));
    OK(ucp_listener_query(listener, &attr));
    IS(((struct sockaddr_in *)&attr.sockaddr)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    TRUE(((struct sockaddr_in *)&attr.sockaddr)->sin_port != 0);
    params.sockaddr.addr = (struct sockaddr *)&attr.sockaddr;
    IS(ucp_listener_create(worker, &params, &old), UCS_ERR_BUSY);
    calls.sockaddr = (ucs_sock_addr_t){ (struct sockaddr *)&attr.sockaddr, sizeof at };
    OK(ucp_ep_create(worker, &calls, &here));
    until_told();
    TRUE(whose == &at);
    OK(ucp_conn_request_query(asked, &client));
    IS(((struct sockaddr_in *)&client.client_address)->sin_family, AF_INET);
    answers.conn_request = asked;
    OK(ucp_ep_create(worker, &answers, &other));
    FAILS(ucp_ep_create(worker, &answers, &other));
    FAILS(ucp_conn_request_query(asked, &client));
    request = ucp_tag_recv_nbx(worker, in, 8, 1, -1, &plain);
    OK(ended(ucp_tag_send_nbx(here, out, 8, 1, &plain)));
    OK(ended(request));
    OK(ucp_ep_query(here, &its));
    IS(((struct sockaddr_in *)&its.remote_sockaddr)->sin_port, ((struct sockaddr_in *)&attr.sockaddr)->sin_port);
    OK(ended(ucp_ep_close_nbx(other, &plain)));
    until_told(); /* of the other end */
    TRUE(failed == here);
    IS(told, UCS_ERR_CONNECTION_RESET);
    OK(ended(ucp_ep_close_nb(here, UCP_EP_CLOSE_MODE_FORCE)));
    /* refused */
    OK(ucp_ep_create(worker, &calls, &here));
    until_told();
    OK(ucp_listener_reject(listener, asked));
    until_told();
    IS(told, UCS_ERR_REJECTED);
    OK(ended(ucp_ep_close_nb(here, UCP_EP_CLOSE_MODE_FORCE)));
    ucp_listener_destroy(listener);
    /* as it was before */
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER;
    params.accept_handler.cb = on_accepted;
    OK(ucp_listener_create(worker, &params, &old));
    OK(ucp_ep_create(worker, &calls, &here));
    until_told();
    OK(ended(ucp_tag_send_nbx(accepted, out, 8, 1, &plain)));
    ucp_ep_destroy(accepted);
    OK(ended(ucp_ep_close_nb(here, UCP_EP_CLOSE_MODE_FORCE)));
    ucp_listener_destroy(old);
    close_all();
}

static sem_t wanted, done;
static ucp_conn_request_h handed;
static ucp_ep_h of_server;

/* The thread that answers connection requests, which makes progress meanwhile. */
static void *answers_requests(void *unused) {
    ucp_ep_params_t answers = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST };
    sem_wait(&wanted);
    for (int turn = 0; turn < 100; turn++)
        IS(ucp_worker_progress(worker), 0); /* the handler's thread is at it */
    answers.conn_request = handed;
    OK(ucp_ep_create(worker, &answers, &of_server));
    sem_post(&done);
    return NULL;
}

static void *flushes_once(void *unused) {
    stage = 1;
    OK(ucp_worker_flush(worker)); /* waits until the handler has returned */
    return NULL;
}

static void hand_over(ucp_conn_request_h request, void *arg) {
    pthread_create(arg, NULL, flushes_once, NULL);
    while (!stage)
        usleep(1000);
    handed = request;
    sem_post(&wanted);
    sem_wait(&done);
    IS(ucp_worker_progress(worker), 0); /* which no callback may */
    called++;
}

static void test_a_handler_waits_for_a_thread_that_makes_progress(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    pthread_t answering, flushing;
    ucp_listener_params_t params = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                   UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                     .sockaddr = { (struct sockaddr *)&at, sizeof at },
                                     .conn_handler = { hand_over, &flushing } };
    ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
    ucp_ep_params_t calls = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER };
    ucp_listener_h listener;
    ucp_ep_h here;
    void *request;
    open_all();
    sem_init(&wanted, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&answering, NULL, answers_requests, NULL);
    OK(ucp_listener_create(worker, &params, &listener));
    OK(ucp_listener_query(listener, &attr));
    calls.sockaddr = (ucs_sock_addr_t){ (struct sockaddr *)&attr.sockaddr, sizeof at };
    OK(ucp_ep_create(worker, &calls, &here));
    until_told();
    pthread_join(answering, NULL);
    pthread_join(flushing, NULL);
    request = ucp_tag_recv_nbx(worker, in, 8, 1, -1, &plain);
    OK(ended(ucp_tag_send_nbx(here, out, 8, 1, &plain)));
    OK(ended(request));
    ucp_ep_destroy(of_server);
    ucp_ep_destroy(here);
    ucp_listener_destroy(listener);
    close_all();
}

static void *cleans_up(void *unused) {
    stage = 1;
    ucp_cleanup(context); /* waits until the handler has returned */
    stage = 2;
    return NULL;
}

static void outlasts_a_while(ucp_conn_request_h request, void *arg) {
    pthread_create(arg, NULL, cleans_up, NULL);
    while (!stage)
        usleep(1000);
    usleep(50000);
    IS(stage, 1);
    called++;
}

static void test_cleaning_up_waits_for_a_handler_in_another_thread(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    pthread_t cleaning;
    ucp_listener_params_t params = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                   UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                     .sockaddr = { (struct sockaddr *)&at, sizeof at },
                                     .conn_handler = { outlasts_a_while, &cleaning } };
    ucp_listener_attr_t attr = { .field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR };
    ucp_ep_params_t calls = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER };
    ucp_listener_h listener;
    ucp_ep_h here;
    open_all();
    OK(ucp_listener_create(worker, &params, &listener));
    OK(ucp_listener_query(listener, &attr));
    calls.sockaddr = (ucs_sock_addr_t){ (struct sockaddr *)&attr.sockaddr, sizeof at };
    OK(ucp_ep_create(worker, &calls, &here));
    until_told();
    pthread_join(cleaning, NULL);
    IS(stage, 2);
    open_all(); /* all that was open is closed */
    close_all();
}

static ucp_config_t *settings;
static void print_context(FILE *file) { ucp_context_print_info(context, file); }
static void print_worker(FILE *file) { ucp_worker_print_info(worker, file); }
static void print_endpoint(FILE *file) { ucp_ep_print_info(ep, file); }
static void print_memory(FILE *file) { ucp_mem_print_info("4k", context, file); }
static void print_settings(FILE *file) { ucp_config_print(settings, file, "all", UCS_CONFIG_PRINT_CONFIG); }
static void (*const prints[])(FILE *) = { print_context, print_worker, print_endpoint, print_memory, print_settings };

static void *prints_all(void *file) {
    for (size_t index = 0; index < sizeof prints / sizeof *prints; index++) {
        stage = index + 1;
        prints[index](file);
    }
    fclose(file);
    return NULL;
}

/* Print into a pipe with space for nothing. Everything else goes on until the pipe is read. */
static void test_what_is_printed_into_a_full_pipe_holds_up_nobody(void) {
    int ends[2];
    char text[4096];
    pthread_t printing;
    FILE *file;
    open_all();
    OK(ucp_config_read(NULL, NULL, &settings));
    OK(pipe(ends));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], text, sizeof text) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    TRUE(file = fdopen(ends[1], "w"));
    setvbuf(file, NULL, _IONBF, 0);
    pthread_create(&printing, NULL, prints_all, file);
    while (!stage)
        usleep(1000);
    for (int turn = 0; turn < 20; turn++) {
        OK(ucp_put(ep, out, 64, there, rkey));
        OK(ucp_worker_flush(worker));
        usleep(1000);
    }
    IS(stage, 1);
    while (read(ends[0], text, sizeof text) > 0)
        ;
    pthread_join(printing, NULL);
    IS(stage, sizeof prints / sizeof *prints);
    close(ends[0]);
    ucp_config_release(settings);
    close_all();
}

static void test_what_is_told(void) {
    ucp_lib_attr_t lib = { .field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL };
    ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES | UCP_ATTR_FIELD_NAME };
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME, .features = 0x7f,
                            .name = "a context" };
    ucp_ep_params_t changes = { .field_mask = UCP_EP_PARAM_FIELD_USER_DATA, .user_data = &lib };
    ucp_mem_advise_params_t advise = { .field_mask = 7, .address = memory, .length = 64, .advice = UCP_MADV_WILLNEED };
    ucp_config_t *config;
    unsigned major, minor, release;
    char text[32], *printed = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&printed, &length);
    void *pointer;
    ucp_get_version(&major, &minor, &release);
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
    OK(strcmp(text, ucp_get_version_string()));
    OK(ucp_lib_query(&lib));
    IS(lib.max_thread_level, UCS_THREAD_MODE_MULTI);
    OK(ucp_config_read(NULL, NULL, &config));
    OK(ucp_config_modify(config, "RNDV_THRESH", "1000"));
    IS(ucp_config_modify(config, "NO_SUCH_KEY", "1"), UCS_ERR_NO_ELEM);
    FAILS(ucp_config_modify(config, "RNDV_THRESH", "a lot"));
    ucp_config_print(config, stream, "a title", UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_HEADER);
    OK(ucp_init(&params, config, &context));
    ucp_config_release(config);
    OK(ucp_context_query(context, &attr));
    OK(strcmp(attr.name, "a context"));
    IS(attr.memory_types, 1 << UCS_MEMORY_TYPE_HOST);
    ucp_cleanup(context);
    open_all();
    ucp_context_print_info(context, stream);
    ucp_worker_print_info(worker, stream);
    ucp_ep_print_info(ep, stream);
    ucp_mem_print_info("4K", context, stream);
    fclose(stream);
    TRUE(strstr(printed, "# a title") && strstr(printed, "UCX_RNDV_THRESH=1000") && strstr(printed, "UCP context") &&
         strstr(printed, "UCP worker") && strstr(printed, "UCP endpoint") && strstr(printed, "4096 bytes"));
    OK(ucp_rkey_ptr(rkey, there + 8, &pointer));
    TRUE(pointer == memory + 8);
    IS(ucp_rkey_ptr(rkey, there - 8, &pointer), UCS_ERR_INVALID_ADDR);
    OK(UCS_PTR_STATUS(ucp_ep_modify_nb(ep, &changes)));
    changes.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    PFAILS(ucp_ep_modify_nb(ep, &changes));
    OK(ucp_mem_advise(context, memh, &advise));
    advise.length = sizeof memory + 1;
    FAILS(ucp_mem_advise(context, memh, &advise));
    close_all();
}

static char source[sizeof memory];

static void test_a3_a_forced_close_cancels_operations_and_flushes(void) {
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                               .err_mode = UCP_ERR_HANDLING_MODE_PEER };
    ucp_request_param_t force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE };
    void *packed, *requests[6];
    size_t size;
    ucp_ep_h mine;
    ucp_rkey_h key;
    open_all();
    params.address = address;
    OK(ucp_ep_create(worker, &params, &mine));
    OK(ucp_rkey_pack(context, memh, &packed, &size));
    OK(ucp_ep_rkey_unpack(mine, packed, &key));
    ucp_rkey_buffer_release(packed);
    memset(source, 0x11, sizeof source);
    for (int index = 0; index < 4; index++)
        requests[index] = ucp_put_nbx(mine, source, sizeof source, there, key, &plain);
    requests[4] = ucp_ep_flush_nbx(mine, &plain);
    requests[5] = ucp_worker_flush_nbx(worker, &plain);
    while (!*(volatile char *)memory)
        ucp_worker_progress(worker);
    ucp_rkey_destroy(key);
    TRUE(ucp_ep_close_nbx(mine, &force) == NULL);
    for (int index = 3; index < 6; index++)
        IS(ucp_request_check_status(requests[index]), UCS_ERR_CANCELED);
    memset(source, 0xEE, sizeof source);
    for (int index = 0; index < 6; index++) {
        TRUE(ucp_request_check_status(requests[index]) != UCS_INPROGRESS);
        ucp_request_free(requests[index]);
    }
    for (int turn = 0; turn < 300; turn++)
        ucp_worker_progress(worker);
    TRUE(!memchr(memory, 0xEE, sizeof memory));
    close_all();
}

int main(int argc, char **argv) {
    static const struct test tests[] = {
        T(descriptors_tell), T(a_thread_that_waits_holds_up_nobody), T(memory_is_watched), T(threads_take_turns),
        T(listeners), T(a_handler_waits_for_a_thread_that_makes_progress),
        T(cleaning_up_waits_for_a_handler_in_another_thread), T(what_is_printed_into_a_full_pipe_holds_up_nobody),
        T(what_is_told), T(a3_a_forced_close_cancels_operations_and_flushes),
    };
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
