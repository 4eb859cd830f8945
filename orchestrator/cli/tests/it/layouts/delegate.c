/* A program of its own that delegates its checkpoints: what it writes follows from process and revision, so that whatever it reads can be checked.
 *
 *     delegate HOW new N FILE       creates FILE and writes N revisions; FILE.completed gets the number of each when it is complete
 *     delegate HOW continue [R] FILE  reads the newest, writes two more, R (its successor) and R + 1, and reads both
 *     delegate HOW read R FILE      reads revision R, 0 for the newest
 *
 * HOW: posix, mpi-io or collective; +open keeps the file open. The exit code is 1 where data are not those of the revision. */
#include "kernel-delegate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 6000

static int rank;
static struct kd_file *file;

static long long bytes_of(uint64_t revision)
{
    return 2000 * (rank + 1) + (long long)(8 * revision);
}

static char byte_of(uint64_t revision, int at)
{
    return (char)(revision * 131 + (uint64_t)rank * 17 + (uint64_t)at * (revision + 3));
}

static void stop(int code)
{
    MPI_Finalize();
    exit(code);
}

static void want(int code)
{
    if (!code)
        return;
    if (rank == 0)
        printf("error %d: %s\n", code, kd_error());
    stop(3);
}

static void check(const char *data, long long bytes, uint64_t revision)
{
    int bad = bytes != bytes_of(revision), anywhere;
    for (int i = 0; i < bytes && !bad; i++)
        bad = data[i] != byte_of(revision, i);
    MPI_Allreduce(&bad, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %llu%s%s\n", anywhere ? "not the data of" : "read", (unsigned long long)revision, kd_error()[0] ? ": " : "", kd_error());
    if (anywhere)
        stop(1);
}

static uint64_t read_one(uint64_t revision)
{
    static char data[MOST];
    long long bytes;
    memset(data, 0, sizeof data);
    if (revision)
        want(kd_read_revision(file, revision, data, sizeof data, &bytes));
    else
        want(kd_read_last(file, data, sizeof data, &bytes, &revision));
    check(data, bytes, revision);
    return revision;
}

static void write_one(uint64_t revision, const char *path)
{
    static char data[MOST];
    char name[4096], line[32];
    uint64_t written;
    for (int i = 0; i < bytes_of(revision); i++)
        data[i] = byte_of(revision, i);
    want(kd_write(file, data, bytes_of(revision), &written));
    if (written != revision)
        stop(1);
    if (rank == 0) {
        snprintf(name, sizeof name, "%s.completed", path);
        int fd = open(name, O_CREAT | O_WRONLY | O_APPEND, 0666);
        int length = snprintf(line, sizeof line, "%llu\n", (unsigned long long)revision);
        if (write(fd, line, (size_t)length) != length || close(fd) != 0)
            stop(4);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    if (argc < 4)
        stop(2);
    const char *how = argv[1], *what = argv[2], *path = argv[argc - 1];
    struct kd_settings settings = KD_DEFAULTS;
    settings.align = 512;
    settings.uses_mpi_io = strncmp(how, "posix", 5) != 0;
    settings.is_collective = strncmp(how, "collective", 10) == 0;
    settings.keeps_open = strstr(how, "+open") != NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "new")) {
        want(kd_create(MPI_COMM_WORLD, path, &settings, 2000 * (rank + 1) + 800, &file));
        for (int i = 1; i <= atoi(argv[3]); i++)
            write_one((uint64_t)i, path);
    } else {
        want(kd_open(MPI_COMM_WORLD, path, &settings, &file));
        uint64_t revision = read_one(strcmp(what, "read") == 0 ? strtoull(argv[3], NULL, 10) : 0);
        if (!strcmp(what, "continue")) {
            uint64_t next = argc == 5 ? strtoull(argv[3], NULL, 10) : revision + 1;
            write_one(next, path);
            write_one(next + 1, path);
            read_one(0);
            read_one(next);
        }
    }
    kd_close(file);
    stop(0);
}
