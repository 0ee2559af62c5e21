#include "net/http_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct http_message {
	unsigned refs; /* by the feed's lock */
	struct buf bytes;
};

/* ---- the text of an event */

bool
http_event(struct buf *out, const char *event, uint64_t id, const char *data, size_t n)
{
	bool good = buf_addf(out, "event: %s\nid: %" PRIu64 "\n", event, id);

	for (const char *at = data, *end = data + n; good && at <= end;) {
		const char *line = memchr(at, '\n', (size_t)(end - at));
		size_t len = line ? (size_t)(line - at) : (size_t)(end - at);

		good = buf_add(out, "data: ", 6) && buf_add(out, at, len) && buf_add(out, "\n", 1);
		at += len + 1;
	}
	return good && buf_add(out, "\n", 1);
}

/* ---- the last events */

void
http_feed_init(struct http_feed *f)
{
	*f = (struct http_feed){0};
	pthread_mutex_init(&f->lock, NULL);
}

/* Lock held. */
static void
release(struct http_message *m)
{
	if (!m || --m->refs)
		return;
	buf_fini(&m->bytes);
	free(m);
}

/* Lock held. */
static void
drop_oldest(struct http_feed *f)
{
	struct http_message **m = &f->message[f->first++ % HTTP_SERVER_BACKLOG];

	f->nbytes -= (*m)->bytes.len;
	release(*m);
	*m = NULL;
}

void
http_feed_fini(struct http_feed *f)
{
	while (f->first < f->next)
		drop_oldest(f);
	pthread_mutex_destroy(&f->lock);
}

enum rc
http_feed_put(struct http_feed *f, struct buf *b)
{
	struct http_message *m = malloc(sizeof *m);

	if (!m) {
		buf_fini(b);
		return RC_NOMEM;
	}
	*m = (struct http_message){.refs = 1, .bytes = *b};
	*b = (struct buf){0};
	pthread_mutex_lock(&f->lock);
	while (f->first < f->next && (f->next - f->first == HTTP_SERVER_BACKLOG ||
				      f->nbytes + m->bytes.len > HTTP_SERVER_BACKLOG_BYTES))
		drop_oldest(f);
	f->message[f->next++ % HTTP_SERVER_BACKLOG] = m;
	f->nbytes += m->bytes.len;
	pthread_mutex_unlock(&f->lock);
	return RC_OK;
}

uint64_t
http_feed_next(struct http_feed *f)
{
	uint64_t next;

	pthread_mutex_lock(&f->lock);
	next = f->next;
	pthread_mutex_unlock(&f->lock);
	return next;
}

/* ---- a reader */

/* Hold the next message. False: none, or it was lost. */
static bool
take(struct http_feed *f, struct http_reader *r, bool *lost)
{
	pthread_mutex_lock(&f->lock);
	*lost = r->at < f->first;
	if (!*lost && r->at < f->next) {
		r->held = f->message[r->at++ % HTTP_SERVER_BACKLOG];
		r->held->refs++;
		r->off = 0;
	}
	pthread_mutex_unlock(&f->lock);
	return r->held != NULL;
}

void
http_reader_fini(struct http_feed *f, struct http_reader *r)
{
	pthread_mutex_lock(&f->lock);
	release(r->held);
	r->held = NULL;
	pthread_mutex_unlock(&f->lock);
}

ssize_t
http_feed_read(struct http_feed *f, struct http_reader *r, char *out, size_t max)
{
	bool lost = false;
	size_t n;

	if (!r->held && !take(f, r, &lost))
		return lost ? -1 : 0;
	n = r->held->bytes.len - r->off;
	n = n < max ? n : max;
	memcpy(out, r->held->bytes.data + r->off, n);
	r->off += n;
	if (r->off == r->held->bytes.len)
		http_reader_fini(f, r);
	return (ssize_t)n;
}
