/*
 * times.h - the times of the transport, in one place.
 *
 * A communicator's timeout is configurable (opTimeoutMs: gpusim_comm_create, gpuctl --op-timeout), and so
 * is a shaped link (gpudev --latency, --bandwidth). The times here are fixed: each is short next to the
 * timeout, which bounds every wait, and none of them decides an outcome.
 */
#ifndef XPORT_TIMES_H
#define XPORT_TIMES_H

#define POLL_MS	      200  /* between polls of an operation: well below the retransmit timeout */
#define RETRANSMIT_MS 1000 /* or a quarter of the communicator's timeout, whichever is shorter */
#define TELL_WAIT_MS  100  /* between two counts of a long wait */
#define LAST_WORD_MS  500  /* longest wait of an end for room for its last frames */
#define READ_MS \
	200 /* closer to its deadline a thread reads no connection: twice the longest read */

/* A wait for a peer's memory spins, then yields, then sleeps. */
#define SPINS	   30		    /* about 1 us, where each rank has its own core */
#define YIELDS	   32		    /* between two checks for the end */
#define YIELD_RUNS 31		    /* runs of YIELDS before sleeping */
#define SLEEP_NS   (1 * NS_PER_MS)  /* the first; each next one is twice as long */
#define SLEEP_MOST (20 * NS_PER_MS) /* until the thread checks that the peer is alive */

#define ACK_MS	     5 /* longest wait of an acknowledgement for a frame to leave with */
#define PAIR_SLOT_MS 2 /* a send that finds no slot for this long goes by frames */

#endif
