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

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_NAME "kernel-front.ckpt"
#define HEADER_BYTES 4096
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
    field = kc_alloc(values + ages, sizeof *field);
    age = field + values;
    grown = kc_alloc(ages, sizeof *grown);
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

/* At the start of the file, in the byte order of the machine; `byte_order` tells. The arrays follow at HEADER_BYTES. */
struct header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t step, size, vars, pace, wake, data_bytes, data_sum, header_sum;
};
#define MAGIC "cvcfront"
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

static long long field_bytes(void)
{
    return opt_vars * opt_size * opt_size * opt_size * (long long)sizeof(double);
}

/* The field, and the ages of all rows. */
static long long data_bytes(void)
{
    return field_bytes() + opt_size * opt_size * (long long)sizeof(double);
}

static MPI_Datatype memory_type, file_type, header_type;

static void make_file_types(void)
{
    int size = (int)opt_size;
    int global[4] = {(int)opt_vars, size, count, size}, all_ages[2] = {size, count + 2}, own_ages[2] = {size, count}, halo[2] = {0, 1};
    int part[4] = {(int)opt_vars, size, count, size}, start[4] = {0, 0, first, 0};
    int lengths[2] = {1, 1};
    MPI_Aint in_memory[2] = {0, (MPI_Aint)(values * sizeof(double))}, in_file[2] = {0, (MPI_Aint)field_bytes()};
    MPI_Datatype parts[2];

    MPI_Type_contiguous((int)values, MPI_DOUBLE, &parts[0]);
    MPI_Type_create_subarray(2, all_ages, own_ages, halo, MPI_ORDER_C, MPI_DOUBLE, &parts[1]);
    MPI_Type_create_struct(2, lengths, in_memory, parts, &memory_type);
    memory_type = kc_type(memory_type);
    MPI_Type_free(&parts[0]);
    MPI_Type_free(&parts[1]);

    global[2] = size;
    MPI_Type_create_subarray(4, global, part, start, MPI_ORDER_C, MPI_DOUBLE, &parts[0]);
    all_ages[1] = size;
    halo[1] = first;
    MPI_Type_create_subarray(2, all_ages, own_ages, halo, MPI_ORDER_C, MPI_DOUBLE, &parts[1]);
    MPI_Type_create_struct(2, lengths, in_file, parts, &file_type);
    file_type = kc_type(file_type);
    MPI_Type_free(&parts[0]);
    MPI_Type_free(&parts[1]);
    MPI_Type_contiguous(HEADER_BYTES, MPI_BYTE, &header_type);
    header_type = kc_type(header_type);
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
                       .vars = (uint64_t)opt_vars, .pace = (uint64_t)opt_pace, .wake = (uint64_t)opt_wake,
                       .data_bytes = (uint64_t)data_bytes(), .data_sum = checksum()};
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
        rc = MPI_File_write_at_all(file, 0, field, 1, memory_type, &status);
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
        snprintf(text, room, "not a checkpoint of kernel-front (wrong magic)");
    else if (h->byte_order != BYTE_ORDER)
        snprintf(text, room, "written on a machine with another byte order");
    else if (h->version != VERSION)
        snprintf(text, room, "format version %u, this program reads %u", h->version, VERSION);
    else if (h->header_sum != header_sum(*h))
        snprintf(text, room, "corrupt: the header's checksum does not fit");
    else if (h->size != (uint64_t)opt_size || h->vars != (uint64_t)opt_vars || h->pace != (uint64_t)opt_pace || h->wake != (uint64_t)opt_wake)
        snprintf(text, room, "of a run with --size %llu --vars %llu --pace %llu --wake %llu, not --size %lld --vars %lld --pace %lld --wake %lld",
                 (unsigned long long)h->size, (unsigned long long)h->vars, (unsigned long long)h->pace, (unsigned long long)h->wake, opt_size,
                 opt_vars, opt_pace, opt_wake);
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
        rc = MPI_File_read_at_all(file, 0, field, 1, memory_type, &status);
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
    kc_start(&argc, &argv, "kernel-front", "a front crosses a domain at rest, with its own checkpoints (any number of processes)",
             options);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    make_grid();
    make_file_types();
    kc_say("kernel-front: %lld x %lld x %lld points, %lld variables, %d processes", opt_size, opt_size, opt_size, opt_vars, kc_size);
    double start = MPI_Wtime();
    long long step = 0, bytes = 0;
    int checkpoints = 0;
    double writing = 0.0;
    volatile double kept = 0.0;
    if (opt_restart)
        step = read_checkpoint();
    else
        set_initial();

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
    kc_say("Error = %.3e (to be 0)", error);
    int code = kc_verdict(error == 0.0, seconds);
    kc_end(code);
}
