/* As many endpoints as there are: prints how many fi_info offers, how many could be enabled, and what refused the next. */
#include "opened.h"

#define MOST 40

int main(void) {
    struct fid_ep *eps[MOST];
    int opened = 0, refusal = 0;
    open_all(); /* with the first */
    while (opened < MOST && !refusal) {
        OK(fi_endpoint(domain, info, &eps[opened], NULL));
        OK(fi_ep_bind(eps[opened], &cq->fid, FI_TRANSMIT | FI_RECV));
        OK(fi_ep_bind(eps[opened], &av->fid, 0));
        refusal = fi_enable(eps[opened++]);
    }
    printf("%zu %d %s\n", info->domain_attr->ep_cnt, opened, fi_strerror(-refusal));
    while (opened)
        OK(fi_close(&eps[--opened]->fid));
    close_all();
    return 0;
}
