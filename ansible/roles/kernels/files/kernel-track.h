/* Pages of a kernel's arrays that were written between two checkpoints, as the Linux kernel tells, and pages that changed, as a copy tells. */
#ifndef KERNEL_TRACK_H
#define KERNEL_TRACK_H

#include "kernel-common.h"

/* Options of every kernel that tracks, for its list. */
#define KT_OPTIONS                                                                                                                          \
    {"track", KC_FLAG, &kt_track, 0, 0, "count pages written and changed between checkpoints (needs memory for a copy)"},                   \
    {"track-by", KC_TEXT, &kt_by, 0, 0, "userfaultfd, soft-dirty, or auto: the first of them that works"},                                  \
    {"track-every", KC_INTEGER, &kt_every, 1, 1000000000, "steps between counts where no checkpoints are written"}

extern int kt_track;
extern const char *kt_by;
extern long long kt_every;

/* As kc_alloc; pages of its own where --track is given, so that they are counted. */
void *kt_alloc(size_t count, size_t size);

/* Collective. With --track: begins to count what is written from now on. Ends the program with KC_NO_TRACKING and the reason where this
 * machine does not tell that. */
void kt_begin(void);

/* Collective, after each step. With --track: tells what was written and changed since the last count, if a checkpoint was written after this
 * step, or if none are (`has_checkpoints` is 0) and `kt_every` steps are over. */
void kt_step(long long step, int has_checkpoints, int is_checkpoint);

/* Collective. With --track: prints the sums. */
void kt_say(void);

#endif
