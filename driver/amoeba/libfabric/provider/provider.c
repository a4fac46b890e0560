/* The C side of libamoeba-fi.so: objects as libfabric's programs see them, its loaded core, and the provider itself.
 * The tables stand before this (tables.py), the functions that they call before those (library.py). */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define FI_VERSION(major, minor) (((major) << 16) | (minor))
#define OLDEST FI_VERSION(1, 17) /* of which the layouts are */

enum class {
    FABRIC = 1, DOMAIN_, EP, SEP, RX_CTX, SRX_CTX, TX_CTX, STX_CTX, PEP, AV = 11, MR, EQ, CQ, CNTR, WAIT, POLL, CONNREQ
};

/* What follows struct fid in an object of each class: its tables, in libfabric's order. */
static const void *const slots[][7] = {
    [FABRIC] = { &ops_fabric },
    [DOMAIN_] = { &ops_domain, &ops_mr },
    [EP] = { &ops_ep, &ops_cm, &ops_msg, &ops_rma, &ops_tagged, &ops_atomic, &ops_collective },
    [SEP] = { &ops_ep, &ops_cm, &ops_msg, &ops_rma, &ops_tagged, &ops_atomic, &ops_collective },
    [RX_CTX] = { &ops_ep, &ops_cm, &ops_msg, &ops_rma, &ops_tagged, &ops_atomic, &ops_collective },
    [SRX_CTX] = { &ops_ep, &ops_cm, &ops_msg, &ops_rma, &ops_tagged, &ops_atomic, &ops_collective },
    [TX_CTX] = { &ops_ep, &ops_cm, &ops_msg, &ops_rma, &ops_tagged, &ops_atomic, &ops_collective },
    [STX_CTX] = { &ops_ep },
    [PEP] = { &ops_ep, &ops_cm },
    [AV] = { &ops_av },
    [MR] = { NULL },
    [EQ] = { &ops_eq },
    [CQ] = { &ops_cq },
    [CNTR] = { &ops_cntr },
    [WAIT] = { &ops_wait },
    [POLL] = { &ops_poll },
    [CONNREQ] = { NULL },
};

static struct amoeba_fid *object_new(int class, uintptr_t context) {
    struct amoeba_fid *made = calloc(1, sizeof *made);
    if (made) {
        made->fid.fclass = class;
        made->fid.context = (void *)context;
        made->fid.ops = &ops;
        memcpy(made->slots, slots[class], sizeof made->slots);
    }
    return made;
}

static void object_free(struct amoeba_fid *object) { free(object); }

static void *copy(const void *bytes, size_t size) {
    void *made = malloc(size ? size : 1);
    return made ? memcpy(made, bytes, size) : NULL;
}

/* Later releases have longer structures behind fi_info, and several of them may be loaded. So whoever has loaded this
 * makes and frees them. */
static struct fi_info *(*core_dupinfo)(const struct fi_info *);
static void (*core_freeinfo)(struct fi_info *);

static struct fi_info *info_new(void) { return core_dupinfo ? core_dupinfo(NULL) : NULL; }
static void info_free(struct fi_info *info) {
    if (core_freeinfo)
        core_freeinfo(info);
}

static int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                        const struct fi_info *hints, struct fi_info **info) {
    return provider_getinfo(version, node, service, flags, hints, info);
}
static int prov_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context) {
    return fabric_open(attr, N(context), (uintptr_t *)fabric);
}
static void prov_cleanup(void) {}

struct fi_provider {
    uint32_t version, fi_version;
    void *context[4];
    const char *name;
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    void (*cleanup)(void);
};

static struct fi_provider provider = {
    .version = AMOEBA_VERSION,
    .fi_version = OLDEST,
    .name = "amoeba",
    .getinfo = prov_getinfo,
    .fabric = prov_fabric,
    .cleanup = prov_cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void) {
    Dl_info core;
    void *loaded = NULL;
    uint32_t (*version)(void);
    if (dladdr(__builtin_return_address(0), &core) && core.dli_fname)
        loaded = dlopen(core.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!loaded)
        loaded = dlopen(NULL, RTLD_LAZY);
    if (!loaded)
        return NULL;
    version = (uint32_t (*)(void))dlsym(loaded, "fi_version");
    core_dupinfo = (struct fi_info *(*)(const struct fi_info *))dlsym(loaded, "fi_dupinfo");
    core_freeinfo = (void (*)(struct fi_info *))dlsym(loaded, "fi_freeinfo");
    if (!version || !core_dupinfo || !core_freeinfo)
        return NULL;
    provider.fi_version = version(); /* some cores skip providers that name another one */
    return &provider;
}
