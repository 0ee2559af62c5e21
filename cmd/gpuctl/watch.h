/*
 * watch.h - news from the coordinator as something to poll for: for verbs that show the same again and again.
 */
#ifndef GPUCTL_WATCH_H
#define GPUCTL_WATCH_H

#include <stdint.h>

#include "cli.h"

/*
 * watch_new - hear of each new event of the history: a device lost or back, a communicator failed or recovered.
 *
 * Has a thread and a connection of its own, which end with the process. While the coordinator is away there is no news.
 * RC_UNREACHABLE, RC_NOMEM, RC_FAILED: no thread.
 */
struct watch;
enum rc watch_new(const struct cli *cli, struct watch **out, struct err *err);

/* Readable when there is news; and forget it. */
int watch_fd(const struct watch *w);
void watch_heard(struct watch *w);

/* Wait for news, or until the reader of standard output has gone, at most so long; forget the news. */
void watch_wait(struct watch *w, uint32_t timeout_ms);

#endif
