/* pwritev and the affinity of threads are none of POSIX */
#define _GNU_SOURCE
#include "kernel-ways.h"
#include "kernel-layout.h"
#include "kernel-track.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

const char *kw_way = "sync", *kw_writers = "process", *kw_late = "wait";
long long kw_pin = -1, kw_turns;

static enum { SYNC, THREAD, SWAP, IWRITE, STAGGERED } way;
static enum { OF_PROCESS, OF_SOCKET, OF_NODE } writers;
static int skips; /* a checkpoint that is due too early is left out */

int kw_is_behind(void)
{
    return way != SYNC;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_shortly(void)
{
    struct timespec t = {.tv_sec = 0, .tv_nsec = 100000};
    nanosleep(&t, NULL);
}

static void finish(MPI_Request *request)
{
    for (int done = 0; !done; sched_yield())
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
}

/* ---- runs: what is contiguous in memory, with its place in the file ---- */

struct run {
    long long at; /* bytes from the start of the file */
    const char *from;
    size_t bytes;
};

struct runs {
    struct run *all;
    size_t count, room;
};

static void add_run(struct runs *to, long long at, const char *from, size_t bytes)
{
    struct run *last = to->count ? &to->all[to->count - 1] : NULL;
    if (last && last->at + (long long)last->bytes == at && last->from + last->bytes == from) {
        last->bytes += bytes;
        return;
    }
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 64;
        to->all = realloc(to->all, to->room * sizeof *to->all);
        if (!to->all)
            kc_fail(KC_NO_MEMORY, "process %d: no memory for the list of %zu pieces of a checkpoint", kc_rank, to->room);
    }
    to->all[to->count++] = (struct run){at, from, bytes};
}

struct cursor {
    struct runs *runs;
    const char *memory; /* of the arrays, or of their copy */
    char *copy;
};

/* The copy has the rows one after the other. */
static void copy_row(void *state, long long in_memory, long long in_file, size_t count)
{
    struct cursor *c = state;
    (void)in_file;
    memcpy(c->copy, c->memory + in_memory * (long long)sizeof(double), count * sizeof(double));
    c->copy += count * sizeof(double);
}

static void run_of_copy(void *state, long long in_memory, long long in_file, size_t count)
{
    struct cursor *c = state;
    (void)in_memory;
    add_run(c->runs, KC_HEADER_BYTES + in_file * (long long)sizeof(double), c->memory, count * sizeof(double));
    c->memory += count * sizeof(double);
}

static void run_in_place(void *state, long long in_memory, long long in_file, size_t count)
{
    struct cursor *c = state;
    add_run(c->runs, KC_HEADER_BYTES + in_file * (long long)sizeof(double), c->memory + in_memory * (long long)sizeof(double),
            count * sizeof(double));
}

static int by_place(const void *a, const void *b)
{
    long long x = ((const struct run *)a)->at, y = ((const struct run *)b)->at;
    return (x > y) - (x < y);
}

/* ---- the thread ---- */

/* One at a time. Only it touches what it works on until it has ended. */
static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    int is_running, has_ended;
    int error; /* of the system */
    const char *what, *path;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void job_failed(int error, const char *what, const char *path)
{
    if (!job.error) {
        job.error = error;
        job.what = what;
        job.path = path;
    }
}

static void job_is_done(void)
{
    pthread_mutex_lock(&job.lock);
    job.has_ended = 1;
    pthread_mutex_unlock(&job.lock);
}

static void start_job(void *(*work)(void *))
{
    job.has_ended = job.error = 0;
    int code = pthread_create(&job.thread, NULL, work, NULL);
    if (code)
        kc_fail(KC_NO_MEMORY, "process %d: cannot start a thread: %s", kc_rank, strerror(code));
    job.is_running = 1;
}

static int job_has_ended(void)
{
    pthread_mutex_lock(&job.lock);
    int ended = job.has_ended;
    pthread_mutex_unlock(&job.lock);
    if (ended) {
        pthread_join(job.thread, NULL);
        job.is_running = 0;
    }
    return ended;
}

