#define _POSIX_C_SOURCE 200809L
#include "kernel-common.h"
#include "kernel-layout.h"
#include "kernel-ways.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int kc_rank, kc_size;
static const char *kc_program = "kernel";

/* ---- options ---- */

static void usage(const char *about, const struct kc_option *options)
{
    printf("%s: %s\n\nOptions:\n", kc_program, about);
    for (const struct kc_option *o = options; o->name; o++) {
        char left[64];
        const char *operand = o->kind == KC_INTEGER ? " N" : o->kind == KC_TEXT ? " TEXT" : "";
        snprintf(left, sizeof left, "--%s%s", o->name, operand);
        printf("  %-24s %s", left, o->help);
        if (o->kind == KC_INTEGER)
            printf(" (%lld to %lld, default %lld)", o->min, o->max, *(long long *)o->value);
        else if (o->kind == KC_TEXT && *(const char **)o->value)
            printf(" (default %s)", *(const char **)o->value);
        printf("\n");
    }
    printf("  %-24s %s\n", "--help", "this text");
    fflush(stdout);
}

static void set_option(const struct kc_option *o, const char *text)
{
    if (o->kind == KC_TEXT) {
        if (!*text)
            kc_refuse(KC_USAGE, "--%s needs a value that is not empty", o->name);
        *(const char **)o->value = text;
        return;
    }
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        kc_refuse(KC_USAGE, "--%s: '%s' is not a whole number", o->name, text);
    if (number < o->min || number > o->max)
        kc_refuse(KC_USAGE, "--%s: %s is outside %lld to %lld", o->name, text, o->min, o->max);
    *(long long *)o->value = number;
}

void kc_start(int *argc, char ***argv, const char *program, const char *about, const struct kc_option *options)
{
    kc_program = program;
    /* threads that compute or write do not call MPI */
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &kc_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &kc_size);
    for (int i = 1; i < *argc; i++) {
        char *arg = (*argv)[i];
        if (!strcmp(arg, "--help")) {
            if (kc_rank == 0)
                usage(about, options);
            kc_end(KC_OK);
        }
        if (strncmp(arg, "--", 2) != 0)
            kc_refuse(KC_USAGE, "unexpected argument '%s'; try --help", arg);
        char *name = arg + 2, *value = strchr(arg, '=');
        size_t length = value ? (size_t)(value - name) : strlen(name);
        const struct kc_option *o = options;
        while (o->name && (strlen(o->name) != length || strncmp(o->name, name, length) != 0))
            o++;
        if (!o->name)
            kc_refuse(KC_USAGE, "unknown option '%s'; try --help", arg);
        if (o->kind == KC_FLAG) {
            if (value)
                kc_refuse(KC_USAGE, "--%s takes no value", o->name);
            *(int *)o->value = 1;
            continue;
        }
        if (value)
            value++;
        else if (i + 1 < *argc)
            value = (*argv)[++i];
        else
            kc_refuse(KC_USAGE, "--%s needs a value", o->name);
        set_option(o, value);
    }
}

int kc_word(const char *option, const char *text, int count, const char *const words[])
{
    char list[128] = "";
    for (int i = 0; i < count; i++) {
        if (!strcmp(text, words[i]))
            return i;
        strcat(strcat(list, i ? ", " : ""), words[i]);
    }
    kc_refuse(KC_USAGE, "--%s: '%s' is none of %s", option, text, list);
}

/* ---- ending and telling ---- */

static void wait_all(int count, MPI_Request requests[])
{
    int done = 0;
    MPI_Status statuses[2]; /* of no interest; MPICH's prototype warns of MPI_STATUSES_IGNORE */
    for (;;) {
        MPI_Testall(count, requests, &done, statuses);
        if (done)
            return;
        sched_yield();
    }
}

void kc_finish(MPI_Request *request)
{
    wait_all(1, request);
}

void kc_sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, void *in, int in_count, MPI_Datatype in_type, int from, int tag,
                 MPI_Comm comm)
{
    MPI_Request requests[2];
    MPI_Irecv(in, in_count, in_type, from, tag, comm, &requests[0]);
    MPI_Isend(out, out_count, out_type, to, tag, comm, &requests[1]);
    wait_all(2, requests);
}

void kc_allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;
    MPI_Iallreduce(mine, all, count, type, op, MPI_COMM_WORLD, &request);
    wait_all(1, &request);
}

