#define _POSIX_C_SOURCE 200809L
#include "kernel-layout.h"
#include "kernel-delegate.h"
#include "kernel-log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *kl_layout = "strided", *kl_io = NULL, *kl_collective = NULL;
long long kl_stripe_factor = 0, kl_stripe_unit = 0, kl_align = 1;
int kl_keep_open = 0;

static const char *const layouts[] = {"strided", "segmented", "delegated", "per-node", "per-process", "log"};
static enum { STRIDED, SEGMENTED, DELEGATED, PER_NODE, PER_PROCESS, LOG } layout;
static int uses_mpi_io, is_collective;

/* ---- options ---- */

static int is_one_file(void)
{
    return layout == STRIDED || layout == SEGMENTED || layout == DELEGATED;
}

int kl_is_collective(void)
{
    return is_collective;
}

static void check_behind(void)
{
    if (layout != STRIDED)
        kc_refuse(KC_USAGE, "--ckpt-layout %s needs --ckpt-way sync: other ways write the strided file", kl_layout);
    const char *given = kl_io ? "io" : kl_collective ? "collective" : kl_keep_open ? "keep-open" : kl_stripe_factor ? "stripe-factor"
                        : kl_stripe_unit ? "stripe-unit" : NULL;
    if (given)
        kc_refuse(KC_USAGE, "--ckpt-%s needs --ckpt-way sync: other ways have calls of their own", given);
}

static void read_options(void)
{
    static const char *const ios[] = {"posix", "mpi-io"}, *const answers[] = {"no", "yes"};
    layout = kc_word("ckpt-layout", kl_layout, 6, layouts);
    uses_mpi_io = kl_io ? kc_word("ckpt-io", kl_io, 2, ios) : is_one_file();
    is_collective = kl_collective ? kc_word("ckpt-collective", kl_collective, 2, answers) : layout == STRIDED && uses_mpi_io;
}

void kl_begin(int is_behind)
{
    read_options();
    if (is_collective && !is_one_file())
        kc_refuse(KC_USAGE, "--ckpt-collective yes: each file of --ckpt-layout %s has one writer; use strided, segmented or delegated", kl_layout);
    if (is_collective && !uses_mpi_io)
        kc_refuse(KC_USAGE, "--ckpt-collective yes needs --ckpt-io mpi-io: POSIX has no collective calls");
    if ((kl_stripe_factor || kl_stripe_unit) && !uses_mpi_io)
        kc_refuse(KC_USAGE, "--ckpt-stripe-%s is a hint of MPI-IO: add --ckpt-io mpi-io", kl_stripe_factor ? "factor" : "unit");
    if (kl_align > 1 && (layout == STRIDED || layout == PER_PROCESS || layout == LOG))
        kc_refuse(KC_USAGE, "--ckpt-align: files of --ckpt-layout %s have no parts to align; use segmented, delegated or per-node", kl_layout);
    if (is_behind)
        check_behind();
}

static MPI_Info hints(void)
{
    static MPI_Info info = MPI_INFO_NULL;
    char text[32];
    if (info != MPI_INFO_NULL || (!kl_stripe_factor && !kl_stripe_unit))
        return info;
    MPI_Info_create(&info);
    snprintf(text, sizeof text, "%lld", kl_stripe_factor);
    if (kl_stripe_factor)
        MPI_Info_set(info, "striping_factor", text);
    snprintf(text, sizeof text, "%lld", kl_stripe_unit);
    if (kl_stripe_unit)
        MPI_Info_set(info, "striping_unit", text);
    return info;
}

/* MPI-IO passes its hints on to these file systems only: magic numbers of Lustre, OrangeFS (PVFS2) and PanFS. */
static int has_stripes(const char *dir)
{
    static const unsigned long striped[] = {0x0BD00BD0, 0x20030528, 0xAAD7AAEA};
    struct statfs found;
    if (statfs(dir, &found) != 0)
        return 1; /* opening the file says why */
    for (size_t i = 0; i < sizeof striped / sizeof *striped; i++)
        if (((unsigned long)found.f_type & 0xFFFFFFFF) == striped[i])
            return 1;
    return 0;
}

/* MPI libraries accept hints that their driver of a file system ignores. */
static void say_ignored_hints(const char *dir)
{
    static int is_said;
    if (is_said || hints() == MPI_INFO_NULL)
        return;
    is_said = 1;
    if (!has_stripes(dir))
        kc_say("Without effect: %s%s%s: the file system of %s has no stripes that MPI-IO sets", kl_stripe_factor ? "striping_factor" : "",
               kl_stripe_factor && kl_stripe_unit ? ", " : "", kl_stripe_unit ? "striping_unit" : "", dir);
}

/* ---- who shares a file ---- */

static MPI_Comm sharers = MPI_COMM_NULL; /* the processes whose data are in the same file */
static int sharer, sharer_count;         /* rank and size in it */
static int node_number;

/* Nodes count in the order of their first processes. */
static void find_sharers(void)
{
    if (sharers != MPI_COMM_NULL)
        return;
    if (layout == PER_NODE) {
        int leads, before = 0;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &sharers);
        MPI_Comm_rank(sharers, &sharer);
        leads = sharer == 0;
        MPI_Request request;
        MPI_Iexscan(&leads, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        kc_finish(&request);
        node_number = kc_rank == 0 ? 0 : before;
        MPI_Ibcast(&node_number, 1, MPI_INT, 0, sharers, &request);
        kc_finish(&request);
    } else {
        MPI_Comm_dup(is_one_file() ? MPI_COMM_WORLD : MPI_COMM_SELF, &sharers);
    }
    MPI_Comm_rank(sharers, &sharer);
    MPI_Comm_size(sharers, &sharer_count);
}

