/* kernel-replay: repeats the I/O phases of a program without the program.
 *
 * It reads what `cvc phases --replay` writes, lines of words:
 *
 *   cvc-replay 1 PROCESSES
 *   file N shared|own new|- mpi-io|posix          a file of all processes, or one of each; another one in each phase
 *   hint N KEY VALUE
 *   view N ETYPE FILETYPE EXTENT PIECES           bytes; and as many lines `piece BYTES FIRST LEVELS [COUNT STEP]...`
 *   phase N COUNT ALL THINK LOOPS                 COUNT of ALL phases, from number N; seconds of computation before each
 *   loop ROUNDS OPS
 *   op FILE read|write|sync explicit|individual|shared|posix all|one now|later RANKS PIECES [FIRST LEVELS [COUNT STEP]...]...
 *   RANK BYTES VIEW WITHIN FIRST PER_ROUND PER_PHASE   for each process that takes part
 *   end
 *
 * A call accesses BYTES, beginning WITHIN bytes into the pattern of the view, which begins at FIRST + position + round * PER_ROUND + phase * PER_PHASE. */
#define _GNU_SOURCE
#include "kernel-common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static const char *opt_program = "replay.txt", *opt_dir = ".";
static long long opt_repeats = 1;
static int opt_sync, opt_keep, opt_device;

static const struct kc_option options[] = {
    {"program", KC_TEXT, &opt_program, 0, 0, "what to repeat, as `cvc phases --replay` writes it"},
    {"dir", KC_TEXT, &opt_dir, 0, 0, "directory of the files"},
    {"repeats", KC_INTEGER, &opt_repeats, 1, 1000, "how often"},
    {"sync", KC_FLAG, &opt_sync, 0, 0, "sync written files at the end of each phase; the time counts"},
    {"keep", KC_FLAG, &opt_keep, 0, 0, "keep the files"},
    {"device", KC_FLAG, &opt_device, 0, 0, "first measure direct writes and reads, without the page cache"},
    {NULL, KC_FLAG, NULL, 0, 0, NULL},
};

#define MOST_LEVELS 5
#define MOST_PENDING 64
/* Bytes of memory for one call. */
#define MOST_BYTES ((long long)INT_MAX)

struct progression {
    long long first, count[MOST_LEVELS], step[MOST_LEVELS];
    int levels;
};

struct view {
    long long etype, filetype, extent, end; /* bytes; `end` is where its last piece ends */
    MPI_Datatype etype_type, filetype_type;
};

struct file {
    int is_shared, is_new, is_posix, has_collective, is_written;
    MPI_Info info;
    MPI_File all, own;
    int fd;
    long long view[2], displacement[2]; /* of the handle of all, and of the own one */
    char path[PATH_MAX];
};

struct op {
    int file, is_write, is_sync, is_collective, is_later, takes_part;
    enum { EXPLICIT, INDIVIDUAL, SHARED, POSIX } place;
    struct progression *pieces;
    int piece_count;
    long long bytes, view, within, first, per_round, per_phase; /* of this process */
};

struct loop {
    long long rounds;
    struct op *ops;
    int op_count;
};

struct phase {
    long long number, count, all;
    double think;
    struct loop *loops;
    int loop_count;
    long long *read_end; /* of each file, how far this process reads */
    double seconds;      /* of this repetition */
    long long bytes;
};

static struct file *files;
static struct view *views;
static struct phase *phases;
static int file_count, view_count, phase_count;
static char *memory;
static long long most_bytes = 1;
static MPI_Request pending[MOST_PENDING];
static int pending_count;

/* ---- reading the program ---- */

static FILE *program;
static long long line_number;

static _Noreturn void bad_program(const char *what)
{
    kc_refuse(KC_USAGE, "%s: line %lld: %s", opt_program, line_number, what);
}

