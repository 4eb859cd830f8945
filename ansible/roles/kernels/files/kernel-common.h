/* What the kernels share: options, agreed error handling, counting of writers, checksums. */
#ifndef KERNEL_COMMON_H
#define KERNEL_COMMON_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, the same for every kernel. */
enum { KC_OK = 0, KC_UNVERIFIED = 1, KC_USAGE = 2, KC_IO_ERROR = 3, KC_NO_MEMORY = 4, KC_NO_TRACKING = 5, KC_INTERRUPTED = 75 };

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

/* Number of the word of an option's value. Collective, since another one ends the program. */
int kc_word(const char *option, const char *text, int count, const char *const words[]);

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

/* As MPI_Sendrecv, MPI_Allreduce, MPI_Barrier and MPI_Wait, but a process that waits gives its core away. Not every MPI library does that (MPICH 4.0
 * has no such setting that works), and with more processes than cores a waiting process otherwise spins until its time slice ends. */
void kc_sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, void *in, int in_count, MPI_Datatype in_type, int from, int tag,
                 MPI_Comm comm);
void kc_allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op);
void kc_barrier(void);
void kc_finish(MPI_Request *request);

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

/* Adds bytes that this process is known to have written. */
void kc_writes_add(long long bytes);

/* Collective. How many processes wrote: those with at least 5 % of the mean over all processes, see docs/kernels.md; -1 where unknown.
 * `collective` says whether processes may have written for each other. */
int kc_writers(long long bytes_expected, int collective);

/* ---- checkpoints of a kernel's own: one file with the global arrays, written collectively, readable with any number of processes ---- */

#define KC_HEADER_BYTES 4096 /* before the arrays */
#define KC_MOST_FIXED 6
#define KC_MOST_DIMS 4
#define KC_MOST_BLOCKS 2

/* An option that a checkpoint must have been written with to be read. */
struct kc_fixed {
    const char *option;
    const long long *value;
};

/* This process's part of an array of doubles, row-major: where it is in the array in memory, and in that in the file. */
struct kc_block {
    int dims, count[KC_MOST_DIMS];                       /* own elements in each direction */
    int memory[KC_MOST_DIMS], memory_first[KC_MOST_DIMS]; /* extents of the array in memory, and index of the first own element */
    int file[KC_MOST_DIMS], file_first[KC_MOST_DIMS];     /* the same in the file */
    long long memory_at, file_at;                         /* elements in front of the array */
};

struct kc_checkpoint {
    const char *magic;                      /* the first 8 bytes of the file */
    const char *file;                       /* name of the file */
    struct kc_fixed fixed[KC_MOST_FIXED];   /* in the order of the header; ends with a null name unless full */
    long long data_bytes;                   /* of the global arrays */
    struct kc_block blocks[KC_MOST_BLOCKS]; /* in the order of the file; ends with one of 0 dimensions unless full */
    uint64_t (*checksum)(void);             /* of the arrays; collective */
    MPI_Datatype memory_type, file_type;    /* of the blocks: set by kc_make_types */
};

/* How much a kernel has written as checkpoints. */
struct kc_written {
    int checkpoints, skipped;
    long long bytes;
    double seconds; /* of this process, until they were safe */
};

/* Number of blocks of a checkpoint. */
int kc_blocks(const struct kc_checkpoint *c);

/* Bytes of this process's part. */
size_t kc_own_bytes(const struct kc_checkpoint *c);

/* Calls `row` for each row of a block, in the order of the file, with its elements from the start of the memory and of the file's data. */
void kc_each_row(const struct kc_block *b, void (*row)(void *state, long long in_memory, long long in_file, size_t count), void *state);

/* Makes the datatypes of the blocks; kc_end frees them. */
void kc_make_types(struct kc_checkpoint *c);

/* Collective. The header of a checkpoint at this step, with the checksum of the data. */
void kc_make_header(const struct kc_checkpoint *c, long long step, char block[KC_HEADER_BYTES]);

/* Words of 8 bytes that a header has, the last one a checksum of the others. */
#define KC_MOST_WORDS (6 + KC_MOST_FIXED)
int kc_header_words(const struct kc_checkpoint *c);

/* Checksum of all words but the last, which has it. */
uint64_t kc_header_sum(const uint64_t *words, int count);

/* What is wrong with the first `got` bytes of a file of this size, or NULL. */
const char *kc_header_fault(const struct kc_checkpoint *c, const uint64_t *words, size_t got, long long file_bytes, long long last_step,
                            char *text, size_t room);

/* Makes the directory's entries permanent; 0, or an error of the system. */
int kc_sync_directory(const char *path);

/* Prints, in rank 0, that a checkpoint is safe, and for how long it stopped the program. */
void kc_say_checkpoint(const struct kc_checkpoint *c, int number, long long step, double until_safe, double stopped);

/* Collective. Writes the arrays at `memory` to a temporary file in `dir`, which takes the place of the last checkpoint only when everything is
 * on disk, and tells it; in the way that --ckpt-way says (kernel-ways.h), in the layout of
 * --ckpt-layout (kernel-layout.h). Ends the program where that fails. */
void kc_write_checkpoint(const struct kc_checkpoint *c, const char *dir, const void *memory, long long step, struct kc_written *written);

/* Collective, once in each step, after kc_heed_signal: whether SIGUSR1 had reached any process by the step before, so that the others need not be waited
 * for. Then the caller writes a checkpoint and leaves, unless it was the last step. */
int kc_asked(void);
void kc_heed_signal(void);
_Noreturn void kc_leave(long long step);

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
