/* kernel-block: implicit solver on a block-structured grid with strided solution writes.
 *
 * Five coupled variables on an N x N x N grid with zero walls are advanced in delta form: an explicit right-hand side, then one implicit
 * solve along all lines in x, in y and in z (approximate factorisation). The decomposition is the multi-partition scheme: for P = q^2
 * processes the grid is cut into q^3 cells, and each process owns q of them, one in each slab of each direction, so that every process works
 * in every stage of every line solve. Its part of the solution file is therefore q blocks scattered over the file.
 *
 * The field starts as the sum of two sine modes. The discrete operators only scale and mix the amplitudes, so the exact field after any number
 * of steps follows from a recurrence of five numbers for each mode. Every point is computed by the same operations in the same order: the
 * checksum is bitwise the same for every process count. */
#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"
#include "kernel-track.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PI 3.14159265358979323846
#define VARS 5
#define COUPLING 0.02
#define TOLERANCE 1e-10

static long long opt_size = 24, opt_steps = 40, opt_every = 5, opt_work = 1;
static const char *opt_io = "collective", *opt_file = "kernel-block.out";
static int opt_sync;

static const struct kc_option options[] = {
    {"size", KC_INTEGER, &opt_size, 4, 4096, "grid points in each of three directions"},
    {"steps", KC_INTEGER, &opt_steps, 1, 1000000, "time steps"},
    {"write-every", KC_INTEGER, &opt_every, 1, 1000000, "steps between writes of the solution"},
    {"work", KC_INTEGER, &opt_work, 1, 1000000, "how many times each right-hand side is computed, to make the step longer"},
    {"io", KC_TEXT, &opt_io, 0, 0, "collective, independent (row by row) or none"},
    {"file", KC_TEXT, &opt_file, 0, 0, "solution file"},
    {"sync", KC_FLAG, &opt_sync, 0, 0, "sync the file after each write; the time counts as I/O time"},
    KT_OPTIONS,
    {NULL, KC_FLAG, NULL, 0, 0, NULL},
};

/* ---- multi-partition; directions are 0 = x, 1 = y, 2 = z ---- */

struct cell {
    int coord[3], first[3], count[3];
    size_t stride[3]; /* in points, with one halo layer on each side */
    double *u, *r;    /* solution and right-hand side, VARS values at each point */
};

static int q;                     /* cells of a process, and cells in each direction */
static struct cell *cells;        /* in the order of their z slab */
static int *in_slab[3];           /* in_slab[d][s]: the own cell with coord[d] = s */
static int before_rank[3], after_rank[3]; /* who owns the neighbours of all own cells */
static double *face_out, *face_in;
static size_t face_room;

static int start_of(int slab)
{
    return (int)(opt_size * slab / q);
}

static size_t at(const struct cell *c, int x, int y, int z)
{
    return VARS * ((size_t)(x + 1) + (size_t)(y + 1) * c->stride[1] + (size_t)(z + 1) * c->stride[2]);
}

static int rank_at(int row, int column)
{
    return (row + q) % q * q + (column + q) % q;
}