static int leads(void)
{
    return sharer == 0;
}

/* Whether this process opens the file: the first process of a node writes for the others. */
static int has_file(void)
{
    return layout != PER_NODE || leads();
}

/* "kernel.ckpt.3", "kernel.ckpt.node0"; before it has its name "kernel.ckpt.tmp.3", which no pattern of the first matches. */
static int make_path_of(char *path, size_t room, const char *base, const char *middle, int process)
{
    int length = layout == PER_PROCESS || layout == LOG ? snprintf(path, room, "%s%s.%d", base, middle, process)
                 : layout == PER_NODE  ? snprintf(path, room, "%s%s.node%d", base, middle, node_number)
                                       : snprintf(path, room, "%s%s", base, middle);
    return length >= 0 && (size_t)length + 16 < room;
}

static int make_path(char *path, size_t room, const char *base, const char *middle)
{
    return make_path_of(path, room, base, middle, kc_rank);
}

/* The same in all processes, though their numbers differ in length. */
void kl_make_paths(const struct kc_checkpoint *c, const char *dir, char path[], char temporary[], size_t room)
{
    char base[PATH_MAX];
    int length = snprintf(base, sizeof base, "%s/%s", dir, c->file);
    find_sharers();
    if (length < 0 || (size_t)length + 64 >= room)
        kc_refuse(KC_USAGE, "--ckpt-dir: the path is too long");
    make_path(path, room, base, "");
    make_path(temporary, room, base, ".tmp");
}

/* ---- a file by either kind of calls; functions return 1 where they fail, and note why ---- */

struct target {
    int is_open, fd;
    MPI_File mpi;
};

static int mpi_code, sys_code; /* both 0: too few bytes */

static int is_well(int bad, const char *what, const char *path)
{
    return kc_all_well(bad, mpi_code, sys_code, what, path);
}

static int failed_mpi(int code)
{
    mpi_code = code;
    sys_code = 0;
    return code != MPI_SUCCESS;
}

static int failed_sys(int code)
{
    mpi_code = MPI_SUCCESS;
    sys_code = code;
    return code != 0;
}

static int too_short(void)
{
    failed_sys(0);
    return 1;
}

static int open_target(struct target *t, const char *path, int writes)
{
    if (uses_mpi_io) {
        int mode = writes ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
        if (failed_mpi(MPI_File_open(is_one_file() ? sharers : MPI_COMM_SELF, path, mode, hints(), &t->mpi)))
            return 1;
    } else {
        t->fd = open(path, writes ? O_CREAT | O_WRONLY : O_RDONLY, 0666);
        if (failed_sys(t->fd < 0 ? errno : 0))
            return 1;
    }
    t->is_open = 1;
    return 0;
}

static int sync_target(struct target *t)
{
    return uses_mpi_io ? failed_mpi(MPI_File_sync(t->mpi)) : failed_sys(fsync(t->fd) == 0 ? 0 : errno);
}

static int close_target(struct target *t)
{
    if (!t->is_open)
        return 0;
    t->is_open = 0;
    return uses_mpi_io ? failed_mpi(MPI_File_close(&t->mpi)) : failed_sys(close(t->fd) == 0 ? 0 : errno);
}

#define MOST_PIECE ((long long)1 << 30) /* counts of MPI are int */

