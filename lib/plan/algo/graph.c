/*
 * graph.c - match messages, sort nodes, and find cycles of waiting nodes.
 */
#include "algo/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/cells.h"
#include "base/buf.h"

/* One end of a connection: its block. */
struct end {
	uint32_t sender, receiver, channel, block;
};

static const struct algo_block *
block_at(const struct graph *g, uint32_t b)
{
	uint32_t r = g->block_rank[b];

	return &g->algo->rank[r].block[b - g->rank_block[r]];
}

const struct algo_step *
graph_step(const struct graph *g, uint32_t node)
{
	uint32_t b = g->block_of[node];

	return &block_at(g, b)->step[node - g->first[b]];
}

uint32_t
graph_index(const struct graph *g, uint32_t node)
{
	return node - g->first[g->block_of[node]];
}

uint32_t
graph_rank(const struct graph *g, uint32_t node)
{
	return g->block_rank[g->block_of[node]];
}

uint32_t
graph_dep(const struct graph *g, uint32_t node)
{
	const struct algo_step *s = graph_step(g, node);

	if (s->dep_block == ALGO_NONE)
		return ALGO_NONE;
	return g->first[g->rank_block[graph_rank(g, node)] + s->dep_block] + s->dep_step;
}

uint32_t
graph_prev(const struct graph *g, uint32_t node)
{
	return graph_index(g, node) ? node - 1 : ALGO_NONE;
}

struct step_name
graph_short_name(const struct graph *g, uint32_t node)
{
	const struct algo_rank *rank = &g->algo->rank[graph_rank(g, node)];
	struct step_name name;
	unsigned step = graph_index(g, node);

	if (rank->nblock == 1)
		snprintf(name.text, sizeof name.text, "step %u", step);
	else
		snprintf(name.text, sizeof name.text, "block %u step %u",
			 block_at(g, g->block_of[node])->id, step);
	return name;
}

struct step_name
graph_name(const struct graph *g, uint32_t node)
{
	struct step_name name, tail = graph_short_name(g, node);

	snprintf(name.text, sizeof name.text, "rank %u %.40s", graph_rank(g, node), tail.text);
	return name;
}

struct step_name
graph_line(const struct graph *g, uint32_t node)
{
	struct step_name name = {""};
	uint32_t line = graph_step(g, node)->line;

	if (line)
		snprintf(name.text, sizeof name.text, " (line %u)", line);
	return name;
}

/* ---- nodes */

static bool
alloc_nodes(struct graph *g)
{
	uint32_t **by_node[] = {&g->block_of,	 &g->to,    &g->from, &g->send_at, &g->waiter,
				&g->next_waiter, &g->order, &g->at,   &g->sends,   &g->sent_at};

	for (size_t i = 0; i < sizeof by_node / sizeof *by_node; i++) {
		*by_node[i] = alloc_zeroed(g->nnode + 1ul, sizeof **by_node[i]);
		if (!*by_node[i])
			return false;
		memset(*by_node[i], 0xff, g->nnode * sizeof **by_node[i]);
	}
	return true;
}

static bool
alloc_blocks(struct graph *g)
{
	const struct algo *a = g->algo;

	for (uint32_t r = 0; r < a->nranks; r++)
		g->nblock += (uint32_t)a->rank[r].nblock;
	g->first_cell = alloc_zeroed(a->nranks, sizeof *g->first_cell);
	g->rank_block = alloc_zeroed(a->nranks + 1ul, sizeof *g->rank_block);
	g->block_rank = alloc_zeroed(g->nblock + 1ul, sizeof *g->block_rank);
	g->first = alloc_zeroed(g->nblock + 1ul, sizeof *g->first);
	g->send_first = alloc_zeroed(g->nblock + 1ul, sizeof *g->send_first);
	return g->first_cell && g->rank_block && g->block_rank && g->first && g->send_first;
}

