/* kernel-stencil: explicit diffusion with a 7-point stencil in three dimensions.
 *
 * Several independent variables on an N x N x N grid with zero walls, distributed over a cartesian process grid of any size, with halo
 * exchange in every step. The field starts as the sum of two sine modes, which the discrete operator only scales: the exact field after any
 * number of steps is known, and so is the error, for every process count. Every point is computed by the same operations in the same
 * order, so that the checksum is bitwise the same for every process count, after a restart too.
 *
 * Compiled with OpenMP it is kernel-stencil-omp, whose processes compute with several threads; results are bitwise the same.
 *
 * Its own checkpoint is one file, written collectively, that holds the global arrays: a run with any other process count can read it. */
#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"
#include "kernel-layout.h"
#include "kernel-track.h"
#include "kernel-ways.h"

#include <limits.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846
#define FILE_NAME "kernel-stencil.ckpt"
#define TOLERANCE 1e-10

static long long opt_size = 48, opt_steps = 50, opt_vars = 5, opt_work = 1, opt_every = 0;
static const char *opt_dir = ".", *opt_restart = NULL;

static const struct kc_option options[] = {
    {"size", KC_INTEGER, &opt_size, 4, 4096, "grid points in each of three directions"},
    {"steps", KC_INTEGER, &opt_steps, 1, 1000000000, "last time step, also after a restart"},
    {"vars", KC_INTEGER, &opt_vars, 1, 64, "variables"},
    {"work", KC_INTEGER, &opt_work, 1, 1000000, "how many times each step is computed, to make it longer"},
    {"ckpt-every", KC_INTEGER, &opt_every, 0, 1000000000, "steps between checkpoints; 0 writes none"},
    {"ckpt-dir", KC_TEXT, &opt_dir, 0, 0, "directory of the checkpoint file " FILE_NAME},
    {"restart", KC_TEXT, &opt_restart, 0, 0, "go on from this checkpoint file, or from the one in this directory"},
    KL_OPTIONS,
    KW_OPTIONS,
    KT_OPTIONS,
    {NULL, KC_FLAG, NULL, 0, 0, NULL},
};

/* ---- the grid; directions are 0 = z, 1 = y, 2 = x, the last one contiguous ---- */

static MPI_Comm cart;
static int below[3], above[3];        /* neighbours */
static int first[3], count[3];        /* own points: global index of the first, and how many */
static size_t stride[3], volume;      /* in elements, with one halo layer on each side */
static double *now, *next;            /* [variable][z][y][x] */
static MPI_Datatype low_face[3], high_face[3], low_halo[3], high_halo[3];
static double *wave[2];               /* sine tables of the two modes, [direction * size + index] */
static double *amplitude[2];          /* of the two modes, [variable] */
static const int mode_number[2][3] = {{1, 1, 1}, {3, 1, 2}};

static double diffusivity(long long v)
{
    return 0.15 * (double)(v + 1) / (double)opt_vars; /* below 1/6: stable */
}

static size_t at(int v, int z, int y, int x)
{
    return (size_t)v * volume + (size_t)(z + 1) * stride[0] + (size_t)(y + 1) * stride[1] + (size_t)(x + 1);
}

