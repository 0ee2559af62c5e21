/*
 * freeze.h - end or freeze this very process, to rehearse that it happens.
 */
#ifndef BASE_FREEZE_H
#define BASE_FREEZE_H

#include <stdint.h>

/* As kill -9 does. */
void freeze_kill(void) __attribute__((noreturn));

/* As kill -STOP does: all threads. With ns it goes on by itself after so long; with 0, or when no
 * helper process can be made, when somebody continues it. Returns then. */
void freeze_stop(uint64_t ns);

/* The calling thread alone sleeps for so long. */
void freeze_sleep(uint64_t ns);

#endif
