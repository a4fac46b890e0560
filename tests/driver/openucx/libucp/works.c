/* What works, by each function of UCX's UCP library. One test per run, named by the argument. */
#include "program.h"

static void test_tagged_messages(void) {
    char out[300], in[300];
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                  .cb.send = on_sent_nbx };
    ucp_request_param_t plain = { 0 };
    ucp_tag_recv_info_t info = { 0 };
    ucp_request_param_t informed = { .op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO, .recv_info.tag_info = &info };
    ucp_tag_message_h message;
    void *send, *receive;
    open_all();
    memset(out, 7, sizeof out);
    for (size_t size = 0; size <= sizeof out; size += 100) {
        memset(in, 0, sizeof in);
        receive = ucp_tag_recv_nbx(worker, in, size, 5, -1, &plain);
        send = ucp_tag_send_nbx(ep, out, size, 5, &param);
        TRUE(UCS_PTR_IS_PTR(send));
        OK(ended(send));
        OK(ended(receive));
        OK(memcmp(in, out, size));
    }
    IS(called, 4);
    /* what has come before */
    OK(ended(ucp_tag_send_nbx(ep, out, 8, 0xabc, &plain)));
    while (!(message = ucp_tag_probe_nb(worker, 0xab0, 0xff0, 0, &info)))
        ucp_worker_progress(worker);
    IS(info.sender_tag, 0xabc);
    IS(info.length, 8);
    info.length = 0;
    IS(ucp_tag_recv_nbx(worker, in, 8, 0xabc, -1, &informed), NULL);
    IS(info.length, 8);
    OK(ended(ucp_tag_send_nb(ep, out, 64, ucp_dt_make_contig(1), 9, on_sent)));
    while (!(message = ucp_tag_probe_nb(worker, 9, -1, 1, &info)))
        ucp_worker_progress(worker);
    IS(ucp_tag_probe_nb(worker, 9, -1, 1, &info), NULL);
    OK(ended(ucp_tag_msg_recv_nb(worker, in, 64, ucp_dt_make_contig(1), message, NULL)));
    PFAILS(ucp_tag_msg_recv_nb(worker, in, 64, ucp_dt_make_contig(1), message, NULL));
    send = ucp_tag_send_sync_nb(ep, out, 8, ucp_dt_make_contig(1), 9, NULL);
    while (!(message = ucp_tag_probe_nb(worker, 9, -1, 1, &info)))
        ucp_worker_progress(worker);
    IS(ucp_request_check_status(send), UCS_INPROGRESS);
    IS(ucp_request_is_completed(send), 0);
    OK(ended(ucp_tag_msg_recv_nbx(worker, in, 8, message, &plain)));
    OK(ended(send));
    send = ucp_tag_send_sync_nbx(ep, out, 8, 10, &plain);
    OK(ended(ucp_tag_recv_nb(worker, in, 1, ucp_dt_make_contig(8), 10, -1, NULL)));
    OK(ended(send));
    close_all();
}

static void on_received(void *request, ucs_status_t status, ucp_tag_recv_info_t *info) {
    called++, told = status;
    IS(info->sender_tag, 77);
    IS(info->length, 16);
}
static void on_received_nbx(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data) {
    on_received(request, status, (ucp_tag_recv_info_t *)info);
    *(void **)user_data = request;
}