void kc_barrier(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_all(1, &request);
}

static MPI_Datatype types[64];
static int type_count;

MPI_Datatype kc_type(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    if (type_count < (int)(sizeof types / sizeof types[0]))
        types[type_count++] = type;
    return type;
}

/* ---- a checkpoint on request ---- */

static volatile sig_atomic_t signalled;
static MPI_Request asking = MPI_REQUEST_NULL;
static int mine_asked, any_asked;

static void note_signal(int number)
{
    (void)number;
    signalled = 1;
}

void kc_heed_signal(void)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
}

int kc_asked(void)
{
    int known = 0;
    if (asking != MPI_REQUEST_NULL) {
        wait_all(1, &asking);
        known = any_asked;
    }
    mine_asked = signalled != 0;
    MPI_Iallreduce(&mine_asked, &any_asked, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &asking);
    return known;
}

_Noreturn void kc_leave(long long step)
{
    kc_say("Interrupted after step %lld, which its checkpoint holds", step);
    kc_end(KC_INTERRUPTED);
}

_Noreturn void kc_end(int code)
{
    if (asking != MPI_REQUEST_NULL)
        wait_all(1, &asking);
    for (int i = 0; i < type_count; i++)
        MPI_Type_free(&types[i]);
    MPI_Finalize();
    exit(code);
}

void kc_say(const char *format, ...)
{
    if (kc_rank != 0)
        return;
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void complain(const char *format, va_list args)
{
    fprintf(stderr, "%s: ", kc_program);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(stderr);
}

_Noreturn void kc_refuse(int code, const char *format, ...)
{
    if (kc_rank == 0) {
        va_list args;
        va_start(args, format);
        complain(format, args);
        va_end(args);
    }
    /* Nobody ends before rank 0 has spoken: a launcher may stop the others as soon as one has ended with an error. */
    kc_barrier();
    kc_end(code);
}

_Noreturn void kc_refuse_first(int code, int is_bad, const char *format, ...)
{
    int mine = is_bad ? kc_rank : kc_size, lowest;
    kc_allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN);
    if (lowest == kc_rank) {
        va_list args;
        va_start(args, format);
        complain(format, args);
        va_end(args);
    }
    kc_barrier();
    kc_end(code);
}

_Noreturn void kc_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(format, args);
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, code);
    abort();
}

void *kc_alloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        kc_fail(KC_NO_MEMORY, "process %d: no memory for %zu elements of %zu bytes; use a smaller size or more processes", kc_rank, count, size);
    return memory;
}

int kc_all_well(int bad, int mpi_code, int errno_code, const char *what, const char *path)
{
    int mine = bad ? kc_rank : kc_size, lowest;
    kc_allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN);
    if (lowest == kc_size)
        return 1;
    if (lowest == kc_rank) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length;
        if (mpi_code != MPI_SUCCESS)
            MPI_Error_string(mpi_code, text, &length);
        else
            snprintf(text, sizeof text, "%s", errno_code ? strerror(errno_code) : "fewer bytes than asked for (file system full?)");
        fprintf(stderr, "%s: process %d: %s %s: %s\n", kc_program, kc_rank, what, path, text);
        fflush(stderr);
    }
    kc_barrier();
    return 0;
}

int kc_mpi_well(int mpi_code, MPI_Status *status, MPI_Datatype type, const char *what, const char *path)
{
    int bad = mpi_code != MPI_SUCCESS;
    if (!bad && status) {
        int count;
        MPI_Get_count(status, type, &count);
        bad = count != 1;
    }
    return kc_all_well(bad, mpi_code, 0, what, path);
}

int kc_size_well(const char *path, long long bytes)
{
    int bad = 0;
    if (kc_rank == 0) {
        struct stat s;
        if (stat(path, &s) != 0) {
            fprintf(stderr, "%s: %s: %s\n", kc_program, path, strerror(errno));
            bad = 1;
        } else if ((long long)s.st_size != bytes) {
            fprintf(stderr, "%s: %s has %lld bytes and should have %lld (file system full?)\n", kc_program, path, (long long)s.st_size, bytes);
            bad = 1;
        }
        fflush(stderr);
    }
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return !bad;
}

/* ---- who writes ---- */

/* wchar: bytes handed to write calls (files, pipes, and sockets that are written to by write/writev). write_bytes: bytes for which this
 * process caused a block device or a network file system to be written to; always 0 on tmpfs. */
