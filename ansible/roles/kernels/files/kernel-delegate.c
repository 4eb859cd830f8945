/* fallocate is none of POSIX */
#define _GNU_SOURCE
#include "kernel-delegate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file, in words of 8 bytes in the byte order of the machine:
 *
 *     0     about the file, and at BLOCK once more: magic, version, processes, slots, bytes of a copy of the table, checksum
 *     2 BLOCK   the table: magic, sequence, regions, checksum; a second copy follows
 *     then      the slots, each with the regions of all processes in their order
 */
#define BLOCK 4096u
#define VERSION UINT64_C(0x0102030400000001) /* with the byte order */
#define MOST_PIECE ((long long)1 << 30)      /* counts of MPI are int */

enum { A_MAGIC, A_VERSION, A_PROCESSES, A_SLOTS, A_TABLE_BYTES, A_SUM, ABOUT_WORDS };
enum { T_MAGIC, T_SEQUENCE, T_REGIONS };

/* As it is in the table. */
struct region {
    uint64_t offset_start, offset_end; /* of the room that the region has */
    uint64_t offset_next;              /* offset_start of the same process's region in the next slot */
    uint64_t revision;                 /* 0: none yet */
    uint64_t bytes, sum;               /* of the data of this revision */
};
#define REGION_WORDS (sizeof(struct region) / 8)

struct kd_file {
    MPI_Comm comm;
    int rank, size;
    struct kd_settings how;
    char path[PATH_MAX], temporary[PATH_MAX];
    int is_new;           /* not in its place yet */
    int table_fd;         /* of process 0 */
    int data_fd;
    MPI_File data_file;
    int data_is_open;
    int is_ready; /* the file stays open for writing, and the table in memory is that of the file */
    uint64_t *table;      /* words, with the checksum as the last one */
    size_t table_words;
    long long table_bytes; /* of one copy in the file */
    uint64_t kept;        /* revision that must not be overwritten, since it is the newest that was read or written; 0: that of the table */
};

static char message[PATH_MAX + 512];

const char *kd_error(void)
{
    return message;
}

/* ---- agreement ---- */

/* As MPI_Wait, but a process that waits gives its core away. */
static void finish(MPI_Request *request)
{
    for (int done = 0; !done; sched_yield())
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
}

static void share(MPI_Comm comm, void *data, size_t bytes)
{
    MPI_Request request;
    MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, comm, &request);
    finish(&request);
}

static long long largest(MPI_Comm comm, long long mine)
{
    long long all;
    MPI_Request request;
    MPI_Iallreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_MAX, comm, &request);
    finish(&request);
    return all;
}

static int fault(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fault(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return code;
}

static int io_fault(const char *what, const char *path, int error)
{
    return fault(KD_IO, "%s %s: %s", what, path, error ? strerror(error) : "fewer bytes than expected (file system full?)");
}

static int mpi_fault(const char *what, const char *path, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "fewer bytes than expected (file system full?)";
    int length;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, text, &length);
    return fault(KD_IO, "%s %s: %s", what, path, text);
}

/* The code and the message of the lowest process that has one, in all processes. */
static int agree(MPI_Comm comm, int code)
{
    int rank, size, lowest, mine;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    mine = code ? rank : size;
    MPI_Iallreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, comm, &request);
    finish(&request);
    if (lowest == size)
        return KD_OK;
    MPI_Ibcast(&code, 1, MPI_INT, lowest, comm, &request);
    finish(&request);
    MPI_Ibcast(message, (int)sizeof message, MPI_CHAR, lowest, comm, &request);
    finish(&request);
    return code;
}

/* ---- checksums ---- */

static uint64_t mix(uint64_t sum, uint64_t word)
{
    sum ^= word * UINT64_C(0x9e3779b97f4a7c15);
    sum = (sum << 29) | (sum >> 35);
    return sum * UINT64_C(0xd6e8feb86659fd93) + 1;
}

