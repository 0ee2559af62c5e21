/*
 * recorder.h - the coordinator's own flight recorder: requests and answers, calls to devices and their
 * results, decisions with their reasons, events.
 *
 * It is in a file next to the socket, SOCKET.recorder, or for TCP in the private directory, so that it
 * outlives a coordinator that was killed; the next coordinator at the address continues it. One that ends
 * normally removes it.
 *
 * NULL is a legal recorder everywhere: nothing is recorded.
 */
#ifndef GPUCOORD_RECORDER_H
#define GPUCOORD_RECORDER_H

#include "coord/coord.h"
#include "flight/read.h"
#include "net/rpc_server.h"

struct recorder;

/*
 * recorder_open - begin to record.
 *
 *	address		where the coordinator listens
 *	nrecords	number of records to keep, rounded up to a power of two; 0: *out is NULL
 *	instance	of this coordinator
 *
 * If no file can be used, the log says so and the recorder is only in memory. RC_INVAL: nrecords is too
 * large; RC_NOMEM.
 */
enum rc recorder_open(const char *address, uint64_t nrecords, uint64_t instance,
		      struct recorder **out, struct err *err);

/* remove: the coordinator ends normally, and the file is removed. */
void recorder_close(struct recorder *r, bool remove);

/* A source that reads the recorder while it is open; NULL: none. */
const struct flight_source *recorder_source(const struct recorder *r);

/* Record the clocks; called regularly, on any thread. */
void recorder_beat(struct recorder *r);

/* Answer a RecorderRead. On any thread. */
void recorder_call(struct recorder *r, struct rpc_call *call);

/* ---- on the thread that runs the state machine */

/* Record an event: a request, `call`; a device's answer to its call of that kind (a number of a body in
 * Request); a client's or a process's end ... */
void recorder_request(struct recorder *r, const struct rpc_call *call);
void recorder_result(struct recorder *r, uint64_t token, uint64_t device_id, uint32_t kind,
		     const struct err *why);
void recorder_heard(struct recorder *r, const struct coord_event *ev);

/* Record an action. */
void recorder_action(struct recorder *r, const struct coord_action *a);

/* ---- on any thread */

/* Record that a report was written, or why it could not be. */
void recorder_report(struct recorder *r, uint64_t number, uint64_t comm_id, const char *text,
		     enum rc rc);

#endif