struct counters {
    long long wchar, write_bytes;
};
static struct counters before, total;
static int counters_known = 1;

static struct counters read_counters(void)
{
    struct counters c = {0, 0};
    FILE *f = fopen("/proc/self/io", "r");
    if (!f) {
        counters_known = 0;
        return c;
    }
    char line[128];
    while (fgets(line, sizeof line, f)) {
        long long v;
        if (sscanf(line, "wchar: %lld", &v) == 1)
            c.wchar = v;
        else if (sscanf(line, "write_bytes: %lld", &v) == 1)
            c.write_bytes = v;
    }
    fclose(f);
    return c;
}

void kc_writes_begin(void)
{
    before = read_counters();
}

void kc_writes_end(void)
{
    struct counters now = read_counters();
    /* A restarted process starts again from 0: such an interval is left out. */
    if (now.wchar >= before.wchar && now.write_bytes >= before.write_bytes) {
        total.wchar += now.wchar - before.wchar;
        total.write_bytes += now.write_bytes - before.write_bytes;
    }
}

void kc_writes_add(long long bytes)
{
    total.wchar += bytes;
}

int kc_writers(long long bytes_expected, int collective)
{
    long long mine[2] = {total.write_bytes, total.wchar}, sum[2];
    int known;
    kc_allreduce(&counters_known, &known, 1, MPI_INT, MPI_MIN);
    if (!known)
        return -1;
    kc_allreduce(mine, sum, 2, MPI_LONG_LONG, MPI_SUM);
    /* wchar is exact where no data pass through sockets: on one node, and when every process writes for itself. Elsewhere it would also count
     * data on their way to an aggregator, so write_bytes is used where it explains at least half of the data. It is second choice, since it
     * knows nothing of tmpfs and counts a page for the process that touched it first. */
    MPI_Comm node;
    int on_node, which = 1;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &on_node);
    MPI_Comm_free(&node);
    int apart = on_node != kc_size, anywhere_apart;
    kc_allreduce(&apart, &anywhere_apart, 1, MPI_INT, MPI_MAX);
    if (collective && anywhere_apart && sum[0] >= bytes_expected / 2)
        which = 0;
    if (sum[which] <= 0)
        return -1;
    int writes = (double)mine[which] >= 0.05 * (double)sum[which] / kc_size, writers;
    kc_allreduce(&writes, &writers, 1, MPI_INT, MPI_SUM);
    return writers;
}

/* ---- checkpoints ---- */

/* The header, in words of 8 bytes in the byte order of the machine: magic, version and byte order (half a word each), step, one for each fixed
 * option, bytes and checksum of the data, checksum of the header. The rest of its bytes are 0. */
#define VERSION 1u
#define BYTE_ORDER 0x01020304u

static int fixed_options(const struct kc_checkpoint *c)
{
    int n = 0;
    while (n < KC_MOST_FIXED && c->fixed[n].option)
        n++;
    return n;
}

int kc_header_words(const struct kc_checkpoint *c)
{
    return 6 + fixed_options(c);
}

uint64_t kc_header_sum(const uint64_t *words, int count)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        double as_double = 0.0;
        if (i + 1 < count)
            memcpy(&as_double, &words[i], 8);
        sum += kc_mix((uint64_t)i, as_double);
    }
    return sum;
}

static void make_header(const struct kc_checkpoint *c, long long step, uint64_t words[KC_MOST_WORDS])
{
    uint32_t halves[2] = {VERSION, BYTE_ORDER};
    int n = fixed_options(c);
    memcpy(&words[0], c->magic, 8);
    memcpy(&words[1], halves, 8);
    words[2] = (uint64_t)step;
    for (int i = 0; i < n; i++)
        words[3 + i] = (uint64_t)*c->fixed[i].value;
    words[3 + n] = (uint64_t)c->data_bytes;
    words[4 + n] = c->checksum();
    words[5 + n] = kc_header_sum(words, 6 + n);
}

void kc_make_header(const struct kc_checkpoint *c, long long step, char block[KC_HEADER_BYTES])
{
    uint64_t words[KC_MOST_WORDS];
    make_header(c, step, words);
    memset(block, 0, KC_HEADER_BYTES);
    memcpy(block, words, (size_t)kc_header_words(c) * 8);
}

