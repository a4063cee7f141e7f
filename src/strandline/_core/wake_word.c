/* WakeWord: threads that are woken without having to take a mutex.
 *
 * A thread that wakes from a condition variable takes the mutex first. If many are woken at once,
 * they block for it again, one after the other. Here a woken thread checks what it waits for
 * without a mutex, by a futex. On other systems than Linux it is a condition variable, whose mutex
 * guards nothing else.
 */
#include "wake_word.h"
#include <errno.h>
#include <time.h>

uint32_t wake_word_value(const WakeWord *word) { return __atomic_load_n(&word->value, __ATOMIC_ACQUIRE); }

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void wake_word_prepare(WakeWord *word) { word->value = 0; }

void wake_word_end(WakeWord *word) { (void)word; }

bool wake_word_wait(WakeWord *word, uint32_t seen, int ms) {
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    long answer = syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
    return answer == 0 || errno == EAGAIN;
}

void wake_word_change(WakeWord *word) { __atomic_add_fetch(&word->value, 1, __ATOMIC_RELEASE); }

void wake_word_wake(WakeWord *word, int threads) {
    syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

#else

void wake_word_prepare(WakeWord *word) {
    word->value = 0;
    pthread_mutex_init(&word->mutex, NULL);
    pthread_cond_init(&word->changed, NULL);
}

void wake_word_end(WakeWord *word) {
    pthread_cond_destroy(&word->changed);
    pthread_mutex_destroy(&word->mutex);
}

bool wake_word_wait(WakeWord *word, uint32_t seen, int ms) {
    struct timespec until;
    bool is_woken = true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&word->mutex);
    if (word->value == seen)
        is_woken = pthread_cond_timedwait(&word->changed, &word->mutex, &until) != ETIMEDOUT;
    pthread_mutex_unlock(&word->mutex);
    return is_woken;
}

void wake_word_change(WakeWord *word) {
    pthread_mutex_lock(&word->mutex);
    __atomic_add_fetch(&word->value, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&word->mutex);
}

void wake_word_wake(WakeWord *word, int threads) {
    if (threads == 1) pthread_cond_signal(&word->changed);
    else pthread_cond_broadcast(&word->changed);
}
#endif
