/* kernel-stencil: explicit diffusion with a 7-point stencil in three dimensions.
 *
 * Several independent variables on an N x N x N grid with zero walls, distributed over a cartesian process grid of any size, with halo
 * exchange in every step. The field starts as the sum of two sine modes, which the discrete operator only scales: the exact field after any
 * number of steps is known, and so is the error, for every process count. Every point is computed by the same operations in the same
 * order, so that the checksum is bitwise the same for every process count, after a restart too.
 *
 * Its own checkpoint is one file, written collectively, that holds the global arrays: a run with any other process count can read it. */
#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PI 3.14159265358979323846
#define FILE_NAME "kernel-stencil.ckpt"
#define HEADER_BYTES 4096
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
    now = kc_alloc(volume * (size_t)opt_vars, sizeof *now);
    next = kc_alloc(volume * (size_t)opt_vars, sizeof *next);
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

/* At the start of the file, in the byte order of the machine; `byte_order` tells. The arrays follow at HEADER_BYTES. */
struct header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t step, size, vars, data_bytes, data_sum, header_sum;
};
#define MAGIC "cvcstncl"
#define VERSION 1u
#define BYTE_ORDER 0x01020304u

static uint64_t header_sum(struct header h)
{
    uint64_t words[sizeof h / 8], sum = 0;
    h.header_sum = 0;
    memcpy(words, &h, sizeof h);
    for (size_t i = 0; i < sizeof h / 8; i++) {
        double as_double;
        memcpy(&as_double, &words[i], 8);
        sum += kc_mix(i, as_double);
    }
    return sum;
}

static MPI_Datatype memory_type, file_type, header_type;

static void make_file_types(void)
{
    int full[4] = {(int)opt_vars, count[0] + 2, count[1] + 2, count[2] + 2};
    int part[4] = {(int)opt_vars, count[0], count[1], count[2]};
    int ones[4] = {0, 1, 1, 1};
    int global[4] = {(int)opt_vars, (int)opt_size, (int)opt_size, (int)opt_size};
    int start[4] = {0, first[0], first[1], first[2]};
    MPI_Type_create_subarray(4, full, part, ones, MPI_ORDER_C, MPI_DOUBLE, &memory_type);
    memory_type = kc_type(memory_type);
    MPI_Type_create_subarray(4, global, part, start, MPI_ORDER_C, MPI_DOUBLE, &file_type);
    file_type = kc_type(file_type);
    MPI_Type_contiguous(HEADER_BYTES, MPI_BYTE, &header_type);
    header_type = kc_type(header_type);
}

static long long data_bytes(void)
{
    return opt_vars * opt_size * opt_size * opt_size * (long long)sizeof(double);
}

static int sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return errno;
    int code = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    /* Some file systems cannot sync a directory; that is no failure of the checkpoint. */
    return code == EINVAL || code == ENOTSUP ? 0 : code;
}

