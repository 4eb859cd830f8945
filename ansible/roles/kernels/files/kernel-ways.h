/* Ways to write a checkpoint of a kernel's own: while the program waits, or behind it. */
#ifndef KERNEL_WAYS_H
#define KERNEL_WAYS_H

#include "kernel-common.h"

/* Options of every kernel that writes checkpoints by kc_write_checkpoint, for its list. */
#define KW_OPTIONS                                                                                                                          \
    {"ckpt-way", KC_TEXT, &kw_way, 0, 0, "sync, thread (of a copy), staggered (in turn), swap (a third grid, no copy) or iwrite (non-blocking MPI-IO)"},           \
    {"ckpt-writers", KC_TEXT, &kw_writers, 0, 0, "whose thread writes: that of each process, or of one per socket or node"},                \
    {"ckpt-late", KC_TEXT, &kw_late, 0, 0, "what a checkpoint does while the last is not safe: wait or skip"},                              \
    {"ckpt-pin", KC_INTEGER, &kw_pin, -1, 1048575, "core of the thread that writes; -1: those of its process"},                                      \
    {"ckpt-turns", KC_INTEGER, &kw_turns, 0, 1048576, "staggered: groups of writers that write one after the other; 0: each node"}

extern const char *kw_way, *kw_writers, *kw_late;
extern long long kw_pin, kw_turns;

/* Whether checkpoints are written behind the program. */
int kw_is_behind(void);

/* Collective. Before the first step: checks the options, and gets the memory for copies where checkpoints are `wanted`. `grid_bytes` is the
 * size of the grid that the program swaps for another one in every step, 0 if it has none. Ends the program where a way is not possible. */
void kw_begin(const struct kc_checkpoint *c, int wanted, size_t grid_bytes);

/* The grid to compute the next step into in place of `old`: the same one, unless that is still being written. */
double *kw_other_grid(double *old);

/* Collective. Takes what a checkpoint needs and lets the program continue; waits for the previous one, or skips this one, if that is not safe. */
void kw_request(const struct kc_checkpoint *c, const char *dir, const void *memory, long long step, struct kc_written *written);

/* After each step without a checkpoint: looks how far the last one is, and prints it when it is safe. */
void kw_step(struct kc_written *written);

/* Waits until the last checkpoint is safe, so that the next one is not skipped. */
void kw_wait(struct kc_written *written);

/* Collective. Waits until the last checkpoint is safe, and frees everything. */
void kw_end(struct kc_written *written);

#endif
