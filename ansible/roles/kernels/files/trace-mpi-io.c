/* trace-mpi-io: records the I/O of an MPI program, without a change to it.
 *
 *   CVC_MPI_IO_TRACE=DIR LD_PRELOAD=libtrace-mpi-io.so mpiexec ...
 *
 * Each process writes DIR/RANK.mpi-io: every call of MPI-IO, with its place in the file (through the view) and its time, and how many calls
 * that communicate came before it; calls of open, read, write and stdio that the program makes itself. Calls of MPI are intercepted under both
 * names, since the Fortran interface of Open MPI calls PMPI_ directly. What the MPI library does inside of a call does not count.
 *
 * The file is a header and records: a word of 32 bits that says what the record is, one for the bytes that follow, and these. Numbers are
 * those of the machine. A file without a last record `END` is cut off. docs/phases.md lists the records. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_FILE = 1, RECORD_VIEW, RECORD_EVENT, RECORD_HINT, RECORD_MAPPED, RECORD_END };
enum {
    EVENT_WRITE = 1,
    EVENT_INDIVIDUAL = 2, /* the pointer of the process; neither: an explicit offset */
    EVENT_SHARED = 4,     /* the pointer that processes share */
    EVENT_COLLECTIVE = 8,
    EVENT_NON_BLOCKING = 16,
    EVENT_POSIX = 32,
    EVENT_SYNC = 64,
};

#define MOST_SEGMENTS (1 << 18)
#define MOST_FDS 4096

struct header {
    char magic[8];
    uint32_t rank, size;
    uint64_t wall_ns; /* when the trace began, since 1970 */
    char host[40];
};

struct file_record {
    uint32_t file, mode, processes, is_posix;
};

struct view_record {
    uint32_t file, view;
    int64_t displacement, etype_bytes, filetype_bytes, extent;
    int64_t segments; /* -1: the type is too complicated */
};

struct event_record {
    uint32_t file, view, kind, ticks;
    int64_t offset; /* in etypes of the view */
    uint64_t bytes, start_ns, end_ns;
};

struct end_record {
    uint64_t end_ns, ticks;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int depth; /* within a call that is traced */
static int out = -1;
static char *buffer;
static size_t used;
#define BUFFER_BYTES ((size_t)1 << 20)
static uint64_t start_ns, ticks, ticks_seen;
static uint32_t files, views;

/* What a handle of MPI is. */
struct open_file {
    MPI_File handle;
    uint32_t file, view;
    struct open_file *next;
};
static struct open_file *open_files;
static uint32_t of_fd[MOST_FDS]; /* file + 1 */
struct stream {
    FILE *stream;
    uint32_t file;
    struct stream *next;
};
static struct stream *streams;

static void *find_real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "trace-mpi-io: the program's libraries have no %s\n", name);
        abort();
    }
    return found;
}
#define NEXT(name)                         \
    static __typeof__(&name) next_##name; \
    if (!next_##name)                     \
        next_##name = (__typeof__(&name))find_real(#name)

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - start_ns;
}

/* ---- records ---- */

static void flush_records(void)
{
    NEXT(write);
    for (size_t done = 0; out >= 0 && done < used;) {
        ssize_t n = next_write(out, buffer + done, used - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            fprintf(stderr, "trace-mpi-io: the trace ends here: %s\n", strerror(errno));
            out = -1;
        } else {
            done += (size_t)n;
        }
    }
    used = 0;
}

static void put_bytes(const void *from, size_t bytes)
{
    for (const char *at = from; bytes > 0;) {
        size_t n = bytes < BUFFER_BYTES - used ? bytes : BUFFER_BYTES - used;
        memcpy(buffer + used, at, n);
        used += n;
        at += n;
        bytes -= n;
        if (used == BUFFER_BYTES)
            flush_records();
    }
}

static void put_record(uint32_t what, const void *head, size_t head_bytes, const void *tail, size_t tail_bytes)
{
    uint32_t start[2] = {what, (uint32_t)(head_bytes + tail_bytes)};
    put_bytes(start, sizeof start);
    put_bytes(head, head_bytes);
    if (tail_bytes)
        put_bytes(tail, tail_bytes);
}

static void put_event(uint32_t file, uint32_t view, uint32_t kind, int64_t offset, uint64_t bytes, uint64_t begin)
{
    if (out < 0)
        return;
    struct event_record e = {file, view, kind, 0, offset, bytes, begin, now_ns()};
    pthread_mutex_lock(&lock);
    uint64_t since = ticks - ticks_seen;
    e.ticks = since > UINT32_MAX ? UINT32_MAX : (uint32_t)since;
    ticks_seen = ticks;
    put_record(RECORD_EVENT, &e, sizeof e, NULL, 0);
    pthread_mutex_unlock(&lock);
}