static void
number_nodes(struct graph *g)
{
	const struct algo *a = g->algo;
	uint32_t block = 0;

	for (uint32_t r = 0; r < a->nranks; r++) {
		g->first_cell[r] = g->ncell;
		g->ncell += cells_of_rank(a, r);
		g->rank_block[r] = block;
		for (size_t b = 0; b < a->rank[r].nblock; b++, block++) {
			g->block_rank[block] = r;
			g->first[block] = g->nnode;
			g->nnode += (uint32_t)a->rank[r].block[b].nstep;
		}
	}
	g->rank_block[a->nranks] = block;
	g->first[block] = g->nnode;
}

static void
link_nodes(struct graph *g)
{
	uint32_t nsend = 0;

	for (uint32_t b = 0; b < g->nblock; b++)
		for (uint32_t n = g->first[b]; n < g->first[b + 1]; n++)
			g->block_of[n] = b;
	for (uint32_t b = 0; b < g->nblock; b++) {
		g->send_first[b] = nsend;
		for (uint32_t n = g->first[b]; n < g->first[b + 1]; n++) {
			uint32_t dep = graph_dep(g, n);

			if (dep != ALGO_NONE) {
				g->next_waiter[n] = g->waiter[dep];
				g->waiter[dep] = n;
			}
			if (algo_kind_sends(graph_step(g, n)->kind)) {
				g->send_at[n] = nsend - g->send_first[b];
				g->sends[nsend++] = n;
				g->sent_at[n] = g->nsent;
				g->nsent += graph_step(g, n)->count;
			}
		}
	}
	g->send_first[g->nblock] = nsend;
	g->nmessage = nsend;
}

/* ---- messages */

static int
by_connection(const void *x, const void *y)
{
	const struct end *a = x, *b = y;

	if (a->sender != b->sender)
		return a->sender < b->sender ? -1 : 1;
	if (a->receiver != b->receiver)
		return a->receiver < b->receiver ? -1 : 1;
	if (a->channel != b->channel)
		return a->channel < b->channel ? -1 : 1;
	return 0;
}

static enum rc
not_met(const struct graph *g, uint32_t node, bool sends, struct err *err)
{
	const struct algo_block *b = block_at(g, g->block_of[node]);
	uint32_t peer = sends ? b->send : b->recv;

	return err_set(err, RC_BADDATA, "%s %s rank %u on channel %u that rank %u never %s%s",
		       graph_name(g, node).text,
		       sends ? "sends a message to" : "waits for a message from", peer, b->channel,
		       peer, sends ? "receives" : "sends", graph_line(g, node).text);
}

static enum rc
other_count(const struct graph *g, uint32_t s, uint32_t r, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s sends %u chunks%s, but %s receives %u%s",
		       graph_name(g, s).text, graph_step(g, s)->count, graph_line(g, s).text,
		       graph_name(g, r).text, graph_step(g, r)->count, graph_line(g, r).text);
}

/* Match the sends of block s with the receives of block r; ALGO_NONE: the connection has no such end. */
static enum rc
meet(struct graph *g, uint32_t s, uint32_t r, struct err *err)
{
	uint32_t k = s == ALGO_NONE ? 0 : g->send_first[s];
	uint32_t end = s == ALGO_NONE ? 0 : g->send_first[s + 1];

	for (uint32_t n = r == ALGO_NONE ? 0 : g->first[r]; r != ALGO_NONE && n < g->first[r + 1];
	     n++) {
		if (!algo_kind_recvs(graph_step(g, n)->kind))
			continue;
		if (k == end)
			return not_met(g, n, false, err);
		if (graph_step(g, g->sends[k])->count != graph_step(g, n)->count)
			return other_count(g, g->sends[k], n, err);
		g->to[g->sends[k]] = n;
		g->from[n] = g->sends[k++];
	}
	return k < end ? not_met(g, g->sends[k], true, err) : RC_OK;
}

/* The two ends of each connection, found by sorting both lists. */
static enum rc
meet_all(struct graph *g, const struct end *s, uint32_t ns, const struct end *r, uint32_t nr,
	 struct err *err)
{
	uint32_t i = 0, j = 0;
	enum rc rc = RC_OK;

