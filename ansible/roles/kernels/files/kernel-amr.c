/* kernel-amr: what an adaptive-mesh code writes, through parallel HDF5.
 *
 * Each process holds blocks of 8^3 cells with 4 guard cells on each side (16^3 in memory) for 24 variables. Every few steps a set of files is
 * written collectively: a checkpoint (all variables, double precision, interior cells only; not with --ckpt 0), a plot file of the first 4
 * variables in single precision at the cell centres, and one at the cell corners (9^3 for each block). The blocks are numbered through all
 * processes and stand in the files in that order, so that any process count can read them.
 *
 * Each cell follows a recurrence of its own, so that every value in memory and in the files can be computed again and is compared bitwise. */
#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"
#include "kernel-track.h"

#include <errno.h>
#include <hdf5.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CELLS 8                     /* of a block, in each direction */
#define GUARDS 4                    /* on each side */
#define WIDE (CELLS + 2 * GUARDS)
#define WIDE3 (WIDE * WIDE * WIDE)
#define CORNERS (CELLS + 1)
#define PLOT_VARS 4
#define FORMAT 1
#define CHECKPOINT "kernel-amr.ckpt.h5"

static long long opt_blocks = 20, opt_vars = 24, opt_steps = 20, opt_every = 0, opt_ckpt = 1, opt_work = 1;
static const char *opt_dir = ".", *opt_restart = NULL;

static const struct kc_option options[] = {
    {"blocks", KC_INTEGER, &opt_blocks, 1, 100000, "blocks of each process; after a restart the file tells"},
    {"vars", KC_INTEGER, &opt_vars, PLOT_VARS, 99, "variables"},
    {"steps", KC_INTEGER, &opt_steps, 1, 1000000, "last time step, also after a restart"},
    {"write-every", KC_INTEGER, &opt_every, 0, 1000000, "steps between sets of files; 0 writes one set after the last step"},
    {"ckpt", KC_INTEGER, &opt_ckpt, 0, 1, "1: a set of files has a checkpoint; 0: plot files only"},
    {"work", KC_INTEGER, &opt_work, 1, 1000000, "how many times each step is computed, to make it longer"},
    {"dir", KC_TEXT, &opt_dir, 0, 0, "directory of the files"},
    {"restart", KC_TEXT, &opt_restart, 0, 0, "go on from this checkpoint file, or from the one in this directory"},
    KT_OPTIONS,
    {NULL, KC_FLAG, NULL, 0, 0, NULL},
};

/* ---- blocks ---- */

static long long total_blocks, first_block, own_blocks;
static double *field; /* [own block][variable][z][y][x], with guard cells */

static double *cell(long long block, long long v, int z, int y, int x)
{
    return field + ((size_t)(block * opt_vars + v) * WIDE3 + (size_t)((z * WIDE + y) * WIDE + x));
}

/* A number in [0, 1) that belongs to a block and a variable. */
static double tag(long long block, long long v)
{
    return (double)(kc_mix((uint64_t)(block * opt_vars + v), 0.0) >> 11) * 0x1p-53;
}

static double initial(long long block, long long v, int z, int y, int x)
{
    return tag(block, v) + (x + 1.25 * y + 1.5 * z) / 64.0;
}

static double advanced(double u, double goal)
{
    return u + (goal - u) * 0.015625 + 0.001 * u * (1.0 - 0.25 * u);
}

static void share_blocks(long long total)
{
    total_blocks = total;
    first_block = total * kc_rank / kc_size;
    own_blocks = total * (kc_rank + 1) / kc_size - first_block;
    field = kt_alloc((size_t)(own_blocks * opt_vars), WIDE3 * sizeof *field);
}

static void step_once(double *values, double *scratch, double goal)
{
    for (int i = 0; i < WIDE3; i++)
        scratch[i] = advanced(values[i], goal);
}

static void advance(void)
{
    static double scratch[WIDE3];
    for (long long b = 0; b < own_blocks; b++)
        for (long long v = 0; v < opt_vars; v++) {
            double *values = cell(b, v, 0, 0, 0), goal = tag(first_block + b, v);
            for (long long w = 0; w < opt_work; w++)
                step_once(values, scratch, goal);
            memcpy(values, scratch, sizeof scratch);
        }
}