static uint32_t put_file(const char *name, uint32_t mode, uint32_t processes, int is_posix)
{
    char path[PATH_MAX];
    pthread_mutex_lock(&lock);
    struct file_record f = {files++, mode, processes, (uint32_t)is_posix};
    if (name[0] == '/' || !getcwd(path, sizeof path) || strlen(path) + strlen(name) + 2 > sizeof path)
        snprintf(path, sizeof path, "%s", name);
    else
        strcat(strcat(path, "/"), name);
    put_record(RECORD_FILE, &f, sizeof f, path, strlen(path));
    pthread_mutex_unlock(&lock);
    return f.file;
}

/* ---- datatypes as segments of bytes ---- */

struct segments {
    int64_t (*all)[2]; /* offset, bytes */
    int64_t count, room;
    int failed;
};

static void add_segment(struct segments *to, int64_t at, int64_t bytes)
{
    if (bytes == 0 || to->failed)
        return;
    if (to->count && to->all[to->count - 1][0] + to->all[to->count - 1][1] == at) {
        to->all[to->count - 1][1] += bytes;
        return;
    }
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 256;
        void *more = to->room > MOST_SEGMENTS ? NULL : realloc(to->all, (size_t)to->room * sizeof *to->all);
        if (!more) {
            to->failed = 1;
            return;
        }
        to->all = more;
    }
    to->all[to->count][0] = at;
    to->all[to->count++][1] = bytes;
}

static void flatten(struct segments *to, MPI_Datatype type, int64_t at);

static void repeat(struct segments *to, MPI_Datatype type, int64_t at, int64_t count, int64_t stride)
{
    for (int64_t i = 0; i < count && !to->failed; i++)
        flatten(to, type, at + i * stride);
}

static void flatten_subarray(struct segments *to, MPI_Datatype type, int64_t at, const int *ints, MPI_Aint extent)
{
    int dims = ints[0], is_c = ints[1 + 3 * dims] == MPI_ORDER_C, index[64] = {0};
    const int *sizes = ints + 1, *counts = sizes + dims, *starts = counts + dims;
    if (dims > 64) {
        to->failed = 1;
        return;
    }
    for (int d = 0; d < dims; d++)
        if (counts[d] == 0)
            return;
    /* the fastest dimension is the last of C, the first of Fortran */
    for (;;) {
        int64_t place = 0;
        for (int i = 0; i < dims; i++) {
            int d = is_c ? i : dims - 1 - i;
            place = place * sizes[d] + starts[d] + (i == dims - 1 ? 0 : index[d]);
        }
        repeat(to, type, at + place * extent, counts[is_c ? dims - 1 : 0], extent);
        int i = dims - 2;
        for (; i >= 0; i--) {
            int d = is_c ? i : dims - 1 - i;
            if (++index[d] < counts[d])
                break;
            index[d] = 0;
        }
        if (i < 0 || to->failed)
            return;
    }
}

static void flatten_parts(struct segments *to, int combiner, int64_t at, const int *ints, const MPI_Aint *addresses, MPI_Datatype *types)
{
    MPI_Aint lower, extent;
    PMPI_Type_get_extent(types[0], &lower, &extent);
    switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        flatten(to, types[0], at);
        break;
    case MPI_COMBINER_CONTIGUOUS:
        repeat(to, types[0], at, ints[0], extent);
        break;
    case MPI_COMBINER_VECTOR:
        for (int i = 0; i < ints[0]; i++)
            repeat(to, types[0], at + (int64_t)i * ints[2] * extent, ints[1], extent);
        break;
    case MPI_COMBINER_HVECTOR:
        for (int i = 0; i < ints[0]; i++)
            repeat(to, types[0], at + i * (int64_t)addresses[0], ints[1], extent);
        break;
    case MPI_COMBINER_INDEXED:
        for (int i = 0; i < ints[0]; i++)
            repeat(to, types[0], at + (int64_t)ints[1 + ints[0] + i] * extent, ints[1 + i], extent);
        break;
    case MPI_COMBINER_HINDEXED:
        for (int i = 0; i < ints[0]; i++)
            repeat(to, types[0], at + (int64_t)addresses[i], ints[1 + i], extent);
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        for (int i = 0; i < ints[0]; i++)
            repeat(to, types[0], at + (int64_t)ints[2 + i] * extent, ints[1], extent);
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        for (int i = 0; i < ints[0]; i++)
            repeat(to, types[0], at + (int64_t)addresses[i], ints[1], extent);
        break;
    case MPI_COMBINER_STRUCT:
        for (int i = 0; i < ints[0]; i++) {
            PMPI_Type_get_extent(types[i], &lower, &extent);
            repeat(to, types[i], at + (int64_t)addresses[i], ints[1 + i], extent);
        }
        break;
    case MPI_COMBINER_SUBARRAY:
        flatten_subarray(to, types[0], at, ints, extent);
        break;
    default:
        to->failed = 1;
    }
}

