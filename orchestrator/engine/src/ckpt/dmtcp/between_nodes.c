/* Loaded before DMTCP's own libraries (dmtcp_launch --with-plugin) when a run has several nodes. Seen with DMTCP 4.0 to 4.2, which

   1. drain the sockets of a node, wait for the processes of this node alone, and then send a handshake through the same sockets. A slower node,
      still draining, takes it for data and waits for ever. Here such barriers wait for the processes of all nodes.
   2. announce 0.0.0.0 to other nodes as the address of a restarted process. Here it is the one that the coordinator sees.
   3. give drained data back by letting the peer send it again, with writes that block: with more data than fit into the buffers, two nodes wait
      for each other for ever. Here what does not fit is sent while something is being read, or waited for, and the buffers of restarted sockets,
      which are smaller than they had grown to, are made as large as the system allows.
   4. forget children that had ended, and were not waited for yet, when a checkpoint was taken: as the ssh by which a launcher has started its
      daemon on another node. A restarted launcher would wait for it for ever. Here they are taken over at the checkpoint, and handed out when
      they are waited for.
   5. give the sockets of a process that was forked, and has not become another program, names without its host and number. The daemons of Open MPI
      are such: with two or more of them, a restart connects sockets of one node to those of another. Here the names have both.

   Only names that DMTCP exports are used. What is not there is left alone: with one node, and with another version, nothing is changed. repairs.rs
   looks for the same names, and reports repairs without effect. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern void dmtcp_global_barrier(const char *name) __attribute__((weak));
/* one function: its name until DMTCP 4.2, and from 5.0 on */
extern pid_t dmtcp_real_to_virtual_pid(pid_t real) __attribute__((weak));
extern pid_t dmtcp_pid_real_to_virtual(pid_t real) __attribute__((weak));
extern void *dmtcp_dlsym(void *handle, const char *name) __attribute__((weak));
extern void dmtcp_get_local_ip_addr(struct in_addr *address) __attribute__((weak));
/* DMTCP's identity of a process */
struct identity {
    uint64_t host, time;
    int32_t pid;
    uint32_t generation;
};
/* dmtcp::UniquePid::ThisProcess */
extern const struct identity *this_process(_Bool quiet) __asm__("_ZN5dmtcp9UniquePid11ThisProcessEb") __attribute__((weak));
/* jalib::JSockAddr::ANY begins with this */
extern struct sockaddr_in any_address __asm__("_ZN5jalib9JSockAddr3ANYE") __attribute__((weak));

/* The kernel itself: the functions of the C library are DMTCP's here, and wait for the checkpoint that is under way. */
static long kernel(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "write down here how the kernel of this processor is called"
#endif
}

/* What could not be sent yet, in order for each socket. Memory of its own: the heap may be locked by a thread that is stopped. */
struct piece {
    struct piece *next;
    int fd;
    size_t size, sent, whole;
    char data[];
};
static struct piece *first, **last = &first;