static void make_cells(void)
{
    q = (int)(sqrt((double)kc_size) + 0.5);
    if (q * q != kc_size)
        kc_refuse(KC_USAGE, "%d processes: the multi-partition scheme needs a square number (1, 4, 9, 16, ...)", kc_size);
    if (opt_size < 2LL * q)
        kc_refuse(KC_USAGE, "--size %lld is too small for %d processes: at least %d", opt_size, kc_size, 2 * q);
    double widest = (double)(opt_size / q + 1) + 2.0;
    if (widest * widest * (double)q * VARS > INT_MAX || widest * widest * widest * VARS > INT_MAX)
        kc_refuse(KC_USAGE, "--size %lld: cells of more than 2^31 values; use more processes", opt_size);

    /* Cell c of process (row, column) stands at x = row + c, y = column - c, z = c, all modulo q. A step in x leads to (row + 1, column), a
     * step in y to (row, column + 1), a step in z to (row - 1, column + 1): the same process for all cells. */
    int row = kc_rank / q, column = kc_rank % q;
    before_rank[0] = rank_at(row - 1, column);
    after_rank[0] = rank_at(row + 1, column);
    before_rank[1] = rank_at(row, column - 1);
    after_rank[1] = rank_at(row, column + 1);
    before_rank[2] = rank_at(row + 1, column - 1);
    after_rank[2] = rank_at(row - 1, column + 1);
    cells = kc_alloc((size_t)q, sizeof *cells);
    for (int d = 0; d < 3; d++)
        in_slab[d] = kc_alloc((size_t)q, sizeof *in_slab[d]);
    for (int i = 0; i < q; i++) {
        struct cell *c = &cells[i];
        c->coord[0] = (row + i) % q;
        c->coord[1] = (column - i + q) % q;
        c->coord[2] = i;
        for (int d = 0; d < 3; d++) {
            c->first[d] = start_of(c->coord[d]);
            c->count[d] = start_of(c->coord[d] + 1) - c->first[d];
            in_slab[d][c->coord[d]] = i;
        }
        c->stride[0] = 1;
        c->stride[1] = (size_t)c->count[0] + 2;
        c->stride[2] = c->stride[1] * ((size_t)c->count[1] + 2);
        size_t points = c->stride[2] * ((size_t)c->count[2] + 2);
        c->u = kt_alloc(points * VARS, sizeof *c->u);
        c->r = kt_alloc(points * VARS, sizeof *c->r);
    }
    face_room = (size_t)(opt_size / q + 1) * (size_t)(opt_size / q + 1) * VARS * (size_t)q;
    face_out = kc_alloc(face_room, sizeof *face_out);
    face_in = kc_alloc(face_room, sizeof *face_in);
}

/* The two directions across d. */
static int across(int d, int which)
{
    return which == 0 ? (d == 0 ? 1 : 0) : (d == 2 ? 1 : 2);
}

/* Copies the layer of points at `where` (in direction d) of `field` to or from a buffer; gives the number of values. */
static size_t copy_layer(const struct cell *c, double *field, int d, int where, double *buffer, int into_buffer)
{
    int a = across(d, 0), b = across(d, 1), p[3];
    size_t n = 0;
    p[d] = where;
    for (p[b] = 0; p[b] < c->count[b]; p[b]++)
        for (p[a] = 0; p[a] < c->count[a]; p[a]++, n += VARS) {
            double *point = field + at(c, p[0], p[1], p[2]);
            memcpy(into_buffer ? buffer + n : point, into_buffer ? point : buffer + n, VARS * sizeof(double));
        }
    return n;
}

static size_t layer_values(const struct cell *c, int d)
{
    return (size_t)c->count[across(d, 0)] * (size_t)c->count[across(d, 1)] * VARS;
}

/* Halo exchange: one message for each direction holds the faces of all cells that have a neighbour there, in the order of their slab. */
static void exchange_faces(void)
{
    for (int d = 0; d < 3; d++)
        for (int upwards = 1; upwards >= 0; upwards--) {
            size_t out = 0, in = 0;
            if (q == 1)
                continue;
            for (int i = 0; i < q; i++) {
                struct cell *c = &cells[i];
                if (upwards ? c->coord[d] < q - 1 : c->coord[d] > 0)
                    out += copy_layer(c, c->u, d, upwards ? c->count[d] - 1 : 0, face_out + out, 1);
                if (upwards ? c->coord[d] > 0 : c->coord[d] < q - 1)
                    in += layer_values(c, d);
            }
            kc_sendrecv(face_out, (int)out, MPI_DOUBLE, upwards ? after_rank[d] : before_rank[d], face_in, (int)in, MPI_DOUBLE,
                         upwards ? before_rank[d] : after_rank[d], 2 * d + upwards, MPI_COMM_WORLD);
            in = 0;
            for (int i = 0; i < q; i++) {
                struct cell *c = &cells[i];
                if (upwards ? c->coord[d] > 0 : c->coord[d] < q - 1)
                    in += copy_layer(c, c->u, d, upwards ? -1 : c->count[d], face_in + in, 0);
            }
        }
}

/* ---- one time step ---- */

static double kappa[VARS];             /* diffusion number of each variable */
static double *pivot, *upper;          /* eliminated tridiagonal matrix, [global index * VARS + variable]; the same for all lines */

