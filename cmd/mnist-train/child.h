/*
 * child.h - run programs one after another; they end when this program is asked to end.
 */
#ifndef MNIST_CHILD_H
#define MNIST_CHILD_H

#include <signal.h>
#include <stdint.h>

/* From children_begin on, signals wait until a child is waited for. One instance per process. */
struct children {
	sigset_t mask;	/* before */
	sigset_t awake; /* what ends a wait */
	int caught;	/* the signal that ended us; 0: none */
};

void children_begin(struct children *c);

/*
 * children_run - run a program and wait for it.
 *
 *	argv	ends with NULL; argv[0] is searched in PATH
 *	out, err	files for its output
 *	timeout_ms	it is killed after this time; 0: no limit
 *
 * Returns its exit status; 128 and the signal's number when a signal ended it, 127 when the
 * program is not found. A SIGINT, SIGTERM or SIGHUP that arrives meanwhile is stored in c->caught, and the
 * child gets a SIGTERM; from then on nothing is run, and the result is 128 and the signal's number, too.
 */
int children_run(struct children *c, char *const *argv, const char *out, const char *err,
		 uint32_t timeout_ms);

/* The signal that arrived meanwhile, or 0. */
int children_caught(struct children *c);

#endif
