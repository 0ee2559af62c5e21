/*
 * times.h - the times of the transport, in one place.
 *
 * A communicator's timeout is configurable (opTimeoutMs: gpusim_comm_create, gpuctl --op-timeout)
 * and so is a shaped link (gpudev --latency, --bandwidth). The times here are fixed: each is small
 * beside the timeout, which bounds every wait, and none of them decides an outcome.
 */
#ifndef XPORT_TIMES_H
#define XPORT_TIMES_H

#define POLL_MS	      200  /* between looks at an operation: well below the retransmit timeout */
#define RETRANSMIT_MS 1000 /* or a quarter of the communicator's timeout, whichever is shorter */
#define TELL_WAIT_MS  100  /* between the countings of a wait that lasts */
#define LAST_WORD_MS  500  /* an end waits so long for room for its last frames, and not for ever */
#define READ_MS	      200 /* nearer to a deadline a thread reads no connection: twice the longest read */

/* A wait for a peer's memory spins, then yields, then sleeps. */
#define SPINS	   30		    /* about 1 us, where each rank has a core to itself */
#define YIELDS	   32		    /* between two looks at whether to go on */
#define YIELD_RUNS 31		    /* of so many yields, before sleeping */
#define SLEEP_NS   (1 * NS_PER_MS)  /* the first; each next one is twice as long */
#define SLEEP_MOST (20 * NS_PER_MS) /* until the thread looks at whether the peer is there */

#endif