static void flatten(struct segments *to, MPI_Datatype type, int64_t at)
{
    int n_ints, n_addresses, n_types, combiner, size;
    PMPI_Type_get_envelope(type, &n_ints, &n_addresses, &n_types, &combiner);
    PMPI_Type_size(type, &size);
    if (n_types == 0) { /* a basic type */
        add_segment(to, at, size);
        return;
    }
    MPI_Aint lower, extent;
    PMPI_Type_get_true_extent(type, &lower, &extent);
    if (size == extent) { /* without holes */
        add_segment(to, at + lower, size);
        return;
    }
    int *ints = malloc(((size_t)n_ints + 1) * sizeof *ints);
    MPI_Aint *addresses = malloc(((size_t)n_addresses + 1) * sizeof *addresses);
    MPI_Datatype *types = malloc((size_t)n_types * sizeof *types);
    if (!ints || !addresses || !types) {
        to->failed = 1;
    } else {
        PMPI_Type_get_contents(type, n_ints, n_addresses, n_types, ints, addresses, types);
        flatten_parts(to, combiner, at, ints, addresses, types);
        for (int i = 0; i < n_types; i++) {
            int a, b, c, of;
            PMPI_Type_get_envelope(types[i], &a, &b, &c, &of);
            if (of != MPI_COMBINER_NAMED)
                PMPI_Type_free(&types[i]);
        }
    }
    free(ints);
    free(addresses);
    free(types);
}

/* ---- files of MPI-IO ---- */

static struct open_file *find_file(MPI_File handle)
{
    struct open_file *f = open_files;
    while (f && f->handle != handle)
        f = f->next;
    return f;
}

static void put_hints(uint32_t file, MPI_Info info)
{
    int keys = 0;
    if (info == MPI_INFO_NULL)
        return;
    PMPI_Info_get_nkeys(info, &keys);
    for (int i = 0; i < keys; i++) {
        char key[MPI_MAX_INFO_KEY + 1], value[1024], both[sizeof key + sizeof value + 1];
        int there = 0;
        PMPI_Info_get_nthkey(info, i, key);
        PMPI_Info_get(info, key, (int)sizeof value - 1, value, &there);
        snprintf(both, sizeof both, "%s=%s", key, there ? value : "");
        pthread_mutex_lock(&lock);
        put_record(RECORD_HINT, &file, sizeof file, both, strlen(both));
        pthread_mutex_unlock(&lock);
    }
}

static void put_view(struct open_file *f)
{
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING + 1];
    int etype_bytes, filetype_bytes;
    MPI_Aint lower, extent;
    struct segments s = {0};
    PMPI_File_get_view(f->handle, &displacement, &etype, &filetype, representation);
    PMPI_Type_size(etype, &etype_bytes);
    PMPI_Type_size(filetype, &filetype_bytes);
    PMPI_Type_get_extent(filetype, &lower, &extent);
    flatten(&s, filetype, 0);
    pthread_mutex_lock(&lock);
    f->view = views++;
    struct view_record v = {f->file, f->view, displacement, etype_bytes, filetype_bytes, extent, s.failed ? -1 : s.count};
    put_record(RECORD_VIEW, &v, sizeof v, s.all, s.failed ? 0 : (size_t)s.count * sizeof *s.all);
    pthread_mutex_unlock(&lock);
    free(s.all);
    MPI_Datatype *both[] = {&etype, &filetype};
    for (int i = 0; i < 2; i++) {
        int a, b, c, of;
        PMPI_Type_get_envelope(*both[i], &a, &b, &c, &of);
        if (of != MPI_COMBINER_NAMED)
            PMPI_Type_free(both[i]);
    }
}

