/* The C side of libucp.so.0: what needs no Python, and memory of C's for what Python has. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* Programs refuse releases that are too old for them: who knows better says another one. */
static unsigned version[3] = { MAJOR, MINOR, RELEASE };
static char version_text[40];
__attribute__((constructor)) static void read_version(void) {
    const char *wanted = getenv("AMOEBA_UCX_VERSION");
    unsigned short read[3];
    char more;
    if (wanted && *wanted) {
        if (sscanf(wanted, "%hu.%hu.%hu%c", &read[0], &read[1], &read[2], &more) == 3)
            version[0] = read[0], version[1] = read[1], version[2] = read[2];
        else
            fprintf(stderr, "libucp.so.0: AMOEBA_UCX_VERSION: expected MAJOR.MINOR.RELEASE, got '%.40s'\n", wanted);
    }
    snprintf(version_text, sizeof version_text, "%u.%u.%u", version[0], version[1], version[2]);
}

EXPORTED void ucp_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number) {
    if (major_version)
        *major_version = version[0];
    if (minor_version)
        *minor_version = version[1];
    if (release_number)
        *release_number = version[2];
}

EXPORTED const char *ucp_get_version_string(void) { return version_text; }

static void *memory_new(size_t size) { return calloc(1, size ? size : 1); }
static void memory_free(uintptr_t address) { free((void *)address); }

static void print_text(FILE *stream, const char *text, size_t size) { fwrite(text, 1, size, stream ? stream : stdout); }

/* A request in memory of the program's is the program's alone once it is over: what became of it stands in front. */
struct note {
    uint64_t mark;
    int64_t status;
    ucp_tag_recv_info_t info;
};
_Static_assert(sizeof(struct note) <= REQUEST_SIZE, "a note has space");

static uint64_t mark_of(uintptr_t request) { return request * 0x9E3779B97F4A7C15u ^ 0xA0EBA0EBA0EBA0EBu; }

static void request_note(uintptr_t request, int status, uint64_t tag, size_t length) {
    struct note note = { mark_of(request), status, { tag, length } };
    memcpy((char *)request - REQUEST_SIZE, &note, sizeof note);
}

/* Any number may come as a request: the system says whether memory is there. */
static int request_noted(uintptr_t request, int *status, ucp_tag_recv_info_t *info) {
    struct note note;
    ssize_t got = -1;
    int memory = request > REQUEST_SIZE ? open("/proc/self/mem", O_RDONLY | O_CLOEXEC) : -1;
    if (memory >= 0) {
        got = pread(memory, &note, sizeof note, (off_t)(request - REQUEST_SIZE));
        close(memory);
    }
    if (got != sizeof note || note.mark != mark_of(request))
        return 0;
    *status = (int)note.status;
    *info = note.info;
    return 1;
}
