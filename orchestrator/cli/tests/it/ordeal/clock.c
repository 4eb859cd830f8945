/* Preloaded into cvc: its wall clock differs from the machine's by the seconds in the file CVC_TEST_CLOCK, which may change at any time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *offset_s;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("CVC_TEST_CLOCK");
    if (!path || strcmp(program_invocation_short_name, "cvc") != 0)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        offset_s = page;
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME && offset_s)
        time->tv_sec += *offset_s;
    return result;
}