/* Writes to a temporary name, and takes the place of the last checkpoint only when everything is on disk. 1 where all went well. */
static int write_checkpoint(long long step, int number)
{
    char path[PATH_MAX], temporary[PATH_MAX + 8];
    double start = MPI_Wtime();
    int length = snprintf(path, sizeof path, "%s/%s", opt_dir, FILE_NAME);
    if (length < 0 || (size_t)length >= sizeof path)
        kc_refuse(KC_USAGE, "--ckpt-dir: the path is too long");
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    struct header h = {.version = VERSION, .byte_order = BYTE_ORDER, .step = (uint64_t)step, .size = (uint64_t)opt_size,
                       .vars = (uint64_t)opt_vars, .data_bytes = (uint64_t)data_bytes(), .data_sum = checksum()};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    h.header_sum = header_sum(h);

    MPI_File file;
    MPI_Status status;
    int rc;
    if (kc_rank == 0)
        unlink(temporary);
    kc_barrier();
    rc = MPI_File_open(MPI_COMM_WORLD, temporary, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    if (!kc_mpi_well(rc, NULL, MPI_BYTE, "cannot create", temporary))
        return 0;
    int well = 1;
    char block[HEADER_BYTES] = {0};
    memcpy(block, &h, sizeof h);
    kc_writes_begin();
    rc = MPI_SUCCESS;
    if (kc_rank == 0)
        rc = MPI_File_write_at(file, 0, block, 1, header_type, &status);
    well = kc_mpi_well(rc, kc_rank == 0 ? &status : NULL, header_type, "cannot write the header of", temporary);
    if (well) {
        rc = MPI_File_set_view(file, HEADER_BYTES, MPI_DOUBLE, file_type, "native", MPI_INFO_NULL);
        well = kc_mpi_well(rc, NULL, MPI_BYTE, "cannot set the view of", temporary);
    }
    if (well) {
        rc = MPI_File_write_at_all(file, 0, now, 1, memory_type, &status);
        well = kc_mpi_well(rc, &status, memory_type, "cannot write", temporary);
    }
    if (well) {
        rc = MPI_File_sync(file);
        well = kc_mpi_well(rc, NULL, MPI_BYTE, "cannot sync", temporary);
    }
    kc_writes_end();
    rc = MPI_File_close(&file);
    well = kc_mpi_well(rc, NULL, MPI_BYTE, "cannot close", temporary) && well;
    well = well && kc_size_well(temporary, HEADER_BYTES + data_bytes());
    int code = 0;
    if (kc_rank == 0) {
        if (well) {
            code = rename(temporary, path) == 0 ? sync_directory(opt_dir) : errno;
        } else {
            unlink(temporary);
        }
    }
    if (well)
        well = kc_all_well(code != 0, MPI_SUCCESS, code, "cannot put into place", path);
    if (well)
        kc_say("Checkpoint %d written: %lld bytes in %.6f s (step %lld)", number, HEADER_BYTES + data_bytes(), MPI_Wtime() - start, step);
    return well;
}

/* What is wrong with a header, or NULL. */
static const char *header_fault(const struct header *h, size_t got, long long file_bytes, char *text, size_t room)
{
    if (got < sizeof *h || file_bytes < HEADER_BYTES)
        snprintf(text, room, "truncated: %lld bytes, the header alone has %d", file_bytes, HEADER_BYTES);
    else if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        snprintf(text, room, "not a checkpoint of kernel-stencil (wrong magic)");
    else if (h->byte_order != BYTE_ORDER)
        snprintf(text, room, "written on a machine with another byte order");
    else if (h->version != VERSION)
        snprintf(text, room, "format version %u, this program reads %u", h->version, VERSION);
    else if (h->header_sum != header_sum(*h))
        snprintf(text, room, "corrupt: the header's checksum does not fit");
    else if (h->size != (uint64_t)opt_size || h->vars != (uint64_t)opt_vars)
        snprintf(text, room, "of a run with --size %llu --vars %llu, not --size %lld --vars %lld", (unsigned long long)h->size,
                 (unsigned long long)h->vars, opt_size, opt_vars);
    else if (file_bytes != HEADER_BYTES + (long long)h->data_bytes || h->data_bytes != (uint64_t)data_bytes())
        snprintf(text, room, "%s: %lld bytes instead of %lld", file_bytes < HEADER_BYTES + data_bytes() ? "truncated" : "corrupt", file_bytes,
                 HEADER_BYTES + data_bytes());
    else if (h->step > (uint64_t)opt_steps)
        snprintf(text, room, "at step %llu already, after --steps %lld", (unsigned long long)h->step, opt_steps);
    else
        return NULL;
    return text;
}

/* Reads a checkpoint and gives its step. Refuses anything that is not whole. */
static long long read_checkpoint(void)
{
    char path[PATH_MAX], text[256] = "";
    struct header h;
    memset(&h, 0, sizeof h);
    double start = MPI_Wtime();
    int bad = 0;
    snprintf(path, sizeof path, "%s", opt_restart);
    if (kc_rank == 0) {
        struct stat s;
        const char *fault = NULL;
        if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) {
            int length = snprintf(path, sizeof path, "%s/%s", opt_restart, FILE_NAME);
            if (length < 0 || (size_t)length >= sizeof path)
                fault = "the path is too long";
        }
        FILE *f = fault ? NULL : fopen(path, "rb");
        if (fault) {
        } else if (!f || fstat(fileno(f), &s) != 0) {
            fault = strerror(errno);
        } else {
            size_t got = fread(&h, 1, sizeof h, f);
            fault = header_fault(&h, got, (long long)s.st_size, text, sizeof text);
        }
        if (f)
            fclose(f);
        if (fault) {
            if (fault != text)
                snprintf(text, sizeof text, "%s", fault);
            bad = 1;
        }
    }
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (bad)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: %s", path, text);
    MPI_Bcast(&h, sizeof h, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);

    MPI_File file;
    MPI_Status status;
    int rc = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (!kc_mpi_well(rc, NULL, MPI_BYTE, "cannot open", path))
        kc_end(KC_IO_ERROR);
    rc = MPI_File_set_view(file, HEADER_BYTES, MPI_DOUBLE, file_type, "native", MPI_INFO_NULL);
    int well = kc_mpi_well(rc, NULL, MPI_BYTE, "cannot set the view of", path);
    if (well) {
        rc = MPI_File_read_at_all(file, 0, now, 1, memory_type, &status);
        well = kc_mpi_well(rc, &status, memory_type, "cannot read", path);
    }
    MPI_File_close(&file);
    if (!well)
        kc_end(KC_IO_ERROR);
    uint64_t sum = checksum();
    if (sum != h.data_sum)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: corrupt: the checksum of the data is %016llx instead of %016llx", path,
                  (unsigned long long)sum, (unsigned long long)h.data_sum);
    kc_say("Restarted from %s: step %llu, %lld bytes in %.6f s", path, (unsigned long long)h.step, HEADER_BYTES + data_bytes(),
           MPI_Wtime() - start);
    return (long long)h.step;
}

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, "kernel-stencil", "3-D 7-point stencil with halo exchange and its own checkpoints (any number of processes)",
             options);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    make_grid();
    make_file_types();
    kc_say("kernel-stencil: %lld x %lld x %lld points, %lld variables, %d processes", opt_size, opt_size, opt_size, opt_vars, kc_size);
    double start = MPI_Wtime();
    long long step = 0, bytes = 0;
    int checkpoints = 0;
    double writing = 0.0;
    if (opt_restart)
        step = read_checkpoint();
    else
        set_initial();

    while (step < opt_steps) {
        step++;
        for (long long w = 0; w < opt_work; w++) {
            exchange_halos();
            sweep();
        }
        double *swap = now;
        now = next;
        next = swap;
        kc_say("Time step %lld", step);
        if (opt_every > 0 && step % opt_every == 0) {
            double t = MPI_Wtime();
            if (!write_checkpoint(step, ++checkpoints))
                kc_refuse(KC_IO_ERROR, "checkpoint %d failed at step %lld", checkpoints, step);
            writing += MPI_Wtime() - t;
            bytes += HEADER_BYTES + data_bytes();
        }
    }
    double seconds = kc_max(MPI_Wtime() - start), error = error_now(step);
    if (checkpoints > 0) {
        double io = kc_max(writing);
        int writers = kc_writers(bytes, 1);
        kc_say("Bytes written = %lld", bytes);
        kc_say("I/O time = %.6f s", io);
        kc_say("I/O data rate = %.3f MiB/s", (double)bytes / 1048576.0 / io);
        kc_say("Writers = %d", writers);
    }
    kc_say("Checksum = %016llx", (unsigned long long)checksum());
    kc_say("Error = %.3e (tolerance %.0e)", error, TOLERANCE);
    int code = kc_verdict(error <= TOLERANCE, seconds);
    MPI_Comm_free(&cart);
    kc_end(code);
}
