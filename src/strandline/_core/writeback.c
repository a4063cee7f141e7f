/* Makes the system begin to write to disk, so that less is left for a later sync.
 *
 * The call takes most of a millisecond for 4 MiB, and longer if the queue of the disk is full, so a
 * thread of this file makes it, and no append waits. It is only a hint: if too many ranges are
 * pending, or no thread can be started, it is left out. The sync writes what is left, and reports
 * errors. The thread calls no Python. */
#include "lane.h"

#ifdef __linux__
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum { PIECES_MAX = 16 };
typedef struct {
    int fd; /* A duplicate: the other descriptor may be closed meanwhile. */
    int64_t from, length;
} Piece;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_piece = PTHREAD_COND_INITIALIZER;
/* From here on guarded by `mutex`. The first piece stays until it is done. */
static Piece pieces[PIECES_MAX];
static int count;
static bool has_thread, is_watching_forks;

static void forget_first(void) {
    close(pieces[0].fd);
    count--;
    memmove(pieces, pieces + 1, (size_t)count * sizeof *pieces);
}

static void *write_back(void *unused) {
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (!count) pthread_cond_wait(&has_piece, &mutex);
        Piece piece = pieces[0];
        pthread_mutex_unlock(&mutex);
        sync_file_range(piece.fd, piece.from, piece.length, SYNC_FILE_RANGE_WRITE);
        pthread_mutex_lock(&mutex);
        forget_first();
    }
    return unused;
}

/* --- forks: a child has no such thread --- */

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }

static void after_fork_in_child(void) {
    while (count) forget_first();
    has_thread = false;
    pthread_cond_init(&has_piece, NULL);
    pthread_mutex_init(&mutex, NULL);
}

/* With `mutex` held. */
static bool have_thread(void) {
    if (!is_watching_forks && pthread_atfork(before_fork, after_fork, after_fork_in_child))
        return false;
    is_watching_forks = true;
    if (!has_thread) has_thread = start_thread(write_back);
    return has_thread;
}

void begin_writeback(int fd, int64_t from, int64_t length) {
    pthread_mutex_lock(&mutex);
    int own = count < PIECES_MAX && have_thread() ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (own >= 0) {
        pieces[count++] = (Piece){own, from, length};
        pthread_cond_signal(&has_piece);
    }
    pthread_mutex_unlock(&mutex);
}
#else
void begin_writeback(int fd, int64_t from, int64_t length) { (void)fd, (void)from, (void)length; }
#endif

PyObject *start_writeback(PyObject *module, PyObject *args) {
    (void)module;
    int fd;
    long long from, length;
    if (!PyArg_ParseTuple(args, "iLL", &fd, &from, &length)) return NULL;
    begin_writeback(fd, from, length);
    Py_RETURN_NONE;
}