static int posix_move(int fd, char *data, long long bytes, long long at, int writes)
{
    while (bytes > 0) {
        ssize_t done = writes ? pwrite(fd, data, (size_t)bytes, (off_t)at) : pread(fd, data, (size_t)bytes, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            return too_short();
        if (done < 0)
            return failed_sys(errno);
        data += done;
        at += done;
        bytes -= done;
    }
    return 0;
}

static int mpi_move(struct target *t, char *data, int count, long long at, int writes)
{
    MPI_Status status;
    int moved, code;
    if (is_collective)
        code = writes ? MPI_File_write_at_all(t->mpi, at, data, count, MPI_BYTE, &status)
                      : MPI_File_read_at_all(t->mpi, at, data, count, MPI_BYTE, &status);
    else
        code = writes ? MPI_File_write_at(t->mpi, at, data, count, MPI_BYTE, &status)
                      : MPI_File_read_at(t->mpi, at, data, count, MPI_BYTE, &status);
    if (failed_mpi(code))
        return 1;
    MPI_Get_count(&status, MPI_BYTE, &moved);
    return moved == count ? 0 : too_short();
}

/* Moves contiguous bytes. With collective calls all sharers take part, as often as the one with the most bytes. */
static int move(struct target *t, char *data, long long bytes, long long at, int writes)
{
    if (!uses_mpi_io)
        return posix_move(t->fd, data, bytes, at, writes);
    long long pieces = (bytes + MOST_PIECE - 1) / MOST_PIECE;
    int bad = 0, mpi = 0, sys = 0;
    if (is_collective)
        pieces = (long long)kc_max((double)pieces);
    for (long long i = 0; i < pieces; i++) {
        long long from = i * MOST_PIECE < bytes ? i * MOST_PIECE : bytes, left = bytes - from;
        if (mpi_move(t, data + from, (int)(left < MOST_PIECE ? left : MOST_PIECE), at + from, writes) && !bad) {
            bad = 1;
            mpi = mpi_code;
            sys = sys_code;
        }
    }
    mpi_code = mpi;
    sys_code = sys;
    return bad;
}

/* ---- the strided file: one header, and the global arrays ---- */

struct strider {
    struct target *target;
    char *data;
    long long at, bytes; /* what is not moved yet */
    int writes, bad;
};

static void flush_stride(struct strider *s)
{
    if (!s->bad && s->bytes > 0)
        s->bad = posix_move(s->target->fd, s->data, s->bytes, s->at, s->writes);
    s->data += s->bytes;
    s->bytes = 0;
}

static void stride(void *state, long long in_memory, long long in_file, size_t count)
{
    struct strider *s = state;
    long long at = KC_HEADER_BYTES + in_file * (long long)sizeof(double);
    (void)in_memory;
    if (at != s->at + s->bytes) {
        flush_stride(s);
        s->at = at;
    }
    s->bytes += (long long)(count * sizeof(double));
}

/* Moves rows between the packed data and the file, those together that are next to each other in it. */
static int move_rows(const struct kc_checkpoint *c, struct target *t, char *data, int writes)
{
    struct strider s = {.target = t, .data = data, .writes = writes};
    for (int i = 0; i < kc_blocks(c); i++)
        kc_each_row(&c->blocks[i], stride, &s);
    flush_stride(&s);
    return s.bad;
}

static int view(struct target *t, long long at, MPI_Datatype unit, MPI_Datatype type)
{
    return failed_mpi(MPI_File_set_view(t->mpi, at, unit, type, "native", MPI_INFO_NULL));
}

static int moved_one(int code, MPI_Status *status, MPI_Datatype type)
{
    int count;
    if (failed_mpi(code))
        return 1;
    MPI_Get_count(status, type, &count);
    return count == 1 ? 0 : too_short();
}

static int write_strided(const struct kc_checkpoint *c, struct target *t, char *header, const void *memory, char *packed, const char *path)
{
    MPI_Status status;
    int bad = 0;
    /* a file that was kept open still has the view of the arrays */
    if (uses_mpi_io && !is_well(view(t, 0, MPI_BYTE, MPI_BYTE), "cannot set the view of", path))
        return 0;
    if (kc_rank == 0 && uses_mpi_io) {
        int moved = 0;
        bad = failed_mpi(MPI_File_write_at(t->mpi, 0, header, KC_HEADER_BYTES, MPI_BYTE, &status));
        if (!bad)
            MPI_Get_count(&status, MPI_BYTE, &moved);
        bad = bad || (moved != KC_HEADER_BYTES && too_short());
    } else if (kc_rank == 0) {
        bad = posix_move(t->fd, header, KC_HEADER_BYTES, 0, 1);
    }
    if (!is_well(bad, "cannot write the header of", path))
        return 0;
    if (!uses_mpi_io)
        return is_well(move_rows(c, t, packed, 1), "cannot write", path);
    if (!is_well(view(t, KC_HEADER_BYTES, MPI_DOUBLE, c->file_type), "cannot set the view of", path))
        return 0;
    int code = is_collective ? MPI_File_write_at_all(t->mpi, 0, memory, 1, c->memory_type, &status)
                             : MPI_File_write_at(t->mpi, 0, memory, 1, c->memory_type, &status);
    return is_well(moved_one(code, &status, c->memory_type), "cannot write", path);
}

static int read_strided(const struct kc_checkpoint *c, struct target *t, void *memory, char *packed, const char *path)
{
    MPI_Status status;
    if (!uses_mpi_io)
        return is_well(move_rows(c, t, packed, 0), "cannot read", path);
    if (!is_well(view(t, KC_HEADER_BYTES, MPI_DOUBLE, c->file_type), "cannot set the view of", path))
        return 0;
    int code = is_collective ? MPI_File_read_at_all(t->mpi, 0, memory, 1, c->memory_type, &status)
                             : MPI_File_read_at(t->mpi, 0, memory, 1, c->memory_type, &status);
    return is_well(moved_one(code, &status, c->memory_type), "cannot read", path);
}

/* ---- parts: what a process has in a file of the other layouts is a header of its own and its data, contiguous ---- */

/* Behind the words of the header; all 0 in the strided file. */
enum { P_LAYOUT, P_PROCESSES, P_PROCESS, P_SHARERS, P_BYTES, P_ALIGN, P_SUM, PART_WORDS };

struct part {
    char *bytes; /* header and data */
    long long count;
    long long at;       /* in the file */
    long long file_end; /* of the last part in it */
};

static struct part make_part(const struct kc_checkpoint *c)
{
    struct part p = {.count = KC_HEADER_BYTES + (long long)kc_own_bytes(c) + (layout == LOG ? kg_index_bytes(c) : 0)};
    p.bytes = kc_alloc((size_t)p.count, 1);
    return p;
}

static void place_part(struct part *p, long long align)
{
    long long mine = (p->count + align - 1) / align * align, end;
    MPI_Request request;
    p->at = 0;
    MPI_Iexscan(&mine, &p->at, 1, MPI_LONG_LONG, MPI_SUM, sharers, &request);
    kc_finish(&request);
    if (sharer == 0)
        p->at = 0;
    end = p->at + p->count;
    MPI_Iallreduce(&end, &p->file_end, 1, MPI_LONG_LONG, MPI_MAX, sharers, &request);
    kc_finish(&request);
}

static void make_part_words(const struct kc_checkpoint *c, uint64_t words[PART_WORDS], long long align)
{
    words[P_LAYOUT] = (uint64_t)layout;
    words[P_PROCESSES] = (uint64_t)kc_size;
    words[P_PROCESS] = (uint64_t)kc_rank;
    words[P_SHARERS] = (uint64_t)sharer_count;
    words[P_BYTES] = (uint64_t)kc_own_bytes(c);
    words[P_ALIGN] = (uint64_t)align;
    words[P_SUM] = kc_header_sum(words, PART_WORDS);
}

/* Fills a part with the header and, packed, the data. */
static void fill_part(const struct kc_checkpoint *c, struct part *p, const void *memory, const char *header)
{
    uint64_t words[PART_WORDS];
    int at = 0;
    memcpy(p->bytes, header, KC_HEADER_BYTES);
    make_part_words(c, words, kl_align);
    if (layout != STRIDED)
        memcpy(p->bytes + (size_t)kc_header_words(c) * 8, words, sizeof words);
    MPI_Pack(memory, 1, c->memory_type, p->bytes + KC_HEADER_BYTES, (int)(p->count - KC_HEADER_BYTES), &at, MPI_COMM_WORLD);
    if (layout == LOG)
        kg_make_index(c, p->bytes + KC_HEADER_BYTES + kc_own_bytes(c));
}

static void unpack_part(const struct kc_checkpoint *c, const struct part *p, void *memory)
{
    int at = 0;
    MPI_Unpack(p->bytes + KC_HEADER_BYTES, (int)(p->count - KC_HEADER_BYTES), &at, memory, 1, c->memory_type, MPI_COMM_WORLD);
}

/* What is wrong with the first `got` bytes of a file as far as its layout is concerned, or NULL. */
static const char *layout_fault(const struct kc_checkpoint *c, const char *block, size_t got, char *text, size_t room)
{
    uint64_t words[PART_WORDS] = {0};
    size_t at = (size_t)kc_header_words(c) * 8;
    if (got >= 8 && memcmp(block, "cvcdeleg", 8) == 0) {
        words[P_LAYOUT] = DELEGATED;
    } else {
        if (got < at + sizeof words || memcmp(block, c->magic, 8) != 0)
            return NULL; /* the header's faults come first */
        memcpy(words, block + at, sizeof words);
        if (words[P_LAYOUT] > LOG || (words[P_LAYOUT] != STRIDED && words[P_SUM] != kc_header_sum(words, PART_WORDS)))
            return "corrupt: the checksum of the layout does not fit";
    }
    if (words[P_LAYOUT] == (uint64_t)layout)
        return NULL;
    snprintf(text, room, "written with --ckpt-layout %s, not %s", layouts[words[P_LAYOUT]], kl_layout);
    return text;
}

/* What is wrong with the header of this process's part, or NULL; `process` is the one that it should be of. */
static const char *part_fault(const struct kc_checkpoint *c, const char *block, size_t got, long long last_step, int process, char *text,
                              size_t room)
{
    uint64_t words[KC_MOST_WORDS] = {0}, own[PART_WORDS];
    const char *fault = layout_fault(c, block, got, text, room);
    memcpy(words, block, (size_t)kc_header_words(c) * 8);
    /* its length is compared with that of all parts later */
    if (!fault)
        fault = kc_header_fault(c, words, got, got < KC_HEADER_BYTES ? (long long)got : KC_HEADER_BYTES + c->data_bytes, last_step, text, room);
    if (fault)
        return fault;
    memcpy(own, block + (size_t)kc_header_words(c) * 8, sizeof own);
    if (own[P_PROCESSES] != (uint64_t)kc_size || own[P_PROCESS] != (uint64_t)process)
        snprintf(text, room, "of process %llu of %llu, this is process %d of %d; --ckpt-layout %s restarts with the same %s",
                 (unsigned long long)own[P_PROCESS], (unsigned long long)own[P_PROCESSES], process, kc_size, kl_layout,
                 layout == SEGMENTED ? "number of processes" : "processes on the same nodes");
    else if (own[P_SHARERS] != (uint64_t)sharer_count)
        snprintf(text, room, "of %llu processes on a node, this node has %d; --ckpt-layout %s restarts with the same processes on the same nodes",
                 (unsigned long long)own[P_SHARERS], sharer_count, kl_layout);
    else if (own[P_ALIGN] < 1 || own[P_ALIGN] > 1 << 30 || (process == kc_rank && own[P_BYTES] != kc_own_bytes(c)))
        snprintf(text, room, "corrupt: not the size of this process's part");
    else
        return NULL;
    return text;
}

/* ---- one writer for a node: the others send it their parts, in pieces ---- */

#define PIECE (8 << 20)

static void transfer(void *data, int bytes, int other, int sends)
{
    MPI_Request request;
    if (sends)
        MPI_Isend(data, bytes, MPI_BYTE, other, 0, sharers, &request);
    else
        MPI_Irecv(data, bytes, MPI_BYTE, other, 0, sharers, &request);
    kc_finish(&request);
}

static void exchange_with_writer(struct part *p, int sends)
{
    long long what[2] = {p->at, p->count};
    transfer(what, sizeof what, 0, 1);
    for (long long done = 0; done < p->count; done += PIECE)
        transfer(p->bytes + done, (int)(p->count - done < PIECE ? p->count - done : PIECE), 0, sends);
}

static int move_for_others(struct target *t, int writes)
{
    char *piece = kc_alloc(PIECE, 1);
    int bad = 0, mpi = 0, sys = 0;
    for (int other = 1; other < sharer_count; other++) {
        long long what[2];
        transfer(what, sizeof what, other, 0);
        for (long long done = 0; done < what[1]; done += PIECE) {
            int bytes = (int)(what[1] - done < PIECE ? what[1] - done : PIECE);
            if (writes)
                transfer(piece, bytes, other, 0);
            if (!bad && move(t, piece, bytes, what[0] + done, writes)) {
                bad = 1;
                mpi = mpi_code;
                sys = sys_code;
            }
            if (!writes)
                transfer(piece, bytes, other, 1);
        }
    }
    free(piece);
    mpi_code = mpi;
    sys_code = sys;
    return bad;
}

static int move_part(struct target *t, struct part *p, int writes)
{
    if (layout != PER_NODE)
        return move(t, p->bytes, p->count, p->at, writes);
    if (!leads()) {
        exchange_with_writer(p, writes);
        return 0;
    }
    int bad = move(t, p->bytes, p->count, p->at, writes), mpi = mpi_code, sys = sys_code;
    int others = move_for_others(t, writes);
    if (bad) {
        mpi_code = mpi;
        sys_code = sys;
    }
    return bad || others;
}

/* ---- delegated ---- */

static struct kd_file *delegated;
static char delegated_path[PATH_MAX];

static struct kd_settings delegation(void)
{
    struct kd_settings s = KD_DEFAULTS;
    s.align = kl_align;
    s.uses_mpi_io = uses_mpi_io;
    s.is_collective = is_collective;
    s.keeps_open = kl_keep_open;
    s.hints = hints();
    return s;
}

/* A run continues in the file that it restarted from, if that is where it writes to. */
static int put_delegated(const char *path, const struct part *p)
{
    uint64_t revision;
    int code = KD_OK;
    if (delegated && (strcmp(path, delegated_path) != 0 || (int)kc_max(kd_room(delegated) < p->count))) {
        kd_close(delegated);
        delegated = NULL;
    }
    if (!delegated) {
        struct kd_settings settings = delegation();
        snprintf(delegated_path, sizeof delegated_path, "%s", path);
        code = kd_create(MPI_COMM_WORLD, path, &settings, p->count, &delegated);
    }
    if (!code)
        code = kd_write(delegated, p->bytes, p->count, &revision);
    if (code && kc_rank == 0)
        fprintf(stderr, "%s\n", kd_error());
    return code == KD_OK;
}

/* ---- writing ---- */

/* With --ckpt-keep-open two files take turns: the last checkpoint stays until the next one is on disk. The name is a link to one of them. */
static struct {
    struct target target;
    char path[PATH_MAX];
} kept[2];

static int create_target(struct target *t, const char *path)
{
    int bad = 0;
    if (leads())
        unlink(path);
    kc_barrier();
    if (has_file())
        bad = open_target(t, path, 1);
    return is_well(bad, "cannot create", path);
}

/* The last checkpoint has a second name until all files of the next one are in place. */
static int keep_previous(const char *path, const char *previous)
{
    unlink(previous);
    /* there may be none yet, and some file systems have no second names */
    return link(path, previous) == 0 || errno == ENOENT || errno == EPERM || errno == EOPNOTSUPP ? 0 : errno;
}

/* The file is complete and gets its name. */
static int commit(const char *file, const char *temporary, const char *path, const char *previous, const char *dir, long long bytes)
{
    struct stat s;
    int bad = 0;
    if (leads()) {
        bad = failed_sys(stat(file, &s) == 0 ? 0 : errno);
        if (!bad && (long long)s.st_size != bytes)
            bad = too_short();
    }
    if (!is_well(bad, "not all bytes are in", file))
        return 0;
    if (leads() && file != temporary) {
        unlink(temporary);
        bad = failed_sys(link(file, temporary) == 0 ? 0 : errno);
    }
    if (leads() && !bad && !is_one_file())
        bad = failed_sys(keep_previous(path, previous));
    if (leads() && !bad)
        bad = failed_sys(rename(temporary, path) == 0 ? kc_sync_directory(dir) : errno);
    if (!is_well(bad, "cannot put into place", path))
        return 0;
    if (leads() && !is_one_file())
        unlink(previous);
    return 1;
}

/* All files are on disk before the first one takes the place of another. */
static int put_files(const struct kc_checkpoint *c, const char *dir, const void *memory, struct part *p, int number)
{
    char path[PATH_MAX], temporary[PATH_MAX], previous[PATH_MAX], base[PATH_MAX];
    struct target opened = {0}, *t = &opened;
    const char *file = temporary;
    kl_make_paths(c, dir, path, temporary, sizeof path);
    snprintf(base, sizeof base, "%s/%s", dir, c->file);
    make_path(previous, sizeof previous, base, ".previous");
    if (kl_keep_open) {
        make_path(kept[number % 2].path, PATH_MAX, base, number % 2 ? ".open1" : ".open0");
        t = &kept[number % 2].target;
        file = kept[number % 2].path;
    }
    int is_open = t->is_open || !has_file(), all_open = -(int)kc_max(-is_open);
    if (!all_open && !create_target(t, file))
        return 0;
    kc_writes_begin();
    int well = layout == STRIDED ? write_strided(c, t, p->bytes, memory, p->bytes + KC_HEADER_BYTES, file)
                                 : is_well(move_part(t, p, 1), "cannot write", file);
    if (well)
        well = is_well(has_file() && sync_target(t), "cannot sync", file);
    kc_writes_end();
    if (!kl_keep_open || !well)
        well = is_well(close_target(t), "cannot close", file) && well;
    if (!well) {
        if (leads())
            unlink(file);
        return 0;
    }
    return commit(file, temporary, path, previous, dir, layout == STRIDED ? KC_HEADER_BYTES + c->data_bytes : p->file_end);
}

static long long log_bytes; /* of all logs, as they were written or read last */

int kl_put(const struct kc_checkpoint *c, const char *dir, const void *memory, long long step, int number)
{
    char header[KC_HEADER_BYTES], path[PATH_MAX], temporary[PATH_MAX];
    double start = MPI_Wtime();
    int well;
    say_ignored_hints(dir);
    kl_make_paths(c, dir, path, temporary, sizeof path);
    kc_make_header(c, step, header);
    struct part p = {.bytes = header};
    if (layout != STRIDED || !uses_mpi_io) {
        p = make_part(c);
        fill_part(c, &p, memory, header);
    }
    if (layout == DELEGATED) {
        kc_writes_begin();
        well = put_delegated(path, &p);
        kc_writes_end();
    } else {
        if (layout != STRIDED)
            place_part(&p, kl_align);
        if (layout == LOG)
            kc_allreduce(&p.count, &log_bytes, 1, MPI_LONG_LONG, MPI_SUM);
        well = put_files(c, dir, memory, &p, number);
    }
    if (p.bytes != header)
        free(p.bytes);
    double seconds = MPI_Wtime() - start;
    if (well)
        kc_say_checkpoint(c, number, step, seconds, seconds);
    return well;
}

long long kl_checkpoint_bytes(const struct kc_checkpoint *c)
{
    return layout == LOG ? log_bytes : (layout == STRIDED ? 1 : (long long)kc_size) * KC_HEADER_BYTES + c->data_bytes;
}

void kl_end(void)
{
    for (int i = 0; i < 2; i++) {
        is_well(close_target(&kept[i].target), "cannot close", kept[i].path);
        /* the checkpoint has another name */
        if (kept[i].path[0] && leads())
            unlink(kept[i].path);
    }
    kd_close(delegated);
    delegated = NULL;
    if (sharers != MPI_COMM_NULL)
        MPI_Comm_free(&sharers);
}

/* ---- reading ---- */

static char restart_base[PATH_MAX]; /* of the paths of a checkpoint's files */

static void find_checkpoint(const struct kc_checkpoint *c, const char *from, char path[PATH_MAX], char previous[PATH_MAX])
{
    char *base = restart_base;
    struct stat s;
    int is_dir = stat(from, &s) == 0 && S_ISDIR(s.st_mode), is_well;
    int length = is_dir ? snprintf(base, PATH_MAX, "%s/%s", from, c->file) : snprintf(base, PATH_MAX, "%s", from);
    is_well = length >= 0 && (size_t)length + 32 < PATH_MAX && make_path(path, PATH_MAX, base, "") &&
              make_path(previous, PATH_MAX, base, ".previous");
    int bad = !is_well, anywhere;
    kc_allreduce(&bad, &anywhere, 1, MPI_INT, MPI_MAX);
    if (anywhere)
        kc_refuse(KC_USAGE, "--restart: the path is too long");
}

/* Ends the program if any process has a fault. */
static void want_no_fault(const char *fault, const char *path)
{
    int bad = fault != NULL, anywhere;
    kc_allreduce(&bad, &anywhere, 1, MPI_INT, MPI_MAX);
    if (anywhere)
        kc_refuse_first(KC_IO_ERROR, bad, "cannot restart from %s: %s", path, fault ? fault : "");
}

/* Process that leads: the first block of the file and its size, or what is wrong. */
static const char *read_head(const char *path, char block[KC_HEADER_BYTES], size_t *got, long long *file_bytes)
{
    struct stat s;
    FILE *f = fopen(path, "rb");
    if (!f)
        return strerror(errno);
    const char *fault = fstat(fileno(f), &s) == 0 ? NULL : strerror(errno);
    *file_bytes = (long long)s.st_size;
    *got = fread(block, 1, KC_HEADER_BYTES, f);
    fclose(f);
    return fault;
}

static const char *size_fault(long long bytes, long long expected, char *text, size_t room)
{
    if (bytes == expected)
        return NULL;
    snprintf(text, room, "%s: %lld bytes instead of %lld", bytes < expected ? "truncated" : "corrupt", bytes, expected);
    return text;
}

/* Reads the header and data of the strided file; the header is left in `words`. */
static void get_strided(const struct kc_checkpoint *c, const char *path, void *memory, long long last_step, uint64_t words[KC_MOST_WORDS])
{
    char block[KC_HEADER_BYTES] = {0}, text[512];
    const char *fault = NULL;
    struct target t = {0};
    if (kc_rank == 0) {
        size_t got = 0;
        long long bytes = 0;
        fault = read_head(path, block, &got, &bytes);
        memcpy(words, block, (size_t)kc_header_words(c) * 8);
        if (!fault)
            fault = layout_fault(c, block, got, text, sizeof text);
        if (!fault)
            fault = kc_header_fault(c, words, got, bytes, last_step, text, sizeof text);
    }
    want_no_fault(fault, path);
    MPI_Bcast(words, (int)(KC_MOST_WORDS * sizeof *words), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!is_well(open_target(&t, path, 0), "cannot open", path))
        kc_end(KC_IO_ERROR);
    struct part p = uses_mpi_io ? (struct part){0} : make_part(c);
    int well = read_strided(c, &t, memory, uses_mpi_io ? NULL : p.bytes + KC_HEADER_BYTES, path);
    close_target(&t);
    if (!well)
        kc_end(KC_IO_ERROR);
    if (!uses_mpi_io)
        unpack_part(c, &p, memory);
    free(p.bytes);
}

/* Reads this process's part of a file. The first part in it says how all are aligned. */
static void get_part(const struct kc_checkpoint *c, const char *path, struct part *p, long long last_step)
{
    char block[KC_HEADER_BYTES] = {0}, text[512];
    const char *fault = NULL;
    long long bytes = 0, align = 1;
    struct target t = {0};
    MPI_Request request;
    if (leads()) {
        uint64_t words[PART_WORDS];
        size_t got = 0;
        fault = read_head(path, block, &got, &bytes);
        if (!fault)
            fault = part_fault(c, block, got, last_step, kc_rank, text, sizeof text);
        memcpy(words, block + (size_t)kc_header_words(c) * 8, sizeof words);
        align = fault ? 1 : (long long)words[P_ALIGN];
    }
    want_no_fault(fault, path);
    MPI_Ibcast(&align, 1, MPI_LONG_LONG, 0, sharers, &request);
    kc_finish(&request);
    place_part(p, align);
    want_no_fault(leads() ? size_fault(bytes, p->file_end, text, sizeof text) : NULL, path);
    if (!is_well(has_file() && open_target(&t, path, 0), "cannot open", path))
        kc_end(KC_IO_ERROR);
    int well = is_well(move_part(&t, p, 0), "cannot read", path);
    close_target(&t);
    if (!well)
        kc_end(KC_IO_ERROR);
    want_no_fault(part_fault(c, p->bytes, (size_t)p->count, last_step, kc_rank, text, sizeof text), path);
}

static void get_delegated(const struct kc_checkpoint *c, const char *path, struct part *p, long long last_step)
{
    struct kd_settings settings = delegation();
    char text[512];
    long long bytes = 0;
    uint64_t revision = 0;
    if (kc_rank == 0) {
        char block[KC_HEADER_BYTES] = {0};
        size_t got = 0;
        const char *fault = read_head(path, block, &got, &bytes);
        want_no_fault(fault ? fault : layout_fault(c, block, got, text, sizeof text), path);
    } else {
        want_no_fault(NULL, path);
    }
    snprintf(delegated_path, sizeof delegated_path, "%s", path);
    int code = kd_open(MPI_COMM_WORLD, path, &settings, &delegated);
    if (!code)
        code = kd_read_last(delegated, p->bytes, p->count, &bytes, &revision);
    if (code)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: %s", path, kd_error());
    if (kd_error()[0] && kc_rank == 0)
        fprintf(stderr, "%s; revision %llu is read instead\n", kd_error(), (unsigned long long)revision);
    want_no_fault(size_fault(bytes, p->count, text, sizeof text), path);
    want_no_fault(part_fault(c, p->bytes, (size_t)p->count, last_step, kc_rank, text, sizeof text), path);
}

/* Reads parts, of the checkpoint that all have: processes may have been stopped while the files of the next one got their names. */
static void get_parts(const struct kc_checkpoint *c, const char *path, const char *previous, struct part *p, long long last_step)
{
    long long steps[2], extremes[2];
    for (int is_second = 0;; is_second = 1) {
        get_part(c, is_second && steps[0] > extremes[0] ? previous : path, p, last_step);
        uint64_t words[KC_MOST_WORDS];
        memcpy(words, p->bytes, (size_t)kc_header_words(c) * 8);
        steps[0] = (long long)words[2];
        steps[1] = -steps[0];
        kc_allreduce(steps, extremes, 2, MPI_LONG_LONG, MPI_MIN);
        if (extremes[0] == -extremes[1])
            return;
        if (is_second || is_one_file())
            kc_refuse(KC_IO_ERROR, "cannot restart from %s: files of different checkpoints: steps %lld to %lld", path, extremes[0], -extremes[1]);
    }
}

/* ---- logs: their processes may be others ---- */

static size_t log_words_at; /* in a header */
static long long least_step;
static int *uses_previous; /* by log: whether its last but one is of the checkpoint that all have */

static void log_path(char path[PATH_MAX], int log, int is_previous)
{
    make_path_of(path, PATH_MAX, restart_base, is_previous ? ".previous" : "", log);
}

static int open_log(int log, long long *data_bytes)
{
    char path[PATH_MAX], block[KC_HEADER_BYTES];
    uint64_t words[PART_WORDS];
    log_path(path, log, uses_previous[log]);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || !data_bytes)
        return fd;
    ssize_t got = pread(fd, block, sizeof block, 0);
    if (got != (ssize_t)sizeof block) {
        close(fd);
        errno = got < 0 ? errno : EIO;
        return -1;
    }
    memcpy(words, block + (size_t)log_words_at, sizeof words);
    *data_bytes = (long long)words[P_BYTES];
    return fd;
}