#define ALIAS(name) __attribute__((alias(#name)))
#define PROFILED(name, params) int P##name params ALIAS(name)

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *handle)
{
    NEXT(PMPI_File_open);
    /* collective: the processes have to agree */
    if (depth == 0)
        __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
    depth++;
    int code = next_PMPI_File_open(comm, name, mode, info, handle);
    if (depth == 1 && out >= 0 && code == MPI_SUCCESS) {
        int processes;
        PMPI_Comm_size(comm, &processes);
        struct open_file *f = calloc(1, sizeof *f);
        if (f) {
            const char *colon = strchr(name, ':'); /* the kind of file system, as in ufs:name */
            const char *slash = strchr(name, '/');
            f->handle = *handle;
            f->file = put_file(colon && (!slash || colon < slash) ? colon + 1 : name, (uint32_t)mode, (uint32_t)processes, 0);
            pthread_mutex_lock(&lock);
            f->next = open_files;
            open_files = f;
            pthread_mutex_unlock(&lock);
            put_hints(f->file, info);
            put_view(f);
        }
    }
    depth--;
    return code;
}
PROFILED(MPI_File_open, (MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *handle));

int MPI_File_close(MPI_File *handle)
{
    NEXT(PMPI_File_close);
    if (depth == 0) {
        pthread_mutex_lock(&lock);
        for (struct open_file **f = &open_files; *f; f = &(*f)->next)
            if ((*f)->handle == *handle) {
                struct open_file *gone = *f;
                *f = gone->next;
                free(gone);
                break;
            }
        pthread_mutex_unlock(&lock);
    }
    depth++;
    int code = next_PMPI_File_close(handle);
    depth--;
    return code;
}
PROFILED(MPI_File_close, (MPI_File * handle));

int MPI_File_set_view(MPI_File handle, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char *representation, MPI_Info info)
{
    NEXT(PMPI_File_set_view);
    depth++;
    int code = next_PMPI_File_set_view(handle, displacement, etype, filetype, representation, info);
    struct open_file *f = depth == 1 && out >= 0 && code == MPI_SUCCESS ? find_file(handle) : NULL;
    if (f) {
        put_hints(f->file, info);
        put_view(f);
    }
    depth--;
    return code;
}
PROFILED(MPI_File_set_view,
         (MPI_File handle, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, const char *representation, MPI_Info info));

int MPI_File_sync(MPI_File handle)
{
    NEXT(PMPI_File_sync);
    uint64_t begin = now_ns();
    depth++;
    int code = next_PMPI_File_sync(handle);
    struct open_file *f = depth == 1 ? find_file(handle) : NULL;
    if (f)
        put_event(f->file, f->view, EVENT_SYNC | EVENT_COLLECTIVE, 0, 0, begin);
    depth--;
    return code;
}
PROFILED(MPI_File_sync, (MPI_File handle));

static int64_t place_of(MPI_File handle, uint32_t kind)
{
    MPI_Offset at = 0;
    if (kind & EVENT_SHARED)
        PMPI_File_get_position_shared(handle, &at);
    else
        PMPI_File_get_position(handle, &at);
    return at;
}

