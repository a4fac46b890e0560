/* A program that brings a UCX of its own, renamed as tools for Python wheels rename it: libucp-1234abcd.so.0.
 * Compiled with -DLIBRARY it is that library. */
#include <stdint.h>
#include <stdio.h>

typedef int (*read_config)(const char *, const char *, void **);

#ifdef LIBRARY
int ucp_config_read(const char *prefix, const char *file, void **config) {
    (void)prefix, (void)file;
    *config = NULL;
    return -1; /* UCS_ERR_NO_MESSAGE: a sign of its own */
}
#else
extern int ucp_config_read(const char *prefix, const char *file, void **config);
extern void ucp_config_release(void *config) __attribute__((weak));

int main(void) {
    void *config = NULL;
    int status = ucp_config_read(NULL, NULL, &config);
    if (status == 0)
        ucp_config_release(config);
    printf("%s\n", status == 0 ? "amoeba" : "own");
    return 0;
}
#endif