static int pin_thread(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (kw_pin < 0)
        return 0;
    if (kw_pin >= CPU_SETSIZE)
        return EINVAL;
    CPU_SET((size_t)kw_pin, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;
}

static void *only_pin(void *unused)
{
    int code = pin_thread();
    (void)unused;
    if (code)
        job_failed(code, "pin", "");
    job_is_done();
    return NULL;
}

/* ---- the checkpoint that is being written ---- */

static char path[PATH_MAX], temporary[PATH_MAX], directory[PATH_MAX];
static char header[KC_HEADER_BYTES];
static struct runs runs; /* what this process's thread writes */
static long long file_bytes;

static void write_runs(int fd)
{
    struct iovec parts[IOV_MAX];
    for (size_t i = 0; i < runs.count && !job.error;) {
        int n = 0;
        size_t bytes = 0;
        long long at = runs.all[i].at;
        for (; i < runs.count && n < IOV_MAX && runs.all[i].at == at + (long long)bytes && bytes < (size_t)1 << 30; i++, n++) {
            parts[n].iov_base = (void *)runs.all[i].from;
            parts[n].iov_len = runs.all[i].bytes;
            bytes += runs.all[i].bytes;
        }
        for (struct iovec *part = parts; bytes > 0;) {
            ssize_t done = pwritev(fd, part, n, (off_t)at);
            if (done < 0 && errno == EINTR)
                continue;
            if (done <= 0) {
                job_failed(done < 0 ? errno : ENOSPC, "cannot write", temporary);
                break;
            }
            at += done;
            bytes -= (size_t)done;
            while (n > 0 && (size_t)done >= part->iov_len) {
                done -= (ssize_t)part->iov_len;
                part++;
                n--;
            }
            if (n > 0) {
                part->iov_base = (char *)part->iov_base + done;
                part->iov_len -= (size_t)done;
            }
        }
    }
}

static void *write_all(void *unused)
{
    (void)unused;
    pin_thread();
    /* rank 0 has created it, which the client of a network file system may not have noticed yet */
    int fd = open(temporary, O_WRONLY | O_CREAT, 0666);
    if (fd < 0)
        job_failed(errno, "cannot open", temporary);
    else {
        write_runs(fd);
        if (!job.error && fsync(fd) != 0)
            job_failed(errno, "cannot sync", temporary);
        if (close(fd) != 0)
            job_failed(errno, "cannot close", temporary);
    }
    job_is_done();
    return NULL;
}

static void *put_into_place(void *unused)
{
    struct stat s;
    (void)unused;
    pin_thread();
    if (stat(temporary, &s) != 0)
        job_failed(errno, "cannot find", temporary);
    else if ((long long)s.st_size != file_bytes)
        job_failed(ENOSPC, "not all bytes are in", temporary);
    else if (rename(temporary, path) != 0)
        job_failed(errno, "cannot put into place", path);
    else {
        int code = kc_sync_directory(directory);
        if (code)
            job_failed(code, "cannot sync", directory);
    }
    job_is_done();
    return NULL;
}

/* ---- memory for copies ---- */

static MPI_Comm node = MPI_COMM_NULL, group = MPI_COMM_NULL, drain = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL;
static int is_leader = 1; /* its thread writes */
static int turns = 1, own_turn; /* groups of writers that write one after the other, and that of this process */
static size_t own_bytes;
static char *copy;         /* own part */
static double *spare;      /* the grid that is neither read nor written by the program */
static const void *held;   /* the grid that is being written */

/* Socket of the cores that this process may use, -1 where they are of several, or unknown. */
static int own_socket(void)
{
    cpu_set_t set;
    int socket = -1;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return -1;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        char name[96];
        int of = -1;
        if (!CPU_ISSET((size_t)core, &set))
            continue;
        snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", core);
        FILE *f = fopen(name, "r");
        if (!f || fscanf(f, "%d", &of) != 1)
            of = -1;
        if (f)
            fclose(f);
        if (of < 0 || (socket >= 0 && of != socket))
            return -1;
        socket = of;
    }
    return socket;
}

