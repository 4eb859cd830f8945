#define _POSIX_C_SOURCE 200809L
#include "kernel-log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes that are next to each other in the arrays and in the log. */
struct stretch {
    int64_t at, bytes;
};

struct stretches {
    struct stretch *list; /* NULL: only counted */
    long long count;
    int64_t end; /* in the arrays, of the last one */
};

static void add_row(void *state, long long in_memory, long long in_file, size_t count)
{
    struct stretches *s = state;
    int64_t at = in_file * (int64_t)sizeof(double), bytes = (int64_t)(count * sizeof(double));
    (void)in_memory;
    if (s->count == 0 || at != s->end) {
        if (s->list)
            s->list[s->count] = (struct stretch){.at = at};
        s->count++;
    }
    if (s->list)
        s->list[s->count - 1].bytes += bytes;
    s->end = at + bytes;
}

static long long stretches_of(const struct kc_checkpoint *c, struct stretch *list)
{
    struct stretches s = {.list = list};
    for (int i = 0; i < kc_blocks(c); i++)
        kc_each_row(&c->blocks[i], add_row, &s);
    return s.count;
}

long long kg_index_bytes(const struct kc_checkpoint *c)
{
    return stretches_of(c, NULL) * (long long)sizeof(struct stretch);
}

void kg_make_index(const struct kc_checkpoint *c, char *to)
{
    /* `to` need not be aligned for numbers */
    long long bytes = kg_index_bytes(c);
    struct stretch *list = kc_alloc((size_t)bytes, 1);
    stretches_of(c, list);
    memcpy(to, list, (size_t)bytes);
    free(list);
}

/* ---- reading ---- */

/* A stretch, and where a log has it. */
struct place {
    int64_t at, bytes, in_log, file;
};

struct places {
    struct place *list;
    long long count;
};

/* 0, or 1 with the reason in `fault`. */
static int read_bytes(int fd, char *to, long long bytes, long long at, char *fault, size_t room)
{
    while (bytes > 0) {
        ssize_t got = pread(fd, to, (size_t)bytes, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            snprintf(fault, room, "%s", got < 0 ? strerror(errno) : "truncated");
            return 1;
        }
        to += got;
        at += got;
        bytes -= got;
    }
    return 0;
}

/* Sets the places of an index; their bytes, one behind the other, must be the log's data, which end where the index begins. */
static int add_places(struct places *all, const struct stretch *index, long long count, int file, long long arrays_bytes, long long index_at)
{
    int64_t in_log = KC_HEADER_BYTES;
    all->list = realloc(all->list, (size_t)(all->count + count) * sizeof *all->list);
    if (!all->list)
        return 1;
    for (long long i = 0; i < count; i++) {
        struct stretch s = index[i];
        if (s.at < 0 || s.bytes <= 0 || s.at > arrays_bytes - s.bytes)
            return 1;
        all->list[all->count++] = (struct place){s.at, s.bytes, in_log, file};
        in_log += s.bytes;
    }
    return in_log != index_at;
}

/* The index is all that is behind the data. */
static int read_index(const struct kc_checkpoint *c, int fd, int file, long long data_bytes, struct places *all, char *fault, size_t room)
{
    struct stat s;
    if (fstat(fd, &s) != 0) {
        snprintf(fault, room, "%s", strerror(errno));
        return 1;
    }
    long long index_at = KC_HEADER_BYTES + data_bytes, bytes = (long long)s.st_size - index_at;
    if (data_bytes < 0 || bytes < 0 || bytes % (long long)sizeof(struct stretch) != 0) {
        snprintf(fault, room, "truncated: its index is not whole");
        return 1;
    }
    struct stretch *index = kc_alloc((size_t)(bytes > 0 ? bytes : 1), 1);
    int bad = read_bytes(fd, (char *)index, bytes, index_at, fault, room);
    if (!bad && add_places(all, index, bytes / (long long)sizeof *index, file, c->data_bytes, index_at)) {
        snprintf(fault, room, "corrupt: its index does not fit its data");
        bad = 1;
    }
    free(index);
    return bad;
}

static int by_place(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    return (left->at > right->at) - (left->at < right->at);
}

