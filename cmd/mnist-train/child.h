/*
 * child.h - programs that are run one after the other, and end when this one is told to.
 */
#ifndef MNIST_CHILD_H
#define MNIST_CHILD_H

#include <signal.h>
#include <stdint.h>

/* From here on signals wait until a child is waited for. One of them a process. */
struct children {
	sigset_t mask;	/* before */
	sigset_t awake; /* what ends a wait */
	int caught;	/* the signal that says to end; 0: none */
};

void children_begin(struct children *c);

/*
 * children_run - run a program and wait for it.
 *
 *	argv	ends with NULL; argv[0] is looked for in PATH
 *	out, err	files for its output
 *	timeout_ms	it is killed after so long; 0: it has time
 *
 * Returns its exit status; 128 and the signal's number when a signal ended it, 127 when there is no
 * such program. A SIGINT, SIGTERM or SIGHUP that comes meanwhile goes on to the child, and to
 * c->caught; when one has come, nothing is run any more, and that is 128 and its number, too.
 */
int children_run(struct children *c, char *const *argv, const char *out, const char *err,
		 uint32_t timeout_ms);

/* The signal that has come meanwhile, or 0. */
int children_caught(struct children *c);

#endif
