/* kernel-front: a front crosses a domain at rest and leaves a part behind that keeps changing.
 *
 * Several variables on an N x N x N grid. A row of points (all x of one z and y) is lit by its neighbours: by those in y one step after
 * they were, by the one below in z `pace` steps after it was. The first row is lit in the first step, so that the row (z, y) is lit in step
 * 1 + pace z + y: a front that leans, and rises. A lit point iterates the logistic map from its own start value, for `wake` steps; then it
 * rests for good. Only the embers, an eighth of the domain where the front began, go on for ever. So what differs from the start grows with
 * every step, and what differs from a step before does not, once the front is within the domain.
 *
 * The domain is cut in y, and processes tell their neighbours in every step which rows are lit. How often a point was iterated is known for
 * every step without that, so the final field is compared to the bit, for every number of processes.
 *
 * Its own checkpoint is one file, written collectively, that holds the global arrays: a run with any other process count can read it. */
#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"
#include "kernel-layout.h"
#include "kernel-track.h"
#include "kernel-ways.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define FILE_NAME "kernel-front.ckpt"
#define GROWTH 3.75 /* of the logistic map: below 4 its values stay between 0 and 1, and do not settle */

static long long opt_size = 48, opt_steps = 200, opt_vars = 5, opt_work = 1, opt_pace = 4, opt_wake = 8, opt_pause = 0, opt_every = 0;
static const char *opt_dir = ".", *opt_restart = NULL;

static const struct kc_option options[] = {
    {"size", KC_INTEGER, &opt_size, 8, 4096, "grid points in each of three directions"},
    {"steps", KC_INTEGER, &opt_steps, 1, 1000000000, "last time step, also after a restart"},
    {"vars", KC_INTEGER, &opt_vars, 1, 64, "variables"},
    {"pace", KC_INTEGER, &opt_pace, 1, 1000000, "steps that the front takes for a grid point"},
    {"wake", KC_INTEGER, &opt_wake, 1, 1000000, "steps for which a point changes after the front"},
    {"work", KC_INTEGER, &opt_work, 1, 1000000, "how many times each step is computed, to make it longer"},
    {"pause", KC_INTEGER, &opt_pause, 0, 3600000, "milliseconds to wait after each step"},
    {"ckpt-every", KC_INTEGER, &opt_every, 0, 1000000000, "steps between checkpoints; 0 writes none"},
    {"ckpt-dir", KC_TEXT, &opt_dir, 0, 0, "directory of the checkpoint file " FILE_NAME},
    {"restart", KC_TEXT, &opt_restart, 0, 0, "go on from this checkpoint file, or from the one in this directory"},
    KL_OPTIONS,
    KW_OPTIONS,
    KT_OPTIONS,
    {NULL, KC_FLAG, NULL, 0, 0, NULL},
};

/* ---- the grid: cut in y; x is contiguous ---- */

static int below, above;       /* neighbours in y */
static int first, count;       /* own rows of a plane: global index of the first, and how many */
static size_t values, ages;    /* own ones: values of all variables, and ages with their halo */
static double *field;          /* [variable][z][y][x] */
static double *age;            /* steps since a row was lit, 0 before: [z][y], with a halo row on each side; behind the field */
static double *grown;          /* the ages after the step */
static MPI_Datatype column;    /* the ages at one y */

static size_t at(int v, int z, int y)
{
    return (((size_t)v * (size_t)opt_size + (size_t)z) * (size_t)count + (size_t)y) * (size_t)opt_size;
}

static size_t row(int z, int y)
{
    return (size_t)z * (size_t)(count + 2) + (size_t)(y + 1);
}

static uint64_t position(int v, int z, int y, int x)
{
    return (((uint64_t)v * (uint64_t)opt_size + (uint64_t)z) * (uint64_t)opt_size + (uint64_t)(y + first)) * (uint64_t)opt_size + (uint64_t)x;
}

/* The value before the front, between 0.1 and 0.9, by the upper bits of a hash. */
static double start_value(int v, int z, int y, int x)
{
    return 0.1 + 0.8 * (double)(kc_mix(position(v, z, y, x), 0.5) >> 12) / 4503599627370496.0;
}