static long send_some(int fd, const char *data, size_t size)
{
    long n;
    do
        n = kernel(SYS_sendto, fd, (long)data, (long)size, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
    while (n == -EINTR);
    return n;
}

/* Whether a piece of this socket precedes this one. */
static int is_behind(const struct piece *piece)
{
    for (const struct piece *p = first; p != piece; p = p->next)
        if (p->fd == piece->fd)
            return 1;
    return 0;
}

static void send_pieces(void)
{
    for (struct piece **place = &first; *place;) {
        struct piece *p = *place;
        long n = is_behind(p) ? -EAGAIN : send_some(p->fd, p->data + p->sent, p->size - p->sent);
        if (n > 0)
            p->sent += (size_t)n;
        /* a socket that is broken takes nothing any more: its reader will say so */
        if (p->sent == p->size || (n < 0 && n != -EAGAIN)) {
            *place = p->next;
            if (!p->next)
                last = place;
            kernel(SYS_munmap, (long)p, (long)p->whole, 0, 0, 0, 0);
        } else {
            place = &p->next;
        }
    }
}

/* Waits until this socket can be read (none: -1), or more can be sent. */
static void wait_some(int fd)
{
    struct pollfd all[64];
    unsigned count = 0;
    if (fd >= 0)
        all[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    for (struct piece *p = first; p && count < sizeof all / sizeof *all; p = p->next)
        if (!is_behind(p))
            all[count++] = (struct pollfd){.fd = p->fd, .events = POLLOUT};
    struct timespec limit = {0, 100 * 1000 * 1000};
    kernel(SYS_ppoll, (long)all, count, (long)&limit, 0, 8, 0);
}

/* Between the barriers of a restart where drained data are given back. */
static int is_refilling;

static void enlarge_buffers(int fd)
{
    int size = 8 << 20;
    /* the first of each is for those who may go beyond the limit of the system */
    if (kernel(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDBUFFORCE, (long)&size, sizeof size, 0) < 0)
        kernel(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDBUF, (long)&size, sizeof size, 0);
    if (kernel(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVBUFFORCE, (long)&size, sizeof size, 0) < 0)
        kernel(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVBUF, (long)&size, sizeof size, 0);
}

/* jalib::JSocket::writeAll; a JSocket is its descriptor */
ssize_t write_all(const int *socket, const char *data, size_t size) __asm__("_ZN5jalib7JSocket8writeAllEPKcm");
ssize_t write_all(const int *socket, const char *data, size_t size)
{
    size_t sent = 0;
    int waiting = 0;
    if (is_refilling)
        enlarge_buffers(*socket);
    send_pieces();
    for (struct piece *p = first; p; p = p->next)
        waiting |= p->fd == *socket;
    while (!waiting && sent < size) {
        long n = send_some(*socket, data + sent, size - sent);
        if (n == -EAGAIN)
            break;
        if (n < 0) {
            errno = (int)-n;
            return -1;
        }
        sent += (size_t)n;
    }
    if (sent < size) {
        size_t whole = sizeof(struct piece) + size - sent;
        long at = kernel(SYS_mmap, 0, (long)whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at < 0 && at > -4096) {
            errno = (int)-at;
            return -1;
        }
        struct piece *p = (struct piece *)at;
        *p = (struct piece){.fd = *socket, .size = size - sent, .whole = whole};
        memcpy(p->data, data + sent, size - sent);
        *last = p;
        last = &p->next;
    }
    return (ssize_t)size;
}

/* jalib::JSocket::readAll */
ssize_t read_all(const int *socket, char *data, size_t size) __asm__("_ZN5jalib7JSocket7readAllEPcm");
ssize_t read_all(const int *socket, char *data, size_t size)
{
    size_t got = 0;
    while (got < size) {
        send_pieces();
        long n = kernel(SYS_recvfrom, *socket, (long)(data + got), (long)(size - got), MSG_DONTWAIT, 0, 0);
        if (n == -EAGAIN || n == -EINTR) {
            wait_some(*socket);
        } else if (n <= 0) {
            errno = (int)-n;
            return n < 0 ? -1 : (ssize_t)got;
        } else {
            got += (size_t)n;
        }
    }
    return (ssize_t)got;
}

/* Children that had ended by the time of a checkpoint, with their names inside DMTCP: a restarted process has them no more. */
static struct {
    pid_t pid;
    int status;
} ended[8192];
static unsigned ended_count;

static void collect_ended(void)
{
    pid_t (*virtual_pid)(pid_t) = dmtcp_pid_real_to_virtual ? dmtcp_pid_real_to_virtual : dmtcp_real_to_virtual_pid;
    while (virtual_pid && ended_count < sizeof ended / sizeof *ended) {
        int status;
        long pid = kernel(SYS_wait4, -1, (long)&status, WNOHANG, 0, 0, 0);
        if (pid <= 0)
            return;
        ended[ended_count].pid = virtual_pid((pid_t)pid);
        ended[ended_count++].status = status;
    }
}

/* Hands out one of them; 0 if none was asked for. */
static pid_t take_ended(pid_t asked, int *status)
{
    for (unsigned i = 0; i < ended_count; i++) {
        pid_t pid = ended[i].pid;
        if (asked == -1 || asked == pid) {
            if (status)
                *status = ended[i].status;
            ended[i] = ended[--ended_count];
            return pid;
        }
    }
    return 0;
}

static void *next(const char *name)
{
    return dmtcp_dlsym ? dmtcp_dlsym(RTLD_NEXT, name) : dlsym(RTLD_NEXT, name);
}

struct identity dmtcp_get_uniquepid(void)
{
    struct identity (*dmtcp)(void) = (struct identity(*)(void))next("dmtcp_get_uniquepid");
    struct identity id = dmtcp();
    return !id.host && !id.pid && this_process ? *this_process(1) : id;
}

pid_t wait4(pid_t asked, int *status, int options, struct rusage *usage)
{
    pid_t pid = take_ended(asked, status);
    pid_t (*dmtcp)(pid_t, int *, int, struct rusage *) = (pid_t(*)(pid_t, int *, int, struct rusage *))next("wait4");
    return pid ? pid : dmtcp(asked, status, options, usage);
}

pid_t waitpid(pid_t asked, int *status, int options)
{
    pid_t pid = take_ended(asked, status);
    pid_t (*dmtcp)(pid_t, int *, int) = (pid_t(*)(pid_t, int *, int))next("waitpid");
    return pid ? pid : dmtcp(asked, status, options);
}

void dmtcp_local_barrier(const char *name)
{
    if (dmtcp_get_local_ip_addr && &any_address && any_address.sin_family == AF_INET)
        dmtcp_get_local_ip_addr(&any_address.sin_addr);
    collect_ended();
    while (first) {
        send_pieces();
        if (first)
            wait_some(-1);
    }
    if (dmtcp_global_barrier)
        dmtcp_global_barrier(name);
    is_refilling = !strcmp(name, "Socket::Restart_Ns_Send_Queries");
}