static void test_callbacks_report_messages(void) {
    char out[16] = "sixteen bytes!!", in[16];
    void *heard = NULL, *receive;
    int times = 0;
    ucp_tag_recv_info_t info;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                  .cb.recv = on_received_nbx, .user_data = &heard };
    ucp_request_param_t sends = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                  UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                  .cb.send = on_sent_nbx, .user_data = &times };
    open_all();
    receive = ucp_tag_recv_nb(worker, in, 16, ucp_dt_make_contig(1), 77, -1, on_received);
    OK(ended(ucp_tag_send_nbx(ep, out, 16, 77, &sends)));
    while (ucp_tag_recv_request_test(receive, &info) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    OK(ucp_request_test(receive, &info));
    IS(info.sender_tag, 77);
    ucp_request_free(receive);
    IS(called, 2);
    IS(times, 1);
    receive = ucp_tag_recv_nbx(worker, in, 8, 77, -1, &param); /* too short */
    OK(ended(ucp_tag_send_nbx(ep, out, 16, 77, &sends)));
    IS(ended(receive), UCS_ERR_MESSAGE_TRUNCATED);
    IS(told, UCS_ERR_MESSAGE_TRUNCATED);
    TRUE(heard == receive);
    receive = ucp_tag_recv_nb(worker, in, 16, ucp_dt_make_contig(1), 78, -1, NULL);
    ucp_request_cancel(worker, receive);
    IS(ended(receive), UCS_ERR_CANCELED);
    close_all();
}

static void test_put_and_get(void) {
    static char out[5000], in[5000];
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_DATATYPE,
                                  .cb.send = on_sent_nbx, .datatype = ucp_dt_make_contig(8) };
    open_all();
    memset(out, 9, sizeof out);
    OK(ucp_put(ep, out, sizeof out, there, rkey));
    OK(memcmp(memory, out, sizeof out));
    OK(ucp_get(ep, in, sizeof in, there, rkey));
    OK(memcmp(in, out, sizeof out));
    memset(memory, 0, sizeof memory);
    OK(ucp_put_nbi(ep, out, 8, there, rkey));
    IS(ucp_put_nbi(ep, out, 1000, there + 8, rkey), UCS_INPROGRESS);
    OK(ended(ucp_put_nb(ep, out, 1000, there + 2000, rkey, on_sent)));
    OK(ended(ucp_put_nbx(ep, out, 100, there + 3000, rkey, &param)));
    OK(ucp_ep_flush(ep));
    OK(memcmp(memory, out, 1008) || memcmp(memory + 2000, out, 1000) || memcmp(memory + 3000, out, 800));
    memset(in, 0, sizeof in);
    IS(ucp_get_nbi(ep, in, 8, there, rkey), UCS_INPROGRESS);
    OK(ended(ucp_get_nb(ep, in + 8, 1000, there + 8, rkey, on_sent)));
    OK(ended(ucp_get_nbx(ep, in + 1008, 100, there + 3000, rkey, &param)));
    OK(ended(ucp_worker_flush_nb(worker, 0, on_sent)));
    OK(memcmp(in, out, 1808));
    OK(ucp_worker_fence(worker));
    OK(ucp_worker_flush(worker));
    OK(ended(ucp_ep_flush_nb(ep, 0, on_sent)));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK;
    OK(ended(ucp_ep_flush_nbx(ep, &param)));
    OK(ended(ucp_worker_flush_nbx(worker, &param)));
    close_all();
}

static void test_atomics(void) {
    uint64_t *number = (uint64_t *)memory, value = 3, result = 0;
    uint32_t *small = (uint32_t *)(memory + 8), small_result = 0;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
                                  .datatype = ucp_dt_make_contig(8), .reply_buffer = &result };
    open_all();
    OK(ucp_atomic_post(ep, UCP_ATOMIC_POST_OP_ADD, 5, 8, there, rkey));
    OK(ucp_atomic_add64(ep, 1, there, rkey));
    OK(ucp_atomic_add32(ep, 4, there + 8, rkey));
    OK(ucp_ep_flush(ep));
    IS(*number, 6);
    IS(*small, 4);
    OK(ended(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &value, 1, there, rkey, &param)));
    IS(result, 6);
    result = 100;
    value = 9;
    OK(ended(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_CSWAP, &value, 1, there, rkey, &param)));
    IS(result, 9);
    IS(*number, 100);
    OK(ended(ucp_atomic_fetch_nb(ep, UCP_ATOMIC_FETCH_OP_SWAP, 50, &result, 8, there, rkey, on_sent)));
    IS(result, 100);
    IS(*number, 50);
    OK(ucp_atomic_fadd64(ep, 2, there, rkey, &result));
    IS(result, 50);
    OK(ucp_atomic_swap64(ep, 1, there, rkey, &result));
    IS(result, 52);
    OK(ucp_atomic_cswap64(ep, 1, 8, there, rkey, &result));
    IS(result, 1);
    IS(*number, 8);
    OK(ucp_atomic_fadd32(ep, 2, there + 8, rkey, &small_result));
    IS(small_result, 4);
    OK(ucp_atomic_swap32(ep, 7, there + 8, rkey, &small_result));
    IS(small_result, 6);
    OK(ucp_atomic_cswap32(ep, 7, 8, there + 8, rkey, &small_result));
    IS(small_result, 7);
    IS(*small, 8);
    close_all();
}

