/*
 * Clients: their processes, their queues, and the communicators that they drive.
 *
 * Design notes. A client's entry has a pidfd, which becomes readable when the process ends; a thread
 * waits for it by epoll. It finds the client by pid under the lock, as the entry may have been freed
 * meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "dev/cmdq_impl.h"

#define STOP	     0 /* no process has this pid */
#define RECORD_MAGIC 0x6770753171636f6dull

static struct cmdq_client *
client_find(struct cmdqs *s, uint32_t pid)
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

/* ---- queues */

struct queue *
queue_find(struct cmdqs *s, uint64_t id)
{
	struct queue *q = s->queues;

	while (q && q->id != id)
		q = q->next;
	return q;
}

void
queue_drop(struct queue *q)
{
	if (--q->refs)
		return;
	devmem_own_free(q->all->env.mem, q->page);
	free(q);
}

void
queue_attend(struct queue *q, uint32_t why)
{
	_Atomic uint64_t *on;

	atomic_fetch_or(&q->attention, why);
	on = atomic_load(&q->waits_on);
	if (on)
		cmdq_wake(on);
}

void
queue_close(struct queue *q)
{
	struct cmdqs *s = q->all;
	struct queue **at = &s->queues;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	s->nqueues--;
	q->client->nqueues--;
	client_settle(s, q->client);
	q->client = NULL;
	queue_attend(q, QUEUE_END);
	queue_drop(q);
}

/* ---- communicators that they drive */

/* Lock held. */
static struct bound *
bound_find(struct cmdqs *s, uint64_t comm)
{
	struct bound *b = s->bounds;

	while (b && b->comm != comm)
		b = b->next;
	return b;
}

/* Lock held. Release what it does not need any more. */
static void
settle(struct cmdqs *s, struct bound *b)
{
	if (b->users)
		return;
	if (atomic_load(&b->over))
		xport_unreserve(&b->tickets);
	if (b->client)
		return;
	xport_unreserve(&b->tickets);
	tuner_fini(&b->tuner);
	cmdq_algos_drop(b->files);
	devmem_own_free(s->env.mem, b->record);
	free(b->waited_ns);
	free(b);
}

void
bound_drop(struct cmdqs *s, struct bound *b)
{
	pthread_mutex_lock(&s->lock);
	b->users--;
	settle(s, b);
	pthread_mutex_unlock(&s->lock);
}

struct bound *
bound_hold(struct cmdqs *s, uint64_t comm, uint32_t pid, struct err *err)
{
	struct bound *b;

	pthread_mutex_lock(&s->lock);
	b = bound_find(s, comm);
	if (!b || b->client->pid != pid) {
		err_set(err, RC_NOTFOUND, "communicator %" PRIu64 " is not bound by process %u",
			comm, pid);
		b = NULL;
	} else if (atomic_load(&b->over)) {
		*err = b->why;
		b = NULL;
	} else {
		b->users++;
	}
	pthread_mutex_unlock(&s->lock);
	return b;
}

/* Lock held. End it; the first reason counts. */
static void
end(struct cmdqs *s, struct bound *b, enum rc rc, const char *reason)
{
	struct cmdq_comm *r = b->record;

	if (atomic_load(&b->over))
		return;
	err_set(&b->why, rc, "%s", reason);
	atomic_store_explicit(&b->over, true, memory_order_release);
	r->rc = (uint32_t)rc;
	snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, reason);
	atomic_store_explicit(&r->state, CMDQ_COMM_FAILED, memory_order_release);
	for (struct queue *q = s->queues; b->users && q; q = q->next)
		queue_attend(q, QUEUE_LOOK);
	settle(s, b);
}

/* Lock held. Remove it from the table. */
static void
take_out(struct cmdqs *s, struct bound *b)
{
	struct bound **at = &s->bounds;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	end(s, b, RC_ABORTED, "the communicator is no longer bound");
	b->client->nbounds--;
	client_settle(s, b->client);
	b->client = NULL;
	settle(s, b);
}

/* Lock held. */
static void
lose(struct cmdqs *s, struct bound *b, enum rc rc, const char *reason, bool tell)
{
	struct report *r;

	if (atomic_load(&b->over))
		return;
	end(s, b, rc, reason);
	if (xport_give_up(s->env.xport, b->comm, b->epoch, reason, NULL) != RC_OK || !tell)
		return;
	r = calloc(1, sizeof *r);
	if (!r)
		return; /* the peers know */
	r->r.comm = b->comm;
	r->r.epoch = b->epoch;
	r->r.rc = rc;
	snprintf(r->r.reason, sizeof r->r.reason, "%s", reason);
	*s->reports_tail = r;
	s->reports_tail = &r->next;
	if (s->wake)
		s->wake(s->wake_arg);
}

void
bound_give_up(struct cmdqs *s, struct bound *b, enum rc rc, const char *reason, bool tell)
{
	pthread_mutex_lock(&s->lock);
	lose(s, b, rc, reason, tell);
	pthread_mutex_unlock(&s->lock);
}

