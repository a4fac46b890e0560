/* An object of each kind that programs begin with, and checks that end the program with the line that failed. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

static int line;
static void fail(const char *what, long got, long expected) {
    printf("line %d: %s: got %ld (%s), expected %ld\n", line, what, got, fi_strerror((int)labs(got)), expected);
    exit(1);
}
#define IS(call, expected) do { line = __LINE__; long got_ = (long)(call); \
    if (got_ != (long)(expected)) fail(#call, got_, (long)(expected)); } while (0)
#define OK(call) IS(call, 0)
#define FAILS(call) do { line = __LINE__; long got_ = (long)(call); if (got_ >= 0) fail(#call, got_, -1); } while (0)

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_eq *eq;
static struct fid_cntr *cntr;
static struct fid_mr *mr;
static fi_addr_t self;
static enum fi_progress progress; /* unspecified, unless a program wants one */
static char memory[4096];

static struct fi_info *ask(enum fi_ep_type type, uint64_t caps) {
    struct fi_info *hints = fi_allocinfo(), *found = NULL;
    hints->ep_attr->type = type;
    hints->caps = caps;
    hints->mode = FI_CONTEXT;
    hints->domain_attr->mr_mode = FI_MR_ENDPOINT;
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = progress;
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found));
    fi_freeinfo(hints);
    return found;
}

static void open_all(void) {
    struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };
    struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
    struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
    struct fi_cntr_attr cntr_attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
    char name[64];
    size_t length = sizeof name;
    info = ask(FI_EP_RDM, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC);
    OK(fi_fabric(info->fabric_attr, &fabric, NULL));
    OK(fi_domain(fabric, info, &domain, NULL));
    OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
    OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
    OK(fi_av_open(domain, &av_attr, &av, NULL));
    OK(fi_cntr_open(domain, &cntr_attr, &cntr, NULL));
    OK(fi_endpoint(domain, info, &ep, NULL));
    OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_ep_bind(ep, &av->fid, 0));
    OK(fi_enable(ep));
    OK(fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
    OK(fi_getname(&ep->fid, name, &length));
    IS(fi_av_insert(av, name, 1, &self, 0, NULL), 1);
}

static void close_all(void) {
    OK(fi_close(&mr->fid));
    OK(fi_close(&ep->fid));
    OK(fi_close(&cntr->fid));
    OK(fi_close(&av->fid));
    OK(fi_close(&cq->fid));
    OK(fi_close(&eq->fid));
    OK(fi_close(&domain->fid));
    OK(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

static void done(void) {
    struct fi_cq_data_entry entry;
    line = __LINE__;
    ssize_t got = fi_cq_sread(cq, &entry, 1, NULL, 10000);
    if (got != 1) {
        struct fi_cq_err_entry error = { 0 };
        fi_cq_readerr(cq, &error, 0);
        fail("completion", got, error.err);
    }
}