/* All processes get the places that any process found, sorted. */
static void share_places(struct places *all)
{
    int *counts = kc_alloc((size_t)kc_size, sizeof *counts), *begins = kc_alloc((size_t)kc_size, sizeof *begins), mine = (int)all->count;
    MPI_Datatype type;
    long long count = 0;
    MPI_Type_contiguous(sizeof(struct place), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < kc_size; i++) {
        begins[i] = (int)count;
        count += counts[i];
    }
    struct place *list = kc_alloc((size_t)(count > 0 ? count : 1), sizeof *list);
    MPI_Allgatherv(all->list, mine, type, list, counts, begins, type, MPI_COMM_WORLD);
    MPI_Type_free(&type);
    qsort(list, (size_t)count, sizeof *list, by_place);
    free(all->list);
    free(counts);
    free(begins);
    *all = (struct places){list, count};
}

/* The place that has this byte of the arrays, or NULL. */
static const struct place *find_place(const struct places *all, int64_t at)
{
    long long low = 0, high = all->count;
    while (low < high) {
        long long middle = (low + high) / 2;
        if (all->list[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    const struct place *found = low > 0 ? &all->list[low - 1] : NULL;
    return found && at < found->at + found->bytes ? found : NULL;
}

struct row_reader {
    const struct places *all;
    kg_open_log open_log;
    int *open; /* descriptors + 1 by file */
    char *to, *fault;
    size_t room;
    int is_bad;
};

static int log_of(struct row_reader *r, int file)
{
    if (!r->open[file])
        r->open[file] = r->open_log(file, NULL) + 1;
    if (!r->open[file])
        snprintf(r->fault, r->room, "%s", strerror(errno));
    return r->open[file] - 1;
}

static void read_row(void *state, long long in_memory, long long in_file, size_t count)
{
    struct row_reader *r = state;
    int64_t at = in_file * (int64_t)sizeof(double), left = (int64_t)(count * sizeof(double));
    (void)in_memory;
    while (left > 0 && !r->is_bad) {
        const struct place *p = find_place(r->all, at);
        if (!p) {
            snprintf(r->fault, r->room, "corrupt: no log has byte %lld of the arrays", (long long)at);
            r->is_bad = 1;
            return;
        }
        int64_t from = at - p->at, bytes = p->bytes - from < left ? p->bytes - from : left;
        int fd = log_of(r, (int)p->file);
        r->is_bad = fd < 0 || read_bytes(fd, r->to, bytes, p->in_log + from, r->fault, r->room);
        r->to += bytes;
        at += bytes;
        left -= bytes;
    }
}

static int read_rows(const struct kc_checkpoint *c, const struct places *all, int files, kg_open_log open_log, char *packed, char *fault, size_t room)
{
    struct row_reader r = {.all = all, .open_log = open_log, .to = packed, .fault = fault, .room = room};
    r.open = kc_alloc((size_t)files, sizeof *r.open);
    for (int i = 0; i < kc_blocks(c); i++)
        kc_each_row(&c->blocks[i], read_row, &r);
    for (int i = 0; i < files; i++)
        if (r.open[i] > 0)
            close(r.open[i] - 1);
    free(r.open);
    return r.is_bad;
}

static int is_bad_anywhere(int bad)
{
    int anywhere;
    kc_allreduce(&bad, &anywhere, 1, MPI_INT, MPI_MAX);
    return anywhere;
}

/* Each process reads the indexes of its share of the logs. */
static int read_indexes(const struct kc_checkpoint *c, int files, kg_open_log open_log, struct places *all, char *fault, size_t room)
{
    int bad = 0;
    for (int file = kc_rank; file < files && !bad; file += kc_size) {
        long long data_bytes;
        int fd = open_log(file, &data_bytes);
        if (fd < 0)
            snprintf(fault, room, "%s", strerror(errno));
        bad = fd < 0 || read_index(c, fd, file, data_bytes, all, fault, room);
        if (fd >= 0)
            close(fd);
    }
    return bad;
}

long long kg_read(const struct kc_checkpoint *c, int files, kg_open_log open_log, char *packed, char *fault, size_t room)
{
    struct places all = {0};
    int bad = is_bad_anywhere(read_indexes(c, files, open_log, &all, fault, room));
    if (!bad) {
        share_places(&all);
        bad = is_bad_anywhere(read_rows(c, &all, files, open_log, packed, fault, room));
    }
    free(all.list);
    return bad ? -1 : all.count * (long long)sizeof(struct stretch);
}