	while (!rc && (i < ns || j < nr)) {
		int c = i == ns ? 1 : j == nr ? -1 : by_connection(&s[i], &r[j]);

		rc = meet(g, c <= 0 ? s[i].block : ALGO_NONE, c >= 0 ? r[j].block : ALGO_NONE, err);
		i += c <= 0;
		j += c >= 0;
	}
	return rc;
}

static enum rc
match_messages(struct graph *g, struct err *err)
{
	struct end *s = alloc_zeroed(g->nblock + 1ul, sizeof *s);
	struct end *r = alloc_zeroed(g->nblock + 1ul, sizeof *r);
	uint32_t ns = 0, nr = 0;
	enum rc rc = RC_NOMEM;

	if (!s || !r) {
		err_set(err, rc, "out of memory");
		goto out;
	}
	for (uint32_t b = 0; b < g->nblock; b++) {
		const struct algo_block *block = block_at(g, b);
		uint32_t rank = g->block_rank[b];

		if (block->send != ALGO_NONE)
			s[ns++] = (struct end){rank, block->send, block->channel, b};
		if (block->recv != ALGO_NONE)
			r[nr++] = (struct end){block->recv, rank, block->channel, b};
	}
	qsort(s, ns, sizeof *s, by_connection);
	qsort(r, nr, sizeof *r, by_connection);
	rc = meet_all(g, s, ns, r, nr, err);
out:
	free(s);
	free(r);
	return rc;
}

enum rc
graph_init(struct graph *g, const struct algo *a, struct err *err)
{
	*g = (struct graph){.algo = a};
	if (!alloc_blocks(g))
		return err_set(err, RC_NOMEM, "out of memory");
	number_nodes(g);
	if (!alloc_nodes(g))
		return err_set(err, RC_NOMEM, "out of memory");
	link_nodes(g);
	return match_messages(g, err);
}

void
graph_fini(struct graph *g)
{
	free(g->first_cell);
	free(g->sent_at);
	free(g->rank_block);
	free(g->block_rank);
	free(g->first);
	free(g->send_first);
	free(g->block_of);
	free(g->to);
	free(g->from);
	free(g->send_at);
	free(g->sends);
	free(g->waiter);
	free(g->next_waiter);
	free(g->order);
	free(g->at);
	*g = (struct graph){0};
}

/* ---- order */

/* The receive that must precede a send, to free its slot; ALGO_NONE. */
static uint32_t
makes_room(const struct graph *g, uint32_t node, uint32_t slots)
{
	uint32_t k = g->send_at[node];

	if (!slots || k == ALGO_NONE || k < slots)
		return ALGO_NONE;
	return g->to[g->sends[g->send_first[g->block_of[node]] + k - slots]];
}

/* The send that a receive makes room for; ALGO_NONE. */
static uint32_t
gets_room(const struct graph *g, uint32_t node, uint32_t slots)
{
	uint32_t s = g->from[node], k, b;

	if (!slots || s == ALGO_NONE)
		return ALGO_NONE;
	b = g->block_of[s];
	k = g->send_first[b] + g->send_at[s] + slots;
	return k < g->send_first[b + 1] ? g->sends[k] : ALGO_NONE;
}

static bool
is_done(const struct graph *g, uint32_t node)
{
	return node == ALGO_NONE || g->at[node] != ALGO_NONE;
}

/* The first step of a block that is not done. */
static uint32_t
head_of(const struct graph *g, uint32_t block)
{
	uint32_t n = g->first[block];

	while (n < g->first[block + 1] && is_done(g, n))
		n++;
	return n < g->first[block + 1] ? n : ALGO_NONE;
}

/* The step that a head waits for: the head of that step's block. */
static uint32_t
holder_of(const struct graph *g, uint32_t node, uint32_t slots)
{
	uint32_t why = graph_dep(g, node);

	if (is_done(g, why))
		why = g->from[node];
	if (is_done(g, why))
		why = makes_room(g, node, slots);
	return head_of(g, g->block_of[why]);
}