static MPI_Datatype slab(int direction, int where)
{
    int full[4] = {(int)opt_vars, count[0] + 2, count[1] + 2, count[2] + 2};
    int part[4] = {(int)opt_vars, count[0], count[1], count[2]};
    int start[4] = {0, 1, 1, 1};
    part[direction + 1] = 1;
    start[direction + 1] = where;
    MPI_Datatype type;
    MPI_Type_create_subarray(4, full, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    return kc_type(type);
}

static void make_grid(void)
{
    int dims[3] = {0, 0, 0}, periods[3] = {0, 0, 0}, coords[3];
    MPI_Dims_create(kc_size, 3, dims);
    for (int d = 0; d < 3; d++)
        if (dims[d] > opt_size)
            kc_refuse(KC_USAGE, "%d processes make a grid of %dx%dx%d, too many for %lld points in a direction", kc_size, dims[0], dims[1],
                      dims[2], opt_size);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &cart);
    MPI_Cart_coords(cart, kc_rank, 3, coords);
    for (int d = 0; d < 3; d++) {
        MPI_Cart_shift(cart, d, 1, &below[d], &above[d]);
        first[d] = (int)(opt_size * coords[d] / dims[d]);
        count[d] = (int)(opt_size * (coords[d] + 1) / dims[d]) - first[d];
    }
    stride[2] = 1;
    stride[1] = (size_t)count[2] + 2;
    stride[0] = stride[1] * ((size_t)count[1] + 2);
    volume = stride[0] * ((size_t)count[0] + 2);
    /* MPI counts are int. The test must come out alike in all processes. */
    if (kc_max((double)volume * (double)opt_vars * sizeof(double)) > (double)INT_MAX)
        kc_refuse(KC_USAGE, "more than 2 GiB of data in one process; use a smaller --size or more processes");
    now = kt_alloc(volume * (size_t)opt_vars, sizeof *now);
    next = kt_alloc(volume * (size_t)opt_vars, sizeof *next);
    for (int d = 0; d < 3; d++) {
        low_face[d] = slab(d, 1);
        high_face[d] = slab(d, count[d]);
        low_halo[d] = slab(d, 0);
        high_halo[d] = slab(d, count[d] + 1);
    }
    for (int m = 0; m < 2; m++) {
        wave[m] = kc_alloc((size_t)(3 * opt_size), sizeof **wave);
        amplitude[m] = kc_alloc((size_t)opt_vars, sizeof **amplitude);
        for (int d = 0; d < 3; d++)
            for (int i = 0; i < opt_size; i++)
                wave[m][d * opt_size + i] = sin(PI * mode_number[m][d] * (i + 1) / (double)(opt_size + 1));
    }
}

static void exchange_halos(void)
{
    for (int d = 0; d < 3; d++) {
        kc_sendrecv(now, 1, high_face[d], above[d], now, 1, low_halo[d], below[d], d, cart);
        kc_sendrecv(now, 1, low_face[d], below[d], now, 1, high_halo[d], above[d], 3 + d, cart);
    }
}

static void sweep(void)
{
    for (int v = 0; v < opt_vars; v++) {
        const double k = diffusivity(v);
#ifdef _OPENMP
#pragma omp parallel for collapse(2) schedule(static)
#endif
        for (int z = 0; z < count[0]; z++)
            for (int y = 0; y < count[1]; y++) {
                const double *u = now + at(v, z, y, 0);
                double *w = next + at(v, z, y, 0);
                for (int x = 0; x < count[2]; x++)
                    w[x] = u[x] + k * (((u[x - 1] + u[x + 1]) + (u[x - (long)stride[1]] + u[x + (long)stride[1]])) +
                                       (u[x - (long)stride[0]] + u[x + (long)stride[0]]) - 6.0 * u[x]);
            }
    }
}

/* The discrete operator scales mode (a, b, c) by 1 - 4 k (sin^2(a h) + sin^2(b h) + sin^2(c h)), h = pi / 2 / (N + 1). */
static void set_amplitudes(long long step)
{
    for (int m = 0; m < 2; m++) {
        double s = 0.0;
        for (int d = 0; d < 3; d++) {
            double x = sin(0.5 * PI * mode_number[m][d] / (double)(opt_size + 1));
            s += x * x;
        }
        for (int v = 0; v < opt_vars; v++)
            amplitude[m][v] = (m == 0 ? 1.0 + 0.1 * v : 0.5) * pow(1.0 - 4.0 * diffusivity(v) * s, (double)step);
    }
}

static double exact(int v, int z, int y, int x)
{
    double u = 0.0;
    for (int m = 0; m < 2; m++)
        u += amplitude[m][v] * wave[m][z + first[0]] * wave[m][opt_size + y + first[1]] * wave[m][2 * opt_size + x + first[2]];
    return u;
}

#define EACH_POINT(v, z, y, x)                                                                                                              \
    for (int v = 0; v < opt_vars; v++)                                                                                                      \
        for (int z = 0; z < count[0]; z++)                                                                                                  \
            for (int y = 0; y < count[1]; y++)                                                                                              \
                for (int x = 0; x < count[2]; x++)

static void set_initial(void)
{
    set_amplitudes(0);
    EACH_POINT(v, z, y, x) now[at(v, z, y, x)] = exact(v, z, y, x);
}

