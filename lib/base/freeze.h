/*
 * freeze.h - end or freeze this very process, to rehearse that it happens.
 */
#ifndef BASE_FREEZE_H
#define BASE_FREEZE_H

#include <stdint.h>

/* As kill -9 does. */
void freeze_kill(void) __attribute__((noreturn));

/* As kill -STOP: all threads. With ns it continues after that time; with 0, or without a helper process,
 * when another process continues it. Returns then. */
void freeze_stop(uint64_t ns);

#endif