static char *next_word(char **rest)
{
    char *word = strtok_r(NULL, " \n", rest);
    if (!word)
        bad_program("a word is missing");
    return word;
}

static long long next_number(char **rest)
{
    char *end, *word = next_word(rest);
    errno = 0;
    long long n = strtoll(word, &end, 10);
    if (errno || *end)
        bad_program("a number is expected");
    return n;
}

static int next_count(char **rest, int most)
{
    long long n = next_number(rest);
    if (n < 0 || n > most)
        bad_program("a count is too large");
    return (int)n;
}

static char *line;
static size_t line_room;

/* The first word of the next line. */
static char *next_line(char **rest)
{
    if (getline(&line, &line_room, program) < 0)
        bad_program("the program is cut off: it ends without `end`");
    line_number++;
    char *word = strtok_r(line, " \n", rest);
    if (!word)
        bad_program("a line is empty");
    return word;
}

static void *more(void *all, int count, size_t size)
{
    void *grown = realloc(all, (size_t)(count + 1) * size);
    if (!grown)
        kc_fail(KC_NO_MEMORY, "process %d: no memory for the program", kc_rank);
    memset((char *)grown + (size_t)count * size, 0, size);
    return grown;
}

static void read_progression(struct progression *p, char **rest)
{
    p->first = next_number(rest);
    p->levels = next_count(rest, MOST_LEVELS);
    for (int i = 0; i < p->levels; i++) {
        p->count[i] = next_number(rest);
        p->step[i] = next_number(rest);
    }
}

static void each_position(const struct progression *p, int levels, long long at, void (*each)(void *state, long long at), void *state)
{
    if (levels == 0) {
        each(state, at);
        return;
    }
    for (long long i = 0; i < p->count[levels - 1]; i++)
        each_position(p, levels - 1, at + i * p->step[levels - 1], each, state);
}

struct blocks {
    MPI_Aint *at;
    int *bytes, count, size;
};

static void add_block(void *state, long long at)
{
    struct blocks *b = state;
    b->at = more(b->at, b->count, sizeof *b->at);
    b->bytes = more(b->bytes, b->count, sizeof *b->bytes);
    b->at[b->count] = (MPI_Aint)at;
    b->bytes[b->count++] = b->size;
}

static void read_view(char **rest)
{
    views = more(views, view_count, sizeof *views);
    struct view *v = &views[view_count++];
    struct blocks b = {0};
    MPI_Datatype pieces;
    if (next_number(rest) != view_count)
        bad_program("views are not in order");
    v->etype = next_number(rest);
    v->filetype = next_number(rest);
    v->extent = next_number(rest);
    for (int left = next_count(rest, 1 << 20); left > 0; left--) {
        struct progression p;
        char *in;
        if (strcmp(next_line(&in), "piece"))
            bad_program("`piece` is expected");
        b.size = next_count(&in, INT_MAX);
        read_progression(&p, &in);
        each_position(&p, p.levels, p.first, add_block, &b);
    }
    if (v->etype < 1 || v->etype > INT_MAX || v->filetype < 1)
        bad_program("a view without bytes");
    for (int i = 0; i < b.count; i++)
        if ((long long)b.at[i] + b.bytes[i] > v->end)
            v->end = (long long)b.at[i] + b.bytes[i];
    MPI_Type_contiguous((int)v->etype, MPI_BYTE, &v->etype_type);
    MPI_Type_create_hindexed(b.count, b.bytes, b.at, MPI_BYTE, &pieces);
    MPI_Type_create_resized(pieces, 0, (MPI_Aint)v->extent, &v->filetype_type);
    MPI_Type_free(&pieces);
    MPI_Type_commit(&v->etype_type);
    MPI_Type_commit(&v->filetype_type);
    free(b.at);
    free(b.bytes);
}