/* A call that moves data: its name, what it is, parameters and arguments; `at` gives its offset. */
#define MOVE(name, what, at, params, args)                                               \
    int name params                                                                      \
    {                                                                                    \
        NEXT(P##name);                                                                   \
        struct open_file *traced = depth == 0 && out >= 0 ? find_file(handle) : NULL;    \
        if (!traced)                                                                     \
            return next_P##name args;                                                    \
        depth++;                                                                         \
        int64_t offset = (at);                                                           \
        int type_bytes;                                                                  \
        PMPI_Type_size(type, &type_bytes);                                               \
        uint64_t begin = now_ns();                                                       \
        int code = next_P##name args;                                                    \
        if (code == MPI_SUCCESS)                                                         \
            put_event(traced->file, traced->view, (what), offset, (uint64_t)count * (uint64_t)type_bytes, begin); \
        depth--;                                                                         \
        return code;                                                                     \
    }                                                                                    \
    PROFILED(name, params)

#define AT_READ(name, what) \
    MOVE(name, what, place, (MPI_File handle, MPI_Offset place, void *data, int count, MPI_Datatype type, MPI_Status *status), (handle, place, data, count, type, status))
#define AT_WRITE(name, what) \
    MOVE(name, what, place, (MPI_File handle, MPI_Offset place, const void *data, int count, MPI_Datatype type, MPI_Status *status), (handle, place, data, count, type, status))
#define READ(name, what) \
    MOVE(name, what, place_of(handle, what), (MPI_File handle, void *data, int count, MPI_Datatype type, MPI_Status *status), (handle, data, count, type, status))
#define WRITE(name, what) \
    MOVE(name, what, place_of(handle, what), (MPI_File handle, const void *data, int count, MPI_Datatype type, MPI_Status *status), (handle, data, count, type, status))
#define AT_IREAD(name, what) \
    MOVE(name, what, place, (MPI_File handle, MPI_Offset place, void *data, int count, MPI_Datatype type, MPI_Request *request), (handle, place, data, count, type, request))
#define AT_IWRITE(name, what) \
    MOVE(name, what, place, (MPI_File handle, MPI_Offset place, const void *data, int count, MPI_Datatype type, MPI_Request *request), (handle, place, data, count, type, request))
#define IREAD(name, what) \
    MOVE(name, what, place_of(handle, what), (MPI_File handle, void *data, int count, MPI_Datatype type, MPI_Request *request), (handle, data, count, type, request))
#define IWRITE(name, what) \
    MOVE(name, what, place_of(handle, what), (MPI_File handle, const void *data, int count, MPI_Datatype type, MPI_Request *request), (handle, data, count, type, request))

enum { ALL = EVENT_COLLECTIVE, OWN = EVENT_INDIVIDUAL, COMMON = EVENT_SHARED, PUT = EVENT_WRITE, LATER = EVENT_NON_BLOCKING };

AT_READ(MPI_File_read_at, 0);
AT_READ(MPI_File_read_at_all, ALL);
AT_WRITE(MPI_File_write_at, PUT);
AT_WRITE(MPI_File_write_at_all, PUT | ALL);
READ(MPI_File_read, OWN);
READ(MPI_File_read_all, OWN | ALL);
WRITE(MPI_File_write, PUT | OWN);
WRITE(MPI_File_write_all, PUT | OWN | ALL);
READ(MPI_File_read_shared, COMMON);
WRITE(MPI_File_write_shared, PUT | COMMON);
READ(MPI_File_read_ordered, COMMON | ALL);
WRITE(MPI_File_write_ordered, PUT | COMMON | ALL);
AT_IREAD(MPI_File_iread_at, LATER);
AT_IWRITE(MPI_File_iwrite_at, PUT | LATER);
IREAD(MPI_File_iread, OWN | LATER);
IWRITE(MPI_File_iwrite, PUT | OWN | LATER);
IREAD(MPI_File_iread_shared, COMMON | LATER);
IWRITE(MPI_File_iwrite_shared, PUT | COMMON | LATER);
#if MPI_VERSION > 3 || (MPI_VERSION == 3 && MPI_SUBVERSION >= 1)
AT_IREAD(MPI_File_iread_at_all, ALL | LATER);
AT_IWRITE(MPI_File_iwrite_at_all, PUT | ALL | LATER);
IREAD(MPI_File_iread_all, OWN | ALL | LATER);
IWRITE(MPI_File_iwrite_all, PUT | OWN | ALL | LATER);
#endif
MOVE(MPI_File_read_at_all_begin, ALL | LATER, place, (MPI_File handle, MPI_Offset place, void *data, int count, MPI_Datatype type),
     (handle, place, data, count, type));
MOVE(MPI_File_write_at_all_begin, PUT | ALL | LATER, place, (MPI_File handle, MPI_Offset place, const void *data, int count, MPI_Datatype type),
     (handle, place, data, count, type));
MOVE(MPI_File_read_all_begin, OWN | ALL | LATER, place_of(handle, OWN), (MPI_File handle, void *data, int count, MPI_Datatype type),
     (handle, data, count, type));
MOVE(MPI_File_write_all_begin, PUT | OWN | ALL | LATER, place_of(handle, OWN), (MPI_File handle, const void *data, int count, MPI_Datatype type),
     (handle, data, count, type));

/* ---- communication ---- */

#define TALK(name, params, args)                                          \
    int name params                                                       \
    {                                                                     \
        NEXT(P##name);                                                    \
        if (depth == 0)                                                   \
            __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);              \
        depth++;                                                          \
        int code = next_P##name args;                                     \
        depth--;                                                          \
        return code;                                                      \
    }                                                                     \
    PROFILED(name, params)

#define TO (const void *out_data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
#define TO_ARGS (out_data, count, type, peer, tag, comm)
#define TO_LATER (const void *out_data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
#define TO_LATER_ARGS (out_data, count, type, peer, tag, comm, request)
TALK(MPI_Send, TO, TO_ARGS);
TALK(MPI_Ssend, TO, TO_ARGS);
TALK(MPI_Rsend, TO, TO_ARGS);
TALK(MPI_Bsend, TO, TO_ARGS);
TALK(MPI_Isend, TO_LATER, TO_LATER_ARGS);
TALK(MPI_Issend, TO_LATER, TO_LATER_ARGS);
TALK(MPI_Irsend, TO_LATER, TO_LATER_ARGS);
TALK(MPI_Ibsend, TO_LATER, TO_LATER_ARGS);
TALK(MPI_Recv, (void *in, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status *status), (in, count, type, peer, tag, comm, status));
TALK(MPI_Irecv, (void *in, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request),
     (in, count, type, peer, tag, comm, request));
TALK(MPI_Start, (MPI_Request * request), (request));
TALK(MPI_Startall, (int count, MPI_Request *requests), (count, requests));
TALK(MPI_Sendrecv,
     (const void *o, int oc, MPI_Datatype ot, int to, int otag, void *i, int ic, MPI_Datatype it, int from, int itag, MPI_Comm comm, MPI_Status *status),
     (o, oc, ot, to, otag, i, ic, it, from, itag, comm, status));
TALK(MPI_Sendrecv_replace, (void *b, int c, MPI_Datatype t, int to, int otag, int from, int itag, MPI_Comm comm, MPI_Status *status),
     (b, c, t, to, otag, from, itag, comm, status));
TALK(MPI_Barrier, (MPI_Comm comm), (comm));
TALK(MPI_Bcast, (void *b, int c, MPI_Datatype t, int root, MPI_Comm comm), (b, c, t, root, comm));
TALK(MPI_Reduce, (const void *o, void *i, int c, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm), (o, i, c, t, op, root, comm));
#define REDUCE (const void *o, void *i, int c, MPI_Datatype t, MPI_Op op, MPI_Comm comm)
#define REDUCE_ARGS (o, i, c, t, op, comm)
TALK(MPI_Allreduce, REDUCE, REDUCE_ARGS);
TALK(MPI_Scan, REDUCE, REDUCE_ARGS);
TALK(MPI_Exscan, REDUCE, REDUCE_ARGS);
TALK(MPI_Reduce_scatter_block, REDUCE, REDUCE_ARGS);
TALK(MPI_Reduce_scatter, (const void *o, void *i, const int *c, MPI_Datatype t, MPI_Op op, MPI_Comm comm), REDUCE_ARGS);
TALK(MPI_Iallreduce, (const void *o, void *i, int c, MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *request), (o, i, c, t, op, comm, request));
TALK(MPI_Ibarrier, (MPI_Comm comm, MPI_Request *request), (comm, request));
TALK(MPI_Ibcast, (void *b, int c, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request *request), (b, c, t, root, comm, request));
#define SHARE (const void *o, int oc, MPI_Datatype ot, void *i, int ic, MPI_Datatype it, MPI_Comm comm)
#define SHARE_ARGS (o, oc, ot, i, ic, it, comm)
TALK(MPI_Allgather, SHARE, SHARE_ARGS);
TALK(MPI_Alltoall, SHARE, SHARE_ARGS);
#define GATHER (const void *o, int oc, MPI_Datatype ot, void *i, int ic, MPI_Datatype it, int root, MPI_Comm comm)
#define GATHER_ARGS (o, oc, ot, i, ic, it, root, comm)
TALK(MPI_Gather, GATHER, GATHER_ARGS);
TALK(MPI_Scatter, GATHER, GATHER_ARGS);
TALK(MPI_Gatherv, (const void *o, int oc, MPI_Datatype ot, void *i, const int *ic, const int *at, MPI_Datatype it, int root, MPI_Comm comm),
     (o, oc, ot, i, ic, at, it, root, comm));
TALK(MPI_Scatterv, (const void *o, const int *oc, const int *at, MPI_Datatype ot, void *i, int ic, MPI_Datatype it, int root, MPI_Comm comm),
     (o, oc, at, ot, i, ic, it, root, comm));
TALK(MPI_Allgatherv, (const void *o, int oc, MPI_Datatype ot, void *i, const int *ic, const int *at, MPI_Datatype it, MPI_Comm comm),
     (o, oc, ot, i, ic, at, it, comm));
TALK(MPI_Alltoallv,
     (const void *o, const int *oc, const int *oat, MPI_Datatype ot, void *i, const int *ic, const int *iat, MPI_Datatype it, MPI_Comm comm),
     (o, oc, oat, ot, i, ic, iat, it, comm));
TALK(MPI_Alltoallw,
     (const void *o, const int *oc, const int *oat, const MPI_Datatype *ot, void *i, const int *ic, const int *iat, const MPI_Datatype *it, MPI_Comm comm),
     (o, oc, oat, ot, i, ic, iat, it, comm));
TALK(MPI_Win_fence, (int assertion, MPI_Win window), (assertion, window));
#define REMOTE_ARGS (o, oc, ot, rank, at, tc, tt, window)
TALK(MPI_Put, (const void *o, int oc, MPI_Datatype ot, int rank, MPI_Aint at, int tc, MPI_Datatype tt, MPI_Win window), REMOTE_ARGS);
TALK(MPI_Get, (void *o, int oc, MPI_Datatype ot, int rank, MPI_Aint at, int tc, MPI_Datatype tt, MPI_Win window), REMOTE_ARGS);

/* ---- files without MPI ---- */

/* Files of the system and of the program's libraries are none of its data. */
static int is_data(const char *name)
{
    static const char *const others[] = {"/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib", "/run/"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(name, others[i], strlen(others[i])))
            return 0;
    return out >= 0 && depth == 0;
}

static void opened(int fd, const char *name, int mode)
{
    struct stat s;
    if (fd < 0 || fd >= MOST_FDS)
        return;
    of_fd[fd] = 0;
    if (is_data(name) && fstat(fd, &s) == 0 && S_ISREG(s.st_mode))
        of_fd[fd] = put_file(name, (uint32_t)mode, 1, 1) + 1;
}

#define OPEN(name, params, call)                        \
    int name params                                     \
    {                                                   \
        NEXT(name);                                     \
        mode_t mode = 0;                                \
        if (flags & (O_CREAT | O_TMPFILE)) {            \
            va_list more;                               \
            va_start(more, flags);                      \
            mode = va_arg(more, mode_t);                \
            va_end(more);                               \
        }                                               \
        int fd = next_##name call;                      \
        int problem = errno;                            \
        opened(fd, path, flags);                        \
        errno = problem;                                \
        return fd;                                      \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))

