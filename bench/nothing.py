"""A C library whose only function does nothing: what is left is the way to Python and back."""

from amoeba.embed import Binding, CFunction, CLibrary, build

__all__ = ["LIBRARY", "build"]

LIBRARY = CLibrary(
    "libamoeba-nothing.so",
    "bench.nothing",
    (CFunction("nothing_call", "int64_t", "uint64_t handle, const void *data, size_t size", exported=False),),
    includes="#include <time.h>",
    source="""
        static double seconds(void) {
            struct timespec now;
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
            return now.tv_sec + now.tv_nsec / 1e9;
        }
        __attribute__((visibility("default"))) double nothing_cost(int calls) {
            double begin;
            nothing_call(0, NULL, 0);
            begin = seconds();
            for (int i = 0; i < calls; i++) nothing_call(i, NULL, 0);
            return (seconds() - begin) / calls * 1e6;
        }
    """,
)


def start(binding: Binding) -> None:
    binding.define("nothing_call", lambda handle, data, size: None, lambda error: -1)
