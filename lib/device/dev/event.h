/*
 * event.h - points in streams that other streams wait for.
 *
 * Recording and waiting are decided when operations are queued, as with CUDA: a wait is for the
 * recordings queued before it. Each recording is a number, 1, 2 ... in the order of queueing;
 * streams reach them in any order, and a wait is for its own number, not for a later one.
 */
#ifndef DEV_EVENT_H
#define DEV_EVENT_H

#include <stdint.h>

#include "base/rc.h"

#define EVENT_MAX 1024 /* events of a device */

struct event;
struct event_table;

/* NULL: out of memory. */
struct event_table *event_table_new(void);
void event_table_free(struct event_table *t);

/* The event of that number, created if new; lives as long as the table. RC_BUSY: too many. */
enum rc event_get(struct event_table *t, uint64_t id, struct event **out, struct err *err);

uint64_t event_id(const struct event *e);

/* Queue n recordings (at least 1), which one stream will reach in order. Returns the number of the first;
 * 0: out of memory, nothing was queued. */
uint64_t event_queue(struct event *e, uint64_t n);

/* The number of recordings queued so far. */
uint64_t event_queued(struct event *e);

/* The stream has reached recording n, and so those queued with it before n. */
void event_record(struct event *e, uint64_t n);

/* Wait for recording n; returns at once when n is 0. RC_TIMEOUT. */
enum rc event_wait(struct event *e, uint64_t n, uint64_t deadline_ns, struct err *err);

#endif
