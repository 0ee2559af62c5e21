/*
 * Design notes. One lock; blocks of a power of two, a list of each size. The size precedes the returned
 * bytes.
 */
#include "net/pull_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "net/connection.h"
#include "wire/frame.h"

#define SMALLEST 8u  /* 256 bytes */
#define LARGEST	 20u /* FRAME_PAYLOAD_MAX */

struct block {
	struct block *next;
	unsigned size; /* log2 */
	_Alignas(64) unsigned char data[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *kept[LARGEST + 1];
static size_t kept_bytes;

void *
framemem_take(size_t nbytes)
{
	unsigned size = SMALLEST;
	struct block *b;

	while (size < LARGEST && (size_t)1 << size < nbytes)
		size++;
	if ((size_t)1 << size < nbytes)
		return NULL;
	pthread_mutex_lock(&lock);
	b = kept[size];
	if (b) {
		kept[size] = b->next;
		kept_bytes -= (size_t)1 << size;
	}
	pthread_mutex_unlock(&lock);
	if (!b)
		b = aligned_alloc(64, sizeof *b + ((size_t)1 << size));
	if (!b)
		return NULL;
	b->size = size;
	return b->data;
}

/* Give it back. NULL is legal. */
static void
framemem_give(void *mem)
{
	struct block *b;
	size_t nbytes;

	if (!mem)
		return;
	b = (struct block *)((unsigned char *)mem - offsetof(struct block, data));
	nbytes = (size_t)1 << b->size;
	pthread_mutex_lock(&lock);
	if (kept_bytes + nbytes <= FRAMEMEM_KEPT) {
		b->next = kept[b->size];
		kept[b->size] = b;
		kept_bytes += nbytes;
		b = NULL;
	}
	pthread_mutex_unlock(&lock);
	free(b);
}

void
net_frame_free(struct net_frame *f)
{
	framemem_give(f->mem);
	*f = (struct net_frame){0};
}

enum rc
net_frame_copy(struct net_frame *f, const void *payload, struct err *err)
{
	f->mem = framemem_take(f->head.nbytes);
	if (!f->mem)
		return err_set(err, RC_NOMEM, "out of memory");
	if (f->head.nbytes)
		memcpy(f->mem, payload, f->head.nbytes);
	f->payload = f->mem;
	return RC_OK;
}
