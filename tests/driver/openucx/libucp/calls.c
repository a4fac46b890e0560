/* Calls that a program can get wrong, on UCX's UCP library: each gets a status, and nothing else happens.
 * One test per run, named by the argument. */
#include <sys/resource.h>
#include "program.h"

#define BYTE ucp_dt_make_contig(1)
static char out[64], in[64];
static ucp_tag_recv_info_t info;
static size_t size;
static ucp_request_param_t plain;

static ucs_status_t handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param) { return UCS_OK; }
static ucs_status_t old_handler(void *arg, void *data, size_t length, ucp_ep_h reply, unsigned flags) { return UCS_OK; }

/* All functions, with something that is no context, worker, endpoint, and so on. */
static void all_with(void *bad, FILE *devnull) {
    ucp_config_t *config = bad;
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
    ucp_worker_params_t worker_params = { 0 };
    ucp_ep_params_t ep_params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address };
    ucp_ep_params_t answers = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = bad };
    ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                 .address = memory, .length = 64 };
    ucp_mem_advise_params_t advise = { .field_mask = 7, .address = memory, .length = 64, .advice = UCP_MADV_NORMAL };
    ucp_listener_params_t listen = { 0 };
    ucp_am_handler_param_t am = { .field_mask = 7, .id = 1, .cb = handler };
    ucp_context_attr_t context_attr = { .field_mask = -1 };
    ucp_worker_attr_t worker_attr = { .field_mask = -1 };
    ucp_ep_attr_t ep_attr = { .field_mask = -1 };
    ucp_mem_attr_t mem_attr = { .field_mask = -1 };
    ucp_listener_attr_t listener_attr = { .field_mask = -1 };
    ucp_conn_request_attr_t request_attr = { .field_mask = -1 };
    ucp_request_attr_t attr = { .field_mask = UCP_REQUEST_ATTR_FIELD_STATUS };
    ucp_ep_evaluate_perf_param_t perf = { .field_mask = 1 };
    ucp_ep_evaluate_perf_attr_t perf_attr = { .field_mask = 1 };
    ucp_stream_poll_ep_t ready[1];
    ucp_context_h context_ = bad;
    ucp_worker_h worker_ = bad;
    ucp_ep_h ep_ = bad;
    ucp_mem_h memh_ = bad;
    ucp_rkey_h rkey_ = bad;
    void *where;
    int fd;
    uint32_t word;
    uint64_t number = 0;
    ucp_memh_pack_params_t pack = { 0 };
    ucp_rkey_compare_params_t compare = { 0 };
    ucp_datatype_attr_t datatype_attr = { .field_mask = 7, .buffer = in, .count = 1 };

    if (bad)
        FAILS(ucp_init(&params, config, &context_));
    ucp_config_release(config);
    FAILS(ucp_config_modify(config, "RNDV_THRESH", "8"));
    ucp_config_print(config, devnull, NULL, UCS_CONFIG_PRINT_CONFIG);
    FAILS(ucp_context_query(bad, &context_attr));
    ucp_context_print_info(bad, devnull);
    FAILS(ucp_worker_create(bad, &worker_params, &worker_));
    FAILS(ucp_mem_map(bad, &map, &memh_));
    FAILS(ucp_mem_unmap(bad, memh));
    FAILS(ucp_mem_unmap(context, bad));
    FAILS(ucp_mem_query(bad, &mem_attr));
    ucp_mem_print_info("64", bad, devnull);
    FAILS(ucp_mem_advise(bad, memh, &advise));
    FAILS(ucp_mem_advise(context, bad, &advise));
    FAILS(ucp_rkey_pack(bad, memh, &where, &size));
    FAILS(ucp_rkey_pack(context, bad, &where, &size));
    FAILS(ucp_memh_pack(bad, &pack, &where, &size));
    ucp_memh_buffer_release(bad, NULL);
    ucp_cleanup(bad);

    ucp_worker_destroy(bad);
    FAILS(ucp_worker_query(bad, &worker_attr));
    ucp_worker_print_info(bad, devnull);
    FAILS(ucp_worker_get_address(bad, &address, &address_length));
    IS(ucp_worker_progress(bad), 0);
    FAILS(ucp_worker_get_efd(bad, &fd));
    FAILS(ucp_worker_wait(bad));
    ucp_worker_wait_mem(bad, memory);
    FAILS(ucp_worker_arm(bad));
    FAILS(ucp_worker_signal(bad));
    FAILS(ucp_worker_fence(bad));
    FAILS(ucp_worker_flush(bad));
    PFAILS(ucp_worker_flush_nb(bad, 0, on_sent));
    PFAILS(ucp_worker_flush_nbx(bad, &plain));
    FAILS(ucp_ep_create(bad, &ep_params, &ep_));
    FAILS(ucp_ep_create(worker, &answers, &ep_));
    FAILS(ucp_listener_create(bad, &listen, (ucp_listener_h *)&where));
    ucp_listener_destroy(bad);
    FAILS(ucp_listener_query(bad, &listener_attr));
    FAILS(ucp_listener_reject(bad, bad));
    FAILS(ucp_conn_request_query(bad, &request_attr));
    IS(ucp_request_alloc(bad), NULL);
    FAILS(ucp_worker_set_am_handler(bad, 1, old_handler, NULL, 0));
    FAILS(ucp_worker_set_am_recv_handler(bad, &am));
    PFAILS(ucp_tag_recv_nb(bad, in, 8, BYTE, 0, 0, NULL));
    PFAILS(ucp_tag_recv_nbx(bad, in, 8, 0, 0, &plain));
    FAILS(ucp_tag_recv_nbr(bad, in, 8, BYTE, 0, 0, memory + 1000));
    IS(ucp_tag_probe_nb(bad, 0, 0, 1, &info), NULL);
    PFAILS(ucp_tag_msg_recv_nb(bad, in, 8, BYTE, bad, NULL));
    PFAILS(ucp_tag_msg_recv_nb(worker, in, 8, BYTE, bad, NULL));
    PFAILS(ucp_tag_msg_recv_nbx(worker, in, 8, bad, &plain));
    PFAILS(ucp_am_recv_data_nbx(bad, in, in, 8, &plain));
    PFAILS(ucp_am_recv_data_nbx(worker, bad, in, 8, &plain));
    ucp_am_data_release(bad, in);
    ucp_am_data_release(worker, bad);
    FAILS(ucp_stream_worker_poll(bad, ready, 1, 0));
    ucp_request_cancel(bad, bad);
    ucp_request_cancel(worker, bad);

    PFAILS(ucp_ep_modify_nb(bad, &ep_params));
    PFAILS(ucp_ep_close_nb(bad, UCP_EP_CLOSE_MODE_FLUSH));
    PFAILS(ucp_ep_close_nbx(bad, &plain));
    PFAILS(ucp_disconnect_nb(bad));
    ucp_ep_destroy(bad);
    ucp_ep_print_info(bad, devnull);
    FAILS(ucp_ep_query(bad, &ep_attr));
    FAILS(ucp_ep_evaluate_perf(bad, &perf, &perf_attr));
    FAILS(ucp_ep_flush(bad));
    PFAILS(ucp_ep_flush_nb(bad, 0, on_sent));
    PFAILS(ucp_ep_flush_nbx(bad, &plain));
    FAILS(ucp_ep_rkey_unpack(bad, memory, &rkey_));
    PFAILS(ucp_tag_send_nb(bad, out, 8, BYTE, 0, NULL));
    FAILS(ucp_tag_send_nbr(bad, out, 8, BYTE, 0, memory + 1000));
    PFAILS(ucp_tag_send_nbx(bad, out, 8, 0, &plain));
    PFAILS(ucp_tag_send_sync_nb(bad, out, 8, BYTE, 0, NULL));
    PFAILS(ucp_tag_send_sync_nbx(bad, out, 8, 0, &plain));
    PFAILS(ucp_am_send_nb(bad, 1, out, 8, BYTE, NULL, 0));
    PFAILS(ucp_am_send_nbx(bad, 1, NULL, 0, out, 8, &plain));
    PFAILS(ucp_stream_send_nb(bad, out, 8, BYTE, NULL, 0));
    PFAILS(ucp_stream_send_nbx(bad, out, 8, &plain));
    PFAILS(ucp_stream_recv_nb(bad, in, 8, BYTE, NULL, &size, 0));
    PFAILS(ucp_stream_recv_nbx(bad, in, 8, &size, &plain));
    PFAILS(ucp_stream_recv_data_nb(bad, &size));
    ucp_stream_data_release(bad, in);
    ucp_stream_data_release(ep, bad);

    for (int good_ep = 0; good_ep < 2; good_ep++) { /* one of both is wrong */
        ucp_ep_h e = good_ep ? ep : bad;
        ucp_rkey_h k = good_ep ? bad : rkey;
        ucp_request_param_t fetch = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8) };
        FAILS(ucp_put(e, out, 8, there, k));
        FAILS(ucp_put_nbi(e, out, 8, there, k));
        PFAILS(ucp_put_nb(e, out, 8, there, k, on_sent));
        PFAILS(ucp_put_nbx(e, out, 8, there, k, &plain));
        FAILS(ucp_get(e, in, 8, there, k));
        FAILS(ucp_get_nbi(e, in, 8, there, k));
        PFAILS(ucp_get_nb(e, in, 8, there, k, on_sent));
        PFAILS(ucp_get_nbx(e, in, 8, there, k, &plain));
        FAILS(ucp_atomic_post(e, UCP_ATOMIC_POST_OP_ADD, 1, 8, there, k));
        PFAILS(ucp_atomic_fetch_nb(e, UCP_ATOMIC_FETCH_OP_FADD, 1, &number, 8, there, k, on_sent));
        PFAILS(ucp_atomic_op_nbx(e, UCP_ATOMIC_OP_ADD, &number, 1, there, k, &fetch));
        FAILS(ucp_atomic_add32(e, 1, there, k));
        FAILS(ucp_atomic_add64(e, 1, there, k));
        FAILS(ucp_atomic_fadd32(e, 1, there, k, &word));
        FAILS(ucp_atomic_fadd64(e, 1, there, k, &number));
        FAILS(ucp_atomic_swap32(e, 1, there, k, &word));
        FAILS(ucp_atomic_swap64(e, 1, there, k, &number));
        FAILS(ucp_atomic_cswap32(e, 1, 1, there, k, &word));
        FAILS(ucp_atomic_cswap64(e, 1, 1, there, k, &number));
    }
    FAILS(ucp_rkey_ptr(bad, there, &where));
    FAILS(ucp_rkey_compare(bad, rkey, rkey, &compare, &fd));
    FAILS(ucp_rkey_compare(worker, bad, rkey, &compare, &fd));
    FAILS(ucp_rkey_compare(worker, rkey, bad, &compare, &fd));
    ucp_rkey_destroy(bad);
    ucp_rkey_buffer_release(bad);
    ucp_worker_release_address(worker, bad);
    if (bad)
        ucp_dt_destroy((uintptr_t)bad | UCP_DATATYPE_GENERIC);
    FAILS(ucp_dt_query((uintptr_t)bad | UCP_DATATYPE_GENERIC, &datatype_attr));

    FAILS(ucp_request_check_status(bad));
    IS(ucp_request_is_completed(bad), 1);
    FAILS(ucp_request_query(bad, &attr));
    FAILS(ucp_request_test(bad, &info));
    FAILS(ucp_tag_recv_request_test(bad, &info));
    FAILS(ucp_stream_recv_request_test(bad, &size));
    ucp_request_free(bad);
    ucp_request_release(bad);
}

