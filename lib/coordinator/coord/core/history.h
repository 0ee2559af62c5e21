/*
 * history.h - events: the history of devices and communicators.
 */
#ifndef COORD_HISTORY_H
#define COORD_HISTORY_H

#include "coord/core/pending.h"

#define EVENT_TEXT_MAX sizeof((struct err *)0)->text

/* The subject of an event. */
struct event {
	GpuSim__EventKind kind;
	uint64_t device, comm;	/* or 0 */
	uint32_t ordinal, rank; /* rank + 1, or 0 */
};

/* Add an event with its message. */
void event_add(struct coord *c, const struct event *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The end of a step: answer requests that wait for events. */
void events_tell(struct coord *c);
restore_record events_restore;
enum rc history_init(struct coord *c);
void history_fini(struct coord *c);

handler on_events;

#endif