/* What is wrong with a log, or NULL; `logs` is how many there should be, 0 for any. Its step and number of logs. */
static const char *log_fault(const struct kc_checkpoint *c, int log, int is_previous, int logs, long long last_step, long long found[2], char *text, size_t room)
{
    char path[PATH_MAX], block[KC_HEADER_BYTES] = {0};
    uint64_t words[KC_MOST_WORDS] = {0}, own[PART_WORDS];
    size_t got = 0;
    long long bytes = 0;
    log_path(path, log, is_previous);
    const char *fault = read_head(path, block, &got, &bytes);
    if (!fault)
        fault = layout_fault(c, block, got, text, room);
    memcpy(words, block, (size_t)kc_header_words(c) * 8);
    if (!fault)
        fault = kc_header_fault(c, words, got, got < KC_HEADER_BYTES ? (long long)got : KC_HEADER_BYTES + c->data_bytes, last_step, text, room);
    if (fault)
        return fault;
    memcpy(own, block + log_words_at, sizeof own);
    found[0] = (long long)words[2];
    found[1] = (long long)own[P_PROCESSES];
    if (own[P_PROCESSES] < 1 || own[P_PROCESSES] > INT_MAX || own[P_PROCESS] != (uint64_t)log || (logs && own[P_PROCESSES] != (uint64_t)logs)) {
        snprintf(text, room, "log %llu of %llu where log %d of %d should be", (unsigned long long)own[P_PROCESS], (unsigned long long)own[P_PROCESSES], log, logs);
        return text;
    }
    return NULL;
}