/* Of data that belong to a process and a revision, so that those of others do not verify. */
static uint64_t sum_of(const void *data, size_t bytes, uint64_t process, uint64_t revision)
{
    uint64_t sum = mix(mix(mix(0, process), revision), bytes), word;
    const char *from = data;
    for (; bytes >= 8; from += 8, bytes -= 8) {
        memcpy(&word, from, 8);
        sum = mix(sum, word);
    }
    word = 0;
    memcpy(&word, from, bytes);
    sum = mix(sum, word);
    return sum ^ (sum >> 32);
}

static uint64_t sum_of_words(const uint64_t *words, size_t count)
{
    return sum_of(words, count * 8, 0, 0);
}

/* ---- the table ---- */

static struct region *region(const struct kd_file *f, int slot, int process)
{
    return (struct region *)(void *)(f->table + T_REGIONS) + (size_t)slot * (size_t)f->size + (size_t)process;
}

static long long round_up(long long bytes, long long to)
{
    return (bytes + to - 1) / to * to;
}

static void size_table(struct kd_file *f)
{
    f->table_words = T_REGIONS + REGION_WORDS * (size_t)f->how.slots * (size_t)f->size + 1;
    f->table_bytes = round_up((long long)f->table_words * 8, BLOCK);
}

static long long place_of_copy(const struct kd_file *f, int copy)
{
    return 2 * (long long)BLOCK + copy * f->table_bytes;
}

/* Revision of all regions of a slot; 0: none. */
static uint64_t revision_of(const struct kd_file *f, int slot)
{
    uint64_t revision = region(f, slot, 0)->revision;
    for (int process = 1; process < f->size; process++)
        if (region(f, slot, process)->revision != revision)
            return 0;
    return revision;
}

/* Slot of the newest revision that is older than `before`; -1: none. */
static int slot_before(const struct kd_file *f, uint64_t before)
{
    int found = -1;
    for (int slot = 0; slot < f->how.slots; slot++) {
        uint64_t revision = revision_of(f, slot);
        if (revision && revision < before && (found < 0 || revision > revision_of(f, found)))
            found = slot;
    }
    return found;
}

static int slot_of(const struct kd_file *f, uint64_t revision)
{
    int slot = slot_before(f, revision + 1);
    return slot >= 0 && revision_of(f, slot) == revision ? slot : -1;
}

