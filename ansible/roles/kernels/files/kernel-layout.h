/* How a checkpoint of a kernel's own is laid out in files, and by which calls it is written. */
#ifndef KERNEL_LAYOUT_H
#define KERNEL_LAYOUT_H

#include "kernel-common.h"

/* Options of every kernel that writes checkpoints by kc_write_checkpoint, for its list. */
#define KL_OPTIONS                                                                                                                          \
    {"ckpt-layout", KC_TEXT, &kl_layout, 0, 0, "strided, segmented or delegated: one file; per-node, per-process or log: several"},             \
    {"ckpt-io", KC_TEXT, &kl_io, 0, 0, "posix or mpi-io; without it posix for files of a process or node, mpi-io for shared ones"},          \
    {"ckpt-collective", KC_TEXT, &kl_collective, 0, 0, "collective calls of mpi-io: yes or no; without it yes for strided"},                \
    {"ckpt-stripe-factor", KC_INTEGER, &kl_stripe_factor, 0, 1000000, "MPI-IO's hint striping_factor; 0: none"},                            \
    {"ckpt-stripe-unit", KC_INTEGER, &kl_stripe_unit, 0, 1LL << 40, "MPI-IO's hint striping_unit, bytes; 0: none"},                          \
    {"ckpt-align", KC_INTEGER, &kl_align, 1, 1LL << 30, "parts of processes begin at multiples of so many bytes"},                           \
    {"ckpt-keep-open", KC_FLAG, &kl_keep_open, 0, 0, "keep files open from one checkpoint to the next"}

extern const char *kl_layout, *kl_io, *kl_collective;
extern long long kl_stripe_factor, kl_stripe_unit, kl_align;
extern int kl_keep_open;

/* Collective. Ends the program where the options do not go together, or not with checkpoints behind the program. */
void kl_begin(int is_behind);

/* Whether processes may write for each other. */
int kl_is_collective(void);

/* Bytes of a checkpoint with its headers. */
long long kl_checkpoint_bytes(const struct kc_checkpoint *c);

/* The path of this process's file of a checkpoint, and of what becomes it. Collective, since a path that is too long ends the program. */
void kl_make_paths(const struct kc_checkpoint *c, const char *dir, char path[], char temporary[], size_t room);

/* Collective. Writes a checkpoint while the program waits, and prints it; 1 where all went well. */
int kl_put(const struct kc_checkpoint *c, const char *dir, const void *memory, long long step, int number);

/* Collective. Reads the checkpoint `from`, or the one in the directory `from`, and gives its step, at most `last_step`. Ends the program if
 * it is not whole, of another run, or written in another layout. */
long long kl_read(const struct kc_checkpoint *c, const char *from, void *memory, long long last_step);

/* Collective. Closes what is open. */
void kl_end(void);

#endif
