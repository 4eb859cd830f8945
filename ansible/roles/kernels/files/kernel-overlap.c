/* kernel-overlap: whether non-blocking MPI-IO goes on while the program computes.
 *
 * Every process writes its part of one file, alone; computes for about as long, alone; and does both, the writing by a non-blocking call. If
 * the library writes while the program computes, both take as long as the longer one; if not, as long as one after the other. */
#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long long opt_mib = 64, opt_repeats = 5, opt_tests = 100;
static const char *opt_dir = ".", *opt_call = "iwrite_at";

static const struct kc_option options[] = {
    {"mib", KC_INTEGER, &opt_mib, 1, 2047, "MiB that each process writes"},
    {"repeats", KC_INTEGER, &opt_repeats, 1, 1000, "how often each of the three is done; the shortest time counts"},
    {"tests", KC_INTEGER, &opt_tests, 0, 1000000, "calls of MPI_Test while it computes: some libraries only write in such calls"},
    {"call", KC_TEXT, &opt_call, 0, 0, "iwrite_at, or iwrite_all (not every library survives it)"},
    {"dir", KC_TEXT, &opt_dir, 0, 0, "directory of the file, which is removed at the end"},
    {NULL, KC_FLAG, NULL, 0, 0, NULL},
};

#define PROBE 5000000 /* turns of computation from which its speed is known */

static char path[PATH_MAX];
static char *data;
static int bytes, is_collective;
static volatile double kept;

static void want(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    kc_fail(KC_IO_ERROR, "process %d: %s %s: %s", kc_rank, what, path, text);
}

static void compute(long long turns)
{
    double x = 0.3;
    for (long long i = 0; i < turns; i++)
        x = 3.75 * x * (1.0 - x);
    kept += x;
}

/* Seconds for `turns` of computation, in `opt_tests` + 1 parts with a test of the request in between. */
static double compute_with(long long turns, MPI_Request *request)
{
    double start = MPI_Wtime();
    long long done = 0;
    for (long long part = 1; part <= opt_tests + 1; part++) {
        long long until = turns * part / (opt_tests + 1);
        int is_written;
        compute(until - done);
        done = until;
        if (request)
            MPI_Test(request, &is_written, MPI_STATUS_IGNORE);
    }
    return MPI_Wtime() - start;
}

/* Seconds until everything is written and on storage; `turns` of computation go on meanwhile, or none. */
static double write_with(long long turns)
{
    MPI_File file;
    MPI_Request request;
    MPI_Status status;
    int count;
    if (kc_rank == 0)
        unlink(path);
    kc_barrier();
    want(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "cannot create");
    MPI_Offset at = (MPI_Offset)kc_rank * bytes;
    kc_barrier();
    double start = MPI_Wtime();
    if (is_collective)
        want(MPI_File_iwrite_at_all(file, at, data, bytes, MPI_BYTE, &request), "cannot write");
    else
        want(MPI_File_iwrite_at(file, at, data, bytes, MPI_BYTE, &request), "cannot write");
    if (turns > 0)
        compute_with(turns, &request);
    want(MPI_Wait(&request, &status), "cannot write");
    double seconds = MPI_Wtime() - start;
    /* of a request that was complete before, the status is empty */
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (turns == 0 && count != bytes)
        kc_fail(KC_IO_ERROR, "process %d: cannot write %s: fewer bytes than asked for (file system full?)", kc_rank, path);
    want(MPI_File_close(&file), "cannot close");
    if (!kc_size_well(path, (long long)bytes * kc_size))
        kc_end(KC_IO_ERROR);
    return kc_max(seconds);
}

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, "kernel-overlap", "whether non-blocking MPI-IO goes on while the program computes", options);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    is_collective = !strcmp(opt_call, "iwrite_all");
    if (!is_collective && strcmp(opt_call, "iwrite_at") != 0)
        kc_refuse(KC_USAGE, "--call: '%s' is none of iwrite_at, iwrite_all", opt_call);
    int length = snprintf(path, sizeof path, "%s/kernel-overlap.out", opt_dir);
    if (length < 0 || (size_t)length >= sizeof path)
        kc_refuse(KC_USAGE, "--dir: the path is too long");
    bytes = (int)(opt_mib << 20);
    data = kc_alloc((size_t)bytes, 1);
    for (int i = 0; i < bytes; i += 512)
        data[i] = (char)(i >> 9);
    kc_say("kernel-overlap: %lld MiB in each of %d processes, %s", opt_mib, kc_size, opt_call);

    /* what disturbs a measurement makes it longer: the shortest of several is the least disturbed */
    write_with(0);
    double io = fmin(write_with(0), write_with(0)), each = INFINITY, calc = INFINITY, both = INFINITY;
    for (int i = 0; i < 5; i++)
        each = fmin(each, kc_max(compute_with(PROBE, NULL)) / PROBE);
    long long turns = (long long)(io / each) + 1;
    MPI_Bcast(&turns, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    for (long long i = 1; i <= opt_repeats; i++) {
        double of_io = write_with(0);
        kc_barrier();
        double of_calc = kc_max(compute_with(turns, NULL)), of_both = write_with(turns);
        kc_say("Repeat %lld: io %.6f s, calc %.6f s, both %.6f s", i, of_io, of_calc, of_both);
        io = fmin(io, of_io);
        calc = fmin(calc, of_calc);
        both = fmin(both, of_both);
    }
    if (kc_rank == 0)
        unlink(path);
    kc_say("T_io = %.6f s", io);
    kc_say("T_calc = %.6f s", calc);
    kc_say("T_both = %.6f s", both);
    kc_say("Overlap = %.4f", (io + calc - both) / fmin(io, calc));
    free(data);
    kc_end(KC_OK);
}
