/*
 * watch.h - new events from the coordinator as a descriptor to poll, for verbs that update their output.
 */
#ifndef GPUCTL_WATCH_H
#define GPUCTL_WATCH_H

#include <stdint.h>

#include "cli.h"

/*
 * watch_new - watch for events of the history: a device lost or back, a communicator failed or recovered.
 *
 * It has its own thread and connection, which end with the process. While the coordinator is away there is
 * no news. RC_UNREACHABLE, RC_FAILED: no thread.
 */
struct watch;
enum rc watch_new(const struct cli *cli, struct watch **out, struct err *err);

/* A descriptor that is readable when there is news; and a call that clears the news. */
int watch_fd(const struct watch *w);
void watch_heard(struct watch *w);

/* Wait for news, or until the reader of standard output has ended, at most timeout_ms; clear the news. */
void watch_wait(struct watch *w, uint32_t timeout_ms);

#endif