static int put(int fd, const void *data, size_t bytes, long long at)
{
    for (const char *from = data; bytes > 0;) {
        ssize_t done = pwrite(fd, from, bytes, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : ENOSPC;
        from += done;
        at += done;
        bytes -= (size_t)done;
    }
    return 0;
}

/* -1: the file ends before. */
static int get(int fd, void *data, size_t bytes, long long at)
{
    for (char *to = data; bytes > 0;) {
        ssize_t done = pread(fd, to, bytes, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : -1;
        to += done;
        at += done;
        bytes -= (size_t)done;
    }
    return 0;
}

static int put_copy(const struct kd_file *f, int copy)
{
    f->table[f->table_words - 1] = sum_of_words(f->table, f->table_words - 1);
    return put(f->table_fd, f->table, f->table_words * 8, place_of_copy(f, copy));
}

static const char *name_of(const struct kd_file *f)
{
    return f->is_new ? f->temporary : f->path;
}

/* What the file says about itself. */
static int read_about(struct kd_file *f, uint64_t about[ABOUT_WORDS])
{
    const char *name = name_of(f);
    for (int copy = 0; copy < 2; copy++) {
        int code = get(f->table_fd, about, ABOUT_WORDS * 8, copy * (long long)BLOCK);
        if (code > 0)
            return io_fault("cannot read", name, code);
        if (code == 0 && memcmp(&about[A_MAGIC], "cvcdeleg", 8) == 0 && about[A_SUM] == sum_of_words(about, A_SUM)) {
            if (about[A_VERSION] != VERSION)
                return fault(KD_FORMAT, "%s has another version or byte order", name);
            if (about[A_PROCESSES] != (uint64_t)f->size)
                return fault(KD_PROCESSES, "%s is of %llu processes, not %d; only the same number can read it", name,
                             (unsigned long long)about[A_PROCESSES], f->size);
            if (about[A_SLOTS] < 2 || about[A_SLOTS] > KD_MOST_SLOTS)
                break;
            return KD_OK;
        }
    }
    return fault(KD_FORMAT, "%s is no delegated checkpoint, or its first blocks are damaged", name);
}

/* Whether regions are inside the file, do not overlap, and lead from slot to slot. */
static int regions_are_well(const struct kd_file *f, uint64_t file_bytes)
{
    uint64_t end = (uint64_t)place_of_copy(f, 2);
    for (int slot = 0; slot < f->how.slots; slot++)
        for (int process = 0; process < f->size; process++) {
            const struct region *r = region(f, slot, process);
            if (r->offset_start < end || r->offset_end < r->offset_start || r->offset_end > file_bytes ||
                r->bytes > r->offset_end - r->offset_start || r->offset_next != region(f, (slot + 1) % f->how.slots, process)->offset_start)
                return 0;
            end = r->offset_end;
        }
    return 1;
}

/* Process 0: the newest whole copy of the table, in f->table. */
static int read_table(struct kd_file *f)
{
    const char *name = name_of(f);
    uint64_t *words = malloc(f->table_words * 8);
    struct stat s;
    int found = 0;
    if (!words)
        return fault(KD_IO, "no memory for the table of %s", name);
    if (fstat(f->table_fd, &s) != 0) {
        free(words);
        return io_fault("cannot read", name, errno);
    }
    for (int copy = 0; copy < 2; copy++) {
        if (get(f->table_fd, words, f->table_words * 8, place_of_copy(f, copy)) != 0 || memcmp(&words[T_MAGIC], "cvctable", 8) != 0 ||
            words[f->table_words - 1] != sum_of_words(words, f->table_words - 1) || (found && words[T_SEQUENCE] < f->table[T_SEQUENCE]))
            continue;
        memcpy(f->table, words, f->table_words * 8);
        found = 1;
    }
    free(words);
    if (!found || !regions_are_well(f, (uint64_t)s.st_size))
        return fault(KD_FORMAT, "both copies of the table of %s are damaged", name);
    return KD_OK;
}

/* Process 0 opens the file and reads what it says about itself. */
static int open_table(struct kd_file *f, int writes)
{
    uint64_t about[ABOUT_WORDS];
    f->table_fd = open(name_of(f), writes ? O_RDWR : O_RDONLY);
    if (f->table_fd < 0)
        return io_fault("cannot open", name_of(f), errno);
    int code = read_about(f, about);
    if (!code)
        f->how.slots = (int)about[A_SLOTS];
    return code;
}

static void close_table(struct kd_file *f)
{
    if (f->table_fd >= 0)
        close(f->table_fd);
    f->table_fd = -1;
}

/* Process 0 looks the table up, and all get it. */
static int look_up(struct kd_file *f, int writes)
{
    int code = KD_OK;
    if (writes && f->is_ready)
        return KD_OK;
    if (f->rank == 0) {
        close_table(f);
        code = open_table(f, writes);
    }
    if ((code = agree(f->comm, code)))
        return code;
    share(f->comm, &f->how.slots, sizeof f->how.slots);
    size_table(f);
    free(f->table);
    f->table = calloc(f->table_words, 8);
    if (!f->table)
        code = fault(KD_IO, "no memory for the table of %s", name_of(f));
    if ((code = agree(f->comm, code)))
        return code;
    code = f->rank == 0 ? read_table(f) : KD_OK;
    if ((code = agree(f->comm, code)))
        return code;
    share(f->comm, f->table, f->table_words * 8);
    return KD_OK;
}

/* ---- data ---- */

static int open_data(struct kd_file *f, int writes)
{
    int code = KD_OK;
    if (f->data_is_open)
        return KD_OK;
    if (f->how.uses_mpi_io) {
        MPI_Info hints = f->how.hints;
        int rc = MPI_File_open(f->comm, name_of(f), writes ? MPI_MODE_WRONLY : MPI_MODE_RDONLY, hints, &f->data_file);
        if (rc != MPI_SUCCESS)
            code = mpi_fault("cannot open", name_of(f), rc);
        else
            MPI_File_set_errhandler(f->data_file, MPI_ERRORS_RETURN);
    } else {
        f->data_fd = open(name_of(f), writes ? O_WRONLY : O_RDONLY);
        if (f->data_fd < 0)
            code = io_fault("cannot open", name_of(f), errno);
    }
    code = agree(f->comm, code);
    f->data_is_open = code == KD_OK;
    return code;
}

static int close_data(struct kd_file *f)
{
    int code = KD_OK;
    if (!f->data_is_open)
        return KD_OK;
    f->data_is_open = 0;
    if (f->how.uses_mpi_io) {
        int rc = MPI_File_close(&f->data_file);
        if (rc != MPI_SUCCESS)
            code = mpi_fault("cannot close", name_of(f), rc);
    } else if (close(f->data_fd) != 0) {
        code = io_fault("cannot close", name_of(f), errno);
    }
    return agree(f->comm, code);
}

/* Moves data by MPI-IO, in pieces; collective calls are as many in all processes. */
static int move_by_mpi(struct kd_file *f, char *data, long long bytes, long long at, int writes)
{
    long long pieces = (bytes + MOST_PIECE - 1) / MOST_PIECE;
    int rc = MPI_SUCCESS, moved = 0, is_short = 0;
    if (f->how.is_collective)
        pieces = largest(f->comm, pieces);
    for (long long i = 0; i < pieces; i++) {
        long long from = i * MOST_PIECE < bytes ? i * MOST_PIECE : bytes, left = bytes - from;
        int count = (int)(left < MOST_PIECE ? left : MOST_PIECE), code;
        MPI_Status status;
        if (writes && f->how.is_collective)
            code = MPI_File_write_at_all(f->data_file, at + from, data + from, count, MPI_BYTE, &status);
        else if (writes)
            code = MPI_File_write_at(f->data_file, at + from, data + from, count, MPI_BYTE, &status);
        else if (f->how.is_collective)
            code = MPI_File_read_at_all(f->data_file, at + from, data + from, count, MPI_BYTE, &status);
        else
            code = MPI_File_read_at(f->data_file, at + from, data + from, count, MPI_BYTE, &status);
        if (code == MPI_SUCCESS)
            MPI_Get_count(&status, MPI_BYTE, &moved);
        else if (rc == MPI_SUCCESS)
            rc = code;
        is_short |= code == MPI_SUCCESS && moved != count;
    }
    /* collective */
    int synced = writes ? MPI_File_sync(f->data_file) : MPI_SUCCESS;
    rc = rc == MPI_SUCCESS ? synced : rc;
    return rc != MPI_SUCCESS || is_short ? mpi_fault(writes ? "cannot write" : "cannot read", name_of(f), rc) : KD_OK;
}

static int write_data(struct kd_file *f, const void *data, long long bytes, const struct region *to)
{
    int code = KD_OK;
    if (f->how.uses_mpi_io) {
        code = move_by_mpi(f, (char *)(uintptr_t)data, bytes, (long long)to->offset_start, 1);
    } else {
        int error = put(f->data_fd, data, (size_t)bytes, (long long)to->offset_start);
        if (!error && fsync(f->data_fd) != 0)
            error = errno;
        if (error)
            code = io_fault("cannot write", name_of(f), error);
    }
    return agree(f->comm, code);
}

/* ---- creation ---- */

static int sync_directory_of(const char *path)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash)
        strcpy(dir, ".");
    else
        slash[slash == dir] = 0;
    int fd = open(dir, O_RDONLY);
    if (fd < 0)
        return errno;
    int code = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return code == EINVAL || code == ENOTSUP ? 0 : code; /* file systems that cannot sync a directory */
}