/* Ends the program where the copies of all processes of a node need more than there is. */
static void want_room(size_t mine)
{
    double needed, own = (double)mine, available = -1.0;
    MPI_Request request;
    MPI_Iallreduce(&own, &needed, 1, MPI_DOUBLE, MPI_SUM, node, &request);
    finish(&request);
    const char *of = "of memory are available on the node";
    char line[128];
    long long kib;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
            available = 1024.0 * (double)kib;
    if (f)
        fclose(f);
    struct statvfs s;
    if (writers != OF_PROCESS && statvfs("/dev/shm", &s) == 0 && (double)s.f_bavail * (double)s.f_frsize < available) {
        available = (double)s.f_bavail * (double)s.f_frsize;
        of = "are free in /dev/shm";
    }
    int bad = available >= 0.0 && needed > available, anywhere;
    kc_allreduce(&bad, &anywhere, 1, MPI_INT, MPI_MAX);
    if (anywhere)
        kc_refuse_first(KC_NO_MEMORY, bad, "--ckpt-way %s: the copies of %s need %.0f bytes, and %.0f bytes %s; use fewer processes on a node, or sync",
                        kw_way, way == SWAP ? "grids" : "checkpoints", needed, available, of);
}

/* Memory that the leader of the group can read. */
static void share_copies(const struct kc_checkpoint *c)
{
    int rank, size, n = kc_blocks(c);
    MPI_Info info;
    MPI_Comm_rank(group, &rank);
    MPI_Comm_size(group, &size);
    is_leader = rank == 0;
    MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    int code = MPI_Win_allocate_shared((MPI_Aint)own_bytes, 1, info, group, &copy, &window);
    MPI_Info_free(&info);
    if (!kc_all_well(code != MPI_SUCCESS, code, 0, "--ckpt-writers:", "no memory that processes share"))
        kc_end(KC_NO_MEMORY);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    memset(copy, 0, own_bytes);
    struct kc_block *all = is_leader ? kc_alloc((size_t)size * KC_MOST_BLOCKS, sizeof *all) : NULL;
    MPI_Gather(c->blocks, (int)sizeof c->blocks, MPI_BYTE, all, (int)sizeof c->blocks, MPI_BYTE, 0, group);
    for (int member = 0; is_leader && member < size; member++) {
        MPI_Aint bytes;
        int unit;
        char *base;
        MPI_Win_shared_query(window, member, &bytes, &unit, &base);
        struct cursor at = {.runs = &runs, .memory = base};
        for (int i = 0; i < n; i++)
            kc_each_row(&all[member * KC_MOST_BLOCKS + i], run_of_copy, &at);
    }
    free(all);
}

static void make_copies(const struct kc_checkpoint *c)
{
    if (kc_rank == 0)
        add_run(&runs, 0, header, KC_HEADER_BYTES);
    if (writers != OF_PROCESS) {
        share_copies(c);
    } else {
        copy = kc_alloc(own_bytes, 1);
        memset(copy, 0, own_bytes);
        struct cursor at = {.runs = &runs, .memory = copy};
        for (int i = 0; i < kc_blocks(c); i++)
            kc_each_row(&c->blocks[i], run_of_copy, &at);
    }
    if (runs.count)
        qsort(runs.all, runs.count, sizeof *runs.all, by_place);
}

static void read_options(int has_grids)
{
    static const char *const ways[] = {"sync", "thread", "swap", "iwrite", "staggered"}, *const who[] = {"process", "socket", "node"},
                             *const late[] = {"wait", "skip"};
    int wanted = kc_word("ckpt-way", kw_way, 5, ways), provided;
    writers = kc_word("ckpt-writers", kw_writers, 3, who);
    skips = kc_word("ckpt-late", kw_late, 2, late);
    if (wanted == SWAP && !has_grids)
        kc_refuse(KC_USAGE, "--ckpt-way swap: this program does not compute from one grid into another; use thread");
    if (wanted == SWAP && kt_track)
        kc_refuse(KC_USAGE, "--ckpt-way swap: a third grid cannot be tracked; use thread, or leave out --track");
    int copies = wanted == THREAD || wanted == STAGGERED;
    if (!copies && writers != OF_PROCESS)
        kc_refuse(KC_USAGE, "--ckpt-writers %s is for --ckpt-way thread or staggered", kw_writers);
    if (!copies && wanted != SWAP && kw_pin >= 0)
        kc_refuse(KC_USAGE, "--ckpt-pin is for --ckpt-way thread, staggered or swap: there is no other thread");
    if (wanted != STAGGERED && kw_turns)
        kc_refuse(KC_USAGE, "--ckpt-turns is for --ckpt-way staggered");
    MPI_Query_thread(&provided);
    if (wanted != SYNC && provided < MPI_THREAD_FUNNELED)
        kc_refuse(KC_USAGE, "--ckpt-way %s: this MPI library does not support programs with threads", kw_way);
    way = wanted;
}

