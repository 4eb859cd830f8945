/* madvise, syscall and MAP_ANONYMOUS are none of POSIX */
#define _GNU_SOURCE
#include "kernel-track.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/fs.h>
#endif
/* Old headers do not have it: then only soft-dirty bits can be used. */
#ifdef __has_include
#if __has_include(<linux/userfaultfd.h>)
#include <linux/userfaultfd.h>
#endif
#endif
#if defined SYS_userfaultfd && defined UFFDIO_REGISTER && defined UFFDIO_REGISTER_MODE_WP
#define HAS_FAULTS 1
#else
#define HAS_FAULTS 0
#endif

int kt_track;
const char *kt_by = "auto";
long long kt_every = 10;

/* ---- memory that is watched ---- */

struct span {
    unsigned char *start, *copy, *written; /* copy: as at the last count; written: one byte for each page */
    size_t bytes, pages;
};
static struct span spans[2 * 64];
static int span_count;
static size_t page;

void *kt_alloc(size_t count, size_t size)
{
    if (!kt_track || count == 0)
        return kc_alloc(count, size);
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (span_count == (int)(sizeof spans / sizeof spans[0]))
        kc_fail(KC_NO_MEMORY, "--track: more than %d arrays in one process; use fewer processes", span_count);
    struct span *s = &spans[span_count++];
    s->pages = size > SIZE_MAX / 2 / count ? 0 : (count * size + page - 1) / page;
    s->bytes = s->pages * page;
    s->start = s->bytes ? mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (s->start == MAP_FAILED)
        kc_fail(KC_NO_MEMORY, "process %d: no memory for %zu elements of %zu bytes; use a smaller size or more processes", kc_rank, count, size);
    /* A huge page would be written as a whole. */
    madvise(s->start, s->bytes, MADV_NOHUGEPAGE);
    s->copy = kc_alloc(s->pages, page);
    s->written = kc_alloc(s->pages, 1);
    return s->start;
}

/* ---- userfaultfd: write protection that the Linux kernel itself takes away at the first write (Linux 6.7 or newer) ---- */

static int faults_fd = -1, pagemap_fd = -1;

#define REGIONS 512

#if HAS_FAULTS

/* The headers of the machine may be older than its kernel. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef PAGEMAP_SCAN
#define PAGE_IS_WRITTEN (1 << 1)
#define PM_SCAN_WP_MATCHING (1 << 0)
#define PM_SCAN_CHECK_WPASYNC (1 << 1)
struct page_region {
    uint64_t start, end, categories;
};
struct pm_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
#endif

/* Marks the pages of a span that were written, and protects them again. 0, or an error of the system. */
static int scan_protected(struct span *s)
{
    static struct page_region regions[REGIONS];
    uint64_t at = (uint64_t)(uintptr_t)s->start, end = at + s->bytes;
    while (at < end) {
        struct pm_scan_arg arg = {.size = sizeof arg, .flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC, .start = at, .end = end,
                                  .vec = (uint64_t)(uintptr_t)regions, .vec_len = REGIONS, .category_mask = PAGE_IS_WRITTEN,
                                  .return_mask = PAGE_IS_WRITTEN};
        int found = ioctl(pagemap_fd, PAGEMAP_SCAN, &arg);
        if (found < 0)
            return errno;
        for (int i = 0; i < found; i++)
            memset(s->written + (regions[i].start - (uint64_t)(uintptr_t)s->start) / page, 1, (regions[i].end - regions[i].start) / page);
        if (arg.walk_end <= at)
            return EIO;
        at = arg.walk_end;
    }
    return 0;
}

/* Watches a span by write protection; 0, or an error of the system with what was tried. */
static int protect(struct span *s, const char **what)
{
    struct uffdio_register all = {.range = {.start = (uint64_t)(uintptr_t)s->start, .len = s->bytes}, .mode = UFFDIO_REGISTER_MODE_WP};
    *what = "write protection of memory";
    if (ioctl(faults_fd, UFFDIO_REGISTER, &all) != 0)
        return errno;
    *what = "PAGEMAP_SCAN";
    return scan_protected(s);
}