static void make_matrix(void)
{
    pivot = kc_alloc((size_t)opt_size * VARS, sizeof *pivot);
    upper = kc_alloc((size_t)opt_size * VARS, sizeof *upper);
    for (int m = 0; m < VARS; m++) {
        kappa[m] = 0.1 * (m + 1);
        for (int i = 0; i < opt_size; i++) {
            double above = i > 0 ? upper[(i - 1) * VARS + m] : 0.0;
            pivot[i * VARS + m] = 1.0 / (1.0 + 2.0 * kappa[m] + kappa[m] * above);
            upper[i * VARS + m] = -kappa[m] * pivot[i * VARS + m];
        }
    }
}

static void right_hand_side(void)
{
    for (int i = 0; i < q; i++) {
        struct cell *c = &cells[i];
        const long sy = (long)c->stride[1] * VARS, sz = (long)c->stride[2] * VARS;
        for (int z = 0; z < c->count[2]; z++)
            for (int y = 0; y < c->count[1]; y++) {
                const double *u = c->u + at(c, 0, y, z);
                double *r = c->r + at(c, 0, y, z);
                for (int x = 0; x < c->count[0]; x++, u += VARS, r += VARS)
                    for (int m = 0; m < VARS; m++)
                        r[m] = kappa[m] * (((u[m - VARS] + u[m + VARS]) + (u[m - sy] + u[m + sy])) + (u[m - sz] + u[m + sz]) - 6.0 * u[m]) +
                               COUPLING * (u[(m + 1) % VARS] - u[m]);
            }
    }
}

/* One sweep over a cell: forwards r_i = (r_i + kappa r_(i-1)) pivot_i, backwards r_i = r_i - upper_i r_(i+1). The layer before the first one
 * stands in the halo, zero at a wall. */
static void sweep_cell(struct cell *c, int d, int forwards)
{
    const long step = (long)(c->stride[d] * VARS) * (forwards ? -1 : 1);
    int p[3], a = across(d, 0), b = across(d, 1);
    for (int k = 0; k < c->count[d]; k++) {
        p[d] = forwards ? k : c->count[d] - 1 - k;
        const double *pi = pivot + (size_t)(c->first[d] + p[d]) * VARS, *up = upper + (size_t)(c->first[d] + p[d]) * VARS;
        for (p[b] = 0; p[b] < c->count[b]; p[b]++)
            for (p[a] = 0; p[a] < c->count[a]; p[a]++) {
                double *r = c->r + at(c, p[0], p[1], p[2]);
                if (forwards)
                    for (int m = 0; m < VARS; m++)
                        r[m] = (r[m] + kappa[m] * r[m + step]) * pi[m];
                else
                    for (int m = 0; m < VARS; m++)
                        r[m] = r[m] - up[m] * r[m + step];
            }
    }
}

static void zero_layer(struct cell *c, int d, int where)
{
    size_t n = layer_values(c, d);
    memset(face_in, 0, n * sizeof(double));
    copy_layer(c, c->r, d, where, face_in, 0);
}

static void solve_lines(int d)
{
    for (int forwards = 1; forwards >= 0; forwards--)
        for (int stage = 0; stage < q; stage++) {
            struct cell *c = &cells[in_slab[d][forwards ? stage : q - 1 - stage]];
            int halo = forwards ? -1 : c->count[d];
            if (stage == 0)
                zero_layer(c, d, halo);
            else
                copy_layer(c, c->r, d, halo, face_in, 0);
            sweep_cell(c, d, forwards);
            if (stage == q - 1)
                continue;
            struct cell *n = &cells[in_slab[d][forwards ? stage + 1 : q - 2 - stage]];
            size_t out = copy_layer(c, c->r, d, forwards ? c->count[d] - 1 : 0, face_out, 1);
            kc_sendrecv(face_out, (int)out, MPI_DOUBLE, forwards ? after_rank[d] : before_rank[d], face_in, (int)layer_values(n, d),
                         MPI_DOUBLE, forwards ? before_rank[d] : after_rank[d], 10 + d, MPI_COMM_WORLD);
        }
}

#define EACH_POINT(c, x, y, z)                                                                                                              \
    for (struct cell *c = cells; c < cells + q; c++)                                                                                        \
        for (int z = 0; z < c->count[2]; z++)                                                                                               \
            for (int y = 0; y < c->count[1]; y++)                                                                                           \
                for (int x = 0; x < c->count[0]; x++)

static void advance(void)
{
    exchange_faces();
    for (long long w = 0; w < opt_work; w++)
        right_hand_side();
    for (int d = 0; d < 3; d++)
        solve_lines(d);
    EACH_POINT(c, x, y, z) {
        size_t i = at(c, x, y, z);
        for (int m = 0; m < VARS; m++)
            c->u[i + m] += c->r[i + m];
    }
}