#define EACH_CELL(b, v, z, y, x, low, high)                                                                                                 \
    for (long long b = 0; b < own_blocks; b++)                                                                                              \
        for (long long v = 0; v < opt_vars; v++)                                                                                            \
            for (int z = low; z < high; z++)                                                                                                \
                for (int y = low; y < high; y++)                                                                                            \
                    for (int x = low; x < high; x++)

static int is_guard(int z, int y, int x)
{
    const int end = GUARDS + CELLS;
    return z < GUARDS || z >= end || y < GUARDS || y >= end || x < GUARDS || x >= end;
}

static double expected(long long block, long long v, int z, int y, int x, long long step)
{
    double u = initial(block, v, z, y, x), goal = tag(block, v);
    for (long long s = 0; s < step; s++)
        u = advanced(u, goal);
    return u;
}

/* Collective. Whether every cell in memory is bitwise what the recurrence gives. */
static int memory_is_right(long long step)
{
    double wrong = 0.0;
    EACH_CELL(b, v, z, y, x, 0, WIDE) wrong += *cell(b, v, z, y, x) != expected(first_block + b, v, z, y, x, step);
    return kc_max(wrong) == 0.0;
}

static uint64_t checksum(void)
{
    uint64_t sum = 0;
    EACH_CELL(b, v, z, y, x, GUARDS, GUARDS + CELLS)
    sum += kc_mix(((uint64_t)(first_block + b) * (uint64_t)opt_vars + (uint64_t)v) * WIDE3 + (uint64_t)((z * WIDE + y) * WIDE + x),
                  *cell(b, v, z, y, x));
    return kc_sum_u64(sum);
}

/* ---- HDF5 ---- */

static herr_t first_reason(unsigned n, const H5E_error2_t *error, void *text)
{
    if (n == 0)
        snprintf(text, 256, "%s", error->desc ? error->desc : "unknown");
    return 0;
}

/* A failed call may have failed in one process only, and leaves the library in a state in which no collective call can be made: the run is
 * ended at once. */
static hid_t must(hid_t result, const char *what, const char *path)
{
    if (result < 0) {
        char text[256] = "unknown";
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_reason, text);
        fprintf(stderr, "kernel-amr: process %d: cannot %s %s: %s\n", kc_rank, what, path, text);
        fflush(stderr);
        MPI_Abort(MPI_COMM_WORLD, KC_IO_ERROR);
        abort();
    }
    return result;
}

static void put_attribute(hid_t file, const char *name, hid_t type, const void *value, const char *path)
{
    hid_t space = must(H5Screate(H5S_SCALAR), "make an attribute of", path);
    hid_t attribute = must(H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT), "make an attribute of", path);
    must(H5Awrite(attribute, type, value), "write an attribute of", path);
    must(H5Aclose(attribute), "close an attribute of", path);
    H5Sclose(space);
}

static void get_attribute(hid_t file, const char *name, hid_t type, void *value, const char *path)
{
    hid_t attribute = must(H5Aopen(file, name, H5P_DEFAULT), "find an attribute of kernel-amr in", path);
    must(H5Aread(attribute, type, value), "read an attribute of", path);
    H5Aclose(attribute);
}

/* Collective transfer of the own blocks of one dataset: `rank` dimensions, the first one over all blocks. `memory` (or -1 for a packed array)
 * says which elements of the array in memory. */
