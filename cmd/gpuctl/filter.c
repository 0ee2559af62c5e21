#include "filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "coll/plan.h"
#include "io.h"
#include "mem/dtype.h"
#include "mem/vectext.h"
#include "operation.h"
#include "recover.h"
#include "coll/shape.h"

#define STDIN_NAME  "standard input"
#define STDOUT_NAME "standard output"

/*
 * One run of the filter. Host memory: the vectors, until they are on the devices; then a piece. Where
 * ranks may get lost the vectors stay, so that the rest can begin again.
 */
struct filter {
	struct cli *cli;
	const struct args *a;
	enum gpusim_coll coll;
	size_t size;	     /* bytes of an element */
	struct buf in;	     /* raw: all of stdin */
	struct vectext text; /* text: all of stdin */
	uint64_t nelem;	     /* elements of one rank's input */
	uint32_t want;	     /* ranks; 0: as many as there are vectors, or as --comm has */
	struct gpusim_comm comm;
	bool recovers;		      /* a lost rank may not be the end */
	bool printed;		      /* some of the output is out */
	uint32_t *vector;	      /* by rank: which of the input's vectors it has */
	uint64_t *base, *send, *recv; /* addresses by rank */
	struct gpusim_collective c;
};

/* Whether only the root has input: one vector in, however many ranks. */
static bool
takes_one(enum gpusim_coll coll)
{
	return coll == GPUSIM_BROADCAST || coll == GPUSIM_SCATTER;
}

static bool
is_raw(const struct filter *f)
{
	return args_has(f->a, OPT(RAW));
}

static enum rc
read_text(struct filter *f, struct err *err)
{
	struct buf b = {0};
	enum rc rc = io_read_all(STDIN_FILENO, STDIN_NAME, &b, err);

	if (rc == RC_OK)
		rc = vectext_parse(f->a->dtype, b.data, b.len, &f->text, err);
	buf_fini(&b);
	if (rc != RC_OK)
		return rc;
	f->nelem = f->text.nelem;
	if (takes_one(f->coll) && f->text.nvec != 1)
		return err_set(err, RC_BADDATA,
			       "takes one vector, the root's; " STDIN_NAME " has %zu",
			       f->text.nvec);
	if (f->text.nvec > PLAN_MAX_RANKS)
		return err_set(err, RC_FAILED, "%zu vectors: there can be no more than %u ranks",
			       f->text.nvec, PLAN_MAX_RANKS);
	return RC_OK;
}

static enum rc
read_input(struct filter *f, struct err *err)
{
	enum rc rc;

	if (!is_raw(f))
		return read_text(f, err);
	rc = io_read_all(STDIN_FILENO, STDIN_NAME, &f->in, err);
	if (rc == RC_OK && f->in.len == 0)
		rc = err_set(err, RC_BADDATA, "no vectors on " STDIN_NAME);
	return rc;
}

enum rc
filter_nranks(const struct args *a, uint32_t *nranks, struct err *err)
{
	if (!args_has(a, OPT(COMM)))
		return cli_need_nranks(a, nranks, err);
	*nranks = args_has(a, OPT(RANKS)) ? a->nranks : 0;
	return RC_OK;
}

enum rc
filter_comm(struct cli *cli, const struct args *a, uint32_t nranks, struct gpusim_comm *out,
	    struct err *err)
{
	char what[64];
	enum rc rc = cli_open(cli, err);

	if (rc != RC_OK)
		return rc;
	if (args_has(a, OPT(COMM)) && args_has(a, OPT(ON_FAILURE)))
		return err_set(err, RC_INVAL,
			       "--on-failure is for a communicator of the moment, not for --comm");
	if (args_has(a, OPT(COMM)) && args_has(a, OPT(WAIT)))
		return err_set(err, RC_INVAL, "--wait is for free devices, not for --comm");
	if (args_has(a, OPT(COMM))) {
		rc = api(gpusim_comm_open(cli->g, a->comm, out), err);
		if (rc == RC_OK && nranks && nranks != out->nranks)
			rc = err_set(err, RC_INVAL,
				     "-n %" PRIu32 ", but communicator %" PRIu64 " has %" PRIu32
				     " ranks",
				     nranks, a->comm, out->nranks);
		return rc;
	}
	snprintf(what, sizeof what, "%" PRIu32 " rank%s", nranks, nranks == 1 ? "" : "s");
	return cli_lease_comm(cli, a, nranks, what, out, err);
}

