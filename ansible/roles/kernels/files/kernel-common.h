/* What the kernels share: options, agreed error handling, counting of writers, checksums. */
#ifndef KERNEL_COMMON_H
#define KERNEL_COMMON_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, the same for every kernel. */
enum { KC_OK = 0, KC_UNVERIFIED = 1, KC_USAGE = 2, KC_IO_ERROR = 3, KC_NO_MEMORY = 4, KC_NO_TRACKING = 5 };

extern int kc_rank; /* this process in MPI_COMM_WORLD */
extern int kc_size; /* processes in all */

enum kc_kind { KC_INTEGER, KC_TEXT, KC_FLAG };

/* One long option. `value` points to a long long, a const char * or an int. */
struct kc_option {
    const char *name;
    enum kc_kind kind;
    void *value;
    long long min, max; /* of an integer, both included */
    const char *help;
};

/* Starts MPI and reads the options (the list ends with a null name). Ends the program in good order, with the same exit code in every
 * process, on --help and on anything that it does not understand: all processes see the same arguments, so no message is needed. */
void kc_start(int *argc, char ***argv, const char *program, const char *about, const struct kc_option *options);

/* Ends MPI and the program. */
_Noreturn void kc_end(int code);

/* Rank 0 writes a line to standard output and flushes it, so that a reader at a pipe sees it at once. */
void kc_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Rank 0 writes "program: text" to standard error, and every process ends with `code`. To be called by all processes. */
_Noreturn void kc_refuse(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same where only some processes know: the lowest one for which it `is_bad` speaks. */
_Noreturn void kc_refuse_first(int code, int is_bad, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One process alone ends the run, since the others cannot go on without it. */
_Noreturn void kc_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Zeroed memory; one process without memory ends the run, since the others cannot go on without it. */
void *kc_alloc(size_t count, size_t size);

/* As MPI_Sendrecv, MPI_Allreduce and MPI_Barrier, but a process that waits gives its core away. Not every MPI library does that (MPICH 4.0
 * has no such setting that works), and with more processes than cores a waiting process otherwise spins until its time slice ends. */
void kc_sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, void *in, int in_count, MPI_Datatype in_type, int from, int tag,
                 MPI_Comm comm);
void kc_allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op);
void kc_barrier(void);

/* Commits a datatype; kc_end frees it. */
MPI_Datatype kc_type(MPI_Datatype type);

/* Collective. 1 where `bad` is 0 in all processes; otherwise the lowest process that has one prints what, where and why
 * (`mpi_code`, or errno's text where that is MPI_SUCCESS). */
int kc_all_well(int bad, int mpi_code, int errno_code, const char *what, const char *path);

/* Collective. The same for the result of an MPI-IO call; `status` (or NULL) must say that one whole `type` was moved. */
int kc_mpi_well(int mpi_code, MPI_Status *status, MPI_Datatype type, const char *what, const char *path);

/* Collective. 1 where the file has this size as rank 0 sees it. */
int kc_size_well(const char *path, long long bytes);

/* Brackets around writes; what the kernel's accounting (/proc/self/io) says in between is added up for kc_writers. */
void kc_writes_begin(void);
void kc_writes_end(void);

/* Collective. How many processes wrote: those with at least 5 % of the mean over all processes, see docs/kernels.md; -1 where unknown.
 * `collective` says whether processes may have written for each other. */
int kc_writers(long long bytes_expected, int collective);

/* ---- checkpoints of a kernel's own: one file with the global arrays, written collectively, readable with any number of processes ---- */

#define KC_HEADER_BYTES 4096 /* before the arrays */
#define KC_MOST_FIXED 6

/* An option that a checkpoint must have been written with to be read. */
struct kc_fixed {
    const char *option;
    const long long *value;
};

struct kc_checkpoint {
    const char *magic;                    /* the first 8 bytes of the file */
    const char *file;                     /* name of the file */
    struct kc_fixed fixed[KC_MOST_FIXED]; /* in the order of the header; ends with a null name unless full */
    long long data_bytes;                 /* of the global arrays */
    MPI_Datatype memory_type, file_type;  /* this process's part, in memory and in the file behind the header */
    uint64_t (*checksum)(void);           /* of the arrays; collective */
};

/* How much a kernel has written as checkpoints. */
struct kc_written {
    int checkpoints;
    long long bytes;
    double seconds; /* of this process */
};

/* Collective. Writes the arrays at `memory` to a temporary file in `dir`, which takes the place of the last checkpoint only when everything is
 * on disk, and tells it. Ends the program where that fails. */
void kc_write_checkpoint(const struct kc_checkpoint *c, const char *dir, const void *memory, long long step, struct kc_written *written);

/* Collective. Reads the checkpoint `from`, or the one in the directory `from`, and gives its step, at most `last_step`. Ends the program if
 * it is not whole or of another run. */
long long kc_read_checkpoint(const struct kc_checkpoint *c, const char *from, void *memory, long long last_step);

/* Collective. Prints what was written, and by how many, if anything was. */
void kc_say_written(const struct kc_written *written);

/* Hash of one value at one global position. The sum over all positions modulo 2^64 does not depend on the order of summation. */
uint64_t kc_mix(uint64_t position, double value);

/* Collective. Sum over all processes modulo 2^64. */
uint64_t kc_sum_u64(uint64_t mine);

/* Collective. Largest value over all processes; not-a-number wins. */
double kc_max(double mine);

/* Collective. Prints the verdict and the time, and gives the exit code. */
int kc_verdict(int well, double seconds);

#endif