static void still_works(void) {
    OK(ucp_put(ep, out, 8, there, rkey));
    OK(ended(ucp_tag_send_nbx(ep, out, 8, 1, &plain)));
    OK(ended(ucp_tag_recv_nbx(worker, in, 8, 1, -1, &plain)));
}

static void test_handles_that_are_none(void) {
    FILE *devnull = fopen("/dev/null", "w");
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    open_all();
    all_with(NULL, devnull);
    all_with((void *)8, devnull);
    all_with((void *)0xdeadbeef0000, devnull);
    all_with(page + 100, devnull);
    all_with((void *)(uintptr_t)-1, devnull);
    all_with(in, devnull);
    still_works();
    close_all();
    all_with(context, devnull); /* they are closed */
    all_with(worker, devnull);
    all_with(ep, devnull);
    all_with(memh, devnull);
    all_with(rkey, devnull);
}

static void test_handles_of_other_kinds(void) {
    ucp_context_attr_t attr = { .field_mask = -1 };
    void *request;
    open_all();
    FAILS(ucp_context_query((ucp_context_h)worker, &attr));
    IS(ucp_worker_progress((ucp_worker_h)ep), 0);
    FAILS(ucp_ep_flush((ucp_ep_h)worker));
    FAILS(ucp_mem_unmap(context, (ucp_mem_h)rkey));
    FAILS(ucp_put(ep, out, 8, there, (ucp_rkey_h)memh));
    FAILS(ucp_request_check_status(ep));
    ucp_rkey_destroy((ucp_rkey_h)ep);
    ucp_worker_destroy((ucp_worker_h)context);
    ucp_cleanup((ucp_context_h)worker);
    request = ucp_tag_recv_nbx(worker, in, 8, 5, -1, &plain);
    FAILS(ucp_ep_flush(request));
    FAILS(ucp_stream_recv_request_test(request, &size));
    ucp_request_cancel(worker, request);
    IS(ended(request), UCS_ERR_CANCELED);
    FAILS(ucp_request_check_status(request)); /* it was freed */
    ucp_request_free(request);
    still_works();
    close_all();
}