/* Reserves the room; a file system without fallocate at least gets the size. */
static int reserve(int fd, long long bytes)
{
    if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return errno;
    return put(fd, "", 1, bytes - 1);
}

/* Process 0: places the regions of all processes, and gives the end of the file. */
static long long place_regions(struct kd_file *f, const long long *bytes)
{
    long long at = round_up(place_of_copy(f, 2), f->how.align);
    for (int slot = 0; slot < f->how.slots; slot++)
        for (int process = 0; process < f->size; process++) {
            struct region *r = region(f, slot, process);
            r->offset_start = (uint64_t)at;
            r->offset_end = (uint64_t)(at + bytes[process]);
            at = round_up(at + (bytes[process] ? bytes[process] : 1), f->how.align);
        }
    for (int slot = 0; slot < f->how.slots; slot++)
        for (int process = 0; process < f->size; process++)
            region(f, slot, process)->offset_next = region(f, (slot + 1) % f->how.slots, process)->offset_start;
    return at;
}

/* MPI-IO's hints on how a file is striped count when it is created. */
static int create_by_mpi(struct kd_file *f)
{
    MPI_File file;
    int rc = MPI_File_open(MPI_COMM_SELF, f->temporary, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, f->how.hints, &file);
    if (rc == MPI_SUCCESS)
        rc = MPI_File_close(&file);
    return rc == MPI_SUCCESS ? KD_OK : mpi_fault("cannot create", f->temporary, rc);
}

