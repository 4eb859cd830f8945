/* A checkpoint as logs: the file of each process has its rows one behind the other, and behind them an index of their places in the global arrays. It is
 * written like files per process, and read by any number of processes. */
#ifndef KERNEL_LOG_H
#define KERNEL_LOG_H

#include "kernel-common.h"

/* Bytes of this process's index. */
long long kg_index_bytes(const struct kc_checkpoint *c);

/* Writes the index to `to`, which has room for kg_index_bytes. */
void kg_make_index(const struct kc_checkpoint *c, char *to);

/* Opens the log of a process of the checkpoint: a descriptor, or -1 and errno; the bytes of its data, unless it is given NULL. */
typedef int (*kg_open_log)(int file, long long *data_bytes);

/* Collective. Reads this process's rows from `files` logs, packed in the order of kc_each_row. Returns the bytes of all indexes, or -1 in all processes,
 * of which those that failed have the reason in `fault`. */
long long kg_read(const struct kc_checkpoint *c, int files, kg_open_log open_log, char *packed, char *fault, size_t room);

#endif