/* ---- the exact field ---- */

static const int mode_number[2][3] = {{1, 1, 1}, {3, 2, 1}};
static double *wave[2];              /* sine tables, [direction * size + index] */
static double amplitude[2][VARS];

static double half_sine_squared(int mode, int d)
{
    double s = sin(0.5 * PI * mode_number[mode][d] / (double)(opt_size + 1));
    return s * s;
}

static void make_waves(void)
{
    for (int k = 0; k < 2; k++) {
        wave[k] = kc_alloc((size_t)(3 * opt_size), sizeof **wave);
        for (int d = 0; d < 3; d++)
            for (int i = 0; i < opt_size; i++)
                wave[k][d * opt_size + i] = sin(PI * mode_number[k][d] * (i + 1) / (double)(opt_size + 1));
    }
}

static void make_amplitudes(void)
{
    for (int m = 0; m < VARS; m++) {
        amplitude[0][m] = 1.0 + 0.25 * m;
        amplitude[1][m] = 0.5 - 0.125 * m;
    }
}

static void advance_amplitudes(void)
{
    for (int k = 0; k < 2; k++) {
        double change[VARS], s[3] = {half_sine_squared(k, 0), half_sine_squared(k, 1), half_sine_squared(k, 2)};
        for (int m = 0; m < VARS; m++) {
            double *a = amplitude[k];
            double implicit = (1.0 + 4.0 * kappa[m] * s[0]) * (1.0 + 4.0 * kappa[m] * s[1]) * (1.0 + 4.0 * kappa[m] * s[2]);
            change[m] = (-4.0 * kappa[m] * (s[0] + s[1] + s[2]) * a[m] + COUPLING * (a[(m + 1) % VARS] - a[m])) / implicit;
        }
        for (int m = 0; m < VARS; m++)
            amplitude[k][m] += change[m];
    }
}

static double exact(const struct cell *c, int x, int y, int z, int m)
{
    double u = 0.0;
    for (int k = 0; k < 2; k++)
        u += amplitude[k][m] * wave[k][c->first[0] + x] * wave[k][opt_size + c->first[1] + y] * wave[k][2 * opt_size + c->first[2] + z];
    return u;
}

/* Largest difference of the field in memory from the exact one, relative to the largest amplitude that is left. */
static double error_now(void)
{
    double worst = 0.0, scale = 1e-6; /* in very long runs everything decays: then the rounding of the start is the measure */
    for (int m = 0; m < VARS; m++)
        scale = fmax(scale, fabs(amplitude[0][m]) + fabs(amplitude[1][m]));
    EACH_POINT(c, x, y, z) for (int m = 0; m < VARS; m++) {
        double e = fabs(c->u[at(c, x, y, z) + m] - exact(c, x, y, z, m));
        if (!(e <= worst))
            worst = e;
    }
    return kc_max(worst) / scale;
}

static uint64_t checksum(void)
{
    uint64_t sum = 0, n = (uint64_t)opt_size;
    EACH_POINT(c, x, y, z) for (int m = 0; m < VARS; m++) {
        uint64_t point = ((uint64_t)(c->first[2] + z) * n + (uint64_t)(c->first[1] + y)) * n + (uint64_t)(c->first[0] + x);
        sum += kc_mix(point * VARS + (uint64_t)m, c->u[at(c, x, y, z) + m]);
    }
    return kc_sum_u64(sum);
}

/* ---- the solution file: one record after the other, each the global array [z][y][x][variable] ---- */

static MPI_Datatype memory_type, file_type;

static long long record_bytes(void)
{
    return opt_size * opt_size * opt_size * VARS * (long long)sizeof(double);
}