/* Number of processes with a lower rank that count, and that of all. */
static int count_before(int counts, int *all)
{
    int before;
    kc_allreduce(&counts, all, 1, MPI_INT, MPI_SUM);
    MPI_Scan(&counts, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return before - counts;
}

/* Each node has its turn, or each of the groups into which the writers are divided. */
static void divide_into_turns(void)
{
    int in_node, nodes, number_of, all;
    MPI_Comm_rank(node, &in_node);
    own_turn = count_before(in_node == 0, &nodes);
    MPI_Bcast(&own_turn, 1, MPI_INT, 0, node);
    turns = nodes;
    if (kw_turns) {
        number_of = count_before(is_leader, &all);
        if (kw_turns > all)
            kc_refuse(KC_USAGE, "--ckpt-turns %lld: only %d processes write; use --ckpt-turns %d or fewer", kw_turns, all, all);
        turns = (int)kw_turns;
        own_turn = (int)((long long)number_of * turns / all);
    }
    if (!is_leader)
        own_turn = 0; /* it has nothing to write */
}

void kw_begin(const struct kc_checkpoint *c, int wanted, size_t grid_bytes)
{
    read_options(grid_bytes > 0);
    kl_begin(way != SYNC);
    if (!wanted || way == SYNC)
        return;
    if (kw_pin >= 0) {
        start_job(only_pin);
        while (!job_has_ended())
            pause_shortly();
        int bad = job.error != 0, anywhere;
        kc_allreduce(&bad, &anywhere, 1, MPI_INT, MPI_MAX);
        if (anywhere)
            kc_refuse_first(KC_USAGE, bad, "--ckpt-pin %lld: process %d cannot use this core: %s", kw_pin, kc_rank, strerror(job.error));
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &drain);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    if (writers == OF_NODE)
        MPI_Comm_dup(node, &group);
    if (writers == OF_SOCKET) {
        int socket = own_socket(), unknown = socket < 0, anywhere;
        kc_allreduce(&unknown, &anywhere, 1, MPI_INT, MPI_MAX);
        if (anywhere)
            kc_refuse_first(KC_USAGE, unknown,
                            "--ckpt-writers socket: process %d may run on several sockets, or /sys does not say which one; bind processes, or use node",
                            kc_rank);
        MPI_Comm_split(node, socket, kc_rank, &group);
    }
    file_bytes = KC_HEADER_BYTES + c->data_bytes;
    own_bytes = kc_own_bytes(c);
    want_room(way == SWAP ? grid_bytes : own_bytes);
    if (way == SWAP) {
        spare = kc_alloc(grid_bytes, 1);
        memset(spare, 0, grid_bytes);
    } else {
        make_copies(c);
    }
    if (way == STAGGERED)
        divide_into_turns();
}

double *kw_other_grid(double *old)
{
    if (old != held || !spare)
        return old;
    double *other = spare;
    spare = old;
    return other;
}

/* ---- non-blocking MPI-IO: each process has its own handle of the file, so that nothing about it is collective ---- */

#define MOST_REQUESTS 64
static MPI_File file;
static MPI_Request requests[MOST_REQUESTS];
static int request_bytes[MOST_REQUESTS], request_count, requests_ended;

static _Noreturn void mpi_failed(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "fewer bytes than asked for (file system full?)";
    int length;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &length);
    unlink(temporary);
    kc_fail(KC_IO_ERROR, "process %d: %s %s: %s", kc_rank, what, temporary, text);
}

