/*
 * accepts.h - how many connections this process has let in. Inside lib/net only.
 */
#ifndef NET_ACCEPTS_H
#define NET_ACCEPTS_H

#include <stdint.h>

/* Connections that nng has accepted, at all listeners of the process, since it began. */
uint64_t accepts_count(void);

#endif