static void test_null_arguments(void) {
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
    ucp_request_param_t fetch = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8) };
    uint64_t number = 0;
    void *where;
    open_all();
    FAILS(ucp_lib_query(NULL));
    FAILS(ucp_config_read(NULL, NULL, NULL));
    FAILS(ucp_init(NULL, NULL, &context));
    FAILS(ucp_init(&params, NULL, NULL));
    FAILS(ucp_context_query(context, NULL));
    FAILS(ucp_worker_create(context, NULL, &worker));
    FAILS(ucp_worker_create(context, (ucp_worker_params_t *)&plain, NULL));
    FAILS(ucp_worker_query(worker, NULL));
    FAILS(ucp_worker_get_address(worker, NULL, &size));
    FAILS(ucp_worker_get_address(worker, &address, NULL));
    FAILS(ucp_worker_address_query(NULL, (ucp_worker_address_attr_t *)out));
    FAILS(ucp_worker_address_query(address, NULL));
    FAILS(ucp_worker_get_efd(worker, NULL));
    ucp_worker_wait_mem(worker, NULL);
    FAILS(ucp_ep_create(worker, NULL, &ep));
    FAILS(ucp_ep_query(ep, NULL));
    FAILS(ucp_ep_evaluate_perf(ep, NULL, NULL));
    PFAILS(ucp_ep_modify_nb(ep, NULL));
    FAILS(ucp_listener_create(worker, NULL, (ucp_listener_h *)&where));
    FAILS(ucp_mem_map(context, NULL, &memh));
    FAILS(ucp_mem_query(memh, NULL));
    FAILS(ucp_mem_advise(context, memh, NULL));
    ucp_mem_print_info(NULL, context, stdout);
    FAILS(ucp_rkey_pack(context, memh, NULL, &size));
    FAILS(ucp_rkey_pack(context, memh, &where, NULL));
    FAILS(ucp_ep_rkey_unpack(ep, NULL, &rkey));
    FAILS(ucp_ep_rkey_unpack(ep, memory, NULL));
    FAILS(ucp_rkey_ptr(rkey, there, NULL));
    FAILS(ucp_dt_create_generic(NULL, NULL, (ucp_datatype_t *)&number));
    FAILS(ucp_worker_set_am_recv_handler(worker, NULL));
    PFAILS(ucp_tag_send_nbx(ep, NULL, 8, 1, &plain));
    PFAILS(ucp_tag_recv_nbx(worker, NULL, 8, 1, -1, &plain));
    PFAILS(ucp_stream_send_nbx(ep, NULL, 8, &plain));
    PFAILS(ucp_stream_recv_nbx(ep, in, 8, NULL, &plain));
    PFAILS(ucp_stream_recv_data_nb(ep, NULL));
    PFAILS(ucp_am_send_nbx(ep, 1, NULL, 8, out, 8, &plain));
    PFAILS(ucp_am_send_nbx(ep, 1, NULL, 0, NULL, 8, &plain));
    FAILS(ucp_put(ep, NULL, 8, there, rkey));
    FAILS(ucp_get(ep, NULL, 8, there, rkey));
    PFAILS(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, NULL, 1, there, rkey, &fetch));
    PFAILS(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &number, 1, there, rkey, NULL));
    PFAILS(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_SWAP, &number, 1, there, rkey, &fetch));
    FAILS(ucp_atomic_fadd64(ep, 1, there, rkey, NULL));
    PFAILS(ucp_tag_send_nb(ep, NULL, 2, ucp_dt_make_iov(), 1, NULL));
    ucp_get_version(NULL, NULL, NULL);
    OK(ended(ucp_tag_send_nbx(ep, NULL, 0, 1, NULL))); /* of no bytes nothing is needed */
    OK(ended(ucp_tag_recv_nbx(worker, NULL, 0, 1, -1, NULL)));
    still_works();
    close_all();
}