/* The own blocks of a record. They lie in different z slabs, so that their displacements rise, as a file type must. */
static void make_file_types(void)
{
    int *ones = kc_alloc((size_t)q, sizeof *ones);
    MPI_Aint *zero = kc_alloc((size_t)q, sizeof *zero), *where = kc_alloc((size_t)q, sizeof *where);
    MPI_Datatype *in_memory = kc_alloc((size_t)q, sizeof(MPI_Datatype)), *in_file = kc_alloc((size_t)q, sizeof(MPI_Datatype));
    for (int i = 0; i < q; i++) {
        struct cell *c = &cells[i];
        int part[4] = {c->count[2], c->count[1], c->count[0], VARS}, inner[4] = {1, 1, 1, 0};
        int full[4] = {c->count[2] + 2, c->count[1] + 2, c->count[0] + 2, VARS};
        int global[4] = {(int)opt_size, (int)opt_size, (int)opt_size, VARS}, start[4] = {c->first[2], c->first[1], c->first[0], 0};
        ones[i] = 1;
        MPI_Type_create_subarray(4, full, part, inner, MPI_ORDER_C, MPI_DOUBLE, &in_memory[i]);
        MPI_Type_create_subarray(4, global, part, start, MPI_ORDER_C, MPI_DOUBLE, &in_file[i]);
        MPI_Get_address(c->u, &where[i]);
    }
    MPI_Type_create_struct(q, ones, where, in_memory, &memory_type);
    memory_type = kc_type(memory_type);
    MPI_Type_create_struct(q, ones, zero, in_file, &file_type);
    file_type = kc_type(file_type);
    for (int i = 0; i < q; i++) {
        MPI_Type_free(&in_memory[i]);
        MPI_Type_free(&in_file[i]);
    }
    free(ones);
    free(zero);
    free(where);
    free(in_memory);
    free(in_file);
}

/* Row by row, without a view: many small requests, the opposite of the collective write. */
static int write_rows(MPI_File file, long long record)
{
    int code = MPI_SUCCESS, incomplete = 0;
    for (int i = 0; i < q; i++) {
        const struct cell *c = &cells[i];
        const int row = c->count[0] * VARS;
        for (int z = 0; z < c->count[2]; z++)
            for (int y = 0; y < c->count[1]; y++) {
                MPI_Status status;
                MPI_Offset point = ((MPI_Offset)(c->first[2] + z) * opt_size + c->first[1] + y) * opt_size + c->first[0];
                MPI_Offset offset = record * record_bytes() + point * VARS * (MPI_Offset)sizeof(double);
                if (code != MPI_SUCCESS || incomplete)
                    continue; /* the others are told after the loops */
                code = MPI_File_write_at(file, offset, c->u + at(c, 0, y, z), row, MPI_DOUBLE, &status);
                if (code == MPI_SUCCESS) {
                    int written;
                    MPI_Get_count(&status, MPI_DOUBLE, &written);
                    incomplete = written != row;
                }
            }
    }
    return kc_all_well(code != MPI_SUCCESS || incomplete, code, 0, "cannot write", opt_file);
}

/* Where the own part of a record starts, in the doubles of the own view. */
static MPI_Offset own_offset(long long record)
{
    MPI_Offset values = 0;
    for (int i = 0; i < q; i++)
        values += (MPI_Offset)cells[i].count[0] * cells[i].count[1] * cells[i].count[2] * VARS;
    return record * values;
}

static int write_record(MPI_File file, int collective, long long record)
{
    int well;
    MPI_Status status;
    kc_writes_begin();
    if (collective) {
        int rc = MPI_File_write_at_all(file, own_offset(record), MPI_BOTTOM, 1, memory_type, &status);
        well = kc_mpi_well(rc, &status, memory_type, "cannot write", opt_file);
    } else {
        well = write_rows(file, record);
    }
    if (well && opt_sync)
        well = kc_mpi_well(MPI_File_sync(file), NULL, MPI_BYTE, "cannot sync", opt_file);
    kc_writes_end();
    return well;
}

static int set_view(MPI_File file)
{
    int rc = MPI_File_set_view(file, 0, MPI_DOUBLE, file_type, "native", MPI_INFO_NULL);
    return kc_mpi_well(rc, NULL, MPI_BYTE, "cannot set the view of", opt_file);
}

