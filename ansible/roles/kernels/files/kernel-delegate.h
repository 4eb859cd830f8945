/* Delegated checkpoints: the processes of a communicator hand their data to one file that is reserved once, and get the newest or a given
 * revision back. A C interface for any MPI program; it needs nothing of the kernels.
 *
 *     struct kd_file *file;
 *     struct kd_settings settings = KD_DEFAULTS;
 *     if (kd_create(MPI_COMM_WORLD, "run.ckpt", &settings, bytes, &file) || kd_write(file, data, bytes, &revision))
 *         fprintf(stderr, "%s\n", kd_error());
 *
 * The file is a ring of slots. A slot has a region for each process; a table says of each region where it begins (`offset_start`) and ends
 * (`offset_end`), where the region of the same process in the next slot begins (`offset_next`), and which `revision` it holds. Process 0 alone
 * looks the table up and broadcasts it. A revision counts when it is in the table, which is written after the data of all processes have been
 * synced; there are two copies of the table, and the first is on disk before the second is written. So after a crash at any moment, the
 * last revision that kd_write completed, or one that it was about to complete, is whole. Checksums in the table verify the data.
 *
 * Only the number of processes that wrote a file can read it. All functions but kd_error and kd_room are collective, and return the same code in all
 * processes: 0, or what is wrong. */
#ifndef KERNEL_DELEGATE_H
#define KERNEL_DELEGATE_H

#include <mpi.h>
#include <stdint.h>

enum kd_code {
    KD_OK = 0,
    KD_IO,        /* the system or MPI-IO reports an error */
    KD_FORMAT,    /* not such a file, or damaged */
    KD_PROCESSES, /* written by another number of processes */
    KD_ROOM,      /* more data than the region or the buffer has room for */
    KD_NONE,      /* no such revision, or it is not whole */
};

#define KD_MOST_SLOTS 64

struct kd_settings {
    int slots;         /* revisions that the file has room for, 2 to KD_MOST_SLOTS */
    long long align;   /* regions begin at multiples of this many bytes, at least 1 */
    int uses_mpi_io;   /* data by MPI-IO instead of pwrite and pread */
    int is_collective; /* by its collective calls */
    int keeps_open;    /* the file stays open between two calls, and its table is not looked up again */
    MPI_Info hints;    /* of MPI-IO */
};
#define KD_DEFAULTS {.slots = 2, .align = 4096, .hints = MPI_INFO_NULL}

struct kd_file;

/* Reserves a new file with room for `bytes` of this process in each slot. It takes the place of `path` when its first revision is whole. */
int kd_create(MPI_Comm comm, const char *path, const struct kd_settings *settings, long long bytes, struct kd_file **file);

/* An existing file; of the settings, `slots` and `align` are those of the file. */
int kd_open(MPI_Comm comm, const char *path, const struct kd_settings *settings, struct kd_file **file);

/* Bytes of this process that a slot has room for. */
long long kd_room(const struct kd_file *file);

/* Writes the next revision over the oldest one, and gives its number; it is on disk upon return. */
int kd_write(struct kd_file *file, const void *data, long long bytes, uint64_t *revision);

/* Reads the newest revision that is whole, and gives its size and number. If a newer one is damaged, kd_error names it. */
int kd_read_last(struct kd_file *file, void *data, long long room, long long *bytes, uint64_t *revision);

/* Reads this revision. */
int kd_read_revision(struct kd_file *file, uint64_t revision, void *data, long long room, long long *bytes);

void kd_close(struct kd_file *file);

/* What was wrong with the last call, in all processes; "" if nothing. */
const char *kd_error(void);

#endif
