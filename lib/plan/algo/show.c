#include "algo/algo.h"

#include <inttypes.h>

static const char *
place_of(const struct algo *a)
{
	if (a->in_place && a->out_of_place)
		return "in place and out of place";
	return a->in_place ? "in place" : "out of place";
}

static bool
show_range(const char *before, unsigned buf, uint32_t at, uint32_t count, struct buf *out)
{
	return buf_addf(out, "%s%s[%" PRIu32 ",%" PRIu64 ")", before, algo_buf_word(buf), at,
			(uint64_t)at + count);
}

static bool
show_step(const struct algo_step *s, size_t number, struct buf *out)
{
	bool reads = algo_kind_reads(s->kind), writes = algo_kind_writes(s->kind);
	bool good = buf_addf(out, "    step %-4zu %-4s", number, algo_kind_name(s->kind));

	if (reads)
		good = good && show_range("  ", s->src, s->src_at, s->count, out);
	if (writes)
		good =
		    good && show_range(reads ? " -> " : "  -> ", s->dst, s->dst_at, s->count, out);
	if (s->dep_block != ALGO_NONE)
		good = good && buf_addf(out, "  after block %" PRIu32 " step %" PRIu32,
					s->dep_block, s->dep_step);
	return good && buf_addf(out, "\n");
}

static bool
show_block(const struct algo_block *b, size_t number, struct buf *out)
{
	bool good = buf_addf(out, "  block %zu:", number);

	if (b->send != ALGO_NONE)
		good = good && buf_addf(out, " sends to rank %" PRIu32, b->send);
	if (b->recv != ALGO_NONE)
		good = good && buf_addf(out, "%s receives from rank %" PRIu32,
					b->send != ALGO_NONE ? "," : "", b->recv);
	if (b->send == ALGO_NONE && b->recv == ALGO_NONE)
		good = good && buf_addf(out, " local");
	else
		good = good && buf_addf(out, ", channel %" PRIu32, b->channel);
	good = good && buf_addf(out, "\n");
	for (size_t i = 0; i < b->nstep && good; i++)
		good = show_step(&b->step[i], i, out);
	return good;
}

bool
algo_show(const struct algo *a, const struct proof *proof, struct buf *out)
{
	char digest[17];
	bool good;

	algo_digest(a, digest);
	good = buf_addf(out,
			"%s %s: ranks %" PRIu32 ", chunks %" PRIu32 ", %s; digest %s\n"
			"proven: %zu steps, %zu messages; ",
			algo_coll_name(a), a->name, a->nranks, a->nchunks, place_of(a), digest,
			proof->nsteps, proof->nmessages);
	if (proof->min_slots)
		good =
		    good && buf_addf(out, "connections that hold %" PRIu32 " message%s suffice\n",
				     proof->min_slots, proof->min_slots == 1 ? "" : "s");
	else
		good = good && buf_addf(out, "nothing is sent\n");
	for (uint32_t r = 0; r < a->nranks && good; r++) {
		good = buf_addf(out,
				"\nrank %" PRIu32 ": chunks of input %" PRIu32 ", output %" PRIu32
				", scratch %" PRIu32 "\n",
				r, algo_chunks(a, r, ALGO_IN), algo_chunks(a, r, ALGO_OUT),
				algo_chunks(a, r, ALGO_SCRATCH));
		for (size_t b = 0; b < a->rank[r].nblock && good; b++)
			good = show_block(&a->rank[r].block[b], b, out);
	}
	return good;
}

/* ---- JSON; names are of letters, digits, . _ - */

static bool
json_peer(const char *name, uint32_t v, struct buf *out)
{
	if (v == ALGO_NONE)
		return buf_addf(out, "\"%s\":null,", name);
	return buf_addf(out, "\"%s\":%" PRIu32 ",", name, v);
}

static bool
json_step(const struct algo_step *s, struct buf *out)
{
	bool good =
	    buf_addf(out, "{\"kind\":\"%s\",\"count\":%" PRIu32, algo_kind_name(s->kind), s->count);

	if (algo_kind_reads(s->kind))
		good = good && buf_addf(out, ",\"src\":{\"buffer\":\"%s\",\"chunk\":%" PRIu32 "}",
					algo_buf_word(s->src), s->src_at);
	if (algo_kind_writes(s->kind))
		good = good && buf_addf(out, ",\"dst\":{\"buffer\":\"%s\",\"chunk\":%" PRIu32 "}",
					algo_buf_word(s->dst), s->dst_at);
	if (s->dep_block != ALGO_NONE)
		good =
		    good && buf_addf(out, ",\"after\":{\"block\":%" PRIu32 ",\"step\":%" PRIu32 "}",
				     s->dep_block, s->dep_step);
	return good && buf_addf(out, "}");
}

static bool
json_block(const struct algo_block *b, struct buf *out)
{
	bool good = buf_addf(out, "{") && json_peer("send", b->send, out) &&
		    json_peer("recv", b->recv, out) &&
		    buf_addf(out, "\"channel\":%" PRIu32 ",\"steps\":[", b->channel);

	for (size_t i = 0; i < b->nstep && good; i++)
		good = (i == 0 || buf_addf(out, ",")) && json_step(&b->step[i], out);
	return good && buf_addf(out, "]}");
}

bool
algo_show_json(const struct algo *a, const struct proof *proof, struct buf *out)
{
	char digest[17];
	bool good;

	algo_digest(a, digest);
	good = buf_addf(out,
			"{\"collective\":\"%s\",\"algo\":\"%s\",\"nranks\":%" PRIu32
			",\"chunks\":%" PRIu32 ",\"channels\":%" PRIu32
			",\"in_place\":%s,\"out_of_place\":%s,\"digest\":\"%s\",\"steps\":%zu,"
			"\"messages\":%zu,\"slots\":%" PRIu32 ",\"ranks\":[",
			algo_coll_name(a), a->name, a->nranks, a->nchunks, a->nchannels,
			a->in_place ? "true" : "false", a->out_of_place ? "true" : "false", digest,
			proof->nsteps, proof->nmessages, proof->min_slots);
	for (uint32_t r = 0; r < a->nranks && good; r++) {
		const uint32_t *n = a->rank[r].chunks;

		good = buf_addf(out,
				"%s{\"rank\":%" PRIu32 ",\"input\":%" PRIu32 ",\"output\":%" PRIu32
				",\"scratch\":%" PRIu32 ",\"blocks\":[",
				r ? "," : "", r, n[ALGO_IN], n[ALGO_OUT], n[ALGO_SCRATCH]);
		for (size_t b = 0; b < a->rank[r].nblock && good; b++)
			good =
			    (b == 0 || buf_addf(out, ",")) && json_block(&a->rank[r].block[b], out);
		good = good && buf_addf(out, "]}");
	}
	return good && buf_addf(out, "]}\n");
}