static void test_absurd_numbers(void) {
    ucp_params_t huge = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE, .features = 1,
                          .request_size = -1 };
    ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                 .address = memory, .length = (size_t)1 << 60 };
    ucp_mem_map_params_t allocate = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                      .length = -1, .flags = UCP_MEM_MAP_ALLOCATE };
    ucp_request_param_t eight = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8) };
    ucp_request_param_t iov = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_iov() };
    ucp_request_param_t none = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = 5 };
    ucp_request_param_t gpu = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = UCS_MEMORY_TYPE_CUDA };
    ucp_dt_iov_t entry = { out, (size_t)-1 };
    ucp_stream_poll_ep_t ready[1];
    size_t counts[] = { -1, (size_t)1 << 63, (size_t)1 << 40 };
    uint64_t number = 0;
    ucp_context_h other;
    ucp_worker_params_t worker_params = { 0 };
    ucp_worker_h its;
    open_all();
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++) {
        size_t count = counts[index];
        PFAILS(ucp_tag_send_nbx(ep, out, count, 1, &plain));
        PFAILS(ucp_tag_send_nbx(ep, out, count, 1, &eight));
        PFAILS(ucp_tag_send_nbx(ep, out, count, 1, &iov));
        PFAILS(ucp_tag_recv_nbx(worker, in, count, 1, -1, &plain));
        PFAILS(ucp_tag_recv_nbx(worker, in, count, 1, -1, &iov));
        PFAILS(ucp_stream_send_nbx(ep, out, count, &plain));
        PFAILS(ucp_stream_recv_nbx(ep, in, count, &size, &plain));
        PFAILS(ucp_am_send_nbx(ep, 1, NULL, 0, out, count, &plain));
        PFAILS(ucp_am_send_nbx(ep, 1, out, count, out, 8, &plain));
        FAILS(ucp_put(ep, out, count, there, rkey));
        FAILS(ucp_put_nbi(ep, out, count, there, rkey));
        FAILS(ucp_get(ep, in, count, there, rkey));
        PFAILS(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &number, count, there, rkey, &eight));
        FAILS(ucp_atomic_post(ep, UCP_ATOMIC_POST_OP_ADD, 1, count, there, rkey));
        PFAILS(ucp_atomic_fetch_nb(ep, UCP_ATOMIC_FETCH_OP_FADD, 1, &number, count, there, rkey, NULL));
        map.length = count;
        FAILS(ucp_mem_map(context, &map, &memh));
        entry.length = count;
        PFAILS(ucp_tag_send_nbx(ep, &entry, 1, 1, &iov));
        IS(ucp_stream_worker_poll(worker, ready, count, 0), 0);
    }
    FAILS(ucp_mem_map(context, &allocate, &memh));
    PFAILS(ucp_tag_send_nbx(ep, out, 8, 1, &none));
    PFAILS(ucp_tag_send_nbx(ep, out, 8, 1, &gpu));
    FAILS(ucp_atomic_post(ep, 99, 1, 8, there, rkey));
    PFAILS(ucp_atomic_op_nbx(ep, -1, &number, 1, there, rkey, &eight));
    FAILS(ucp_atomic_add64(ep, 1, there + 3, rkey)); /* not aligned */
    PFAILS(ucp_am_send_nbx(ep, 1 << 16, NULL, 0, out, 8, &plain));
    PFAILS(ucp_ep_close_nb(ep, 77));
    PFAILS(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FORCE)); /* without UCP_ERR_HANDLING_MODE_PEER */
    IS(ucp_get(ep, in, 8, there + sizeof memory, rkey), UCS_ERR_INVALID_ADDR);
    still_works();
    OK(ucp_init(&huge, NULL, &other)); /* and no request can be had */
    OK(ucp_worker_create(other, &worker_params, &its));
    PIS(ucp_tag_recv_nbx(its, in, 8, 1, -1, &plain), UCS_ERR_NO_MEMORY);
    ucp_worker_destroy(its);
    ucp_cleanup(other);
    close_all();
}

