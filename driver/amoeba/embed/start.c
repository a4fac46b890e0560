/* What stands between C and Python in a shared library that contains Amoeba: Python's start on the first call, no call
 * into it once it ends, forks, and the end of the process. Compiled into each such library; nothing here is exported.
 *
 * AMOEBA_PYTHON     the interpreter that the library was built with: it tells where its packages are
 * AMOEBA_HOME       where that one's own packages are
 * AMOEBA_LIBPYTHON  its shared library
 * AMOEBA_PATHS      Python's list of folders where amoeba and what it needs were found then
 * AMOEBA_NAME       the library's name, for messages
 */
#define _GNU_SOURCE
#include <Python.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if PY_VERSION_HEX >= 0x030D0000
#define FINALIZING() Py_IsFinalizing()
#else
#define FINALIZING() _Py_IsFinalizing()
#endif
#define LOADED 0x5AFE

enum state { NEW, READY, FAILED, ENDED };
static _Atomic int state;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static __thread int in_start;
static __thread int forking;
static __thread PyGILState_STATE forking_gil;
static int own_interpreter;
static __thread enum { UNKNOWN, OF_C, OF_PYTHON } kind; /* whose the thread is */
static pid_t starter;

int amoeba_load(void); /* in the library: what Python does first */
void amoeba_share_python(void *own_base); /* in program.c */
int amoeba_program_has_begun(void);
int amoeba_is_deputy(void); /* in deputy.c */
void amoeba_deputy_forked(void);

int amoeba_alive(void) { return Py_IsInitialized() && !FINALIZING(); }

static void complain(const char *what, const char *detail) {
    fprintf(stderr, "%s: %s%s%s\n", AMOEBA_NAME, what, detail ? ": " : "", detail ? detail : "");
}

/* Extension modules find Python's names only if its library is global: programs load plugins as local ones. */
static int publish_python(void) {
    void *program = dlopen(NULL, RTLD_LAZY);
    int there = program && dlsym(program, "Py_IsInitialized") != NULL;
    if (program)
        dlclose(program);
    if (there || dlopen(AMOEBA_LIBPYTHON, RTLD_LAZY | RTLD_GLOBAL))
        return 1;
    complain("cannot load Python", dlerror());
    return 0;
}

/* PATH with another Python first, and PYTHONHOME of another program, do not matter; PYTHONPATH is the user's. The
 * program's locale and signal handlers stay as they are. */
static int start_python(void) {
    PyPreConfig early;
    PyConfig config;
    PyStatus status;
    Dl_info own;
    PyPreConfig_InitPythonConfig(&early);
    early.configure_locale = early.coerce_c_locale = 0;
    early.utf8_mode = 1;
    status = Py_PreInitialize(&early);
    if (!PyStatus_Exception(status)) {
        PyConfig_InitPythonConfig(&config);
        config.install_signal_handlers = config.parse_argv = 0;
        status = PyConfig_SetBytesString(&config, &config.program_name, AMOEBA_PYTHON);
        if (!PyStatus_Exception(status))
            status = PyConfig_SetBytesString(&config, &config.executable, AMOEBA_PYTHON);
        if (!PyStatus_Exception(status))
            status = PyConfig_SetBytesString(&config, &config.home, AMOEBA_HOME);
        if (!PyStatus_Exception(status))
            status = Py_InitializeFromConfig(&config);
        PyConfig_Clear(&config);
    }
    if (PyStatus_Exception(status)) {
        complain("cannot start Python", status.err_msg);
        return 0;
    }
    own_interpreter = 1;
    PyEval_SaveThread();
    if (dladdr((void *)&amoeba_alive, &own))
        amoeba_share_python(own.dli_fbase);
    return 1;
}

/* The program ends, and Python with it only if Python is the program: what must be done then is done here. */
static void at_exit(void) {
    if (atomic_load(&state) != READY || getpid() != starter)
        return;
    atomic_store(&state, ENDED);
    if (own_interpreter && amoeba_alive()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        PyRun_SimpleString("import atexit, sys\natexit._run_exitfuncs()\n"
                           "for stream in (sys.stdout, sys.stderr):\n"
                           "    try: stream.flush()\n"
                           "    except Exception: pass\n");
        PyGILState_Release(gil);
    }
}