static void transfer(hid_t file, const char *name, hid_t type, int rank, const hsize_t shape[], hid_t memory, void *data, int writing,
                     const char *path)
{
    hsize_t dims[4], start[4] = {0}, count[4];
    for (int d = 0; d < rank; d++)
        dims[d] = count[d] = shape[d];
    dims[0] = (hsize_t)total_blocks;
    start[0] = (hsize_t)first_block;
    count[0] = (hsize_t)own_blocks;
    hid_t space = must(H5Screate_simple(rank, dims, NULL), "describe a dataset of", path);
    hid_t packed = -1;
    if (memory < 0)
        memory = packed = must(H5Screate_simple(rank, count, NULL), "describe a dataset of", path);
    hid_t set = writing ? H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) : H5Dopen2(file, name, H5P_DEFAULT);
    must(set, writing ? "make a dataset of" : "find a dataset of", path);
    if (!writing) {
        /* The file may hold another shape than this run has. */
        H5Sclose(space);
        space = must(H5Dget_space(set), "read a dataset of", path);
        hsize_t found[8];
        int same = H5Sget_simple_extent_ndims(space) == rank && H5Sget_simple_extent_dims(space, found, NULL) == rank;
        for (int d = 0; same && d < rank; d++)
            same = found[d] == dims[d];
        if (!same)
            kc_refuse(KC_IO_ERROR, "%s: dataset %s has another shape than the attributes say", path, name);
    }
    if (own_blocks > 0) {
        must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "select blocks of", path);
    } else {
        H5Sselect_none(space);
        H5Sselect_none(memory);
    }
    hid_t plan = must(H5Pcreate(H5P_DATASET_XFER), "set collective access to", path);
    must(H5Pset_dxpl_mpio(plan, H5FD_MPIO_COLLECTIVE), "set collective access to", path);
    if (writing)
        must(H5Dwrite(set, type, memory, space, plan, data), "write", path);
    else
        must(H5Dread(set, type, memory, space, plan, data), "read", path);
    H5Pclose(plan);
    must(H5Dclose(set), "close a dataset of", path);
    if (packed >= 0)
        H5Sclose(packed);
    H5Sclose(space);
}

static hid_t open_file(const char *path, int create)
{
    hid_t access = must(H5Pcreate(H5P_FILE_ACCESS), "set access to", path);
    must(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL), "set parallel access to", path);
    hid_t file = create ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path, H5F_ACC_RDONLY, access);
    must(file, create ? "create" : "open", path);
    H5Pclose(access);
    return file;
}

/* The interior of one variable of all own blocks, in the array in memory. */
static hid_t interior(long long v)
{
    hsize_t dims[5] = {(hsize_t)own_blocks, (hsize_t)opt_vars, WIDE, WIDE, WIDE}, start[5] = {0, (hsize_t)v, GUARDS, GUARDS, GUARDS},
            count[5] = {(hsize_t)own_blocks, 1, CELLS, CELLS, CELLS};
    hid_t space = must(H5Screate_simple(5, dims, NULL), "describe", "the memory");
    if (own_blocks > 0)
        must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "select", "the memory");
    return space;
}

/* ---- the files ---- */

enum kind { CKPT, CENTRED, CORNER };
static const char *const file_name[] = {CHECKPOINT, "kernel-amr.plot-centred.h5", "kernel-amr.plot-corner.h5"};

static const hsize_t block_shape[] = {0, CELLS, CELLS, CELLS}, corner_shape[] = {0, CORNERS, CORNERS, CORNERS};

/* The tree is complete and numbered by levels: block b has the children 8b + 1 to 8b + 8, as far as there are so many blocks. */
static void write_tree(hid_t file, const char *path)
{
    size_t n = own_blocks ? (size_t)own_blocks : 1;
    int(*links)[9] = kc_alloc(n, sizeof *links), *level = kc_alloc(n, sizeof *level);
    double(*centre)[3] = kc_alloc(n, sizeof *centre), *width = kc_alloc(n, sizeof *width);
    for (long long b = 0; b < own_blocks; b++) {
        long long id = first_block + b;
        for (int child = 1; child <= 8; child++)
            links[b][child] = 8 * id + child < total_blocks ? (int)(8 * id + child) : -1;
        links[b][0] = id > 0 ? (int)((id - 1) / 8) : -1;
        width[b] = 1.0;
        /* From the block up to the root: each level contributes one octant. */
        double at[3] = {0.5, 0.5, 0.5};
        for (; id > 0; id = (id - 1) / 8, level[b]++) {
            int octant = (int)((id - 1) % 8);
            for (int d = 0; d < 3; d++)
                at[d] = 0.5 * at[d] + (octant >> d & 1 ? 0.5 : 0.0);
            width[b] *= 0.5;
        }
        memcpy(centre[b], at, sizeof at);
    }
    const hsize_t one[] = {0}, three[] = {0, 3}, nine[] = {0, 9};
    transfer(file, "tree", H5T_NATIVE_INT, 2, nine, -1, links, 1, path);
    transfer(file, "level", H5T_NATIVE_INT, 1, one, -1, level, 1, path);
    transfer(file, "centre", H5T_NATIVE_DOUBLE, 2, three, -1, centre, 1, path);
    transfer(file, "width", H5T_NATIVE_DOUBLE, 1, one, -1, width, 1, path);
    free(links);
    free(level);
    free(centre);
    free(width);
}