static void read_file(char **rest)
{
    files = more(files, file_count, sizeof *files);
    struct file *f = &files[file_count++];
    if (next_number(rest) != file_count - 1)
        bad_program("files are not in order");
    f->is_shared = !strcmp(next_word(rest), "shared");
    f->is_new = !strcmp(next_word(rest), "new");
    f->is_posix = !strcmp(next_word(rest), "posix");
    f->all = f->own = MPI_FILE_NULL;
    f->fd = -1;
    MPI_Info_create(&f->info);
}

static void read_op(struct op *op)
{
    char *rest;
    if (strcmp(next_line(&rest), "op"))
        bad_program("`op` is expected");
    op->file = next_count(&rest, file_count - 1);
    struct file *f = &files[op->file];
    const char *what = next_word(&rest);
    op->is_write = !strcmp(what, "write");
    op->is_sync = !strcmp(what, "sync");
    const char *place = next_word(&rest);
    op->place = !strcmp(place, "posix") ? POSIX : !strcmp(place, "shared") ? SHARED : !strcmp(place, "individual") ? INDIVIDUAL : EXPLICIT;
    op->is_collective = !strcmp(next_word(&rest), "all");
    op->is_later = !strcmp(next_word(&rest), "later");
    int ranks = next_count(&rest, kc_size);
    op->piece_count = next_count(&rest, 1 << 20);
    op->pieces = kc_alloc((size_t)op->piece_count, sizeof *op->pieces);
    for (int i = 0; i < op->piece_count; i++)
        read_progression(&op->pieces[i], &rest);
    f->has_collective |= op->is_collective || op->place == SHARED;
    for (int i = 0; i < ranks; i++) {
        char *end;
        int rank = (int)strtol(next_line(&rest), &end, 10);
        long long n[6];
        for (int k = 0; k < 6; k++)
            n[k] = next_number(&rest);
        if (n[0] > MOST_BYTES || n[1] > view_count)
            bad_program("a call of more than 2 GiB, or a view that is none");
        if (*end || rank != kc_rank)
            continue;
        op->takes_part = 1;
        op->bytes = n[0];
        op->view = n[1];
        op->within = n[2];
        op->first = n[3];
        op->per_round = n[4];
        op->per_phase = n[5];
        if (op->bytes > most_bytes)
            most_bytes = op->bytes;
    }
}

static void read_phase(char **rest)
{
    phases = more(phases, phase_count, sizeof *phases);
    struct phase *p = &phases[phase_count++];
    p->number = next_number(rest);
    p->count = next_number(rest);
    p->all = next_number(rest);
    p->think = strtod(next_word(rest), NULL);
    p->loop_count = next_count(rest, 1 << 20);
    p->loops = kc_alloc((size_t)p->loop_count, sizeof *p->loops);
    for (int i = 0; i < p->loop_count; i++) {
        struct loop *l = &p->loops[i];
        char *in;
        if (strcmp(next_line(&in), "loop"))
            bad_program("`loop` is expected");
        l->rounds = next_number(&in);
        l->op_count = next_count(&in, 1 << 10);
        l->ops = kc_alloc((size_t)l->op_count, sizeof *l->ops);
        for (int k = 0; k < l->op_count; k++)
            read_op(&l->ops[k]);
    }
}

static void read_program(void)
{
    char *rest;
    program = fopen(opt_program, "r");
    if (!program)
        kc_refuse(KC_USAGE, "--program: cannot open %s: %s", opt_program, strerror(errno));
    if (strcmp(next_line(&rest), "cvc-replay") || next_number(&rest) != 1)
        bad_program("not a program of a replay, or of another version");
    long long wanted = next_number(&rest);
    if (wanted != kc_size)
        kc_refuse(KC_USAGE, "%s is for %lld processes, not for %d; `cvc phases` scales models where there are several", opt_program, wanted, kc_size);
    for (;;) {
        char *word = next_line(&rest);
        if (!strcmp(word, "end"))
            break;
        if (!strcmp(word, "file"))
            read_file(&rest);
        else if (!strcmp(word, "view"))
            read_view(&rest);
        else if (!strcmp(word, "phase"))
            read_phase(&rest);
        else if (!strcmp(word, "hint")) {
            struct file *f = &files[next_count(&rest, file_count - 1)];
            char *key = next_word(&rest);
            MPI_Info_set(f->info, key, next_word(&rest));
        } else
            bad_program("a line that is none of a replay's");
    }
    fclose(program);
    free(line);
}