/* Finds out which files are of the newest checkpoint that all logs have; each process looks at its share. */
static void choose_logs(const struct kc_checkpoint *c, int logs, long long last_step)
{
    char text[512], path[PATH_MAX] = "";
    const char *fault = NULL;
    long long least = LLONG_MAX, found[2], *steps = kc_alloc((size_t)logs, sizeof *steps);
    int *mine = kc_alloc((size_t)logs, sizeof *mine);
    for (int log = kc_rank; log < logs && !fault; log += kc_size) {
        log_path(path, log, 0);
        fault = log_fault(c, log, 0, logs, last_step, found, text, sizeof text);
        steps[log] = fault ? 0 : found[0];
        least = !fault && found[0] < least ? found[0] : least;
    }
    want_no_fault(fault, path);
    kc_allreduce(&least, &least_step, 1, MPI_LONG_LONG, MPI_MIN);
    for (int log = kc_rank; log < logs && !fault; log += kc_size) {
        mine[log] = steps[log] > least_step;
        log_path(path, log, mine[log]);
        if (mine[log])
            fault = log_fault(c, log, 1, logs, last_step, found, text, sizeof text);
        if (mine[log] && !fault && found[0] != least_step) {
            snprintf(text, sizeof text, "files of different checkpoints: steps %lld to %lld", least_step, steps[log]);
            fault = text;
        }
    }
    want_no_fault(fault, path);
    kc_allreduce(mine, uses_previous, logs, MPI_INT, MPI_MAX);
    free(mine);
    free(steps);
}