static double iterate(double u)
{
    return GROWTH * u * (1.0 - u);
}

/* How often the points of a row are iterated until it has this age. */
static double turns(int z, double of_age)
{
    int is_ember = z < opt_size / 8;
    return is_ember || of_age < (double)opt_wake ? of_age : (double)opt_wake;
}

#define EACH_ROW(z, y)                                                                                                                      \
    for (int z = 0; z < opt_size; z++)                                                                                                      \
        for (int y = 0; y < count; y++)

static void make_grid(void)
{
    if (kc_size > opt_size)
        kc_refuse(KC_USAGE, "%d processes are too many for %lld points in a direction", kc_size, opt_size);
    below = kc_rank > 0 ? kc_rank - 1 : MPI_PROC_NULL;
    above = kc_rank + 1 < kc_size ? kc_rank + 1 : MPI_PROC_NULL;
    first = (int)(opt_size * kc_rank / kc_size);
    count = (int)(opt_size * (kc_rank + 1) / kc_size) - first;
    values = (size_t)opt_vars * (size_t)opt_size * (size_t)count * (size_t)opt_size;
    ages = (size_t)opt_size * (size_t)(count + 2);
    /* MPI counts are int. The test must come out alike in all processes. */
    if (kc_max((double)(values + ages) * sizeof(double)) > (double)INT_MAX)
        kc_refuse(KC_USAGE, "more than 2 GiB of data in one process; use a smaller --size or more processes");
    field = kt_alloc(values + ages, sizeof *field);
    age = field + values;
    grown = kt_alloc(ages, sizeof *grown);
    MPI_Datatype type;
    MPI_Type_vector((int)opt_size, 1, count + 2, MPI_DOUBLE, &type);
    column = kc_type(type);
}

static void set_initial(void)
{
    for (int v = 0; v < opt_vars; v++)
        EACH_ROW(z, y)
            for (int x = 0; x < opt_size; x++)
                field[at(v, z, y) + (size_t)x] = start_value(v, z, y, x);
}

/* Tells the neighbours which rows are lit. */
static void exchange_ages(void)
{
    kc_sendrecv(age + row(0, count - 1), 1, column, above, age + row(0, -1), 1, column, below, 0, MPI_COMM_WORLD);
    kc_sendrecv(age + row(0, 0), 1, column, below, age + row(0, count), 1, column, above, 1, MPI_COMM_WORLD);
}

/* The ages after the step. */
static void spread(void)
{
    EACH_ROW(z, y) {
        size_t r = row(z, y);
        int is_lit = age[r] > 0.0 || age[r - 1] > 0.0 || age[r + 1] > 0.0 || (z > 0 && age[row(z - 1, y)] >= (double)opt_pace) ||
                     (z == 0 && y + first == 0);
        grown[r] = is_lit ? age[r] + 1.0 : 0.0;
    }
}

/* Computes what the step makes of the lit points, and keeps it if it `is_last`. Returns their sum, so that nothing is left out. */
static double burn(int is_last)
{
    double sum = 0.0;
    for (int v = 0; v < opt_vars; v++)
        EACH_ROW(z, y) {
            if (turns(z, grown[row(z, y)]) == turns(z, age[row(z, y)]))
                continue;
            double *u = field + at(v, z, y);
            for (int x = 0; x < opt_size; x++) {
                double next = iterate(u[x]);
                sum += next;
                if (is_last)
                    u[x] = next;
            }
        }
    return sum;
}

/* Largest difference from what is known of a step; the field must be the same to the bit. */
static double error_now(long long step)
{
    double worst = 0.0;
    EACH_ROW(z, y) {
        double since = (double)(step - opt_pace * z - (y + first));
        double known = since > 0.0 ? since : 0.0, n = turns(z, known);
        if (age[row(z, y)] != known)
            worst = INFINITY;
        for (int v = 0; v < opt_vars; v++)
            for (int x = 0; x < opt_size; x++) {
                double u = start_value(v, z, y, x);
                for (double k = 0.0; k < n; k += 1.0)
                    u = iterate(u);
                double e = fabs(field[at(v, z, y) + (size_t)x] - u);
                if (!(e <= worst))
                    worst = e;
            }
    }
    return kc_max(worst);
}