static size_t plot_cells(enum kind kind)
{
    return kind == CENTRED ? CELLS * CELLS * CELLS : CORNERS * CORNERS * CORNERS;
}

/* Values of one variable as a plot file holds them; a corner is the mean of the 8 cells around it, guard cells among them. */
static void fill_plot(enum kind kind, long long v, float *values)
{
    const int width = kind == CENTRED ? CELLS : CORNERS;
    for (long long b = 0; b < own_blocks; b++)
        for (int z = 0; z < width; z++)
            for (int y = 0; y < width; y++)
                for (int x = 0; x < width; x++) {
                    const int cz = z + GUARDS, cy = y + GUARDS, cx = x + GUARDS;
                    double u = 0.0;
                    if (kind == CENTRED)
                        u = *cell(b, v, cz, cy, cx);
                    else
                        for (int k = 0; k < 8; k++)
                            u += 0.125 * *cell(b, v, cz - (k >> 2), cy - (k >> 1 & 1), cx - (k & 1));
                    *values++ = (float)u;
                }
}

static void file_path(char *path, size_t room, const char *name)
{
    int length = snprintf(path, room, "%s/%s", opt_dir, name);
    if (length < 0 || (size_t)length >= room)
        kc_refuse(KC_USAGE, "--dir: the path is too long");
}

/* Collective. Some MPI libraries do not report a full file system to the caller (OMPIO of Open MPI 4.1), and HDF5 then waits for ever when the
 * file is closed. So there must be room before anything is written. */
static void must_have_room(enum kind kind)
{
    struct statvfs s;
    int bad = 0;
    double per_block = kind == CKPT ? (double)opt_vars * CELLS * CELLS * CELLS * sizeof(double) : (double)PLOT_VARS * (double)plot_cells(kind) * sizeof(float);
    double needed = (double)total_blocks * (per_block + 80.0) + 65536.0;
    if (kc_rank == 0 && statvfs(opt_dir, &s) == 0 && (double)s.f_bavail * (double)s.f_frsize < needed)
        bad = 1;
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (bad)
        kc_refuse(KC_IO_ERROR, "cannot write %s: the file system of %s is full: %.0f bytes are needed", file_name[kind], opt_dir, needed);
}