/* Later releases have more fields: what is not known is neither read nor written, and the rest is as ever. */
#define GUARDED(type, bits, ...) struct { type attr; char guard[64]; } guarded; \
    memset(&guarded, 0xa5, sizeof guarded); \
    guarded.attr.field_mask = (bits); \
    __VA_ARGS__; \
    for (size_t index = 0; index < sizeof guarded.guard; index++) IS((unsigned char)guarded.guard[index], 0xa5)

static void test_unknown_bits(void) {
    const uint64_t later = 0xffffff00ffff0000;
    open_all();
    { GUARDED(ucp_lib_attr_t, -1, OK(ucp_lib_query(&guarded.attr))); }
    { GUARDED(ucp_context_attr_t, -1, OK(ucp_context_query(context, &guarded.attr)));
      TRUE(strlen(guarded.attr.name) < 32); }
    { GUARDED(ucp_context_attr_t, later, OK(ucp_context_query(context, &guarded.attr)));
      IS(guarded.attr.name[0], (char)0xa5); }
    { GUARDED(ucp_worker_attr_t, -1, OK(ucp_worker_query(worker, &guarded.attr)));
      IS(guarded.attr.thread_mode, UCS_THREAD_MODE_MULTI);
      ucp_worker_release_address(worker, guarded.attr.address); }
    { GUARDED(ucp_worker_address_attr_t, -1, OK(ucp_worker_address_query(address, &guarded.attr))); }
    { GUARDED(ucp_ep_attr_t, later | UCP_EP_ATTR_FIELD_NAME, OK(ucp_ep_query(ep, &guarded.attr))); }
    { GUARDED(ucp_mem_attr_t, -1, OK(ucp_mem_query(memh, &guarded.attr)));
      TRUE(guarded.attr.address == memory && guarded.attr.length == sizeof memory); }
    { ucp_ep_evaluate_perf_param_t asked = { .field_mask = 1, .message_size = 1000 };
      GUARDED(ucp_ep_evaluate_perf_attr_t, 1, OK(ucp_ep_evaluate_perf(ep, &asked, &guarded.attr)));
      TRUE(guarded.attr.estimated_time > 0); }
    { ucp_worker_params_t params = { .field_mask = later };
      ucp_worker_h made;
      OK(ucp_worker_create(context, &params, &made));
      ucp_worker_destroy(made); }
    { ucp_ep_params_t params = { .field_mask = later | UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address };
      ucp_ep_h made;
      OK(ucp_ep_create(worker, &params, &made));
      OK(ended(ucp_disconnect_nb(made))); }
    { ucp_request_param_t param = { .op_attr_mask = 0xfff00f00 };
      OK(ended(ucp_tag_send_nbx(ep, out, 8, 1, &param)));
      OK(ended(ucp_tag_recv_nbx(worker, in, 8, 1, -1, &param))); }
    { ucp_mem_map_params_t params = { .field_mask = later | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                    UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                      .length = 4096, .flags = UCP_MEM_MAP_ALLOCATE | 0x100 };
      ucp_mem_h made;
      ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };
      OK(ucp_mem_map(context, &params, &made));
      OK(ucp_mem_query(made, &attr));
      memset(attr.address, 1, 4096);
      OK(ucp_mem_unmap(context, made)); }
    still_works();
    close_all();
}