int kc_blocks(const struct kc_checkpoint *c)
{
    int n = 0;
    while (n < KC_MOST_BLOCKS && c->blocks[n].dims > 0)
        n++;
    return n;
}

void kc_each_row(const struct kc_block *b, void (*row)(void *state, long long in_memory, long long in_file, size_t count), void *state)
{
    int index[KC_MOST_DIMS] = {0}, last = b->dims - 1;
    for (int d = 0; d < b->dims; d++)
        if (b->count[d] == 0)
            return;
    for (;;) {
        long long in_memory = 0, in_file = 0;
        for (int d = 0; d < b->dims; d++) {
            in_memory = in_memory * b->memory[d] + b->memory_first[d] + index[d];
            in_file = in_file * b->file[d] + b->file_first[d] + index[d];
        }
        row(state, b->memory_at + in_memory, b->file_at + in_file, (size_t)b->count[last]);
        int d = last - 1;
        while (d >= 0 && ++index[d] == b->count[d])
            index[d--] = 0;
        if (d < 0)
            return;
    }
}

size_t kc_own_bytes(const struct kc_checkpoint *c)
{
    size_t all = 0;
    for (int i = 0; i < kc_blocks(c); i++) {
        size_t count = sizeof(double);
        for (int d = 0; d < c->blocks[i].dims; d++)
            count *= (size_t)c->blocks[i].count[d];
        all += count;
    }
    return all;
}

static MPI_Datatype struct_of(int n, const MPI_Aint *at, MPI_Datatype *parts)
{
    int ones[KC_MOST_BLOCKS] = {1, 1};
    MPI_Datatype type;
    MPI_Type_create_struct(n, ones, at, parts, &type);
    for (int i = 0; i < n; i++)
        MPI_Type_free(&parts[i]);
    return kc_type(type);
}

void kc_make_types(struct kc_checkpoint *c)
{
    MPI_Datatype in_memory[KC_MOST_BLOCKS] = {MPI_DATATYPE_NULL}, in_file[KC_MOST_BLOCKS] = {MPI_DATATYPE_NULL};
    MPI_Aint memory_at[KC_MOST_BLOCKS] = {0}, file_at[KC_MOST_BLOCKS] = {0};
    int n = kc_blocks(c);
    for (int i = 0; i < n; i++) {
        struct kc_block *b = &c->blocks[i];
        MPI_Type_create_subarray(b->dims, b->memory, b->count, b->memory_first, MPI_ORDER_C, MPI_DOUBLE, &in_memory[i]);
        MPI_Type_create_subarray(b->dims, b->file, b->count, b->file_first, MPI_ORDER_C, MPI_DOUBLE, &in_file[i]);
        memory_at[i] = (MPI_Aint)(b->memory_at * (long long)sizeof(double));
        file_at[i] = (MPI_Aint)(b->file_at * (long long)sizeof(double));
    }
    c->memory_type = n == 1 && memory_at[0] == 0 ? kc_type(in_memory[0]) : struct_of(n, memory_at, in_memory);
    c->file_type = n == 1 && file_at[0] == 0 ? kc_type(in_file[0]) : struct_of(n, file_at, in_file);
}

int kc_sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return errno;
    int code = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    /* Some file systems cannot sync a directory; that is no failure of the checkpoint. */
    return code == EINVAL || code == ENOTSUP ? 0 : code;
}

void kc_say_checkpoint(const struct kc_checkpoint *c, int number, long long step, double until_safe, double stopped)
{
    kc_say("Checkpoint %d written: %lld bytes in %.6f s (step %lld)", number, kl_checkpoint_bytes(c), until_safe, step);
    kc_say("Checkpoint %d stopped the program for %.6f s", number, stopped);
}

void kc_write_checkpoint(const struct kc_checkpoint *c, const char *dir, const void *memory, long long step, struct kc_written *written)
{
    if (kw_is_behind()) {
        kw_request(c, dir, memory, step, written);
        return;
    }
    double start = MPI_Wtime();
    int number = ++written->checkpoints;
    if (!kl_put(c, dir, memory, step, number))
        kc_refuse(KC_IO_ERROR, "checkpoint %d failed at step %lld", number, step);
    written->seconds += MPI_Wtime() - start;
    written->bytes += kl_checkpoint_bytes(c);
}