static char got[1 << 17], head[64];
static size_t got_length;
static void *kept;
static ucs_status_t verdict;
static uint64_t attributes;
static ucp_ep_h reply_ep;
static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param) {
    called++;
    memcpy(head, header, header_length);
    attributes = param->recv_attr;
    reply_ep = param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP ? param->reply_ep : NULL;
    got_length = length;
    kept = data;
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        memcpy(got, data, length);
    IS(*(int *)arg, 4711);
    return verdict;
}
static ucs_status_t on_old_am(void *arg, void *data, size_t length, ucp_ep_h reply, unsigned flags) {
    called++;
    reply_ep = reply;
    kept = data;
    memcpy(got, data, length);
    return flags & UCP_CB_PARAM_FLAG_DATA ? verdict : UCS_OK;
}
static void on_am_data(void *request, ucs_status_t status, size_t length, void *user_data) {
    called += 100, told = status;
    IS(length, sizeof got);
}

static void test_active_messages(void) {
    static char out[sizeof got], in[sizeof got];
    static int argument = 4711;
    ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                     UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                       .id = 3, .cb = on_am, .arg = &argument, .flags = UCP_AM_FLAG_PERSISTENT_DATA };
    ucp_request_param_t send = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS };
    ucp_request_param_t receive = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.recv_am = on_am_data };
    void *request;
    open_all();
    memset(out, 'a', sizeof out);
    OK(ucp_worker_set_am_recv_handler(worker, &handler));
    /* in one packet: not kept, then kept */
    OK(ended(ucp_am_send_nbx(ep, 3, "head", 5, out, 100, &send)));
    until_called(1);
    OK(strcmp(head, "head") || memcmp(got, out, 100));
    verdict = UCS_INPROGRESS;
    send.flags = UCP_AM_SEND_FLAG_REPLY;
    OK(ended(ucp_am_send_nbx(ep, 3, "tail", 5, out, 100, &send)));
    until_called(2);
    TRUE(attributes & UCP_AM_RECV_ATTR_FLAG_DATA);
    TRUE(reply_ep != NULL);
    OK(memcmp(kept, out, 100));
    ucp_am_data_release(worker, kept);
    ucp_am_data_release(worker, kept); /* nothing */
    /* what stays at its sender */
    send.flags = UCP_AM_SEND_FLAG_RNDV;
    request = ucp_am_send_nbx(ep, 3, "head", 5, out, sizeof out, &send);
    until_called(3);
    TRUE(attributes & UCP_AM_RECV_ATTR_FLAG_RNDV);
    OK(ended(ucp_am_recv_data_nbx(worker, kept, in, sizeof in, &receive)));
    OK(memcmp(in, out, sizeof out));
    OK(ended(request));
    IS(called, 103);
    PFAILS(ucp_am_recv_data_nbx(worker, kept, in, sizeof in, &receive));
    request = ucp_am_send_nbx(ep, 3, "head", 5, out, sizeof out, &send);
    until_called(104);
    ucp_am_data_release(worker, kept);
    OK(ended(request));
    verdict = UCS_OK;
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    handler.cb = NULL;
    OK(ucp_worker_set_am_recv_handler(worker, &handler));
    OK(ended(ucp_am_send_nbx(ep, 3, NULL, 0, out, 8, NULL)));
    /* of before */
    OK(ucp_worker_set_am_handler(worker, 4, on_old_am, NULL, UCP_AM_FLAG_WHOLE_MSG));
    OK(ended(ucp_am_send_nb(ep, 4, out, 8, ucp_dt_make_contig(1), on_sent, UCP_AM_SEND_REPLY)));
    until_called(105);
    TRUE(reply_ep != NULL);
    OK(memcmp(got, out, 8));
    close_all();
}

