#include "drain/backlog.h"
#include "base/must.h"

#include <stdlib.h>

struct piece *
backlog_room(struct backlog *b)
{
	struct piece *p = b->spare;

	if (p)
		b->spare = p->next;
	else
		p = must_alloc(1, sizeof *p);
	p->n = 0;
	return p;
}

void
backlog_add(struct backlog *b, struct piece *p)
{
	p->next = NULL;
	if (b->last)
		b->last->next = p;
	else
		b->first = p;
	b->last = p;
	b->n += p->n;
}

struct piece *
backlog_take(struct backlog *b)
{
	struct piece *p = b->first;

	if (!p)
		return NULL;
	b->first = p->next;
	if (!b->first)
		b->last = NULL;
	b->n -= p->n;
	return p;
}

void
backlog_recycle(struct backlog *b, struct piece *p)
{
	p->next = b->spare;
	b->spare = p;
}

static void
free_list(struct piece *p)
{
	while (p) {
		struct piece *next = p->next;

		free(p);
		p = next;
	}
}

void
backlog_fini(struct backlog *b)
{
	free_list(b->first);
	free_list(b->spare);
	*b = (struct backlog){0};
}