/* Process 0. */
static int create_file(struct kd_file *f, const long long *bytes)
{
    uint64_t about[ABOUT_WORDS] = {0};
    unlink(f->temporary);
    int code = f->how.uses_mpi_io ? create_by_mpi(f) : KD_OK;
    if (code)
        return code;
    f->table_fd = open(f->temporary, O_RDWR | O_CREAT, 0666);
    if (f->table_fd < 0)
        return io_fault("cannot create", f->temporary, errno);
    int error = reserve(f->table_fd, place_regions(f, bytes));
    if (error)
        return io_fault("cannot reserve", f->temporary, error);
    memcpy(&about[A_MAGIC], "cvcdeleg", 8);
    about[A_VERSION] = VERSION;
    about[A_PROCESSES] = (uint64_t)f->size;
    about[A_SLOTS] = (uint64_t)f->how.slots;
    about[A_TABLE_BYTES] = (uint64_t)f->table_bytes;
    about[A_SUM] = sum_of_words(about, A_SUM);
    memcpy(&f->table[T_MAGIC], "cvctable", 8);
    for (int copy = 0; copy < 2 && !error; copy++) {
        error = put(f->table_fd, about, sizeof about, copy * (long long)BLOCK);
        if (!error)
            error = put_copy(f, copy);
    }
    if (!error && fsync(f->table_fd) != 0)
        error = errno;
    return error ? io_fault("cannot write", f->temporary, error) : KD_OK;
}

static int make_file(MPI_Comm comm, const char *path, const struct kd_settings *settings, struct kd_file **file)
{
    struct kd_file *f = calloc(1, sizeof *f);
    message[0] = 0;
    *file = NULL;
    int code = KD_OK;
    if (!f)
        code = fault(KD_IO, "no memory");
    else if ((size_t)snprintf(f->path, sizeof f->path, "%s", path) >= sizeof f->path ||
             (size_t)snprintf(f->temporary, sizeof f->temporary, "%s.tmp", path) >= sizeof f->temporary)
        code = fault(KD_IO, "the path is too long: %s", path);
    else if (settings->slots < 2 || settings->slots > KD_MOST_SLOTS || settings->align < 1)
        code = fault(KD_ROOM, "%d slots, aligned to %lld bytes: at least 2 (at most %d) and 1", settings->slots, settings->align, KD_MOST_SLOTS);
    if ((code = agree(comm, code))) {
        free(f);
        return code;
    }
    f->how = *settings;
    f->table_fd = f->data_fd = -1;
    MPI_Comm_dup(comm, &f->comm);
    MPI_Comm_rank(f->comm, &f->rank);
    MPI_Comm_size(f->comm, &f->size);
    *file = f;
    return KD_OK;
}

static int give_up(struct kd_file **file, int code)
{
    if (code) {
        kd_close(*file);
        *file = NULL;
    }
    return code;
}