static void on_nested(void *request, ucs_status_t status, void *user_data) {
    called++;
    IS(ucp_worker_progress(worker), 0);
    FAILS(ucp_put(ep, out, 8, there, rkey));
    FAILS(ucp_ep_flush(ep));
    FAILS(ucp_worker_flush(worker));
    ucp_worker_destroy(worker);
    OK(ucp_put_nbi(ep, out, 8, there, rkey)); /* what does not wait is as ever */
}

static void test_calls_that_wait_inside_callbacks(void) {
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_nested };
    open_all();
    OK(ended(ucp_get_nbx(ep, in, 8, there, rkey, &param)));
    IS(called, 1);
    still_works();
    close_all();
}

static void test_features_that_were_not_asked_for(void) {
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA };
    int fd;
    open_context(&params);
    OK(ucp_put(ep, out, 8, there, rkey));
    PFAILS(ucp_tag_send_nbx(ep, out, 8, 1, &plain));
    PFAILS(ucp_tag_recv_nbx(worker, in, 8, 1, -1, &plain));
    IS(ucp_tag_probe_nb(worker, 1, -1, 0, &info), NULL);
    PFAILS(ucp_stream_send_nbx(ep, out, 8, &plain));
    PFAILS(ucp_am_send_nbx(ep, 1, NULL, 0, out, 8, &plain));
    FAILS(ucp_atomic_post(ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, there, rkey));
    FAILS(ucp_worker_get_efd(worker, &fd));
    FAILS(ucp_worker_wait(worker));
    close_all();
}