/* With as many ranks as there are vectors, where there is one a rank. */
static enum rc
comm_for_vectors(struct filter *f, struct err *err)
{
	const struct args *a = f->a;
	size_t n = f->text.nvec;
	char what[64];
	enum rc rc;

	snprintf(what, sizeof what, "%zu vector%s", n, n == 1 ? "" : "s");
	if (args_has(a, OPT(RANKS)) && n != a->nranks)
		return err_set(err, RC_BADDATA, "%s, but -n %" PRIu32, what, a->nranks);
	if (!args_has(a, OPT(COMM))) {
		rc = cli_open(f->cli, err);
		return rc == RC_OK ? cli_lease_comm(f->cli, a, (uint32_t)n, what, &f->comm, err)
				   : rc;
	}
	rc = filter_comm(f->cli, a, 0, &f->comm, err);
	if (rc == RC_OK && n != f->comm.nranks)
		rc = err_set(err, RC_BADDATA,
			     "%s, but communicator %" PRIu64 " has %" PRIu32 " ranks", what,
			     a->comm, f->comm.nranks);
	return rc;
}

static enum rc
make_comm(struct filter *f, struct err *err)
{
	size_t each;
	enum rc rc;

	if (!is_raw(f) && !takes_one(f->coll))
		return comm_for_vectors(f, err);
	rc = filter_comm(f->cli, f->a, f->want, &f->comm, err);
	if (rc != RC_OK || !is_raw(f))
		return rc;
	each = f->size * (takes_one(f->coll) ? 1 : f->comm.nranks);
	if (f->in.len % each)
		return err_set(err, RC_BADDATA,
			       "%zu bytes on " STDIN_NAME " are no whole number of %s elements "
			       "for each of %zu rank%s: not a multiple of %zu",
			       f->in.len, dtype_name(f->a->dtype), each / f->size,
			       each == f->size ? "" : "s", each);
	f->nelem = f->in.len / each;
	return RC_OK;
}

/* Room for what is kept by rank: there are never more ranks than now. */
static enum rc
make_room(struct filter *f, struct err *err)
{
	struct gpusim_comm_config config;
	uint32_t n = f->comm.nranks;
	enum rc rc = cli_config(f->a, GPUSIM_LEASE, &config, err);

	if (rc != RC_OK)
		return rc;
	f->recovers = args_has(f->a, OPT(COMM)) || config.on_failure != GPUSIM_ON_FAILURE_ABORT;
	f->vector = alloc_zeroed(n, sizeof *f->vector);
	f->base = alloc_zeroed(n, sizeof *f->base);
	f->send = alloc_zeroed(n, sizeof *f->send);
	f->recv = alloc_zeroed(n, sizeof *f->recv);
	if (!f->vector || !f->base || !f->send || !f->recv)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < n; r++)
		f->vector[r] = r;
	return RC_OK;
}

/* The rank that has the vector that --root means. */
static enum rc
find_root(struct filter *f, struct err *err)
{
	uint32_t r = 0;

	if (!coll_has_root(f->coll))
		return RC_OK;
	while (r < f->comm.nranks && f->vector[r] != f->a->root)
		r++;
	if (r == f->comm.nranks)
		return err_set(err, RC_ABORTED,
			       "comm %" PRIu64 ": the root, rank %" PRIu32 ", was lost", f->comm.id,
			       f->a->root);
	f->c.root = r;
	return RC_OK;
}