/* Lock held. Lose all of an ended client. */
static void
bounds_lose(struct cmdqs *s, const struct cmdq_client *c)
{
	char text[CMDQ_TEXT];

	for (struct bound *b = s->bounds, *next; b; b = next) {
		next = b->next;
		if (b->client != c)
			continue;
		snprintf(text, sizeof text, "rank %u's process %u (%s) has ended", b->rank, c->pid,
			 b->program);
		lose(s, b, RC_FAILED, text, true);
		take_out(s, b);
	}
}

void
bounds_stop(struct cmdqs *s)
{
	for (struct bound *b = s->bounds; b; b = b->next)
		end(s, b, RC_ABORTED, "the device is shutting down");
}

/* ---- processes */

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
		c = client_find(s, ev.data.u32);
		if (c)
			client_gone(s, c);
		pthread_mutex_unlock(&s->lock);
	}
}

/* Lock held. Start the thread with the first client. */
static enum rc
start_watching(struct cmdqs *s, struct err *err)
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
	struct cmdq_client *c = client_find(s, pid);
	enum rc rc;

	if (s->stop)
		return err_set(err, RC_ABORTED, "the device is shutting down");
	*out = c;
	if (c)
		return RC_OK;
	rc = start_watching(s, err);
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

/* ---- communicators that processes may drive */

static struct drivable **
find_drivable(struct cmdqs *s, uint64_t comm)
{
	struct drivable **at = &s->drivables;

	while (*at && (*at)->comm != comm)
		at = &(*at)->next;
	return at;
}

static void
drivable_free(struct drivable *d)
{
	if (!d)
		return;
	free(d->algos);
	free(d->rules);
	cmdq_algos_drop(d->files);
	free(d);
}

static char *
copy_text(const void *data, size_t n)
{
	char *text = malloc(n + 1);

	if (text) {
		memcpy(text, n ? data : "", n);
		text[n] = '\0';
	}
	return text;
}

/* Make the tuner of a communicator's ranks. */
static enum rc
make_tuner(const struct drivable *d, struct tuner *out, struct err *err)
{
	struct err why = {0};
	enum rc rc;

	tuner_init(out);
	out->takes_files = true;
	rc = tuner_select(out, d->algos, &why);
	if (rc == RC_OK)
		rc = tuner_rules(out, d->rules, "rules", &why);
	if (rc == RC_OK)
		return RC_OK;
	tuner_fini(out);
	return err_set(err, rc == RC_NOMEM ? rc : RC_BADDATA, "communicator %" PRIu64 ": %s",
		       d->comm, why.text);
}

enum rc
cmdqs_attached(struct cmdqs *s, uint64_t comm, uint32_t epoch, const struct cmdq_choice *choice,
	       struct err *err)
{
	struct drivable *d = calloc(1, sizeof *d), **at;
	struct tuner tuner;
	enum rc rc = RC_OK;

	if (d) {
		*d = (struct drivable){.comm = comm,
				       .epoch = epoch,
				       .algos = copy_text(choice->algos, choice->nalgos),
				       .rules = copy_text(choice->rules, choice->nrules)};
	}
	if (!d || !d->algos || !d->rules)
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = make_tuner(d, &tuner, err);
	if (rc == RC_OK) {
		tuner_fini(&tuner);
		rc = cmdq_algos_new(choice->files, choice->nfiles, choice->rank, choice->nranks,
				    &d->files, err);
	}
	if (rc != RC_OK) {
		drivable_free(d);
		return rc;
	}
	pthread_mutex_lock(&s->lock);
	at = find_drivable(s, comm);
	d->next = *at ? (*at)->next : NULL;
	drivable_free(*at);
	*at = d;
	pthread_mutex_unlock(&s->lock);
	return RC_OK;
}

void
cmdqs_joined(struct cmdqs *s, uint64_t comm, uint32_t epoch, bool by_memory)
{
	struct drivable *d;

	pthread_mutex_lock(&s->lock);
	d = *find_drivable(s, comm);
	if (d && d->epoch == epoch)
		d->by_memory = by_memory;
	pthread_mutex_unlock(&s->lock);
}

void
cmdqs_comm_gone(struct cmdqs *s, uint64_t comm)
{
	struct drivable **at, *d;

	pthread_mutex_lock(&s->lock);
	at = find_drivable(s, comm);
	if ((d = *at))
		*at = d->next;
	drivable_free(d);
	pthread_mutex_unlock(&s->lock);
}

void
comms_free(struct cmdqs *s)
{
	struct drivable *d;

	while (s->bounds)
		take_out(s, s->bounds);
	while ((d = s->drivables)) {
		s->drivables = d->next;
		drivable_free(d);
	}
}

/* ---- binding */