/* Largest difference from the exact field, relative to the largest amplitude that any variable has left. */
static double error_now(long long step)
{
    double worst = 0.0, scale = 0.0;
    set_amplitudes(step);
    for (int v = 0; v < opt_vars; v++)
        scale = fmax(scale, fabs(amplitude[0][v]) + fabs(amplitude[1][v]));
    EACH_POINT(v, z, y, x) {
        double e = fabs(now[at(v, z, y, x)] - exact(v, z, y, x));
        if (!(e <= worst))
            worst = e;
    }
    /* In very long runs everything decays to nothing: then the rounding of the start is the measure. */
    return kc_max(worst) / fmax(scale, 1e-6);
}

static uint64_t checksum(void)
{
    uint64_t sum = 0;
    EACH_POINT(v, z, y, x) {
        uint64_t position = (((uint64_t)v * (uint64_t)opt_size + (uint64_t)(z + first[0])) * (uint64_t)opt_size + (uint64_t)(y + first[1])) *
                                (uint64_t)opt_size +
                            (uint64_t)(x + first[2]);
        sum += kc_mix(position, now[at(v, z, y, x)]);
    }
    return kc_sum_u64(sum);
}

/* ---- checkpoints ---- */

static long long data_bytes(void)
{
    return opt_vars * opt_size * opt_size * opt_size * (long long)sizeof(double);
}

static struct kc_checkpoint checkpoint_format(void)
{
    int vars = (int)opt_vars, size = (int)opt_size;
    struct kc_checkpoint format = {.magic = "cvcstncl", .file = FILE_NAME, .data_bytes = data_bytes(), .checksum = checksum,
                                   .fixed = {{"size", &opt_size}, {"vars", &opt_vars}},
                                   .blocks = {{.dims = 4, .count = {vars, count[0], count[1], count[2]},
                                               .memory = {vars, count[0] + 2, count[1] + 2, count[2] + 2}, .memory_first = {0, 1, 1, 1},
                                               .file = {vars, size, size, size}, .file_first = {0, first[0], first[1], first[2]}}}};
    kc_make_types(&format);
    return format;
}

#ifdef _OPENMP
#define PROGRAM "kernel-stencil-omp"
/* How many threads really compute, and on how many cores: the fewest of all processes, and the most where that differs. */
static void say_threads(void)
{
    int threads = 0;
#pragma omp parallel
#pragma omp single
    threads = omp_get_num_threads();
    int fewest = -(int)kc_max(-threads), most = (int)kc_max(threads), cores = -(int)kc_max(-omp_get_num_procs());
    kc_say("Threads = %d in each process, %d allowed cores", fewest, cores);
    if (most > fewest)
        kc_say("Threads = %d in some process", most);
}
#else
#define PROGRAM "kernel-stencil"
static void say_threads(void) {}
#endif

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, PROGRAM, "3-D 7-point stencil with halo exchange and its own checkpoints (any number of processes)",
             options);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    make_grid();
    kc_say(PROGRAM ": %lld x %lld x %lld points, %lld variables, %d processes", opt_size, opt_size, opt_size, opt_vars, kc_size);
    say_threads();
    double start = MPI_Wtime();
    long long step = 0;
    struct kc_checkpoint format = checkpoint_format();
    struct kc_written written = {0, 0, 0, 0.0};
    if (opt_restart)
        step = kl_read(&format, opt_restart, now, opt_steps);
    else
        set_initial();

    kw_begin(&format, opt_every > 0, volume * (size_t)opt_vars * sizeof *now);
    if (opt_every > 0)
        kc_heed_signal();
    kt_begin();
    while (step < opt_steps) {
        step++;
        for (long long w = 0; w < opt_work; w++) {
            exchange_halos();
            sweep();
        }
        double *old = now;
        now = next;
        next = kw_other_grid(old);
        kc_say("Time step %lld", step);
        int asked = opt_every > 0 && kc_asked() && step < opt_steps;
        if (asked)
            kw_wait(&written);
        if (opt_every > 0 && (step % opt_every == 0 || asked))
            kc_write_checkpoint(&format, opt_dir, now, step, &written);
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
    kc_say("Error = %.3e (tolerance %.0e)", error, TOLERANCE);
    int code = kc_verdict(error <= TOLERANCE, seconds);
    MPI_Comm_free(&cart);
    kc_end(code);
}