/* A fork by C is told to Python as its own os.fork() would be; that one, which holds the lock, tells it itself. */
static void before_fork(void) {
    forking = 0;
    if (atomic_load(&state) == READY && amoeba_alive() && !PyGILState_Check()) {
        forking_gil = PyGILState_Ensure();
        PyOS_BeforeFork();
        forking = 1;
    }
}

static void after_fork_in_parent(void) {
    if (forking) {
        PyOS_AfterFork_Parent();
        PyGILState_Release(forking_gil);
    }
    forking = 0;
}

static void after_fork_in_child(void) {
    amoeba_deputy_forked();
    if (forking) {
        PyOS_AfterFork_Child();
        PyGILState_Release(forking_gil);
    }
    forking = 0;
}

static int same_version(void) {
    char expected[16];
    snprintf(expected, sizeof expected, "%d.%d.", PY_MAJOR_VERSION, PY_MINOR_VERSION);
    if (!strncmp(Py_GetVersion(), expected, strlen(expected)))
        return 1;
    fprintf(stderr, "%s: built for Python %d.%d, but this process runs Python %.40s\n", AMOEBA_NAME, PY_MAJOR_VERSION,
            PY_MINOR_VERSION, Py_GetVersion());
    return 0;
}

/* Amoeba is found where it was when the library was built, unless PYTHONPATH has another one; in a program of Python
 * only what the program itself does not have. */
static const char find_before_packages[] =
    "import os, sys\n"
    "place = len([p for p in os.environ.get('PYTHONPATH', '').split(os.pathsep) if p])\n"
    "sys.path[place:place] = [p for p in " AMOEBA_PATHS " if p not in sys.path]\n";
static const char find_behind_packages[] =
    "import sys\nsys.path += [p for p in " AMOEBA_PATHS " if p not in sys.path]\n";

/* Importing Python's signal takes Ctrl-C, whatever its start was told: it stays the program's. */
static const char leave_signals[] =
    "import signal\n"
    "if signal.getsignal(signal.SIGINT) is signal.default_int_handler:\n"
    "    signal.signal(signal.SIGINT, signal.SIG_DFL)\n";

static int start(void) {
    PyGILState_STATE gil;
    struct sigaction interrupt;
    int good;
    sigaction(SIGINT, NULL, &interrupt);
    if (!publish_python() || !same_version() || (!Py_IsInitialized() && !start_python()))
        return 0;
    gil = PyGILState_Ensure();
    good = PyRun_SimpleString(own_interpreter ? find_before_packages : find_behind_packages) == 0;
    if (own_interpreter) {
        good = good && PyRun_SimpleString(leave_signals) == 0;
        sigaction(SIGINT, &interrupt, NULL);
    }
    PyGILState_Release(gil);
    if (!good || amoeba_load() != LOADED) /* which has said why */
        return 0;
    starter = getpid();
    atexit(at_exit);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return 1;
}

/* Whether Python can be called. The first call starts it, in whichever thread; if that fails, none ever can. */
int amoeba_enter(void) {
    int now = atomic_load_explicit(&state, memory_order_acquire);
    PyThreadState *saved = NULL;
    if (kind == UNKNOWN && now != ENDED) /* calls leave a thread state to both */
        kind = amoeba_alive() && PyGILState_GetThisThreadState() ? OF_PYTHON : OF_C;
    if (now == READY)
        return amoeba_alive();
    if (now != NEW || in_start)
        return 0;
    if (Py_IsInitialized() && PyGILState_Check())
        saved = PyEval_SaveThread(); /* whoever starts it now needs the lock */
    pthread_mutex_lock(&starting);
    if (atomic_load(&state) == NEW) {
        in_start = 1;
        atomic_store(&state, start() ? READY : FAILED);
        in_start = 0;
    }
    pthread_mutex_unlock(&starting);
    if (saved)
        PyEval_RestoreThread(saved);
    return atomic_load(&state) == READY;
}

/* Whether this call is to be made by the deputy (deputy.c): the program may have Python's lock, and keep it. */
int amoeba_in_vain(void) {
    return kind == OF_C && (!own_interpreter || amoeba_program_has_begun()) && !amoeba_is_deputy() && !PyGILState_Check();
}

/* Python ends: nothing is called any more. */
void amoeba_end(void) { atomic_store(&state, ENDED); }