/* Whether it works here; if not, why. Only faults of the program itself are asked for, which needs no rights. */
static int can_protect(struct span *probe, char *why, size_t room)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};
    const char *what = "the system call";
    int code = 0;
    faults_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (faults_fd < 0)
        code = errno;
    if (!code && ioctl(faults_fd, UFFDIO_API, &api) != 0) {
        what = "asynchronous write protection";
        code = errno;
    }
    if (!code && (pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) < 0) {
        what = "/proc/self/pagemap";
        code = errno;
    }
    if (!code)
        code = protect(probe, &what);
    if (code) {
        const char *hint = code == EPERM || code == EACCES ? "a sandbox or container forbids it"
                           : code == ENOSYS                ? "the Linux kernel was built without it"
                                                           : "Linux 6.7 or newer has it";
        snprintf(why, room, "userfaultfd: %s: %s (%s)", what, strerror(code), hint);
        return 0;
    }
    probe->start[0] = 1;
    memset(probe->written, 0, probe->pages);
    if (scan_protected(probe) != 0 || !probe->written[0] || probe->written[1]) {
        snprintf(why, room, "userfaultfd: a page that was written is not told from one that was not");
        return 0;
    }
    return 1;
}

#else

static int scan_protected(struct span *s)
{
    (void)s;
    return ENOSYS;
}

static int protect(struct span *s, const char **what)
{
    (void)s;
    *what = "userfaultfd";
    return ENOSYS;
}

static int can_protect(struct span *probe, char *why, size_t room)
{
    (void)probe;
    snprintf(why, room, "userfaultfd: the headers of the system that compiled this program do not know it");
    return 0;
}

#endif

/* ---- soft-dirty bits: bit 55 of /proc/self/pagemap, all of them cleared by a 4 in /proc/self/clear_refs ---- */

static int clear_fd = -1;

static int clear_bits(void)
{
    return pwrite(clear_fd, "4", 1, 0) == 1 ? 0 : errno;
}

static int scan_bits(struct span *s)
{
    static uint64_t entries[REGIONS];
    for (size_t first = 0; first < s->pages; first += REGIONS) {
        size_t n = s->pages - first < REGIONS ? s->pages - first : REGIONS;
        off_t at = (off_t)(((uintptr_t)s->start / page + first) * sizeof entries[0]);
        ssize_t got = pread(pagemap_fd, entries, n * sizeof entries[0], at);
        if (got != (ssize_t)(n * sizeof entries[0]))
            return got < 0 ? errno : EIO;
        for (size_t i = 0; i < n; i++)
            s->written[first + i] = entries[i] >> 55 & 1;
    }
    return 0;
}

static int can_use_bits(struct span *probe, char *why, size_t room)
{
    int code = 0;
    if (pagemap_fd < 0 && (pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) < 0)
        code = errno;
    if (!code && (clear_fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC)) < 0)
        code = errno;
    probe->start[0] = probe->start[page] = 1;
    if (!code)
        code = clear_bits();
    probe->start[0] = 2;
    if (!code)
        code = scan_bits(probe);
    if (code)
        snprintf(why, room, "soft-dirty bits: %s", strerror(code));
    else if (!probe->written[0] || probe->written[1])
        snprintf(why, room, "soft-dirty bits: the Linux kernel does not keep them (CONFIG_MEM_SOFT_DIRTY)");
    else
        return 1;
    return 0;
}

/* ---- counts ---- */

static enum { NOT_TRACKED, BY_FAULTS, BY_BITS } way;
static int counts;
static long long all_pages, sum_written, sum_changed, sum_bytes;
static double sum_scan, sum_compare;

/* 1 in all processes, or 0 in all. */
static int everywhere(int here)
{
    int all;
    kc_allreduce(&here, &all, 1, MPI_INT, MPI_MIN);
    return all;
}

/* Chooses the first way that works in all processes. */
static void choose(void)
{
    char why[2][160] = {"", ""};
    int is_auto = !strcmp(kt_by, "auto"), try_faults = is_auto || !strcmp(kt_by, "userfaultfd"), try_bits = is_auto || !strcmp(kt_by, "soft-dirty");
    unsigned char marks[2] = {0, 0};
    if (!try_faults && !try_bits)
        kc_refuse(KC_USAGE, "--track-by: '%s' is none of auto, userfaultfd, soft-dirty", kt_by);
    page = (size_t)sysconf(_SC_PAGESIZE);
    struct span probe = {.written = marks, .pages = 2, .bytes = 2 * page};
    probe.start = mmap(NULL, probe.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe.start == MAP_FAILED)
        kc_fail(KC_NO_MEMORY, "process %d: no memory for two pages", kc_rank);
    probe.start[0] = probe.start[page] = 0;
    int here = 0;
    if (try_faults) {
        here = can_protect(&probe, why[0], sizeof why[0]);
        if (everywhere(here))
            way = BY_FAULTS;
        else if (here)
            snprintf(why[0], sizeof why[0], "userfaultfd: not in all processes");
    }
    if (way == NOT_TRACKED && faults_fd >= 0) {
        close(faults_fd);
        faults_fd = -1;
    }
    if (way == NOT_TRACKED && try_bits) {
        here = can_use_bits(&probe, why[1], sizeof why[1]);
        if (everywhere(here))
            way = BY_BITS;
        else if (here)
            snprintf(why[1], sizeof why[1], "soft-dirty bits: not in all processes");
    }
    munmap(probe.start, probe.bytes);
    if (way == NOT_TRACKED)
        kc_refuse_first(KC_NO_TRACKING, !here, "--track: the system does not tell which pages were written: %s%s%s", why[0],
                        try_faults && try_bits ? "; " : "", why[1]);
}