int creat(const char *path, mode_t mode)
{
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int fd)
{
    NEXT(close);
    if (fd >= 0 && fd < MOST_FDS)
        of_fd[fd] = 0;
    return next_close(fd);
}

/* A call on a file descriptor; `at` is asked for before it. */
#define FD_CALL(type, name, what, at, params, args)                                              \
    type name params                                                                             \
    {                                                                                            \
        NEXT(name);                                                                              \
        if (depth || out < 0 || fd < 0 || fd >= MOST_FDS || !of_fd[fd])                          \
            return next_##name args;                                                             \
        uint32_t file = of_fd[fd] - 1;                                                           \
        int64_t offset = (at);                                                                   \
        uint64_t begin = now_ns();                                                               \
        type done = next_##name args;                                                            \
        int problem = errno;                                                                     \
        if (done >= 0)                                                                           \
            put_event(file, UINT32_MAX, (what) | EVENT_POSIX, offset, (uint64_t)done, begin);    \
        errno = problem;                                                                         \
        return done;                                                                             \
    }
#define HERE lseek(fd, 0, SEEK_CUR)
FD_CALL(ssize_t, read, OWN, HERE, (int fd, void *data, size_t bytes), (fd, data, bytes))
FD_CALL(ssize_t, write, PUT | OWN, HERE, (int fd, const void *data, size_t bytes), (fd, data, bytes))
FD_CALL(ssize_t, readv, OWN, HERE, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FD_CALL(ssize_t, writev, PUT | OWN, HERE, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FD_CALL(ssize_t, pread, 0, place, (int fd, void *data, size_t bytes, off_t place), (fd, data, bytes, place))
FD_CALL(ssize_t, pread64, 0, place, (int fd, void *data, size_t bytes, off64_t place), (fd, data, bytes, place))
FD_CALL(ssize_t, pwrite, PUT, place, (int fd, const void *data, size_t bytes, off_t place), (fd, data, bytes, place))
FD_CALL(ssize_t, pwrite64, PUT, place, (int fd, const void *data, size_t bytes, off64_t place), (fd, data, bytes, place))
FD_CALL(ssize_t, preadv, 0, place, (int fd, const struct iovec *parts, int count, off_t place), (fd, parts, count, place))
FD_CALL(ssize_t, pwritev, PUT, place, (int fd, const struct iovec *parts, int count, off_t place), (fd, parts, count, place))
FD_CALL(int, fsync, EVENT_SYNC, 0, (int fd), (fd))
FD_CALL(int, fdatasync, EVENT_SYNC, 0, (int fd), (fd))

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t at)
{
    NEXT(mmap);
    if (out >= 0 && depth == 0 && fd >= 0 && fd < MOST_FDS && of_fd[fd] && (protection & PROT_WRITE) && (flags & MAP_SHARED)) {
        uint32_t file = of_fd[fd] - 1;
        pthread_mutex_lock(&lock);
        put_record(RECORD_MAPPED, &file, sizeof file, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return next_mmap(address, bytes, protection, flags, fd, at);
}

static void opened_stream(FILE *stream, const char *path, const char *mode)
{
    struct stat s;
    if (!stream || !is_data(path) || fstat(fileno(stream), &s) != 0 || !S_ISREG(s.st_mode))
        return;
    struct stream *new = calloc(1, sizeof *new);
    if (!new)
        return;
    new->stream = stream;
    new->file = put_file(path, mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR, 1, 1);
    pthread_mutex_lock(&lock);
    new->next = streams;
    streams = new;
    pthread_mutex_unlock(&lock);
}

static struct stream *find_stream(FILE *stream)
{
    struct stream *s = depth == 0 && out >= 0 ? streams : NULL;
    while (s && s->stream != stream)
        s = s->next;
    return s;
}

FILE *fopen(const char *path, const char *mode)
{
    NEXT(fopen);
    FILE *stream = next_fopen(path, mode);
    int problem = errno;
    opened_stream(stream, path, mode);
    errno = problem;
    return stream;
}

FILE *fopen64(const char *path, const char *mode)
{
    NEXT(fopen64);
    FILE *stream = next_fopen64(path, mode);
    int problem = errno;
    opened_stream(stream, path, mode);
    errno = problem;
    return stream;
}

int fclose(FILE *stream)
{
    NEXT(fclose);
    pthread_mutex_lock(&lock);
    for (struct stream **s = &streams; *s; s = &(*s)->next)
        if ((*s)->stream == stream) {
            struct stream *gone = *s;
            *s = gone->next;
            free(gone);
            break;
        }
    pthread_mutex_unlock(&lock);
    return next_fclose(stream);
}

#define STREAM_CALL(name, what, constness)                                                                    \
    size_t name(constness void *data, size_t bytes, size_t count, FILE *stream)                               \
    {                                                                                                         \
        NEXT(name);                                                                                           \
        struct stream *s = find_stream(stream);                                                               \
        if (!s)                                                                                               \
            return next_##name(data, bytes, count, stream);                                                   \
        int64_t offset = ftello(stream);                                                                      \
        uint64_t begin = now_ns();                                                                            \
        size_t done = next_##name(data, bytes, count, stream);                                                \
        put_event(s->file, UINT32_MAX, (what) | EVENT_POSIX, offset, (uint64_t)done * bytes, begin);          \
        return done;                                                                                          \
    }
STREAM_CALL(fread, OWN, )
STREAM_CALL(fwrite, PUT | OWN, const)

/* ---- begin and end ---- */

static void begin_trace(void)
{
    const char *dir = getenv("CVC_MPI_IO_TRACE");
    int rank, size;
    if (!dir || !*dir || out >= 0)
        return;
    NEXT(open);
    char path[PATH_MAX];
    struct timespec t;
    struct header h = {.magic = "CVCMPIO1"};
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s/%d.mpi-io", dir, rank);
    buffer = malloc(BUFFER_BYTES);
    int fd = buffer ? next_open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666) : -1;
    if (fd < 0) {
        fprintf(stderr, "trace-mpi-io: process %d is not traced: %s: %s\n", rank, path, strerror(errno));
        return;
    }
    h.rank = (uint32_t)rank;
    h.size = (uint32_t)size;
    clock_gettime(CLOCK_REALTIME, &t);
    h.wall_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    gethostname(h.host, sizeof h.host - 1);
    start_ns = 0;
    start_ns = now_ns();
    put_bytes(&h, sizeof h);
    out = fd;
}

int MPI_Init(int *argc, char ***argv)
{
    NEXT(PMPI_Init);
    depth++;
    int code = next_PMPI_Init(argc, argv);
    if (depth == 1 && code == MPI_SUCCESS)
        begin_trace();
    depth--;
    return code;
}
PROFILED(MPI_Init, (int *argc, char ***argv));

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided)
{
    NEXT(PMPI_Init_thread);
    depth++;
    int code = next_PMPI_Init_thread(argc, argv, wanted, provided);
    if (depth == 1 && code == MPI_SUCCESS)
        begin_trace();
    depth--;
    return code;
}
PROFILED(MPI_Init_thread, (int *argc, char ***argv, int wanted, int *provided));

int MPI_Finalize(void)
{
    NEXT(PMPI_Finalize);
    NEXT(close);
    if (depth == 0 && out >= 0) {
        struct end_record e = {now_ns(), ticks};
        pthread_mutex_lock(&lock);
        put_record(RECORD_END, &e, sizeof e, NULL, 0);
        flush_records();
        next_close(out);
        out = -1;
        pthread_mutex_unlock(&lock);
    }
    depth++;
    int code = next_PMPI_Finalize();
    depth--;
    return code;
}
PROFILED(MPI_Finalize, (void));

/* A program that ends without MPI_Finalize: what was recorded, without an end. */
__attribute__((destructor)) static void end_trace(void)
{
    if (out >= 0)
        flush_records();
}