int kd_create(MPI_Comm comm, const char *path, const struct kd_settings *settings, long long bytes, struct kd_file **file)
{
    int code = make_file(comm, path, settings, file);
    if (code)
        return code;
    struct kd_file *f = *file;
    f->is_new = 1;
    size_table(f);
    f->table = calloc(f->table_words, 8);
    long long *all = calloc((size_t)f->size, sizeof *all);
    if (!f->table || !all)
        code = fault(KD_IO, "no memory for the table of %s", path);
    code = agree(f->comm, code);
    if (!code) {
        MPI_Request request;
        MPI_Igather(&bytes, 1, MPI_LONG_LONG, all, 1, MPI_LONG_LONG, 0, f->comm, &request);
        finish(&request);
        code = agree(f->comm, f->rank == 0 ? create_file(f, all) : KD_OK);
    }
    free(all);
    if (!code)
        share(f->comm, f->table, f->table_words * 8);
    f->is_ready = !code && f->how.keeps_open;
    return give_up(file, code);
}

int kd_open(MPI_Comm comm, const char *path, const struct kd_settings *settings, struct kd_file **file)
{
    int code = make_file(comm, path, settings, file);
    return code ? code : give_up(file, look_up(*file, 0));
}

long long kd_room(const struct kd_file *f)
{
    const struct region *r = region(f, 0, f->rank);
    return (long long)(r->offset_end - r->offset_start);
}

/* ---- writing ---- */

/* The slot after that of the revision that is to be kept. */
static int next_slot(const struct kd_file *f)
{
    int kept = f->kept ? slot_of(f, f->kept) : slot_before(f, UINT64_MAX);
    if (kept < 0)
        return 0;
    for (int slot = 0; slot < f->how.slots; slot++)
        if (region(f, slot, 0)->offset_start == region(f, kept, 0)->offset_next)
            return slot;
    return 0;
}

static uint64_t next_revision(const struct kd_file *f)
{
    int newest = slot_before(f, UINT64_MAX);
    return newest < 0 ? 1 : revision_of(f, newest) + 1;
}

/* Process 0: the table of the new revision. The second copy of the one before is on disk before the first copy of this one is written. */
static int commit(struct kd_file *f)
{
    f->table[T_SEQUENCE]++;
    int error = fsync(f->table_fd) == 0 ? 0 : errno;
    if (!error)
        error = put_copy(f, 0);
    if (!error && fsync(f->table_fd) != 0)
        error = errno;
    if (!error)
        error = put_copy(f, 1);
    if (error)
        return io_fault("cannot write the table of", name_of(f), error);
    if (!f->is_new)
        return KD_OK;
    error = rename(f->temporary, f->path) == 0 ? sync_directory_of(f->path) : errno;
    return error ? io_fault("cannot put into place", f->path, error) : KD_OK;
}

/* All processes note that a slot has this revision; process 0 knows the sizes and checksums of all. */
static int note_revision(struct kd_file *f, int slot, uint64_t revision, long long bytes, uint64_t sum)
{
    uint64_t mine[2] = {(uint64_t)bytes, sum}, *all = calloc((size_t)f->size, sizeof mine);
    int code = agree(f->comm, all ? KD_OK : fault(KD_IO, "no memory for the table of %s", f->path));
    if (!code) {
        MPI_Request request;
        MPI_Igather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, 0, f->comm, &request);
        finish(&request);
        for (int process = 0; process < f->size; process++) {
            struct region *r = region(f, slot, process);
            r->revision = revision;
            r->bytes = f->rank == 0 ? all[2 * process] : r->bytes;
            r->sum = f->rank == 0 ? all[2 * process + 1] : r->sum;
        }
        region(f, slot, f->rank)->bytes = mine[0];
        region(f, slot, f->rank)->sum = sum;
    }
    free(all);
    return code;
}

int kd_write(struct kd_file *f, const void *data, long long bytes, uint64_t *revision)
{
    message[0] = 0;
    int code = look_up(f, 1);
    if (!code && bytes > kd_room(f))
        code = fault(KD_ROOM, "process %d has %lld bytes, and %s has room for %lld of it", f->rank, bytes, f->path, kd_room(f));
    code = agree(f->comm, code);
    if (!code)
        code = open_data(f, 1);
    if (code)
        return code;
    int slot = next_slot(f);
    uint64_t number = next_revision(f);
    code = write_data(f, data, bytes, region(f, slot, f->rank));
    if (!f->how.keeps_open || code) {
        int closed = close_data(f);
        code = code ? code : closed;
    }
    if (!code)
        code = note_revision(f, slot, number, bytes, sum_of(data, (size_t)bytes, (uint64_t)f->rank, number));
    if (!code)
        code = agree(f->comm, f->rank == 0 ? commit(f) : KD_OK);
    if (!f->how.keeps_open || code)
        close_table(f);
    /* after an error the table of the file counts */
    f->is_ready = !code && f->how.keeps_open;
    if (code)
        return code;
    f->is_new = 0;
    f->kept = *revision = number;
    return KD_OK;
}

