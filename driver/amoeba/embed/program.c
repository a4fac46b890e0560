/* The program's own calls of Python, in a process whose Python this library has started.
 *
 * Programs that can run Python end with "if (Py_IsInitialized()) Py_Finalize();", and begin with Py_Initialize(). The
 * interpreter here is not theirs, and no thread of theirs holds its lock, so both would crash: the first takes the
 * network from under MPI besides. So the references of all loaded objects to these functions are led here, as UCX leads
 * those to malloc (its ucm_reloc_modify). The interpreter ends with the process (start.c), whatever the program calls.
 * References that are looked up with dlsym, or lie in objects that are loaded later, stay as they are. */
#define _GNU_SOURCE
#include <Python.h>

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define IS_REFERENCE(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_REFERENCE(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#else
#define IS_REFERENCE(type) 0
#endif

int amoeba_alive(void);
static int begun;
int amoeba_program_has_begun(void) { return begun; }

/* The program begins with Python, or believes so: from now on its thread holds the lock, as after Py_Initialize. */
static int begin(void) {
    if (!amoeba_alive())
        return 0;
    begun = 1;
    if (!PyGILState_Check())
        PyGILState_Ensure();
    return 1;
}

/* The program has done with Python: what it printed is to be seen, and others may have the lock. */
static int end(void) {
    PyGILState_STATE gil = PyGILState_UNLOCKED;
    int held;
    if (!amoeba_alive())
        return 0;
    held = PyGILState_Check();
    if (!held)
        gil = PyGILState_Ensure();
    PyRun_SimpleString("import sys\n"
                       "for stream in (sys.stdout, sys.stderr):\n"
                       "    try: stream.flush()\n"
                       "    except Exception: pass\n");
    if (held)
        PyEval_SaveThread();
    else
        PyGILState_Release(gil);
    return 1;
}

static void initialize_ex(int signals) {
    if (!begin())
        Py_InitializeEx(signals);
}
static void initialize(void) { initialize_ex(1); }
static PyStatus initialize_from_config(const PyConfig *config) {
    return begin() ? PyStatus_Ok() : Py_InitializeFromConfig(config);
}
static int finalize_ex(void) { return end() ? 0 : Py_FinalizeEx(); }
static void finalize(void) { finalize_ex(); }
static void leave(int status) {
    if (!end())
        Py_Exit(status);
    exit(status);
}

static const struct { const char *name; void *with; } led_here[] = {
    { "Py_Initialize", (void *)initialize },
    { "Py_InitializeEx", (void *)initialize_ex },
    { "Py_InitializeFromConfig", (void *)initialize_from_config },
    { "Py_Finalize", (void *)finalize },
    { "Py_FinalizeEx", (void *)finalize_ex },
    { "Py_Exit", (void *)leave },
};

static void *replacement(const char *name) {
    if (name[0] == 'P' && name[1] == 'y' && name[2] == '_')
        for (size_t index = 0; index < sizeof led_here / sizeof *led_here; index++)
            if (!strcmp(name, led_here[index].name))
                return led_here[index].with;
    return NULL;
}

/* Where the loader has written what a reference means. It may have made the page read-only since. */
static void lead(void **place, void *with, int read_only) {
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)place & -size);
    if (read_only && mprotect(page, size, PROT_READ | PROT_WRITE))
        return;
    __atomic_store_n(place, with, __ATOMIC_RELEASE);
    if (read_only)
        mprotect(page, size, PROT_READ);
}

struct object {
    ElfW(Addr) base, relro, relro_end;
    const ElfW(Sym) *symbols;
    const char *names;
};

static void lead_all(const struct object *object, const ElfW(Rela) *references, size_t size) {
    for (size_t index = 0; references && index < size / sizeof *references; index++) {
        const ElfW(Rela) *each = &references[index];
        ElfW(Addr) place = object->base + each->r_offset;
        void *with = NULL;
        if (IS_REFERENCE(ELF64_R_TYPE(each->r_info)))
            with = replacement(object->names + object->symbols[ELF64_R_SYM(each->r_info)].st_name);
        if (with)
            lead((void **)place, with, place >= object->relro && place < object->relro_end);
    }
}

/* The loader adds the base to the addresses of this section, but not everywhere. */
static const void *at(const struct object *object, ElfW(Addr) address) {
    return (const void *)(address < object->base ? object->base + address : address);
}

static int visit(struct dl_phdr_info *info, size_t size, void *own_base) {
    struct object object = { .base = info->dlpi_addr };
    const ElfW(Dyn) *entry = NULL;
    const ElfW(Rela) *plain = NULL, *calls = NULL;
    size_t plain_size = 0, calls_size = 0;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[index];
        if (header->p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(object.base + header->p_vaddr);
        if (header->p_type == PT_GNU_RELRO) {
            object.relro = object.base + header->p_vaddr;
            object.relro_end = (object.relro + header->p_memsz) & -(ElfW(Addr))sysconf(_SC_PAGESIZE);
        }
    }
    if (!entry || object.base == (ElfW(Addr))own_base)
        return 0;
    for (; entry->d_tag != DT_NULL; entry++)
        switch (entry->d_tag) {
        case DT_SYMTAB: object.symbols = at(&object, entry->d_un.d_ptr); break;
        case DT_STRTAB: object.names = at(&object, entry->d_un.d_ptr); break;
        case DT_RELA: plain = at(&object, entry->d_un.d_ptr); break;
        case DT_RELASZ: plain_size = entry->d_un.d_val; break;
        case DT_JMPREL: calls = at(&object, entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: calls_size = entry->d_un.d_val; break;
        }
    if (object.symbols && object.names) {
        lead_all(&object, plain, plain_size);
        lead_all(&object, calls, calls_size);
    }
    return 0;
}

/* Python has been started here: from now on the program shares it. */
void amoeba_share_python(void *own_base) { dl_iterate_phdr(visit, own_base); }