/* The operation's vector, and its buffers on the devices. */
static enum rc
make_buffers(struct filter *f, struct err *err)
{
	const struct gpusim_comm *comm = &f->comm;
	uint32_t n = comm->nranks;
	bool parts = f->coll == GPUSIM_ALLGATHER || f->coll == GPUSIM_GATHER;
	enum rc rc = find_root(f, err);

	if (rc != RC_OK)
		return rc;
	f->c.nelem = parts ? f->nelem * n : f->nelem;
	if (f->coll == GPUSIM_ALLTOALL && f->nelem % n)
		return err_set(err, RC_BADDATA,
			       "%" PRIu64 " elements a vector do not divide by %" PRIu32 " ranks",
			       f->nelem, n);
	for (uint32_t r = 0; r < n && rc == RC_OK; r++) {
		struct shape s = shape_of(f->coll, f->c.nelem, n, f->c.root, r);

		if (!s.whole)
			continue;
		rc = api(gpusim_malloc(f->cli->g, comm->device[r].id, s.whole * f->size,
				       GPUSIM_LEASE, &f->base[r]),
			 err);
		f->send[r] = s.in ? f->base[r] + s.in_at * f->size : 0;
		f->recv[r] = s.out ? f->base[r] + s.out_at * f->size : 0;
	}
	f->c.send = f->send;
	f->c.recv = f->recv;
	return rc;
}

static void
free_buffers(struct filter *f)
{
	for (uint32_t r = 0; f->base && r < f->comm.nranks; r++) {
		if (f->base[r])
			gpusim_free(f->cli->g, f->comm.device[r].id, f->base[r]);
		f->base[r] = f->send[r] = f->recv[r] = 0;
	}
}

/* Give the devices their input, and the host its memory back. */
static enum rc
upload(struct filter *f, struct err *err)
{
	const char *data = is_raw(f) ? f->in.data : f->text.data;
	uint64_t nbytes = f->nelem * f->size;
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < f->comm.nranks && rc == RC_OK && nbytes; r++) {
		uint64_t at = takes_one(f->coll) ? 0 : f->vector[r] * nbytes;

		if (f->send[r])
			rc = api(gpusim_memcpy_h2d(f->cli->g, f->comm.device[r].id, f->send[r],
						   data + at, nbytes),
				 err);
	}
	if (f->recovers)
		return rc;
	buf_fini(&f->in);
	vectext_fini(&f->text);
	return rc;
}

/* One piece of a vector; the last one ends the line. */
static enum rc
print_piece(const struct filter *f, const void *data, uint64_t nelem, bool last, struct buf *line,
	    struct err *err)
{
	enum rc rc;

	if (is_raw(f))
		return io_write(STDOUT_FILENO, STDOUT_NAME, data, nelem * f->size, err);
	line->len = 0;
	rc = vectext_format(f->a->dtype, data, nelem, line, err);
	if (rc != RC_OK)
		return rc;
	if (!last)
		line->data[line->len - 1] = ' ';
	return io_write(STDOUT_FILENO, STDOUT_NAME, line->data, line->len, err);
}

/* One rank's output, a piece at a time. */
static enum rc
print_rank(struct filter *f, uint32_t rank, void *room, struct buf *line, struct err *err)
{
	uint64_t total = shape_of(f->coll, f->c.nelem, f->comm.nranks, f->c.root, rank).out;
	uint64_t most = IO_PIECE / f->size, done = 0, n;
	enum rc rc = RC_OK;

	do {
		n = total - done < most ? total - done : most;
		if (n)
			rc = api(gpusim_memcpy_d2h(f->cli->g, room, f->comm.device[rank].id,
						   f->recv[rank] + done * f->size, n * f->size),
				 err);
		done += n;
		f->printed = f->printed || rc == RC_OK;
		if (rc == RC_OK)
			rc = print_piece(f, room, n, done == total, line, err);
	} while (rc == RC_OK && done < total);
	return rc;
}

/* Whether a rank's result is printed. */
static bool
prints(const struct filter *f, uint32_t rank)
{
	bool at_root = coll_has_root(f->coll) ? rank == f->c.root : rank == 0;

	switch (f->coll) {
	case GPUSIM_REDUCESCATTER:
	case GPUSIM_SCATTER:
	case GPUSIM_ALLTOALL:
		return true;
	case GPUSIM_REDUCE:
	case GPUSIM_GATHER:
		return at_root;
	default:
		return at_root || args_has(f->a, OPT(ALL));
	}
}

static enum rc
print_results(struct filter *f, struct err *err)
{
	struct buf line = {0};
	void *room = malloc(IO_PIECE);
	enum rc rc = room ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (f->nelem * f->size >= IO_PIECE)
		io_widen(STDOUT_FILENO);
	for (uint32_t r = 0; r < f->comm.nranks && rc == RC_OK; r++)
		if (prints(f, r))
			rc = print_rank(f, r, room, &line, err);
	buf_fini(&line);
	free(room);
	return rc;
}