static uint64_t checksum(void)
{
    uint64_t sum = 0, after = (uint64_t)opt_vars * (uint64_t)opt_size * (uint64_t)opt_size * (uint64_t)opt_size;
    for (int v = 0; v < opt_vars; v++)
        EACH_ROW(z, y)
            for (int x = 0; x < opt_size; x++)
                sum += kc_mix(position(v, z, y, x), field[at(v, z, y) + (size_t)x]);
    EACH_ROW(z, y)
        sum += kc_mix(after + (uint64_t)z * (uint64_t)opt_size + (uint64_t)(y + first), age[row(z, y)]);
    return kc_sum_u64(sum);
}

/* ---- checkpoints ---- */

static long long field_bytes(void)
{
    return opt_vars * opt_size * opt_size * opt_size * (long long)sizeof(double);
}

/* The field, and the ages of all rows. */
static long long data_bytes(void)
{
    return field_bytes() + opt_size * opt_size * (long long)sizeof(double);
}

static struct kc_checkpoint checkpoint_format(void)
{
    int vars = (int)opt_vars, size = (int)opt_size;
    struct kc_checkpoint format = {.magic = "cvcfront", .file = FILE_NAME, .data_bytes = data_bytes(), .checksum = checksum,
                                   .fixed = {{"size", &opt_size}, {"vars", &opt_vars}, {"pace", &opt_pace}, {"wake", &opt_wake}},
                                   .blocks = {{.dims = 4, .count = {vars, size, count, size}, .memory = {vars, size, count, size},
                                               .file = {vars, size, size, size}, .file_first = {0, 0, first, 0}},
                                              {.dims = 2, .count = {size, count}, .memory = {size, count + 2}, .memory_first = {0, 1},
                                               .file = {size, size}, .file_first = {0, first}, .memory_at = (long long)values,
                                               .file_at = field_bytes() / (long long)sizeof(double)}}};
    kc_make_types(&format);
    return format;
}

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, "kernel-front", "a front crosses a domain at rest, with its own checkpoints (any number of processes)",
             options);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    make_grid();
    kc_say("kernel-front: %lld x %lld x %lld points, %lld variables, %d processes", opt_size, opt_size, opt_size, opt_vars, kc_size);
    double start = MPI_Wtime();
    long long step = 0;
    struct kc_checkpoint format = checkpoint_format();
    struct kc_written written = {0, 0, 0, 0.0};
    volatile double kept = 0.0;
    if (opt_restart)
        step = kl_read(&format, opt_restart, field, opt_steps);
    else
        set_initial();

    kw_begin(&format, opt_every > 0, 0);
    if (opt_every > 0)
        kc_heed_signal();
    kt_begin();
    while (step < opt_steps) {
        step++;
        exchange_ages();
        spread();
        for (long long w = 0; w < opt_work; w++)
            kept += burn(w + 1 == opt_work);
        memcpy(age, grown, ages * sizeof *age);
        kc_say("Time step %lld", step);
        struct timespec pause = {.tv_sec = (time_t)(opt_pause / 1000), .tv_nsec = (long)(opt_pause % 1000) * 1000000L};
        if (opt_pause > 0)
            nanosleep(&pause, NULL);
        int asked = opt_every > 0 && kc_asked() && step < opt_steps;
        if (asked)
            kw_wait(&written);
        if (opt_every > 0 && (step % opt_every == 0 || asked))
            kc_write_checkpoint(&format, opt_dir, field, step, &written);
        else
            kw_step(&written);
        if (asked) {
            kw_end(&written);
            kc_leave(step);
        }
        kt_step(step, opt_every > 0, opt_every > 0 && step % opt_every == 0);
    }
    kw_end(&written);
    double seconds = kc_max(MPI_Wtime() - start), error = error_now(step);
    kc_say_written(&written);
    kt_say();
    kc_say("Checksum = %016llx", (unsigned long long)checksum());
    kc_say("Error = %.3e (to be 0)", error);
    int code = kc_verdict(error == 0.0, seconds);
    kc_end(code);
}