void kc_say_written(const struct kc_written *written)
{
    if (written->checkpoints == 0)
        return;
    double io = kc_max(written->seconds);
    int writers = kc_writers(written->bytes, !kw_is_behind() && kl_is_collective());
    kc_say("Bytes written = %lld", written->bytes);
    kc_say("I/O time = %.6f s", io);
    kc_say("I/O data rate = %.3f MiB/s", (double)written->bytes / 1048576.0 / io);
    kc_say("Writers = %d", writers);
    if (kw_is_behind())
        kc_say("Checkpoints skipped = %d", written->skipped);
}

static int same_options(const struct kc_checkpoint *c, const uint64_t *words)
{
    for (int i = 0; i < fixed_options(c); i++)
        if (words[3 + i] != (uint64_t)*c->fixed[i].value)
            return 0;
    return 1;
}

/* "of a run with --size 32 --vars 5, not --size 48 --vars 5" */
static void say_options(const struct kc_checkpoint *c, const uint64_t *words, char *text, size_t room)
{
    size_t used = (size_t)snprintf(text, room, "of a run with");
    for (int side = 0; side < 2; side++) {
        if (side == 1 && used < room)
            used += (size_t)snprintf(text + used, room - used, ", not");
        for (int i = 0; i < fixed_options(c) && used < room; i++) {
            unsigned long long value = side == 0 ? words[3 + i] : (unsigned long long)*c->fixed[i].value;
            used += (size_t)snprintf(text + used, room - used, " --%s %llu", c->fixed[i].option, value);
        }
    }
}

const char *kc_header_fault(const struct kc_checkpoint *c, const uint64_t *words, size_t got, long long file_bytes, long long last_step,
                                char *text, size_t room)
{
    int count = kc_header_words(c), n = fixed_options(c);
    uint32_t halves[2];
    memcpy(halves, &words[1], 8);
    if (got < (size_t)count * 8 || file_bytes < KC_HEADER_BYTES)
        snprintf(text, room, "truncated: %lld bytes, the header alone has %d", file_bytes, KC_HEADER_BYTES);
    else if (memcmp(&words[0], c->magic, 8) != 0)
        snprintf(text, room, "not a checkpoint of %s (wrong magic)", kc_program);
    else if (halves[1] != BYTE_ORDER)
        snprintf(text, room, "written on a machine with another byte order");
    else if (halves[0] != VERSION)
        snprintf(text, room, "format version %u, this program reads %u", halves[0], VERSION);
    else if (words[count - 1] != kc_header_sum(words, count))
        snprintf(text, room, "corrupt: the header's checksum does not fit");
    else if (!same_options(c, words))
        say_options(c, words, text, room);
    else if (file_bytes != KC_HEADER_BYTES + (long long)words[3 + n] || words[3 + n] != (uint64_t)c->data_bytes)
        snprintf(text, room, "%s: %lld bytes instead of %lld", file_bytes < KC_HEADER_BYTES + c->data_bytes ? "truncated" : "corrupt",
                 file_bytes, KC_HEADER_BYTES + c->data_bytes);
    else if (words[2] > (uint64_t)last_step)
        snprintf(text, room, "at step %llu already, after --steps %lld", (unsigned long long)words[2], last_step);
    else
        return NULL;
    return text;
}

/* ---- numbers ---- */

uint64_t kc_mix(uint64_t position, double value)
{
    uint64_t h;
    memcpy(&h, &value, sizeof h);
    h ^= (position + 1) * UINT64_C(0x9e3779b97f4a7c15);
    /* The finaliser of a 64-bit mixing hash: each input bit changes about half of the output bits. */
    h ^= h >> 33;
    h *= UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    h ^= h >> 33;
    return h;
}

uint64_t kc_sum_u64(uint64_t mine)
{
    uint64_t sum;
    kc_allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM);
    return sum;
}

double kc_max(double mine)
{
    int nan_here = isnan(mine) ? 1 : 0, nan_anywhere;
    double largest, finite = nan_here ? 0.0 : mine;
    kc_allreduce(&nan_here, &nan_anywhere, 1, MPI_INT, MPI_MAX);
    kc_allreduce(&finite, &largest, 1, MPI_DOUBLE, MPI_MAX);
    return nan_anywhere ? NAN : largest;
}

int kc_verdict(int well, double seconds)
{
    kc_say("Time in seconds = %.3f", seconds);
    kc_say("Verification = %s", well ? "SUCCESSFUL" : "FAILED");
    return well ? KC_OK : KC_UNVERIFIED;
}
