/* Tail files in shared memory: every process sees a store, without a system call.
 *
 * An access to a truncated file, or to a page without a block on disk, raises SIGBUS. If the page
 * is one of ours, the handler maps an empty page of this process in its place, so that the access
 * succeeds, and sets `is_lost`. An append checks that before it relies on what it has read.
 */
#include "lane.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* All that were ever opened: the handler may traverse them at any moment, so none is freed. One
 * whose page is NULL is reused. */
static TailMap *maps;
static size_t page_bytes;
/* The handler that was installed before, and whether a signal was passed on to it. */
static struct sigaction before;
static volatile sig_atomic_t has_passed_on;

static TailMap *map_with(const char *address) {
    for (TailMap *map = __atomic_load_n(&maps, __ATOMIC_ACQUIRE); map; map = map->next) {
        const char *page = __atomic_load_n(&map->page, __ATOMIC_ACQUIRE);
        if (page && address >= page && address < page + page_bytes) return map;
    }
    return NULL;
}

/* Pass a signal that is not about a tail on to the handler that was installed before: a failed
 * access is repeated when this handler returns; a signal that was sent is raised again. */
static void pass_on(int number, const siginfo_t *info) {
    struct sigaction usual = {.sa_handler = SIG_DFL};
    /* The second time: that handler has restored ours, and expects the process to end. */
    sigaction(number, has_passed_on ? &usual : &before, NULL);
    has_passed_on = 1;
    if (info->si_code <= 0) raise(number);
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)context;
    int error = errno;
    TailMap *map = info->si_code > 0 ? map_with(info->si_addr) : NULL;
    void *empty = MAP_FAILED;
    if (map) {
        __atomic_store_n(&map->is_lost, true, __ATOMIC_RELEASE);
        empty = mmap(map->page, page_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    if (empty == MAP_FAILED) pass_on(number, info);
    errno = error;
}

void tail_map_guard(void) {
    struct sigaction own = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
    if (sigaction(SIGBUS, NULL, &now)) return;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error) return;
    before = now;
    has_passed_on = 0;
    sigaction(SIGBUS, &own, NULL);
}

/* Allocate blocks for the whole tail, so that a store needs none. */
static bool has_space(int fd) {
    struct stat found;
    if (fstat(fd, &found) || found.st_size < TAIL_BYTES) return false;
#ifdef __linux__
    return !fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, TAIL_BYTES) || errno == EOPNOTSUPP;
#else
    return false; /* Not tried on other systems. */
#endif
}

TailMap *tail_map_open(int fd) {
    if (!page_bytes) page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (!has_space(fd)) return NULL;
    TailMap *map = maps;
    while (map && map->page) map = map->next;
    if (!map) {
        map = calloc(1, sizeof *map);
        if (!map) return NULL;
        map->next = maps;
        __atomic_store_n(&maps, map, __ATOMIC_RELEASE);
    }
    void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) return NULL;
    map->is_lost = false;
    __atomic_store_n(&map->page, page, __ATOMIC_RELEASE);
    tail_map_guard();
    return map;
}

void tail_map_close(TailMap *map) {
    if (!map) return;
    char *page = map->page;
    __atomic_store_n(&map->page, NULL, __ATOMIC_RELEASE);
    munmap(page, page_bytes);
}
