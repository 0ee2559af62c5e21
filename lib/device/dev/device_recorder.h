/*
 * device_recorder.h - a device's flight recorder: its area in the memory file, and the ring of the device's
 * service, which any thread writes to: clients' copies, and marks of events. Streams and queues have rings of
 * their own (xport/progress.h).
 *
 * NULL, and a recorder that is off, are legal everywhere. Thread-safe.
 */
#ifndef DEV_DEVICE_RECORDER_H
#define DEV_DEVICE_RECORDER_H

#include <pthread.h>

#include "mem/devmem.h"
#include "xport/progress.h"

struct device_recorder {
	struct devmem *mem;
	struct flight *flight; /* NULL: off */
	const void *area;
	uint64_t nbytes; /* of the area */
	pthread_mutex_t lock;
	struct recorder service; /* under lock */
};

/*
 * Start to record.
 *
 *	nrecords	per stream, FLIGHT_RECORDS_MIN to _MAX, rounded down to a power of two; 0: off
 *
 * RC_NOMEM, RC_FAILED: no room; the recorder is off then.
 */
enum rc device_recorder_open(struct device_recorder *r, struct devmem *mem, uint32_t nrecords,
			     const struct flight_identity *who, struct err *err);

/* All others must have returned their rings. */
void device_recorder_close(struct device_recorder *r);

void device_recorder_mark(struct device_recorder *r, const struct flight_mark *m, const char *text);

/* Record a client's copy. */
void device_recorder_copy(struct device_recorder *r, const struct flight_copy *c);

/* Record all steps for the next ms milliseconds. */
void device_recorder_trace(struct device_recorder *r, uint32_t ms);

#endif