static void on_stream(void *request, ucs_status_t status, size_t length) { called++, got_length = length; }
static void on_stream_nbx(void *request, ucs_status_t status, size_t length, void *user_data) {
    called++, got_length = length;
}

static void test_streams(void) {
    char out[1000], in[1000];
    size_t length = 0;
    ucp_stream_poll_ep_t ready[2];
    ucp_request_param_t all = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK,
                                .flags = UCP_STREAM_RECV_FLAG_WAITALL, .cb.recv_stream = on_stream_nbx };
    ucp_request_param_t plain = { 0 };
    void *request, *data;
    open_all();
    for (size_t index = 0; index < sizeof out; index++)
        out[index] = (char)index;
    IS(ucp_stream_worker_poll(worker, ready, 2, 0), 0);
    IS(ucp_stream_recv_data_nb(ep, &length), NULL);
    request = ucp_stream_recv_nbx(ep, in, sizeof in, &length, &all);
    TRUE(UCS_PTR_IS_PTR(request));
    OK(ended(ucp_stream_send_nb(ep, out, 400, ucp_dt_make_contig(1), on_sent, 0)));
    IS(ucp_stream_recv_request_test(request, &length), UCS_INPROGRESS);
    OK(ended(ucp_stream_send_nbx(ep, out + 400, 600, &plain)));
    while (ucp_stream_recv_request_test(request, &length) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    IS(length, sizeof in);
    IS(got_length, sizeof in);
    ucp_request_free(request);
    OK(memcmp(in, out, sizeof in));
    OK(ended(ucp_stream_send_nbx(ep, out, 24, &plain)));
    while (!ucp_stream_worker_poll(worker, ready, 2, 0))
        ucp_worker_progress(worker);
    TRUE(ready[0].ep == ep);
    IS(ucp_stream_recv_nb(ep, in, 2, ucp_dt_make_contig(8), on_stream, &length, 0), NULL);
    IS(length, 16);
    data = ucp_stream_recv_data_nb(ep, &length);
    IS(length, 8);
    OK(memcmp(data, out + 16, 8));
    ucp_stream_data_release(ep, data);
    ucp_stream_data_release(ep, data); /* nothing */
    close_all();
}

struct walk { char *at; size_t size; int finished; };
static struct walk walks[2];
static void *start_pack(void *context, const void *buffer, size_t count) {
    walks[0] = (struct walk){ (char *)buffer, count * 3, 0 };
    return &walks[0];
}
static void *start_unpack(void *context, void *buffer, size_t count) {
    walks[1] = (struct walk){ buffer, count * 3, 0 };
    return &walks[1];
}
static size_t packed_size(void *state) { return ((struct walk *)state)->size; }
static size_t pack(void *state, size_t offset, void *dest, size_t most) {
    for (size_t index = 0; index < most; index++)
        ((char *)dest)[index] = ((struct walk *)state)->at[offset + index] ^ 1;
    return most;
}
static ucs_status_t unpack(void *state, size_t offset, const void *src, size_t length) {
    for (size_t index = 0; index < length; index++)
        ((struct walk *)state)->at[offset + index] = ((const char *)src)[index] ^ 2;
    return UCS_OK;
}
static void finish(void *state) { ((struct walk *)state)->finished++; }