/* ---- files ---- */

static void make_path(struct file *f, const struct phase *p, long long i)
{
    char phase[64] = "", rank[32] = "";
    if (f->is_new)
        snprintf(phase, sizeof phase, ".%lld", p ? p->number + i : 0LL);
    if (!f->is_shared)
        snprintf(rank, sizeof rank, ".%d", kc_rank);
    int n = snprintf(f->path, sizeof f->path, "%s/replay-%d%s%s", opt_dir, (int)(f - files), phase, rank);
    if (n < 0 || (size_t)n >= sizeof f->path)
        kc_fail(KC_USAGE, "--dir: the path is too long");
}

static _Noreturn void io_failed(const struct file *f, const char *what, int mpi_code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (mpi_code == MPI_SUCCESS)
        snprintf(text, sizeof text, "%s", strerror(errno));
    else
        MPI_Error_string(mpi_code, text, &length);
    kc_fail(KC_IO_ERROR, "process %d: cannot %s %s: %s", kc_rank, what, f->path, text);
}

static void want_mpi(const struct file *f, const char *what, int code)
{
    if (code != MPI_SUCCESS)
        io_failed(f, what, code);
}

static void close_file(struct file *f)
{
    if (f->all != MPI_FILE_NULL)
        want_mpi(f, "close", MPI_File_close(&f->all));
    if (f->own != MPI_FILE_NULL)
        want_mpi(f, "close", MPI_File_close(&f->own));
    if (f->fd >= 0 && close(f->fd) != 0)
        io_failed(f, "close", MPI_SUCCESS);
    f->fd = -1;
}

static void remove_file(struct file *f)
{
    if ((!f->is_shared || kc_rank == 0) && !opt_keep)
        unlink(f->path);
}

/* Handles of all processes are opened by all at the same time. Independent calls have a handle of their own, so that nothing about them is collective. */
static void open_collective(struct file *f)
{
    f->view[0] = f->view[1] = 0;
    f->displacement[0] = f->displacement[1] = 0;
    f->is_written = 0;
    if (f->is_posix || !f->has_collective)
        return;
    MPI_Comm comm = f->is_shared ? MPI_COMM_WORLD : MPI_COMM_SELF;
    want_mpi(f, "open", MPI_File_open(comm, f->path, MPI_MODE_CREATE | MPI_MODE_RDWR, f->info, &f->all));
}

static void open_own(struct file *f)
{
    if (f->own == MPI_FILE_NULL)
        want_mpi(f, "open", MPI_File_open(MPI_COMM_SELF, f->path, MPI_MODE_CREATE | MPI_MODE_RDWR, f->info, &f->own));
}

static void open_posix(struct file *f)
{
    if (f->fd < 0)
        f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (f->fd < 0)
        io_failed(f, "open", MPI_SUCCESS);
}

/* Writes what a phase reads and no phase has written, outside of all times. */
static void fill(struct file *f, long long end)
{
    struct stat s;
    if (f->is_shared)
        MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (end == 0 || (f->is_shared && kc_rank > 0))
        return;
    int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || fstat(fd, &s) != 0)
        io_failed(f, "open", MPI_SUCCESS);
    for (long long at = s.st_size, n; at < end; at += n) {
        n = pwrite(fd, memory, (size_t)(end - at < most_bytes ? end - at : most_bytes), (off_t)at);
        if (n <= 0)
            io_failed(f, "write", MPI_SUCCESS);
    }
    if (close(fd) != 0)
        io_failed(f, "close", MPI_SUCCESS);
}