static void test_addresses_and_keys_that_are_none(void) {
    char bytes[200] = { 1, 2, 3 };
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t *)bytes };
    ucp_worker_address_attr_t attr = { .field_mask = 1 };
    ucp_ep_h made;
    ucp_rkey_h key;
    open_all();
    FAILS(ucp_ep_create(worker, &params, &made));
    FAILS(ucp_worker_address_query((ucp_address_t *)bytes, &attr));
    FAILS(ucp_ep_rkey_unpack(ep, bytes, &key));
    params.field_mask = 0;
    FAILS(ucp_ep_create(worker, &params, &made));
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    FAILS(ucp_ep_create(worker, &params, &made));
    params.sockaddr.addr = (struct sockaddr *)bytes, params.sockaddr.addrlen = 2;
    FAILS(ucp_ep_create(worker, &params, &made));
    params.sockaddr.addrlen = -1;
    FAILS(ucp_ep_create(worker, &params, &made));
    still_works();
    close_all();
}

static void test_a_child_has_nothing_of_its_parents(void) {
    int status;
    pid_t child;
    open_all();
    still_works();
    child = fork();
    if (!child) {
        FAILS(ucp_ep_flush(ep));
        PFAILS(ucp_tag_send_nbx(ep, out, 8, 1, &plain));
        ucp_cleanup(context);
        open_all(); /* a NIC of its own */
        still_works();
        close_all();
        _exit(0);
    }
    waitpid(child, &status, 0);
    IS(status, 0);
    still_works();
    close_all();
}

static long resident(void) {
    long pages, rest;
    FILE *file = fopen("/proc/self/statm", "r");
    TRUE(fscanf(file, "%ld %ld", &rest, &pages) == 2);
    fclose(file);
    return pages * 4;
}

static void *left;
static ucs_status_t keeping(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param) {
    left = data;
    return UCS_INPROGRESS;
}