/* Writes one file under a temporary name and renames it. Gives its size. */
static long long write_file(enum kind kind, long long step)
{
    char path[PATH_MAX], temporary[PATH_MAX + 8], name[32];
    file_path(path, sizeof path, file_name[kind]);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    uint64_t sum = checksum();
    must_have_room(kind);
    kc_writes_begin();
    hid_t file = open_file(temporary, 1);
    const long long numbers[] = {FORMAT, kind, step, total_blocks, opt_vars};
    const char *const names[] = {"kernel-amr format", "kind", "step", "blocks", "variables"};
    for (int i = 0; i < 5; i++)
        put_attribute(file, names[i], H5T_NATIVE_LLONG, &numbers[i], temporary);
    put_attribute(file, "checksum", H5T_NATIVE_UINT64, &sum, temporary);
    write_tree(file, temporary);
    if (kind == CKPT) {
        for (long long v = 0; v < opt_vars; v++) {
            hid_t memory = interior(v);
            snprintf(name, sizeof name, "var%02lld", v);
            transfer(file, name, H5T_NATIVE_DOUBLE, 4, block_shape, memory, field, 1, temporary);
            H5Sclose(memory);
        }
    } else {
        float *values = kc_alloc((size_t)own_blocks * plot_cells(kind), sizeof *values);
        for (long long v = 0; v < PLOT_VARS; v++) {
            fill_plot(kind, v, values);
            snprintf(name, sizeof name, "var%02lld", v);
            transfer(file, name, H5T_NATIVE_FLOAT, 4, kind == CENTRED ? block_shape : corner_shape, -1, values, 1, temporary);
        }
        free(values);
    }
    must(H5Fclose(file), "close", temporary);
    kc_writes_end();
    struct stat s = {0};
    int code = 0;
    if (kc_rank == 0)
        code = stat(temporary, &s) == 0 && rename(temporary, path) == 0 ? 0 : errno;
    if (!kc_all_well(code != 0, MPI_SUCCESS, code, "cannot put into place", path))
        kc_end(KC_IO_ERROR);
    long long bytes = (long long)s.st_size;
    MPI_Bcast(&bytes, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    return bytes;
}

/* Collective. Reads a file back and compares every value bitwise with what is in memory. */
static int file_is_right(enum kind kind)
{
    char path[PATH_MAX], name[32];
    double wrong = 0.0;
    file_path(path, sizeof path, file_name[kind]);
    hid_t file = open_file(path, 0);
    size_t cells = kind == CORNER ? plot_cells(CORNER) : plot_cells(CENTRED), bytes = kind == CKPT ? sizeof(double) : sizeof(float);
    char *found = kc_alloc((size_t)own_blocks * cells, bytes);
    float *wanted = kc_alloc((size_t)own_blocks * cells, sizeof *wanted);
    for (long long v = 0; v < (kind == CKPT ? opt_vars : PLOT_VARS); v++) {
        snprintf(name, sizeof name, "var%02lld", v);
        memset(found, 0xff, (size_t)own_blocks * cells * bytes); /* not-a-numbers: what is not read cannot pass */
        transfer(file, name, kind == CKPT ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT, 4, kind == CORNER ? corner_shape : block_shape, -1, found, 0, path);
        if (kind == CKPT) {
            const double *next = (const double *)(void *)found;
            for (long long b = 0; b < own_blocks; b++)
                for (int z = GUARDS; z < GUARDS + CELLS; z++)
                    for (int y = GUARDS; y < GUARDS + CELLS; y++)
                        for (int x = GUARDS; x < GUARDS + CELLS; x++)
                            wrong += !(*next++ == *cell(b, v, z, y, x));
        } else {
            fill_plot(kind, v, wanted);
            for (size_t i = 0; i < (size_t)own_blocks * cells; i++)
                wrong += !(((const float *)(void *)found)[i] == wanted[i]);
        }
    }
    free(found);
    free(wanted);
    must(H5Fclose(file), "close", path);
    if (kc_max(wrong) != 0.0) {
        kc_say("%s: values that were read back differ from those in memory", path);
        return 0;
    }
    return 1;
}

static long long read_checkpoint(void)
{
    char path[PATH_MAX];
    struct stat s;
    double start = MPI_Wtime();
    snprintf(path, sizeof path, "%s", opt_restart);
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) {
        opt_dir = opt_dir[0] == '.' && !opt_dir[1] ? opt_restart : opt_dir;
        int length = snprintf(path, sizeof path, "%s/%s", opt_restart, CHECKPOINT);
        if (length < 0 || (size_t)length >= sizeof path)
            kc_refuse(KC_USAGE, "--restart: the path is too long");
    }
    hid_t file = open_file(path, 0);
    long long numbers[5];
    uint64_t sum;
    const char *const names[] = {"kernel-amr format", "kind", "step", "blocks", "variables"};
    for (int i = 0; i < 5; i++)
        get_attribute(file, names[i], H5T_NATIVE_LLONG, &numbers[i], path);
    get_attribute(file, "checksum", H5T_NATIVE_UINT64, &sum, path);
    if (numbers[0] != FORMAT || numbers[1] != CKPT)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: no checkpoint of format %d", path, FORMAT);
    if (numbers[4] != opt_vars)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: of a run with --vars %lld, not %lld", path, numbers[4], opt_vars);
    if (numbers[2] < 0 || numbers[2] > opt_steps)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: at step %lld already, after --steps %lld", path, numbers[2], opt_steps);
    if (numbers[3] < 1 || numbers[3] > INT_MAX / 16)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: corrupt: %lld blocks", path, numbers[3]);
    share_blocks(numbers[3]);
    for (long long v = 0; v < opt_vars; v++) {
        char name[32];
        hid_t memory = interior(v);
        snprintf(name, sizeof name, "var%02lld", v);
        transfer(file, name, H5T_NATIVE_DOUBLE, 4, block_shape, memory, field, 0, path);
        H5Sclose(memory);
    }
    must(H5Fclose(file), "close", path);
    uint64_t found = checksum();
    if (found != sum)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: corrupt: the checksum of the data is %016llx instead of %016llx", path,
                  (unsigned long long)found, (unsigned long long)sum);
    /* Guard cells are not in the file. */
    EACH_CELL(b, v, z, y, x, 0, WIDE)
    if (is_guard(z, y, x))
        *cell(b, v, z, y, x) = expected(first_block + b, v, z, y, x, numbers[2]);
    kc_say("Restarted from %s: step %lld, %lld blocks in %.6f s", path, numbers[2], total_blocks, MPI_Wtime() - start);
    return numbers[2];
}

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, "kernel-amr", "AMR-block writer on parallel HDF5 (any number of processes)", options);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    double start = MPI_Wtime(), writing = 0.0;
    long long step = 0, bytes = 0;
    int sets = 0, well = 1;
    if (opt_every == 0)
        opt_every = opt_steps;
    if (opt_blocks * kc_size > INT_MAX / 16)
        kc_refuse(KC_USAGE, "--blocks %lld with %d processes: more than %d blocks in all", opt_blocks, kc_size, INT_MAX / 16);
    if (opt_restart) {
        step = read_checkpoint();
    } else {
        share_blocks(opt_blocks * kc_size);
        EACH_CELL(b, v, z, y, x, 0, WIDE) *cell(b, v, z, y, x) = initial(first_block + b, v, z, y, x);
    }
    kc_say("kernel-amr: %lld blocks of %d^3 cells, %d guard cells, %lld variables, %d processes", total_blocks, CELLS, GUARDS, opt_vars, kc_size);
    kt_begin();
    while (step < opt_steps) {
        step++;
        advance();
        kc_barrier(); /* the time steps of an adaptive code are global */
        kc_say("Time step %lld", step);
        if (step % opt_every != 0) {
            kt_step(step, opt_ckpt != 0, 0);
            continue;
        }
        sets++;
        for (enum kind kind = opt_ckpt ? CKPT : CENTRED; kind <= CORNER; kind++) {
            double t = MPI_Wtime();
            long long size = write_file(kind, step);
            t = kc_max(MPI_Wtime() - t);
            writing += t;
            bytes += size;
            if (kind == CKPT)
                kc_say("Checkpoint %d written: %lld bytes in %.6f s (step %lld)", sets, size, t, step);
            else
                kc_say("Plot file %d (%s) written: %lld bytes in %.6f s", sets, kind == CENTRED ? "centred" : "corner", size, t);
        }
        for (enum kind kind = opt_ckpt ? CKPT : CENTRED; kind <= CORNER; kind++)
            well = file_is_right(kind) && well;
        kt_step(step, opt_ckpt != 0, 1);
    }
    double seconds = kc_max(MPI_Wtime() - start);
    if (sets > 0) {
        int writers = kc_writers(bytes, 1);
        kc_say("Bytes written = %lld", bytes);
        kc_say("I/O time = %.6f s", writing);
        kc_say("I/O data rate = %.3f MiB/s", (double)bytes / 1048576.0 / writing);
        kc_say("Writers = %d", writers);
    }
    kt_say();
    if (!memory_is_right(step)) {
        kc_say("values in memory differ from the recurrence");
        well = 0;
    }
    kc_say("Checksum = %016llx", (unsigned long long)checksum());
    kc_end(kc_verdict(well, seconds));
}