static void want_mpi(int code, const char *what)
{
    if (code != MPI_SUCCESS)
        mpi_failed(code, what);
}

static void add_request(MPI_Offset at, const void *from, size_t bytes)
{
    int i = request_count++;
    request_bytes[i] = (int)bytes;
    want_mpi(MPI_File_iwrite_at(file, at, from, (int)bytes, MPI_BYTE, &requests[i]), "cannot write");
}

/* A request for each run; of very many runs, one request through a view of the file. */
static void start_iwrite(const struct kc_checkpoint *c)
{
    MPI_Status status;
    request_count = requests_ended = 0;
    kc_writes_begin();
    want_mpi(MPI_File_open(MPI_COMM_SELF, temporary, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), "cannot open");
    if (runs.count <= MOST_REQUESTS) {
        for (size_t i = 0; i < runs.count; i++)
            add_request((MPI_Offset)runs.all[i].at, runs.all[i].from, runs.all[i].bytes);
        return;
    }
    if (kc_rank == 0)
        want_mpi(MPI_File_write_at(file, 0, header, KC_HEADER_BYTES, MPI_BYTE, &status), "cannot write the header of");
    want_mpi(MPI_File_set_view(file, KC_HEADER_BYTES, MPI_BYTE, c->file_type, "native", MPI_INFO_NULL), "cannot set the view of");
    add_request(0, copy, own_bytes);
}

/* One request after the other: MPI_Testall of MPICH 4.0 releases requests of ROMIO twice when several end between two calls. */
static int iwrite_has_ended(void)
{
    for (; requests_ended < request_count; requests_ended++) {
        MPI_Status status;
        int done, bytes;
        want_mpi(MPI_Test(&requests[requests_ended], &done, &status), "cannot write");
        if (!done)
            return 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        if (bytes != request_bytes[requests_ended])
            mpi_failed(MPI_SUCCESS, "cannot write");
    }
    want_mpi(MPI_File_sync(file), "cannot sync");
    want_mpi(MPI_File_close(&file), "cannot close");
    kc_writes_end();
    return 1;
}

/* ---- from the request to a safe checkpoint ---- */

static enum {
    SAFE,      /* nothing is under way, as far as this process knows */
    WRITING,   /* this process's part */
    AGREEING,  /* the others' parts */
    COMMITTING /* rank 0 puts the file into place */
} stage;
static int number, turn;
static long long step_of;
static double requested, stopped; /* when, and for how long this process has stood still */
static double stopped_until_end[2]; /* of this process when its part was written, and the longest of all */
static MPI_Request agreement;

static _Noreturn void job_fails(void)
{
    unlink(temporary);
    kc_fail(KC_IO_ERROR, "process %d: checkpoint %d: %s %s: %s", kc_rank, number, job.what, job.path, strerror(job.error));
}

static int own_part_has_ended(void)
{
    if (way == IWRITE)
        return iwrite_has_ended();
    if (job.is_running && !job_has_ended())
        return 0;
    if (job.error)
        job_fails();
    for (size_t i = 0; i < runs.count; i++)
        kc_writes_add((long long)runs.all[i].bytes);
    return 1;
}

static void is_safe(const struct kc_checkpoint *c, struct kc_written *written, double since)
{
    double now = seconds_now(), until_safe = now - requested;
    stopped += now - since;
    /* another process may have come to the checkpoint earlier, and waited for this one */
    double longest = fmin(stopped_until_end[1] + stopped - stopped_until_end[0], until_safe);
    kc_say_checkpoint(c, number, step_of, until_safe, longest);
    written->seconds += until_safe;
}

static const struct kc_checkpoint *format;

static void begin_turn(void)
{
    if (way == IWRITE)
        start_iwrite(format);
    else if (is_leader && turn == own_turn)
        start_job(write_all);
    stage = WRITING;
}