/* Reads the first log's header, and the data of this process, packed. */
static void get_logs(const struct kc_checkpoint *c, struct part *p, long long last_step)
{
    char text[512] = "", path[PATH_MAX];
    const char *fault = NULL;
    long long found[2] = {0, 1}, bytes = 0;
    size_t got;
    log_words_at = (size_t)kc_header_words(c) * 8;
    log_path(path, 0, 0);
    if (kc_rank == 0)
        fault = log_fault(c, 0, 0, 0, last_step, found, text, sizeof text);
    want_no_fault(fault, path);
    MPI_Bcast(&found[1], 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    int logs = (int)found[1];
    uses_previous = kc_alloc((size_t)logs, sizeof *uses_previous);
    choose_logs(c, logs, last_step);
    log_path(path, 0, uses_previous[0]);
    if (kc_rank == 0)
        fault = read_head(path, p->bytes, &got, &bytes);
    want_no_fault(fault, path);
    MPI_Bcast(p->bytes, KC_HEADER_BYTES, MPI_BYTE, 0, MPI_COMM_WORLD);
    long long index = kg_read(c, logs, open_log, p->bytes + KC_HEADER_BYTES, text, sizeof text);
    want_no_fault(index < 0 && text[0] ? text : NULL, restart_base);
    log_bytes = (long long)logs * KC_HEADER_BYTES + c->data_bytes + index;
    free(uses_previous);
}

long long kl_read(const struct kc_checkpoint *c, const char *from, void *memory, long long last_step)
{
    char path[PATH_MAX], previous[PATH_MAX];
    uint64_t words[KC_MOST_WORDS] = {0};
    double start = MPI_Wtime();
    read_options();
    find_sharers();
    find_checkpoint(c, from, path, previous);
    if (layout == STRIDED) {
        get_strided(c, path, memory, last_step, words);
    } else {
        struct part p = make_part(c);
        if (layout == LOG)
            get_logs(c, &p, last_step);
        else if (layout == DELEGATED)
            get_delegated(c, path, &p, last_step);
        else
            get_parts(c, path, previous, &p, last_step);
        memcpy(words, p.bytes, (size_t)kc_header_words(c) * 8);
        unpack_part(c, &p, memory);
        free(p.bytes);
    }
    uint64_t sum = c->checksum(), written = words[kc_header_words(c) - 2];
    if (sum != written)
        kc_refuse(KC_IO_ERROR, "cannot restart from %s: corrupt: the checksum of the data is %016llx instead of %016llx", path,
                  (unsigned long long)sum, (unsigned long long)written);
    kc_say("Restarted from %s: step %llu, %lld bytes in %.6f s", path, (unsigned long long)words[2], kl_checkpoint_bytes(c), MPI_Wtime() - start);
    return (long long)words[2];
}