static MPI_File create_file(int collective)
{
    MPI_File file;
    if (kc_rank == 0)
        unlink(opt_file); /* an old, longer file would hide a write that failed */
    kc_barrier();
    int rc = MPI_File_open(MPI_COMM_WORLD, opt_file, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    if (!kc_mpi_well(rc, NULL, MPI_BYTE, "cannot create", opt_file))
        kc_end(KC_IO_ERROR);
    if (collective && !set_view(file))
        kc_end(KC_IO_ERROR);
    return file;
}

/* Reads every record back, into the fields, and compares it with the exact field of its step; the last one must be bitwise what was in
 * memory. Gives the largest relative error, not-a-number if the last record differs. */
static double error_of_file(long long records, uint64_t sum_in_memory)
{
    MPI_File file;
    double worst = 0.0;
    int rc = MPI_File_open(MPI_COMM_WORLD, opt_file, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (!kc_mpi_well(rc, NULL, MPI_BYTE, "cannot open", opt_file) || !set_view(file))
        kc_end(KC_IO_ERROR);
    make_amplitudes();
    for (long long record = 0, step = 0; record < records; record++) {
        MPI_Status status;
        for (; step < (record + 1) * opt_every; step++)
            advance_amplitudes();
        /* What is not read must not be mistaken for what was there before. */
        EACH_POINT(c, x, y, z) for (int m = 0; m < VARS; m++) c->u[at(c, x, y, z) + m] = NAN;
        rc = MPI_File_read_at_all(file, own_offset(record), MPI_BOTTOM, 1, memory_type, &status);
        if (!kc_mpi_well(rc, &status, memory_type, "cannot read", opt_file))
            kc_end(KC_IO_ERROR);
        double error = error_now();
        if (!(error <= worst))
            worst = error;
    }
    MPI_File_close(&file);
    return checksum() == sum_in_memory ? worst : NAN;
}

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, "kernel-block", "implicit solver on a block-structured grid, multi-partition (square number of processes)", options);
    int collective = !strcmp(opt_io, "collective"), writes = strcmp(opt_io, "none") != 0;
    if (writes && !collective && strcmp(opt_io, "independent") != 0)
        kc_refuse(KC_USAGE, "--io: '%s' is none of collective, independent, none", opt_io);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    make_cells();
    make_matrix();
    make_waves();
    make_amplitudes();
    make_file_types();
    EACH_POINT(c, x, y, z) for (int m = 0; m < VARS; m++) c->u[at(c, x, y, z) + m] = exact(c, x, y, z, m);
    kc_say("kernel-block: %lld x %lld x %lld points, %d variables, %d processes of %d cells, io %s", opt_size, opt_size, opt_size, VARS, kc_size,
           q, opt_io);

    double start = MPI_Wtime(), writing = 0.0;
    MPI_File file = MPI_FILE_NULL;
    long long records = 0;
    uint64_t sum_written = 0;
    if (writes) {
        file = create_file(collective);
        writing += MPI_Wtime() - start;
    }
    kt_begin();
    for (long long step = 1; step <= opt_steps; step++) {
        advance();
        advance_amplitudes();
        kc_say("Time step %lld", step);
        if (writes && step % opt_every == 0) {
            double t = MPI_Wtime();
            if (!write_record(file, collective, records++))
                kc_refuse(KC_IO_ERROR, "the solution of step %lld could not be written", step);
            writing += MPI_Wtime() - t;
            sum_written = step + opt_every > opt_steps ? checksum() : 0;
        }
        kt_step(step, writes, writes && step % opt_every == 0);
    }
    double error = error_now();
    uint64_t sum = checksum();
    if (writes) {
        double t = MPI_Wtime();
        kc_writes_begin();
        int well = kc_mpi_well(MPI_File_close(&file), NULL, MPI_BYTE, "cannot close", opt_file);
        kc_writes_end();
        writing += MPI_Wtime() - t;
        if (!well || !kc_size_well(opt_file, records * record_bytes()))
            kc_end(KC_IO_ERROR);
    }
    double seconds = kc_max(MPI_Wtime() - start);
    int well = error <= TOLERANCE;
    kt_say();
    kc_say("Checksum = %016llx", (unsigned long long)sum);
    kc_say("Error = %.3e (tolerance %.0e)", error, TOLERANCE);
    if (writes) {
        double io = kc_max(writing);
        long long bytes = records * record_bytes();
        int writers = kc_writers(bytes, collective);
        kc_say("Bytes written = %lld", bytes);
        kc_say("I/O time = %.6f s", io);
        kc_say("I/O data rate = %.3f MiB/s", (double)bytes / 1048576.0 / io);
        kc_say("Writers = %d", writers);
        double file_error = records > 0 ? error_of_file(records, sum_written) : 0.0;
        kc_say("Error of the file = %.3e (%lld records)", file_error, records);
        well = well && file_error <= TOLERANCE;
    }
    kc_end(kc_verdict(well, seconds));
}