/* ---- calls ---- */

static void wait_for_pending(void)
{
    for (int i = 0; i < pending_count; i++)
        MPI_Wait(&pending[i], MPI_STATUS_IGNORE);
    pending_count = 0;
}

/* The offset of a call in etypes of the view, which is set where it is another one. */
static MPI_Offset offset_in_view(struct file *f, const struct op *op, long long at, MPI_File handle, int which)
{
    if (op->view == 0) {
        if (f->view[which] != 0)
            want_mpi(f, "set the view of", MPI_File_set_view(handle, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        f->view[which] = f->displacement[which] = 0;
        return (MPI_Offset)(at + op->within);
    }
    struct view *v = &views[op->view - 1];
    long long from = at - f->displacement[which];
    if (f->view[which] != op->view || from < 0 || from % v->extent != 0) {
        want_mpi(f, "set the view of", MPI_File_set_view(handle, at, v->etype_type, v->filetype_type, "native", f->info));
        f->view[which] = op->view;
        f->displacement[which] = at;
        from = 0;
    }
    return (MPI_Offset)((from / v->extent * v->filetype + op->within) / v->etype);
}

static void call_posix(struct file *f, const struct op *op, long long at)
{
    open_posix(f);
    if (op->is_sync) {
        if (fsync(f->fd) != 0)
            io_failed(f, "sync", MPI_SUCCESS);
        return;
    }
    for (long long done = 0; done < op->bytes;) {
        size_t left = (size_t)(op->bytes - done);
        off_t place = (off_t)(at + op->within + done);
        ssize_t n = op->is_write ? pwrite(f->fd, memory, left, place) : pread(f->fd, memory, left, place);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || (n == 0 && op->is_write))
            io_failed(f, op->is_write ? "write" : "read", MPI_SUCCESS);
        if (n == 0)
            break; /* the end, as in the program */
        done += n;
    }
}

static int call_at(MPI_File h, const struct op *op, MPI_Offset at)
{
    int n = (int)op->bytes;
    MPI_Status status;
    if (op->is_later && !op->is_collective) {
        if (pending_count == MOST_PENDING)
            wait_for_pending();
        MPI_Request *r = &pending[pending_count++];
        return op->is_write ? MPI_File_iwrite_at(h, at, memory, n, MPI_BYTE, r) : MPI_File_iread_at(h, at, memory, n, MPI_BYTE, r);
    }
    if (op->is_later) {
        int code = op->is_write ? MPI_File_write_at_all_begin(h, at, memory, n, MPI_BYTE) : MPI_File_read_at_all_begin(h, at, memory, n, MPI_BYTE);
        if (code != MPI_SUCCESS)
            return code;
        return op->is_write ? MPI_File_write_at_all_end(h, memory, &status) : MPI_File_read_at_all_end(h, memory, &status);
    }
    if (op->is_collective)
        return op->is_write ? MPI_File_write_at_all(h, at, memory, n, MPI_BYTE, &status) : MPI_File_read_at_all(h, at, memory, n, MPI_BYTE, &status);
    return op->is_write ? MPI_File_write_at(h, at, memory, n, MPI_BYTE, &status) : MPI_File_read_at(h, at, memory, n, MPI_BYTE, &status);
}

static int call_individual(MPI_File h, const struct op *op, MPI_Offset at)
{
    int n = (int)op->bytes;
    MPI_Status status;
    if (op->is_later)
        return call_at(h, op, at);
    int code = MPI_File_seek(h, at, MPI_SEEK_SET);
    if (code != MPI_SUCCESS)
        return code;
    if (op->is_collective)
        return op->is_write ? MPI_File_write_all(h, memory, n, MPI_BYTE, &status) : MPI_File_read_all(h, memory, n, MPI_BYTE, &status);
    return op->is_write ? MPI_File_write(h, memory, n, MPI_BYTE, &status) : MPI_File_read(h, memory, n, MPI_BYTE, &status);
}

static int call_shared(MPI_File h, const struct op *op)
{
    int n = (int)op->bytes;
    MPI_Status status;
    if (op->is_collective)
        return op->is_write ? MPI_File_write_ordered(h, memory, n, MPI_BYTE, &status) : MPI_File_read_ordered(h, memory, n, MPI_BYTE, &status);
    return op->is_write ? MPI_File_write_shared(h, memory, n, MPI_BYTE, &status) : MPI_File_read_shared(h, memory, n, MPI_BYTE, &status);
}

struct call {
    const struct op *op;
    long long moved;
};

static void call_one(void *state, long long position)
{
    const struct call *c = state;
    const struct op *op = c->op;
    struct file *f = &files[op->file];
    long long at = position + op->first + c->moved;
    f->is_written |= op->is_write;
    if (op->place == POSIX) {
        call_posix(f, op, at);
        return;
    }
    int which = op->is_collective || op->place == SHARED ? 0 : 1;
    if (which == 1)
        open_own(f);
    MPI_File h = which == 0 ? f->all : f->own;
    if (op->is_sync)
        want_mpi(f, "sync", MPI_File_sync(h));
    else if (op->place == SHARED)
        want_mpi(f, "access", call_shared(h, op));
    else if (op->place == INDIVIDUAL)
        want_mpi(f, "access", call_individual(h, op, offset_in_view(f, op, at, h, which)));
    else
        want_mpi(f, "access", call_at(h, op, offset_in_view(f, op, at, h, which)));
}

static void run_op(const struct op *op, long long moved)
{
    struct call c = {op, moved};
    for (int i = 0; op->takes_part && i < op->piece_count; i++)
        each_position(&op->pieces[i], op->pieces[i].levels, op->pieces[i].first, call_one, &c);
}

static void sync_written(void)
{
    for (int i = 0; i < file_count; i++) {
        struct file *f = &files[i];
        if (f->all != MPI_FILE_NULL)
            want_mpi(f, "sync", MPI_File_sync(f->all));
        if (f->is_written && f->own != MPI_FILE_NULL)
            want_mpi(f, "sync", MPI_File_sync(f->own));
        if (f->is_written && f->fd >= 0 && fsync(f->fd) != 0)
            io_failed(f, "sync", MPI_SUCCESS);
    }
}

static void think(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (seconds > 0.0 && nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static void run_phase(struct phase *p)
{
    for (long long i = 0; i < p->count; i++) {
        for (int k = 0; k < file_count; k++)
            if (files[k].is_new) {
                if (i > 0 || p != phases) {
                    close_file(&files[k]);
                    kc_barrier();
                    remove_file(&files[k]);
                }
                make_path(&files[k], p, i);
                open_collective(&files[k]);
            }
        for (int k = 0; k < file_count; k++)
            fill(&files[k], p->read_end[k]);
        think(p->think);
        kc_barrier();
        double start = MPI_Wtime();
        for (int l = 0; l < p->loop_count; l++)
            for (long long r = 0; r < p->loops[l].rounds; r++)
                for (int o = 0; o < p->loops[l].op_count; o++) {
                    const struct op *op = &p->loops[l].ops[o];
                    run_op(op, r * op->per_round + i * op->per_phase);
                }
        wait_for_pending();
        if (opt_sync)
            sync_written();
        p->seconds += kc_max(MPI_Wtime() - start);
    }
}

static long long calls_of(const struct op *op)
{
    long long all = 0;
    for (int i = 0; i < op->piece_count; i++) {
        long long n = 1;
        for (int k = 0; k < op->pieces[i].levels; k++)
            n *= op->pieces[i].count[k];
        all += n;
    }
    return all;
}

/* From where the pattern of the view begins to the last byte that a call reaches. */
static long long span_of(const struct op *op)
{
    if (op->view == 0)
        return op->within + op->bytes;
    const struct view *v = &views[op->view - 1];
    return (op->within + op->bytes - 1) / v->filetype * v->extent + v->end;
}

/* Bytes of each phase, and how far files are read. */
static double survey(void)
{
    double written = 0.0;
    for (int i = 0; i < phase_count; i++) {
        struct phase *p = &phases[i];
        long long mine = 0;
        p->read_end = kc_alloc((size_t)file_count, sizeof *p->read_end);
        for (int l = 0; l < p->loop_count; l++)
            for (int o = 0; o < p->loops[l].op_count; o++) {
                const struct op *op = &p->loops[l].ops[o];
                if (!op->takes_part)
                    continue;
                long long bytes = op->bytes * calls_of(op) * p->loops[l].rounds;
                mine += bytes;
                if (op->is_write)
                    written += (double)bytes * (double)p->count;
                long long reach = op->first + span_of(op) + (p->loops[l].rounds - 1) * op->per_round + (p->count - 1) * op->per_phase;
                for (int k = 0; k < op->piece_count; k++) {
                    long long end = reach + op->pieces[k].first;
                    for (int n = 0; n < op->pieces[k].levels; n++)
                        end += (op->pieces[k].count[n] - 1) * op->pieces[k].step[n];
                    if (!op->is_write && !op->is_sync && end > p->read_end[op->file])
                        p->read_end[op->file] = end;
                }
            }
        MPI_Allreduce(&mine, &p->bytes, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    }
    double all;
    MPI_Allreduce(&written, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Returns the free bytes. */
static double want_space(double bytes)
{
    struct statvfs s;
    double room = 0.0;
    int bad = 0;
    if (kc_rank == 0 && (bad = statvfs(opt_dir, &s) != 0) == 0)
        room = (double)s.f_bavail * (double)s.f_frsize;
    if (!kc_all_well(bad, MPI_SUCCESS, errno, "--dir:", opt_dir))
        kc_end(KC_USAGE);
    MPI_Bcast(&room, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (bytes > room)
        kc_refuse(KC_NO_MEMORY, "the replay writes %.0f bytes, and %.0f are free in %s; repeat fewer phases (cvc phases --most)", bytes, room, opt_dir);
    return room;
}

/* ---- the device ---- */

#define DEVICE_BLOCK (4LL << 20)
/* Blocks of a process, and the time after which it writes no more. */
#define DEVICE_BLOCKS 64LL
#define DEVICE_SECONDS 2.0

/* Writes or reads the blocks of this process at the same time as all others. Returns bytes per second of all processes, 0.0 if a call failed. */
static double device_rate(int fd, char *block, int is_write, long long *blocks)
{
    int code = fd < 0 ? errno : 0;
    long long done = 0;
    kc_barrier();
    double begin = MPI_Wtime(), seconds = 0.0, longest;
    for (; code == 0 && done < *blocks && !(is_write && seconds > DEVICE_SECONDS); done++) {
        off_t at = (off_t)(done * DEVICE_BLOCK);
        errno = EIO; /* of a short call */
        ssize_t n = is_write ? pwrite(fd, block, DEVICE_BLOCK, at) : pread(fd, block, DEVICE_BLOCK, at);
        if (n != DEVICE_BLOCK)
            code = errno;
        seconds = MPI_Wtime() - begin;
    }
    if (code == 0 && is_write && fsync(fd) != 0)
        code = errno;
    seconds = MPI_Wtime() - begin;
    *blocks = done;
    long long all;
    int worst;
    MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&done, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (worst != 0)
        kc_say("Device: not measured, direct %s failed: %s", is_write ? "write" : "read", strerror(worst));
    return worst == 0 && longest > 0.0 ? (double)(all * DEVICE_BLOCK) / longest : 0.0;
}

/* The rates of direct I/O, each process with a file of its own, in at most half of the free bytes. */
static void measure_device(double room)
{
    long long fit = (long long)(room / 2.0 / kc_size / (double)DEVICE_BLOCK), blocks = fit < DEVICE_BLOCKS ? fit : DEVICE_BLOCKS;
    if (blocks < 1) {
        kc_say("Device: not measured, too little space is free");
        return;
    }
    char path[PATH_MAX];
    void *block;
    int n = snprintf(path, sizeof path, "%s/replay-device.%d", opt_dir, kc_rank);
    if (n < 0 || (size_t)n >= sizeof path)
        kc_fail(KC_USAGE, "--dir: the path is too long");
    if (posix_memalign(&block, 1 << 16, DEVICE_BLOCK) != 0)
        kc_fail(KC_NO_MEMORY, "no memory for a block of %lld bytes", DEVICE_BLOCK);
    for (long long i = 0; i < DEVICE_BLOCK; i += 8) {
        uint64_t x = ((uint64_t)i + 1 + (uint64_t)kc_rank * DEVICE_BLOCK) * 0x9e3779b97f4a7c15u;
        x ^= x >> 29;
        memcpy((char *)block + i, &x, 8);
    }
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT, 0666);
    double written = device_rate(fd, block, 1, &blocks), read = 0.0;
    if (written > 0.0)
        read = device_rate(fd, block, 0, &blocks);
    if (read > 0.0)
        kc_say("Device: write %.3f MiB/s, read %.3f MiB/s", written / 1048576.0, read / 1048576.0);
    if (fd >= 0)
        close(fd);
    unlink(path);
    free(block);
    kc_barrier();
}

int main(int argc, char **argv)
{
    kc_start(&argc, &argv, "kernel-replay", "repeats the I/O phases of a program", options);
    read_program();
    double room = want_space(survey());
    if (opt_device)
        measure_device(room);
    memory = kc_alloc((size_t)most_bytes, 1);
    uint64_t x = 88172645463325252u + (uint64_t)kc_rank;
    for (long long i = 0; i + 8 <= most_bytes; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(memory + i, &x, 8);
    }
    for (long long r = 1; r <= opt_repeats; r++) {
        double all = 0.0;
        for (int i = 0; i < file_count; i++) {
            make_path(&files[i], phases, 0);
            if (!files[i].is_shared || kc_rank == 0)
                unlink(files[i].path);
        }
        kc_barrier();
        for (int i = 0; i < file_count; i++)
            if (!files[i].is_new)
                open_collective(&files[i]);
        for (int i = 0; i < phase_count; i++) {
            phases[i].seconds = 0.0;
            run_phase(&phases[i]);
            double mean = phases[i].seconds / (double)phases[i].count;
            all += mean * (double)phases[i].all;
            double rate = mean > 0.0 ? (double)phases[i].bytes / 1048576.0 / mean : 0.0;
            kc_say("Repetition %lld: phase %lld: %.6f s for each of %lld, %lld bytes, %.3f MiB/s", r, phases[i].number, mean, phases[i].all,
                   phases[i].bytes, rate);
        }
        for (int i = 0; i < file_count; i++)
            close_file(&files[i]);
        kc_barrier();
        for (int i = 0; i < file_count && r < opt_repeats; i++)
            remove_file(&files[i]);
        kc_say("Repetition %lld: %.6f s of I/O", r, all);
        kc_say("I/O time in seconds = %.6f", all);
    }
    for (int i = 0; i < file_count; i++) {
        remove_file(&files[i]);
        MPI_Info_free(&files[i].info);
    }
    for (int i = 0; i < view_count; i++) {
        MPI_Type_free(&views[i].etype_type);
        MPI_Type_free(&views[i].filetype_type);
    }
    kc_say("Verification = SUCCESSFUL");
    kc_end(KC_OK);
}
