/* Preloaded: ends process CRASH_RANK at its CRASH_AT-th operation on files whose names have ".delegated", in the middle of it if it writes. With
 * CRASH_LOSES the machine loses its power: what was not synced is kept in memory until it is, and when the process ends
 *     all         nothing of it is on disk
 *     even, odd   every second write is, the last one by half
 * CRASH_COUNTS names a file that gets the number of operations of each process that ends by itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST 256

static struct {
    char *data;
    size_t bytes;
    off_t at;
} pending[MOST];
static int pending_count, raw = -1, operations;

static const char *of(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static int is_of_interest(int fd)
{
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, ".delegated") && !strstr(path, ".completed");
}

static int rank(void)
{
    const char *names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK"};
    for (int i = 0; i < 2; i++)
        if (*of(names[i]))
            return atoi(of(names[i]));
    return 0;
}

static void apply(int i, size_t bytes)
{
    syscall(SYS_pwrite64, raw, pending[i].data, bytes, pending[i].at);
}

static void apply_all(void)
{
    for (int i = 0; i < pending_count; i++) {
        apply(i, pending[i].bytes);
        free(pending[i].data);
    }
    pending_count = 0;
}

static void crash(void)
{
    const char *loses = of("CRASH_LOSES");
    int parity = !strcmp(loses, "even") ? 1 : !strcmp(loses, "odd") ? 0 : -1, last = pending_count - 1;
    for (int i = 0; i < pending_count && parity >= 0; i++)
        if (i % 2 == parity || i == last)
            apply(i, i == last ? pending[i].bytes / 2 : pending[i].bytes);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* 1: this is the operation at which the process ends. */
static int is_the_one(void)
{
    operations++;
    return *of("CRASH_AT") && rank() == atoi(of("CRASH_RANK")) && operations == atoi(of("CRASH_AT"));
}

static ssize_t hold(int fd, const void *data, size_t bytes, off_t at)
{
    if (raw < 0)
        raw = (int)syscall(SYS_dup, fd);
    if (pending_count == MOST)
        abort();
    pending[pending_count].data = memcpy(malloc(bytes + 1), data, bytes);
    pending[pending_count].bytes = bytes;
    pending[pending_count++].at = at;
    return (ssize_t)bytes;
}

static ssize_t put(int fd, const void *data, size_t bytes, off_t at)
{
    if (!is_of_interest(fd))
        return syscall(SYS_pwrite64, fd, data, bytes, at);
    int ends = is_the_one();
    if (*of("CRASH_LOSES"))
        hold(fd, data, bytes, at);
    else
        syscall(SYS_pwrite64, fd, data, ends ? bytes / 2 : bytes, at);
    if (ends)
        crash();
    return (ssize_t)bytes;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return put(fd, data, bytes, at);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at)
{
    return put(fd, data, bytes, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    ssize_t all = 0;
    for (int i = 0; i < count; i++)
        all += put(fd, parts[i].iov_base, parts[i].iov_len, at + all);
    return all;
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at)
{
    return pwritev(fd, parts, count, at);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    if (!is_of_interest(fd))
        return syscall(SYS_write, fd, data, bytes);
    off_t at = lseek(fd, 0, SEEK_CUR);
    ssize_t done = put(fd, data, bytes, at);
    lseek(fd, at + done, SEEK_SET);
    return done;
}

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    if (is_of_interest(fd) && is_the_one())
        crash();
    return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

int fsync(int fd)
{
    if (is_of_interest(fd)) {
        if (is_the_one())
            crash();
        apply_all();
    }
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    if (strstr(from, ".delegated") && is_the_one())
        crash();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

__attribute__((destructor)) static void end(void)
{
    char line[64];
    apply_all();
    if (!operations || !*of("CRASH_COUNTS"))
        return;
    int fd = open(of("CRASH_COUNTS"), O_CREAT | O_WRONLY | O_APPEND, 0666);
    int length = snprintf(line, sizeof line, "%d %d\n", rank(), operations);
    syscall(SYS_write, fd, line, (size_t)length);
    close(fd);
}