static enum rc
say_nomem(struct err *err)
{
	return err_set(err, RC_NOMEM, "out of memory");
}

#define CHAIN_SHOWN 6u

/* "A waits for B, which waits for A"; the middle of a long chain is left out. */
static enum rc
tell_chain(const struct graph *g, uint32_t start, uint32_t slots, struct err *err)
{
	struct buf b = {0};
	uint32_t n = start, length = 0;
	bool good;

	do {
		n = holder_of(g, n, slots);
		length++;
	} while (n != start);
	good = slots ? buf_addf(&b, "deadlock with %u messages a connection: %s waits for ", slots,
				graph_name(g, start).text)
		     : buf_addf(&b, "deadlock: %s waits for ", graph_name(g, start).text);
	for (uint32_t i = 1; good && i <= length; i++) {
		n = holder_of(g, n, slots);
		if (i < length && i == CHAIN_SHOWN && length > CHAIN_SHOWN + 1)
			good = buf_addf(&b, "... (%u more) ..., which waits for ",
					length - CHAIN_SHOWN);
		else if (i < CHAIN_SHOWN || i == length || length <= CHAIN_SHOWN + 1)
			good = buf_addf(&b, "%s%s", graph_name(g, n).text,
					i < length ? ", which waits for " : "");
	}
	if (good)
		err_set(err, RC_BADDATA, "%.*s", (int)b.len, b.data);
	buf_fini(&b);
	return good ? RC_BADDATA : say_nomem(err);
}

/* Follow waiting nodes until one repeats. Each is the head of its block, so blocks are marked. */
static enum rc
tell_deadlock(struct graph *g, uint32_t slots, struct err *err)
{
	uint8_t *seen = alloc_zeroed(g->nblock + 1ul, 1);
	uint32_t n = ALGO_NONE;

	if (!seen)
		return say_nomem(err);
	for (uint32_t b = 0; n == ALGO_NONE; b++)
		n = head_of(g, b);
	while (!seen[g->block_of[n]]) {
		seen[g->block_of[n]] = 1;
		n = holder_of(g, n, slots);
	}
	free(seen);
	return tell_chain(g, n, slots, err);
}

static uint8_t
count_waits(const struct graph *g, uint32_t n, uint32_t slots)
{
	return (uint8_t)((graph_prev(g, n) != ALGO_NONE) + (graph_dep(g, n) != ALGO_NONE) +
			 (g->from[n] != ALGO_NONE) + (makes_room(g, n, slots) != ALGO_NONE));
}

enum rc
graph_sort(struct graph *g, uint32_t slots, struct err *err)
{
	uint8_t *waits = alloc_zeroed(g->nnode + 1ul, 1);
	uint32_t tail = 0;

	if (!waits)
		return say_nomem(err);
	memset(g->at, 0xff, g->nnode * sizeof *g->at);
	for (uint32_t n = 0; n < g->nnode; n++)
		if (!(waits[n] = count_waits(g, n, slots)))
			g->order[tail++] = n;
	for (uint32_t i = 0; i < tail; i++) {
		uint32_t n = g->order[i], next = n + 1;
		uint32_t after[] = {next < g->nnode && graph_prev(g, next) == n ? next : ALGO_NONE,
				    g->to[n], gets_room(g, n, slots)};

		g->at[n] = i;
		for (size_t k = 0; k < sizeof after / sizeof *after; k++)
			if (after[k] != ALGO_NONE && !--waits[after[k]])
				g->order[tail++] = after[k];
		for (uint32_t w = g->waiter[n]; w != ALGO_NONE; w = g->next_waiter[w])
			if (!--waits[w])
				g->order[tail++] = w;
	}
	free(waits);
	if (tail == g->nnode)
		return RC_OK;
	return err ? tell_deadlock(g, slots, err) : RC_BADDATA;
}