/* Ends the program if something has gone wrong in any process. */
static void want_well(int code, const char *what)
{
    if (!kc_all_well(code != 0, MPI_SUCCESS, code, "--track:", what))
        kc_end(KC_NO_TRACKING);
}

void kt_begin(void)
{
    if (!kt_track)
        return;
    choose();
    long long pages = 0;
    int code = 0;
    const char *what = "soft-dirty bits";
    for (int i = 0; i < span_count; i++) {
        struct span *s = &spans[i];
        pages += (long long)s->pages;
        /* Pages that nobody has written yet have no entry that could be protected. */
        for (size_t p = 0; p < s->pages; p++)
            ((volatile unsigned char *)s->start)[p * page] = s->start[p * page];
        memcpy(s->copy, s->start, s->bytes);
        if (way == BY_FAULTS && !code)
            code = protect(s, &what);
    }
    if (way == BY_BITS)
        code = clear_bits();
    want_well(code, what);
    kc_allreduce(&pages, &all_pages, 1, MPI_LONG_LONG, MPI_SUM);
    kc_say("Tracking = %s, %lld pages of %zu bytes", way == BY_FAULTS ? "userfaultfd" : "soft-dirty", all_pages, page);
}

/* Bytes of a page that differ from its copy, which is then brought up to date. */
static size_t changed_bytes(unsigned char *now, unsigned char *copy)
{
    size_t changed = 0;
    if (memcmp(now, copy, page) == 0)
        return 0;
    for (size_t i = 0; i < page; i++)
        changed += now[i] != copy[i];
    memcpy(copy, now, page);
    return changed;
}

static void count_pages(long long step)
{
    enum { WRITTEN, CHANGED, BYTES, MISSED, SUMS };
    long long mine[SUMS] = {0}, all[SUMS];
    int code = 0;
    double start = MPI_Wtime();
    for (int i = 0; i < span_count && !code; i++) {
        memset(spans[i].written, 0, spans[i].pages);
        code = way == BY_FAULTS ? scan_protected(&spans[i]) : scan_bits(&spans[i]);
    }
    if (way == BY_BITS && !code)
        code = clear_bits();
    double scanned = MPI_Wtime();
    want_well(code, "cannot tell which pages were written");
    double begin = MPI_Wtime();
    for (int i = 0; i < span_count; i++)
        for (size_t p = 0; p < spans[i].pages; p++) {
            size_t changed = changed_bytes(spans[i].start + p * page, spans[i].copy + p * page);
            mine[WRITTEN] += spans[i].written[p];
            mine[CHANGED] += changed > 0;
            mine[BYTES] += (long long)changed;
            mine[MISSED] += changed > 0 && !spans[i].written[p];
        }
    double compare = kc_max(MPI_Wtime() - begin), scan = kc_max(scanned - start);
    kc_allreduce(mine, all, SUMS, MPI_LONG_LONG, MPI_SUM);
    kc_say("Tracked %d: %lld of %lld pages written, %lld changed, %lld bytes changed; %.6f s to scan, %.6f s to compare (step %lld)", ++counts,
           all[WRITTEN], all_pages, all[CHANGED], all[BYTES], scan, compare, step);
    if (all[MISSED] > 0)
        kc_refuse(KC_UNVERIFIED, "--track: %lld pages changed that %s does not tell as written", all[MISSED],
                  way == BY_FAULTS ? "userfaultfd" : "soft-dirty");
    sum_written += all[WRITTEN];
    sum_changed += all[CHANGED];
    sum_bytes += all[BYTES];
    sum_scan += scan;
    sum_compare += compare;
}

void kt_step(long long step, int has_checkpoints, int is_checkpoint)
{
    if (kt_track && (has_checkpoints ? is_checkpoint : step % kt_every == 0))
        count_pages(step);
}

void kt_say(void)
{
    if (counts == 0)
        return;
    kc_say("Pages written = %lld", sum_written);
    kc_say("Pages changed = %lld", sum_changed);
    kc_say("Bytes changed = %lld", sum_bytes);
    kc_say("Scan time = %.6f s", sum_scan);
    kc_say("Compare time = %.6f s", sum_compare);
}
