/* The smallest MPI program: it starts, meets the others, and waits. What its checkpoint image has is the library's and DMTCP's, which tells
 * how much of the memory of other programs is. It must stay as small as it is: nothing is allocated, no message is sent between steps. */
#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"

#include <time.h>

static long long opt_steps = 20, opt_pause = 100;

static const struct kc_option options[] = {
    {"steps", KC_INTEGER, &opt_steps, 1, 1000000000, "steps"},
    {"pause", KC_INTEGER, &opt_pause, 1, 1000000, "milliseconds to wait in each step"},
    {0},
};

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, "kernel-idle", "start, barrier, wait: the memory of the MPI library alone", options);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long long step = 1; step <= opt_steps; step++) {
        struct timespec pause = {opt_pause / 1000, opt_pause % 1000 * 1000000};
        nanosleep(&pause, NULL);
        kc_say("Time step %lld", step);
    }
    double seconds = MPI_Wtime() - start;
    kc_barrier();
    /* Without a result to check, that all are still there after the last step is what it verifies. */
    kc_end(kc_verdict(seconds > 0.0, seconds));
}
