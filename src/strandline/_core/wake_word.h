/* A number that threads wait on until it changes. See wake_word.c. */
#ifndef STRANDLINE_WAKE_WORD_H
#define STRANDLINE_WAKE_WORD_H
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t value;
#ifndef __linux__
    pthread_mutex_t mutex;
    pthread_cond_t changed;
#endif
} WakeWord;

enum { WAKE_ALL = INT_MAX };

/* Also in the child of a fork, where no thread waits. */
void wake_word_prepare(WakeWord *word);
void wake_word_end(WakeWord *word);
uint32_t wake_word_value(const WakeWord *word);
/* Block while the value is `seen`, for `ms` at most. False if the time is up, or a signal came;
 * true if the caller has to check again, possibly without a change. */
bool wake_word_wait(WakeWord *word, uint32_t seen, int ms);
/* Change the value, so that threads with an earlier `seen` do not block. */
void wake_word_change(WakeWord *word);
/* Wake at most so many of the threads that blocked before the value was changed. */
void wake_word_wake(WakeWord *word, int threads);
#endif