/* ---- reading ---- */

static int read_data(struct kd_file *f, void *data, const struct region *from)
{
    if (f->how.uses_mpi_io)
        return move_by_mpi(f, data, (long long)from->bytes, (long long)from->offset_start, 0);
    int error = get(f->data_fd, data, (size_t)from->bytes, (long long)from->offset_start);
    return error ? io_fault("cannot read", name_of(f), error < 0 ? 0 : error) : KD_OK;
}

static int read_slot(struct kd_file *f, int slot, void *data, long long room, long long *bytes)
{
    const struct region *from = region(f, slot, f->rank);
    int code = KD_OK;
    if ((long long)from->bytes > room)
        code = fault(KD_ROOM, "process %d has room for %lld bytes, and revision %llu of %s has %llu of it", f->rank, room,
                     (unsigned long long)from->revision, f->path, (unsigned long long)from->bytes);
    if ((code = agree(f->comm, code)))
        return code;
    code = read_data(f, data, from);
    if (!code && sum_of(data, (size_t)from->bytes, (uint64_t)f->rank, from->revision) != from->sum)
        code = fault(KD_NONE, "revision %llu of %s is damaged: the checksum of process %d does not fit", (unsigned long long)from->revision,
                     f->path, f->rank);
    *bytes = (long long)from->bytes;
    return agree(f->comm, code);
}

static int begin_reading(struct kd_file *f)
{
    message[0] = 0;
    int code = close_data(f);
    if (!code)
        code = look_up(f, 0);
    return code ? code : open_data(f, 0);
}

static int end_reading(struct kd_file *f, int code)
{
    char before[sizeof message];
    memcpy(before, message, sizeof message);
    int closed = close_data(f);
    close_table(f);
    f->is_ready = 0;
    if (code)
        memcpy(message, before, sizeof message);
    return code ? code : closed;
}

int kd_read_last(struct kd_file *f, void *data, long long room, long long *bytes, uint64_t *revision)
{
    int code = begin_reading(f), slot = -1;
    char damaged[sizeof message] = "";
    uint64_t before = UINT64_MAX;
    if (code)
        return end_reading(f, code);
    for (code = KD_NONE; code == KD_NONE && (slot = slot_before(f, before)) >= 0;) {
        before = revision_of(f, slot);
        code = read_slot(f, slot, data, room, bytes);
        if (code == KD_NONE && !damaged[0])
            memcpy(damaged, message, sizeof damaged);
    }
    if (code == KD_NONE)
        fault(KD_NONE, "%s has no revision that is whole", f->path);
    code = end_reading(f, code);
    if (code)
        return code;
    f->kept = *revision = before;
    memcpy(message, damaged, sizeof message);
    return KD_OK;
}

int kd_read_revision(struct kd_file *f, uint64_t revision, void *data, long long room, long long *bytes)
{
    int code = begin_reading(f);
    if (!code) {
        int slot = slot_of(f, revision);
        code = slot < 0 ? fault(KD_NONE, "%s does not have revision %llu", f->path, (unsigned long long)revision)
                        : read_slot(f, slot, data, room, bytes);
    }
    return end_reading(f, code);
}

void kd_close(struct kd_file *f)
{
    if (!f)
        return;
    char before[sizeof message];
    memcpy(before, message, sizeof message);
    close_data(f);
    close_table(f);
    if (f->is_new && f->rank == 0)
        unlink(f->temporary);
    MPI_Comm_free(&f->comm);
    free(f->table);
    free(f);
    memcpy(message, before, sizeof message);
}