/* What gets a handle, or is kept, for a while. */
static void keep_and_give_back(void) {
    ucp_request_param_t long_one = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_RNDV };
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address };
    ucp_tag_message_h message;
    ucp_ep_h another;
    ucp_rkey_h key;
    void *packed, *request;
    OK(ended(ucp_tag_send_nbx(ep, out, 8, 1, NULL)));
    while (!(message = ucp_tag_probe_nb(worker, 1, -1, 1, &info)))
        ucp_worker_progress(worker);
    OK(ended(ucp_tag_msg_recv_nbx(worker, in, 8, message, NULL)));
    for (int turn = 0; turn < 2; turn++) {
        left = NULL;
        request = ucp_am_send_nbx(ep, 1, NULL, 0, out, 64, turn ? &long_one : NULL);
        while (!left)
            ucp_worker_progress(worker);
        ucp_am_data_release(worker, left);
        OK(ended(request));
    }
    OK(ended(ucp_stream_send_nbx(ep, out, 8, NULL)));
    while (!(left = ucp_stream_recv_data_nb(ep, &size)))
        ucp_worker_progress(worker);
    ucp_stream_data_release(ep, left);
    OK(ucp_rkey_pack(context, memh, &packed, &size));
    OK(ucp_ep_rkey_unpack(ep, packed, &key));
    ucp_rkey_buffer_release(packed);
    ucp_rkey_destroy(key);
    OK(ucp_ep_create(worker, &params, &another));
    OK(ended(ucp_disconnect_nb(another)));
}

static void test_many_operations(void) {
    ucp_am_handler_param_t am = { .field_mask = 7, .id = 1, .cb = keeping, .flags = UCP_AM_FLAG_PERSISTENT_DATA };
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                  .cb.send = on_sent_nbx };
    ucp_request_param_t receive = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = BYTE };
    ucp_request_param_t own = { .op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST };
    uint64_t number = 1, old;
    long before = 0;
    open_all();
    OK(ucp_worker_set_am_recv_handler(worker, &am));
    for (int turn = 0; turn < 12500; turn++) { /* of 8 operations each */
        void *request = ucp_tag_recv_nbx(worker, in, 64, turn, -1, &receive);
        void *alone;
        if (turn == 2500)
            before = resident();
        OK(ended(ucp_tag_send_nbx(ep, out, 64, turn, &param)));
        OK(ended(request));
        OK(ended(ucp_get_nbx(ep, in, 64, there, rkey, &param)));
        OK(ucp_put_nbi(ep, out, 8, there, rkey));
        OK(ended(ucp_atomic_fetch_nb(ep, UCP_ATOMIC_FETCH_OP_FADD, number, &old, 8, there, rkey, on_sent)));
        alone = own.request = (char *)malloc(200) + 100; /* another one each time, of which nobody is told */
        ucp_tag_recv_nbx(worker, in, 8, turn, -1, &own);
        OK(ended(ucp_tag_send_nbx(ep, out, 8, turn, NULL)));
        while (ucp_request_check_status(alone) == UCS_INPROGRESS)
            ucp_worker_progress(worker);
        free((char *)alone - 100);
        ucp_request_free(ucp_request_alloc(worker));
        OK(ended(ucp_worker_flush_nbx(worker, &param)));
        if (turn % 4 == 0)
            keep_and_give_back();
    }
    printf("%ld KiB more\n", resident() - before);
    TRUE(resident() - before < 2000);
    close_all();
}

static void test_opened_and_closed_often(void) {
    long before = 0;
    for (int turn = 0; turn < 60; turn++) {
        if (turn == 20)
            before = resident();
        open_all();
        still_works();
        close_all();
    }
    printf("%ld KiB more\n", resident() - before);
    TRUE(resident() - before < 4000);
}

static void test_ends_without_closing_anything(void) {
    open_all();
    still_works();
    ucp_tag_recv_nbx(worker, in, 8, 1, -1, &plain);
    exit(0);
}

int main(int argc, char **argv) {
    static const struct test tests[] = {
        T(handles_that_are_none), T(handles_of_other_kinds), T(null_arguments), T(absurd_numbers), T(unknown_bits),
        T(calls_that_wait_inside_callbacks), T(features_that_were_not_asked_for),
        T(addresses_and_keys_that_are_none), T(a_child_has_nothing_of_its_parents), T(many_operations),
        T(opened_and_closed_often), T(ends_without_closing_anything),
    };
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
