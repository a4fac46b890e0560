/* What the programs beside this have in common: a context with everything, a worker, and an endpoint to itself. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ucp/api/ucp.h>

#if UCP_API_MINOR < 14
enum { UCP_MEMH_PACK_PARAM_FIELD_FLAGS = 1, UCP_MEMH_PACK_FLAG_EXPORT = 1 };
enum { UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE = 1, UCP_DATATYPE_ATTR_FIELD_BUFFER = 2, UCP_DATATYPE_ATTR_FIELD_COUNT = 4 };
typedef struct { uint64_t field_mask, flags; } ucp_memh_pack_params_t;
typedef struct { uint64_t field_mask; } ucp_memh_buffer_release_params_t;
typedef struct { uint64_t field_mask; size_t packed_size; const void *buffer; size_t count; } ucp_datatype_attr_t;
ucs_status_t ucp_memh_pack(ucp_mem_h, const ucp_memh_pack_params_t *, void **, size_t *);
void ucp_memh_buffer_release(void *, const ucp_memh_buffer_release_params_t *);
ucs_status_t ucp_dt_query(ucp_datatype_t, ucp_datatype_attr_t *);
#endif
#if UCP_API_MINOR < 16
typedef struct { uint64_t field_mask; } ucp_rkey_compare_params_t;
ucs_status_t ucp_rkey_compare(ucp_worker_h, ucp_rkey_h, ucp_rkey_h, const ucp_rkey_compare_params_t *, int *);
#endif

static int line;
static void fail(const char *what, long got, long expected) {
    printf("line %d: %s: got %ld (%s), expected %ld\n", line, what, got, ucs_status_string((ucs_status_t)got), expected);
    exit(1);
}
#define IS(call, expected) do { int line_ = line = __LINE__; long got_ = (long)(call); line = line_; \
    if (got_ != (long)(expected)) fail(#call, got_, (long)(expected)); } while (0)
#define OK(call) IS(call, UCS_OK)
#define TRUE(what) IS(!!(what), 1)
/* Of calls with a status, with a pointer that may be one, and with neither. */
#define FAILS(call) do { line = __LINE__; long got_ = (long)(call); if (got_ >= 0 || got_ < -100) fail(#call, got_, -5); \
    } while (0)
#define PFAILS(call) do { line = __LINE__; void *got_ = (void *)(call); \
    if (!UCS_PTR_IS_ERR(got_)) fail(#call, (long)got_, -5); } while (0)
#define PIS(call, expected) do { line = __LINE__; long got_ = (long)UCS_PTR_STATUS(call); \
    if (got_ != (long)(expected)) fail(#call, got_, (long)(expected)); } while (0)

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_mem_h memh;
static ucp_rkey_h rkey;
static ucp_address_t *address;
static size_t address_length;
static char memory[1 << 16];
static uint64_t there; /* the address of memory, as peers say it */
static int called;     /* how many callbacks there were */
static ucs_status_t told;

static ucp_ep_h connect_to_self(void) {
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address };
    ucp_ep_h made;
    OK(ucp_ep_create(worker, &params, &made));
    return made;
}

static ucp_context_h new_context(uint64_t features) {
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = features };
    ucp_context_h made;
    OK(ucp_init(&params, NULL, &made));
    return made;
}

static void open_context(const ucp_params_t *params) {
    ucp_worker_params_t worker_params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                          .thread_mode = UCS_THREAD_MODE_MULTI };
    ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                 .address = memory, .length = sizeof memory };
    void *packed;
    size_t size;
    OK(ucp_init(params, NULL, &context));
    OK(ucp_worker_create(context, &worker_params, &worker));
    OK(ucp_worker_get_address(worker, &address, &address_length));
    ep = connect_to_self();
    OK(ucp_mem_map(context, &map, &memh));
    OK(ucp_rkey_pack(context, memh, &packed, &size));
    OK(ucp_ep_rkey_unpack(ep, packed, &rkey));
    ucp_rkey_buffer_release(packed);
    there = (uintptr_t)memory;
}

static void open_all(void) {
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = 0x7f };
    open_context(&params);
}

static ucs_status_t ended(void *request) {
    ucs_status_t status;
    if (request == NULL)
        return UCS_OK;
    if (UCS_PTR_IS_ERR(request))
        return UCS_PTR_STATUS(request);
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    ucp_request_free(request);
    return status;
}

static void close_all(void) {
    ucp_rkey_destroy(rkey);
    OK(ucp_mem_unmap(context, memh));
    OK(ended(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH)));
    ucp_worker_release_address(worker, address);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

static void until_called(int times) {
    for (int turn = 0; called < times && turn < 100000; turn++)
        ucp_worker_progress(worker);
    IS(called, times);
}

static inline void on_sent(void *request, ucs_status_t status) { called++, told = status; }
static inline void on_sent_nbx(void *request, ucs_status_t status, void *user_data) {
    called++, told = status;
    if (user_data)
        (*(int *)user_data)++;
}

struct test { const char *name; void (*run)(void); };
#define T(name) { #name, test_##name }
static int run_test(const struct test *tests, size_t count, int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t index = 0; index < count; index++) {
        if (argc == 1)
            puts(tests[index].name);
        else if (!strcmp(argv[1], tests[index].name)) {
            tests[index].run();
            return 0;
        }
    }
    return argc != 1;
}