static void test_datatypes(void) {
    ucp_generic_dt_ops_t ops = { start_pack, start_unpack, packed_size, pack, unpack, finish };
    ucp_datatype_t generic;
    char a[10], b[3000], in[3010], expected;
    ucp_dt_iov_t iov[3] = { { a, sizeof a }, { NULL, 0 }, { b, sizeof b } };
    ucp_request_param_t scattered = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_iov() };
    ucp_request_param_t plain = { 0 };
    void *receive;
    open_all();
    memset(a, 1, sizeof a), memset(b, 2, sizeof b);
    receive = ucp_tag_recv_nbx(worker, in, sizeof in, 1, -1, &plain);
    OK(ended(ucp_tag_send_nbx(ep, iov, 3, 1, &scattered)));
    OK(ended(receive));
    OK(memcmp(in, a, sizeof a) || memcmp(in + sizeof a, b, sizeof b));
    memset(in, 3, sizeof in);
    receive = ucp_tag_recv_nbx(worker, iov, 3, 1, -1, &scattered);
    OK(ended(ucp_tag_send_nbx(ep, in, sizeof in, 1, &plain)));
    OK(ended(receive));
    OK(memcmp(in, a, sizeof a) || memcmp(in, b, sizeof b));
    OK(ended(ucp_put_nbx(ep, iov, 3, there, rkey, &scattered)));
    OK(ucp_ep_flush(ep));
    OK(memcmp(memory, in, sizeof in));
    OK(ucp_dt_create_generic(&ops, NULL, &generic));
    receive = ucp_tag_recv_nb(worker, b, 1000, generic, 1, -1, NULL);
    OK(ended(ucp_tag_send_nb(ep, in, 1000, generic, 1, NULL)));
    OK(ended(receive));
    expected = 3 ^ 1 ^ 2;
    TRUE(b[0] == expected && b[2999] == expected);
    IS(walks[0].finished, 1);
    IS(walks[1].finished, 1);
    ucp_dt_destroy(generic);
    PFAILS(ucp_tag_send_nb(ep, in, 1000, generic, 1, NULL));
    close_all();
}

static void test_what_1_12_does_not_have(void) {
    ucp_generic_dt_ops_t ops = { start_pack, start_unpack, packed_size, pack, unpack, finish };
    ucp_memh_pack_params_t plain = { 0 }, exported = { UCP_MEMH_PACK_PARAM_FIELD_FLAGS, UCP_MEMH_PACK_FLAG_EXPORT };
    ucp_rkey_compare_params_t compare = { 0 };
    ucp_datatype_attr_t attr = { .field_mask = UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE };
    ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH };
    char data[30];
    ucp_dt_iov_t iov[2] = { { data, 10 }, { data + 10, 7 } };
    ucp_datatype_t generic;
    ucp_mem_h other;
    ucp_rkey_h again, another;
    void *packed;
    size_t size;
    int result = 7, opposite;
    open_all();
    /* the key of memory, as ucp_rkey_pack packs it */
    OK(ucp_memh_pack(memh, &plain, &packed, &size));
    OK(ucp_ep_rkey_unpack(ep, packed, &again));
    ucp_memh_buffer_release(packed, NULL);
    OK(ucp_put(ep, "there", 6, there, again));
    OK(ucp_ep_flush(ep));
    OK(strcmp(memory, "there"));
    IS(ucp_memh_pack(memh, &exported, &packed, &size), UCS_ERR_UNSUPPORTED);
    /* keys are equal if their memory is the same, and in one order otherwise */
    map.address = data, map.length = sizeof data;
    OK(ucp_mem_map(context, &map, &other));
    OK(ucp_memh_pack(other, &plain, &packed, &size));
    OK(ucp_ep_rkey_unpack(ep, packed, &another));
    ucp_memh_buffer_release(packed, NULL);
    OK(ucp_rkey_compare(worker, rkey, again, &compare, &result));
    IS(result, 0);
    OK(ucp_rkey_compare(worker, rkey, another, &compare, &result));
    OK(ucp_rkey_compare(worker, another, rkey, &compare, &opposite));
    TRUE(result && result == -opposite);
    compare.field_mask = 1;
    IS(ucp_rkey_compare(worker, rkey, again, &compare, &result), UCS_ERR_INVALID_PARAM);
    ucp_rkey_destroy(again);
    ucp_rkey_destroy(another);
    OK(ucp_mem_unmap(context, other));
    /* sizes of data */
    OK(ucp_dt_query(ucp_dt_make_contig(8), &attr));
    IS(attr.packed_size, 8);
    IS(ucp_dt_query(ucp_dt_make_iov(), &attr), UCS_ERR_INVALID_PARAM);
    attr.field_mask |= UCP_DATATYPE_ATTR_FIELD_COUNT | UCP_DATATYPE_ATTR_FIELD_BUFFER;
    attr.count = 2, attr.buffer = iov;
    OK(ucp_dt_query(ucp_dt_make_contig(8), &attr));
    IS(attr.packed_size, 16);
    OK(ucp_dt_query(ucp_dt_make_iov(), &attr));
    IS(attr.packed_size, 17);
    OK(ucp_dt_create_generic(&ops, NULL, &generic));
    attr.count = 5, attr.buffer = data;
    walks[0].finished = 0;
    OK(ucp_dt_query(generic, &attr));
    IS(attr.packed_size, packed_size(&walks[0]));
    IS(walks[0].finished, 1);
    ucp_dt_destroy(generic);
    close_all();
}