/* Takes the checkpoint as far as it gets without waiting. The program stands still `since` then on its behalf. */
static void advance(struct kc_written *written, double since)
{
    int done = 1;
    while (done && stage < COMMITTING && stage != SAFE) {
        if (stage == WRITING && (turn != own_turn || own_part_has_ended())) {
            held = NULL;
            stopped_until_end[0] = stopped + seconds_now() - since;
            MPI_Iallreduce(&stopped_until_end[0], &stopped_until_end[1], 1, MPI_DOUBLE, MPI_MAX, drain, &agreement);
            stage = AGREEING;
        }
        done = 0;
        if (stage == AGREEING)
            MPI_Test(&agreement, &done, MPI_STATUS_IGNORE);
        if (done && ++turn < turns) {
            begin_turn();
        } else if (done) {
            if (kc_rank == 0)
                start_job(put_into_place);
            stage = kc_rank == 0 ? COMMITTING : SAFE;
        }
    }
    if (stage == COMMITTING && job_has_ended()) {
        if (job.error)
            job_fails();
        is_safe(format, written, since);
        stage = SAFE;
    }
}

void kw_step(struct kc_written *written)
{
    if (stage == SAFE)
        return;
    double since = seconds_now();
    advance(written, since);
    stopped += seconds_now() - since;
}

static void wait_until_safe(struct kc_written *written, int counts)
{
    while (stage != SAFE) {
        double since = seconds_now();
        advance(written, since);
        if (stage != SAFE)
            pause_shortly();
        if (counts)
            stopped += seconds_now() - since;
    }
}

/* Copies the own part, and waits until the leader may write those of the group. */
static void take_copy(const void *memory)
{
    struct cursor at = {.memory = memory, .copy = copy};
    for (int i = 0; i < kc_blocks(format); i++)
        kc_each_row(&format->blocks[i], copy_row, &at);
    if (writers == OF_PROCESS)
        return;
    MPI_Request request;
    MPI_Win_sync(window);
    MPI_Ibarrier(group, &request);
    finish(&request);
    MPI_Win_sync(window);
}

static void create_file(void)
{
    int fd = 0, code = 0;
    if (kc_rank == 0) {
        unlink(temporary);
        fd = open(temporary, O_CREAT | O_EXCL | O_WRONLY, 0666);
        if (fd < 0 || close(fd) != 0)
            code = errno;
    }
    if (!kc_all_well(code != 0, MPI_SUCCESS, code, "cannot create", temporary))
        kc_refuse(KC_IO_ERROR, "checkpoint %d failed at step %lld", number, step_of);
}

void kw_request(const struct kc_checkpoint *c, const char *dir, const void *memory, long long step, struct kc_written *written)
{
    double start = seconds_now();
    advance(written, start);
    int is_late = stage != SAFE, anywhere;
    kc_allreduce(&is_late, &anywhere, 1, MPI_INT, MPI_MAX);
    if (anywhere && skips) {
        written->skipped++;
        kc_say("Checkpoint skipped: the last one is not safe yet (step %lld)", step);
        stopped += seconds_now() - start;
        return;
    }
    wait_until_safe(written, 0);
    format = c;
    number = ++written->checkpoints;
    step_of = step;
    written->bytes += file_bytes;
    snprintf(directory, sizeof directory, "%s", dir);
    kl_make_paths(c, dir, path, temporary, sizeof path);
    kc_make_header(c, step, header);
    create_file();
    if (way == SWAP) {
        struct cursor at = {.runs = &runs, .memory = memory};
        runs.count = 0;
        if (kc_rank == 0)
            add_run(&runs, 0, header, KC_HEADER_BYTES);
        for (int i = 0; i < kc_blocks(c); i++)
            kc_each_row(&c->blocks[i], run_in_place, &at);
        held = memory;
    } else {
        take_copy(memory);
    }
    turn = 0;
    begin_turn();
    requested = start;
    stopped = seconds_now() - start;
}

void kw_wait(struct kc_written *written)
{
    wait_until_safe(written, 1);
}

void kw_end(struct kc_written *written)
{
    wait_until_safe(written, 1);
    kl_end();
    if (window != MPI_WIN_NULL) {
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    } else {
        free(copy);
    }
    free(spare);
    free(runs.all);
    MPI_Comm *all[] = {&group, &node, &drain};
    for (int i = 0; i < 3; i++)
        if (*all[i] != MPI_COMM_NULL)
            MPI_Comm_free(all[i]);
}