static enum rc
make_record(struct cmdqs *s, const struct bound *b, struct cmdq_comm **out, struct err *err)
{
	struct cmdq_comm *r;
	void *p;
	enum rc rc = devmem_own_alloc(s->env.mem, sizeof *r, &p, err);

	if (rc != RC_OK)
		return rc;
	r = p;
	memset(r, 0, sizeof *r);
	r->magic = RECORD_MAGIC;
	r->comm = b->comm;
	r->epoch = b->epoch;
	r->rank = b->rank;
	r->nranks = b->nranks;
	r->pid = b->client->pid;
	r->waits_for = -1;
	atomic_store(&r->state, CMDQ_COMM_LIVE);
	*out = r;
	return RC_OK;
}

/* Lock held. Check that it exists and is not bound. */
static enum rc
check(struct cmdqs *s, uint64_t comm, uint32_t epoch, struct xport_membership *m, struct err *err)
{
	const struct drivable *d = *find_drivable(s, comm);
	struct bound *old = bound_find(s, comm);
	enum rc rc = xport_member(s->env.xport, comm, m, err);

	if (rc != RC_OK)
		return rc;
	if (comm == 0 || m->epoch != epoch)
		return err_set(err, RC_NOTFOUND,
			       "no epoch %u: communicator %" PRIu64 " is at epoch %u", epoch,
			       m->comm, m->epoch);
	if (!d || d->epoch != epoch)
		return err_set(err, RC_INVAL,
			       "the ranks of communicator %" PRIu64
			       " do not enqueue operations themselves",
			       comm);
	if (old && !atomic_load(&old->over))
		return err_set(err, RC_BUSY, "process %u (%s) already drives communicator %" PRIu64,
			       old->client->pid, old->program, comm);
	if (!xport_is_live(s->env.xport, comm, epoch))
		return err_set(err, RC_ABORTED, "communicator %" PRIu64 " has failed", comm);
	return RC_OK;
}

/* Lock held. */
static enum rc
bind_for(struct cmdqs *s, const struct xport_membership *m, struct cmdq_client *c,
	 const char *program, const struct cmdq_comm **record, struct err *err)
{
	struct bound *b = calloc(1, sizeof *b), *old = bound_find(s, m->comm);
	const struct drivable *d = *find_drivable(s, m->comm);
	enum rc rc = b ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc != RC_OK)
		return rc;
	*b = (struct bound){.client = c,
			    .comm = m->comm,
			    .epoch = m->epoch,
			    .rank = m->rank,
			    .nranks = m->nranks,
			    .by_memory = d->by_memory,
			    .files = d->files};
	if (b->files)
		atomic_fetch_add(&b->files->users, 1);
	snprintf(b->program, sizeof b->program, "%s", program);
	b->waited_ns = alloc_zeroed(b->nranks, sizeof *b->waited_ns);
	rc = b->waited_ns ? make_tuner(d, &b->tuner, err) : err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = xport_reserve(s->env.xport, b->comm, b->epoch, 0, &b->tickets, err);
	if (rc == RC_OK)
		rc = make_record(s, b, &b->record, err);
	if (rc != RC_OK) {
		b->client = NULL;
		settle(s, b);
		return rc;
	}
	c->nbounds++;
	if (old)
		take_out(s, old);
	b->next = s->bounds;
	s->bounds = b;
	*record = b->record;
	return RC_OK;
}

enum rc
cmdqs_bind(struct cmdqs *s, uint64_t comm, uint32_t epoch, uint32_t pid, const char *program,
	   const struct cmdq_comm **record, struct err *err)
{
	struct xport_membership m;
	struct cmdq_client *c;
	enum rc rc;

	pthread_mutex_lock(&s->lock);
	rc = check(s, comm, epoch, &m, err);
	if (rc == RC_OK)
		rc = client_get(s, pid, &c, err);
	if (rc == RC_OK) {
		rc = bind_for(s, &m, c, program, record, err);
		client_settle(s, c);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

enum rc
cmdqs_unbind(struct cmdqs *s, uint64_t comm, struct err *err)
{
	struct bound *b;

	pthread_mutex_lock(&s->lock);
	b = bound_find(s, comm);
	if (b)
		take_out(s, b);
	pthread_mutex_unlock(&s->lock);
	return b ? RC_OK
		 : err_set(err, RC_NOTFOUND, "communicator %" PRIu64 " is not bound on this device",
			   comm);
}

void
cmdqs_comm_over(struct cmdqs *s, uint64_t comm, uint32_t epoch, enum rc rc, const char *reason)
{
	struct bound *b;

	pthread_mutex_lock(&s->lock);
	b = bound_find(s, comm);
	if (b && b->epoch <= epoch)
		end(s, b, rc, reason);
	pthread_mutex_unlock(&s->lock);
}

size_t
cmdqs_counts(struct cmdqs *s, struct cmdq_count *out, size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&s->lock);
	for (const struct bound *b = s->bounds; b && n < max; b = b->next)
		out[n++] = (struct cmdq_count){
		    .comm = b->comm,
		    .operations = atomic_load_explicit(&b->record->done, memory_order_relaxed),
		    .waited_ns = waits_copy(b->waited_ns, b->nranks),
		    .nranks = b->nranks};
	pthread_mutex_unlock(&s->lock);
	return n;
}
