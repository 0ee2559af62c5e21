/*
 * shaper.h - simulated latency and bandwidth. Pure arithmetic on times.
 *
 * Each device has one full-duplex link: its chunks go out one after another at the rate,
 * and chunks come in at the rate whichever rank sends them; each chunk takes the latency on top.
 * So p-1 senders to one root wait for the root's link, as on a real switch.
 */
#ifndef XPORT_SHAPER_H
#define XPORT_SHAPER_H

#include <stdint.h>

struct shaper {
	uint64_t latency_ns;
	uint64_t bits_per_s;		  /* 0: no limit */
	uint64_t out_free_ns, in_free_ns; /* when the link is free again */
	uint64_t late_ns;		  /* delay by which the next sending thread woke late */
};

/* A thread has waited until due_ns and runs again. Links do not wait for processors: its next chunk
 * leaves as if it had woken in time. Due 0: it did not wait. */
void shaper_woke(struct shaper *s, uint64_t due_ns, uint64_t now_ns);

/* Send a chunk: returns the time until which the sender's link is busy (0: not shaped). */
uint64_t shaper_out(struct shaper *s, uint64_t now_ns, uint64_t nbytes);

/* A chunk arrived: returns the time at which the receiver may see it (0: at once). */
uint64_t shaper_in(struct shaper *s, uint64_t now_ns, uint64_t nbytes);

/* The time that nbytes bytes take on an idle link. */
uint64_t shaper_transit_ns(const struct shaper *s, uint64_t nbytes);

#endif