/* What is on the devices goes. Where one does not answer, its lease sees to it: it is not waited
 * for once more. */
static void
release(struct filter *f, enum rc rc)
{
	if (rc != RC_UNREACHABLE && rc != RC_TIMEOUT && rc != RC_ABORTED)
		free_buffers(f);
	if (f->comm.id && !args_has(f->a, OPT(COMM)))
		gpusim_comm_destroy(f->cli->g, f->comm.id);
	gpusim_comm_fini(&f->comm);
	free(f->vector);
	free(f->base);
	free(f->send);
	free(f->recv);
	buf_fini(&f->in);
	vectext_fini(&f->text);
}

/* What is kept by rank, in the order of the ranks there are now. was[r] >= r, so nothing is lost on
 * the way. */
static void
reorder(struct filter *f, const uint32_t *was)
{
	for (uint32_t r = 0; r < f->comm.nranks; r++) {
		f->vector[r] = f->vector[was[r]];
		f->base[r] = f->base[was[r]];
		f->send[r] = f->send[was[r]];
		f->recv[r] = f->recv[was[r]];
	}
}

/*
 * The collective has succeeded: where are the results, if that was with other devices? With fewer
 * ranks the parts of a vector are others, in other places: RC_RECOVERED then, to begin again with
 * the vectors that are left.
 */
static enum rc
follow(struct filter *f, uint32_t *was, struct err *err)
{
	bool whole =
	    f->coll == GPUSIM_ALLREDUCE || f->coll == GPUSIM_REDUCE || f->coll == GPUSIM_BROADCAST;
	uint32_t before = f->comm.nranks;
	char note[sizeof err->text];
	enum rc rc;

	snprintf(note, sizeof note, "%s", gpusim_note());
	if (!*note)
		return RC_OK;
	rc = recover_refresh(f->cli, &f->comm, was, err);
	if (rc != RC_OK)
		return rc;
	reorder(f, was);
	if (f->comm.nranks != before && !whole)
		return err_set(err, RC_RECOVERED, "%s", note);
	log_line(LOG_ERROR, "note: %s", note);
	return find_root(f, err);
}

static enum rc
run_once(struct filter *f, uint32_t *was, struct err *err)
{
	enum rc rc = make_buffers(f, err);

	if (rc == RC_OK)
		rc = upload(f, err);
	if (rc == RC_OK)
		rc = api(gpusim_collective(f->cli->g, &f->comm, &f->c, GPUSIM_WAIT), err);
	if (rc == RC_OK)
		rc = follow(f, was, err);
	return rc == RC_OK ? print_results(f, err) : rc;
}

/* Once, and again from the input when a rank was lost that the rest goes on without. */
static enum rc
run_all(struct filter *f, struct err *err)
{
	uint32_t *was = alloc_zeroed(f->comm.nranks, sizeof *was);
	enum rc rc = was ? make_room(f, err) : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK)
		rc = run_once(f, was, err);
	for (int again = 0; rc != RC_OK && f->recovers && !f->printed && again < RECOVER_MOST;
	     again++) {
		if (recover(f->cli, &f->comm, was, rc, err) != RC_OK)
			break;
		reorder(f, was);
		free_buffers(f);
		rc = run_once(f, was, err);
	}
	free(was);
	return rc;
}

enum rc
filter_run(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err)
{
	struct filter f = {.cli = cli, .a = a, .coll = coll, .size = dtype_size(a->dtype)};
	/* A wrong option is told before stdin is waited for. */
	enum rc rc = operation_common(coll, a, PLAN_MAX_RANKS, &f.c, err);

	if (rc == RC_OK && (is_raw(&f) || takes_one(coll)))
		rc = filter_nranks(a, &f.want, err);
	if (rc == RC_OK)
		rc = read_input(&f, err);
	if (rc == RC_OK)
		rc = make_comm(&f, err);
	if (rc == RC_OK)
		rc = operation_common(coll, a, f.comm.nranks, &f.c, err);
	if (rc == RC_OK)
		rc = run_all(&f, err);
	release(&f, rc);
	return rc;
}
