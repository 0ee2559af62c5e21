/*
 * The processes of clients.
 *
 * Design notes. A client's entry has a pidfd, which becomes readable when the process ends; a thread
 * waits for it by epoll. It finds the client by pid under the lock, as the entry may have been freed
 * meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dev/cmdq_impl.h"

#define STOP 0 /* no process has this pid */

static struct cmdq_client *
find(struct cmdqs *s, uint32_t pid)
{
	struct cmdq_client *c = s->clients;

	while (c && c->pid != pid)
		c = c->next;
	return c;
}

void
client_settle(struct cmdqs *s, struct cmdq_client *c)
{
	struct cmdq_client **at = &s->clients;

	if (c->nqueues || c->nbounds)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	close(c->fd);
	free(c);
}

/* Lock held. The process has ended; dropping its last queue or communicator frees the entry. */
static void
client_gone(struct cmdqs *s, struct cmdq_client *c)
{
	unsigned nqueues = c->nqueues;

	epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	c->nqueues++; /* keeps the entry until here */
	bounds_lose(s, c);
	for (struct queue *q = s->queues, *next; q && nqueues; q = next) {
		next = q->next;
		if (q->client == c) {
			queue_close(q);
			nqueues--;
		}
	}
	c->nqueues--;
	client_settle(s, c);
}

static void *
watch(void *arg)
{
	struct cmdqs *s = arg;
	struct epoll_event ev;
	struct cmdq_client *c;

	for (;;) {
		int n = epoll_wait(s->epoll, &ev, 1, -1);

		if (n < 0 && errno != EINTR)
			return NULL;
		if (n != 1)
			continue;
		if (ev.data.u32 == STOP)
			return NULL;
		pthread_mutex_lock(&s->lock);
		c = find(s, ev.data.u32);
		if (c)
			client_gone(s, c);
		pthread_mutex_unlock(&s->lock);
	}
}

/* Lock held. Start the thread with the first client. */
static enum rc
start(struct cmdqs *s, struct err *err)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = STOP};

	if (s->watching)
		return RC_OK;
	if (s->epoll < 0)
		s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->stop_fd < 0)
		s->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (s->epoll < 0 || s->stop_fd < 0 ||
	    (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->stop_fd, &ev) < 0 && errno != EEXIST) ||
	    pthread_create(&s->watcher, NULL, watch, s) != 0)
		return err_set(err, RC_BUSY, "cannot watch clients' processes: %s",
			       strerror(errno));
	s->watching = true;
	return RC_OK;
}

void
clients_unwatch(struct cmdqs *s)
{
	if (s->watching) {
		ssize_t n = write(s->stop_fd, &(uint64_t){1}, sizeof(uint64_t));

		(void)n; /* the counter cannot overflow */
		pthread_join(s->watcher, NULL);
	}
	s->watching = false;
	if (s->epoll >= 0)
		close(s->epoll);
	if (s->stop_fd >= 0)
		close(s->stop_fd);
	s->epoll = s->stop_fd = -1;
}

enum rc
client_get(struct cmdqs *s, uint32_t pid, struct cmdq_client **out, struct err *err)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = pid};
	struct cmdq_client *c = find(s, pid);
	enum rc rc;

	if (s->stop)
		return err_set(err, RC_ABORTED, "the device is shutting down");
	*out = c;
	if (c)
		return RC_OK;
	rc = start(s, err);
	if (rc != RC_OK)
		return rc;
	c = calloc(1, sizeof *c);
	if (!c)
		return err_set(err, RC_NOMEM, "out of memory");
	c->pid = pid;
	c->fd = pid && pid <= INT32_MAX ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
	if (c->fd < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &ev) < 0) {
		rc = err_set(err, RC_NOTFOUND, "cannot watch process %" PRIu32 ": %s", pid,
			     c->fd < 0 && !pid ? "no process id" : strerror(errno));
		if (c->fd >= 0)
			close(c->fd);
		free(c);
		return rc;
	}
	c->next = s->clients;
	s->clients = c;
	*out = c;
	return RC_OK;
}