struct mine { uint64_t mark; };
static int prepared, given_up;
static void prepare(void *request) { ((struct mine *)request)->mark = 0xfeed; prepared++; }
static void give_up(void *request) { IS(((struct mine *)request)->mark, 0xfeed); given_up++; }

static void test_requests(void) {
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE |
                                          UCP_PARAM_FIELD_REQUEST_INIT | UCP_PARAM_FIELD_REQUEST_CLEANUP,
                            .features = 0x7f, .request_size = sizeof(struct mine), .request_init = prepare,
                            .request_cleanup = give_up };
    ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_REQUEST_SIZE };
    ucp_request_attr_t asked;
    ucp_request_param_t own = { .op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK |
                                                UCP_OP_ATTR_FLAG_NO_IMM_CMPL, .cb.send = on_sent_nbx };
    ucp_tag_recv_info_t info = { 0 };
    char in[16], out[16] = "text", words[64];
    char *block;
    void *request, *receive;
    ucp_stream_poll_ep_t ready;
    size_t length;
    open_context(&params);
    receive = ucp_tag_recv_nb(worker, in, 16, ucp_dt_make_contig(1), 1, -1, NULL);
    IS(((struct mine *)receive)->mark, 0xfeed);
    asked = (ucp_request_attr_t){ .field_mask = UCP_REQUEST_ATTR_FIELD_STATUS | UCP_REQUEST_ATTR_FIELD_INFO_STRING |
                                                UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE,
                                  .debug_string = words, .debug_string_size = sizeof words };
    OK(ucp_request_query(receive, &asked));
    IS(asked.status, UCS_INPROGRESS);
    TRUE(strlen(words) > 0 && strlen(words) < sizeof words);
    /* memory of the program's */
    OK(ucp_context_query(context, &attr));
    TRUE(attr.request_size > 0);
    block = malloc(attr.request_size + 64);
    own.request = block + attr.request_size;
    memset(own.request, 0x5a, 64);
    request = ucp_tag_send_nbx(ep, out, 16, 1, &own);
    TRUE(request == own.request);
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    OK(ucp_request_check_status(request));
    IS(ucp_request_is_completed(request), 1);
    IS(called, 1);
    OK(ended(receive));
    IS(ucp_tag_recv_nbr(worker, in, 16, ucp_dt_make_contig(1), 2, -1, own.request), UCS_INPROGRESS);
    FAILS(ucp_tag_recv_nbr(worker, in, 16, ucp_dt_make_contig(1), 3, -1, own.request)); /* it is used */
    OK(ucp_tag_send_nbr(ep, out, 8, ucp_dt_make_contig(1), 2, malloc(200) + 100));
    while (ucp_tag_recv_request_test(own.request, &info) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    IS(info.length, 8);
    /* over at once, as the message has come: programs ask their memory nevertheless */
    OK(ended(ucp_tag_send_nbx(ep, out, 12, 0x77, NULL)));
    for (int turn = 0; turn < 1000 && !ucp_tag_probe_nb(worker, 0x77, -1, 0, &info); turn++)
        ucp_worker_progress(worker);
    ucp_request_param_t at_once = { .op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST, .request = own.request };
    IS((intptr_t)ucp_tag_recv_nbx(worker, in, 16, 0x77, -1, &at_once), 0);
    memset(&info, 0, sizeof info);
    OK(ucp_request_test(own.request, &info));
    IS(info.length, 12);
    IS(info.sender_tag, 0x77);
    for (int index = 0; index < 64; index++)
        IS(((char *)own.request)[index], 0x5a);
    free(block);
    /* given out by the library */
    own.request = ucp_request_alloc(worker);
    IS(((struct mine *)own.request)->mark, 0xfeed);
    request = ucp_tag_send_nbx(ep, out, 16, 2, &own);
    TRUE(request == own.request);
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(own.request);
    FAILS(ucp_request_check_status(own.request));
    TRUE(ucp_request_alloc(worker) == own.request);
    at_once.request = own.request;
    OK(ended(ucp_tag_send_nbx(ep, out, 12, 0x77, NULL)));
    while (!ucp_tag_probe_nb(worker, 0x77, -1, 0, &info))
        ucp_worker_progress(worker);
    IS((intptr_t)ucp_tag_recv_nbx(worker, in, 16, 0x77, -1, &at_once), 0);
    OK(ucp_request_check_status(own.request));
    memset(&info, 0, sizeof info);
    OK(ucp_tag_recv_request_test(own.request, &info));
    IS(info.length, 12);
    OK(ended(ucp_stream_send_nbx(ep, out, 12, NULL)));
    while (!ucp_stream_worker_poll(worker, &ready, 1, 0))
        ucp_worker_progress(worker);
    IS((intptr_t)ucp_stream_recv_nbx(ep, in, 16, &length, &at_once), 0);
    length = 0;
    OK(ucp_stream_recv_request_test(own.request, &length));
    IS(length, 12);
    /* released, and told of all the same; freed, and not told */
    called = 0;
    receive = ucp_tag_recv_nb(worker, in, 16, ucp_dt_make_contig(1), 9, -1, (ucp_tag_recv_callback_t)on_sent);
    ucp_request_release(receive);
    OK(ended(ucp_tag_send_nbx(ep, out, 16, 9, NULL)));
    until_called(1);
    receive = ucp_tag_recv_nb(worker, in, 16, ucp_dt_make_contig(1), 9, -1, (ucp_tag_recv_callback_t)on_sent);
    ucp_request_free(receive);
    OK(ended(ucp_tag_send_nbx(ep, out, 16, 9, NULL)));
    OK(ended(ucp_tag_send_nbx(ep, out, 16, 10, NULL)));
    OK(ended(ucp_tag_recv_nb(worker, in, 16, ucp_dt_make_contig(1), 10, -1, NULL)));
    IS(called, 1);
    close_all();
    IS(prepared, given_up);
}

int main(int argc, char **argv) {
    static const struct test tests[] = {
        T(tagged_messages), T(callbacks_report_messages), T(put_and_get), T(atomics), T(active_messages), T(streams),
        T(datatypes), T(what_1_12_does_not_have), T(requests),
    };
    return run_test(tests, sizeof tests / sizeof *tests, argc, argv);
}
