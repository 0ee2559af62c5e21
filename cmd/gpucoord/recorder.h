/*
 * recorder.h - the coordinator's own flight recorder: requests and answers, calls of devices and their results,
 * decisions with their reasons, events.
 *
 * It lies in a file beside the socket, SOCKET.recorder, or for TCP in the private directory, so that it outlives a
 * coordinator that was killed; the next one at the address continues it. One that ends in order removes it.
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
 *	nrecords	records that are kept, rounded up to a power of two; 0: *out is NULL
 *	instance	of this coordinator
 *
 * A file that cannot be had is said in the log, and the recorder is in memory alone. RC_INVAL: nrecords is too large;
 * RC_NOMEM.
 */
enum rc recorder_open(const char *address, uint64_t nrecords, uint64_t instance,
		      struct recorder **out, struct err *err);

/* remove: the coordinator ends in order, and the file goes. */
void recorder_close(struct recorder *r, bool remove);

/* To read it, as long as it is open; NULL: there is none. */
const struct flight_source *recorder_source(const struct recorder *r);

/* The clocks again, now and then. On any thread. */
void recorder_beat(struct recorder *r);

/* Answer a RecorderRead. On any thread. */
void recorder_call(struct recorder *r, struct rpc_call *call);

/* ---- on the thread that runs the state machine */

/* Something comes in: a request, `call`; what a device answered to its call of that kind (a number of a body in
 * Request); a client that has gone, a process that ended ... */
void recorder_request(struct recorder *r, const struct rpc_call *call);
void recorder_result(struct recorder *r, uint64_t token, uint64_t device_id, uint32_t kind,
		     const struct err *why);
void recorder_heard(struct recorder *r, const struct coord_event *ev);

/* Something goes out. */
void recorder_action(struct recorder *r, const struct coord_action *a);

/* ---- on any thread */

/* A report has been written, or could not be: why. */
void recorder_report(struct recorder *r, uint64_t number, uint64_t comm_id, const char *text,
		     enum rc rc);

#endif
