/* gpuctl unique-id, comm-init, comm-destroy, comm-status, comm-abort, comm-shrink, comm-grow, wait -
 * communicators by their ids. comm-split is in split.c. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/launcher.h"
#include "base/must.h"
#include "base/parse.h"
#include "cli.h"
#include "table.h"

/* Find the devices that the operands from `first` on name. The caller frees *out. */
static enum rc
named_devices(struct cli *cli, const struct args *a, int first, struct gpusim_device **out,
	      struct err *err)
{
	const struct args alone = {0};
	struct gpusim_device *v = must_alloc((size_t)(a->nrest - first), sizeof *v);
	enum rc rc = cli_open(cli, err);

	for (int i = first; i < a->nrest && rc == RC_OK; i++)
		rc = cli_device(cli, &alone, a->rest[i], &v[i - first], err);
	if (rc == RC_OK)
		*out = v;
	else
		free(v);
	return rc;
}

/* The number of devices, by -n or by the operands from `first` on, but not both. */
static enum rc
how_many(const struct args *a, int first, uint32_t *n, struct err *err)
{
	bool named = a->nrest > first;

	if (named && a->nranks)
		return err_set(err, RC_INVAL, "-n: cannot be combined with named devices");
	*n = a->nranks ? a->nranks : (uint32_t)(a->nrest - first);
	return *n ? RC_OK
		  : err_set(err, RC_INVAL, "the devices are missing: use -n N, or name them");
}

enum rc
run_unique_id(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_unique_id id;
	enum rc rc = api(gpusim_get_unique_id(&id), err);

	(void)cli;
	if (rc == RC_OK)
		printf(a->json ? "{\"id\":\"%s\"}\n" : "%s\n", id.text);
	return rc;
}

#define MEET_MS 300000 /* time that a rank waits for the others, unless an option sets it */

/* Get this rank and the number of ranks from the options, else from the launcher's variables. */
static enum rc
who_we_are(const struct args *a, uint32_t *rank, uint32_t *nranks, struct err *err)
{
	enum rc rc = RC_OK;

	*rank = a->rank;
	*nranks = a->job_ranks;
	if (!args_given(a, rank)) {
		*rank = UINT32_MAX;
		rc = launcher_rank(rank, err);
	}
	if (rc == RC_OK && !a->job_ranks)
		rc = launcher_size(nranks, err);
	if (rc == RC_OK && *rank == UINT32_MAX)
		rc = err_set(err, RC_INVAL,
			     "the rank is missing: use --rank R, or run under mpirun or srun");
	if (rc == RC_OK && *nranks == 0)
		rc = err_set(
		    err, RC_INVAL,
		    "the number of ranks is missing: use --nranks N, or run under mpirun or srun");
	return rc;
}

static enum rc
init_rank(struct cli *cli, const struct args *a, const struct gpusim_comm_config *config,
	  struct gpusim_comm **out, struct err *err)
{
	const struct args alone = {0};
	struct gpusim_unique_id id = {{0}};
	struct gpusim_device device = {0};
	const char *own = cli_own_device(a);
	uint32_t rank, nranks;
	enum rc rc = who_we_are(a, &rank, &nranks, err);

	if (rc == RC_OK && (a->nrest || a->nranks))
		rc = err_set(err, RC_INVAL, "--id: each rank names its own device, by --device");
	if (rc == RC_OK && a->wait_ms)
		rc = err_set(err, RC_INVAL, "--wait: needs -n");
	if (rc == RC_OK)
		rc = cli_open(cli, err);
	if (rc == RC_OK && !cli->timeout_ms)
		gpusim_set_timeout_ms(cli->g, MEET_MS);
	if (rc == RC_OK && own)
		rc = cli_device(cli, &alone, own, &device, err);
	if (rc != RC_OK)
		return rc;
	if (snprintf(id.text, sizeof id.text, "%s", a->id) >= (int)sizeof id.text)
		return err_set(err, RC_INVAL,
			       "'%.64s' is not a unique id, which has %zu hexadecimal digits",
			       a->id, sizeof id.text - 1);
	return api(gpusim_comm_init_rank(cli->g, nranks, id, rank, device, config, out), err);
}

/* Create a communicator over -n free devices, or over the named devices, rank by rank. */
static enum rc
init_all(struct cli *cli, const struct args *a, const struct gpusim_comm_config *config,
	 struct gpusim_comm **out, struct err *err)
{
	struct gpusim_device *devices = NULL;
	uint32_t n;
	enum rc rc = how_many(a, 0, &n, err);

	if (rc == RC_OK && (args_given(a, rank) || a->job_ranks || a->device))
		rc = err_set(err, RC_INVAL, "--rank, --nranks and --device: need --id");
	if (rc == RC_OK && a->nrest && a->wait_ms)
		rc = err_set(err, RC_INVAL, "--wait: needs -n");
	if (rc == RC_OK)
		rc = named_devices(cli, a, 0, &devices, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_init_all(cli->g, n, a->nrest ? devices : NULL, config, out),
			 err);
	free(devices);
	return rc;
}

/* Print the number that the verb returns, or with --json the whole communicator. */
static void
print_comm(const struct args *a, struct gpusim_comm *comm, uint64_t number)
{
	struct json j = {stdout, false};

	if (!a->json) {
		printf("%" PRIu64 "\n", number);
		return;
	}
	json_put(&j, "{");
	json_members(&j, comm);
	json_put(&j, "}\n");
}

enum rc
run_comm_init(struct cli *cli, const struct args *a, struct err *err)
{
	const struct gpusim_comm_config config = cli_config(a, GPUSIM_PERSIST);
	struct gpusim_comm *comm = NULL;
	enum rc rc = (a->id ? init_rank : init_all)(cli, a, &config, &comm, err);

	if (rc == RC_OK)
		print_comm(a, comm, gpusim_comm_id(comm).id);
	gpusim_comm_free(comm);
	return rc;
}

/* The operands after the id are the reason. */
enum rc
run_comm_abort(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	struct buf reason = {0};
	enum rc rc = cli_named_comm(cli, a, &comm, err);

	for (int i = 1; i < a->nrest && rc == RC_OK; i++)
		must_addf(&reason, "%s%s", i > 1 ? " " : "", a->rest[i]);
	if (rc == RC_OK)
		rc = api(gpusim_comm_abort(comm, reason.data), err);
	buf_fini(&reason);
	gpusim_comm_free(comm);
	return rc;
}

/* Remove the named ranks, or the ranks whose devices are lost. Print the number of ranks left. */
enum rc
run_comm_shrink(struct cli *cli, const struct args *a, struct err *err)
{
	size_t n = (size_t)(a->nrest - 1);
	uint32_t *ranks = must_alloc(n, sizeof *ranks);
	struct gpusim_comm *comm = NULL, *now = NULL;
	enum rc rc = RC_OK;

	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		rc = parse_u32(a->rest[i + 1], 0, UINT32_MAX, &ranks[i], err);
		if (rc != RC_OK)
			err_prefix(err, "rank");
	}
	if (rc == RC_OK)
		rc = cli_named_comm(cli, a, &comm, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_shrink(comm, ranks, n, &now), err);
	if (rc == RC_OK)
		print_comm(a, now, gpusim_comm_count(now));
	gpusim_comm_free(comm);
	gpusim_comm_free(now);
	free(ranks);
	return rc;
}

/* Add -n free devices, or the named devices. Print the new number of ranks. */
enum rc
run_comm_grow(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm *comm = NULL, *now = NULL;
	struct gpusim_device *devices = NULL;
	uint32_t n;
	enum rc rc = how_many(a, 1, &n, err);

	if (rc == RC_OK && a->nrest > 1 && a->wait_ms)
		rc = err_set(err, RC_INVAL, "--wait: needs -n");
	if (rc == RC_OK)
		rc = named_devices(cli, a, 1, &devices, err);
	if (rc == RC_OK)
		rc = cli_named_comm(cli, a, &comm, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_grow(comm, n, a->nrest > 1 ? devices : NULL, a->wait_ms, &now),
			 err);
	if (rc == RC_OK)
		print_comm(a, now, gpusim_comm_count(now));
	gpusim_comm_free(comm);
	gpusim_comm_free(now);
	free(devices);
	return rc;
}

enum rc
run_comm_destroy(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm *comm;
	enum rc rc = cli_named_comm(cli, a, &comm, err);

	return rc == RC_OK ? api(gpusim_comm_destroy(comm), err) : rc;
}

static enum rc
find_comm(const struct gpusim_status *s, uint64_t id, const struct gpusim_comm_info **out,
	  struct err *err)
{
	size_t i = 0;

	while (i < s->ncomms && s->comms[i].id.id != id)
		i++;
	if (i == s->ncomms)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	*out = &s->comms[i];
	return RC_OK;
}

/* Print more fields of a communicator that may recover or whose ranks have changed. */
static void
print_recovery(const struct gpusim_comm_info *c, const char *recovered)
{
	if (c->on_failure == GPUSIM_ON_FAILURE_ABORT && c->epoch <= 1 && !*recovered)
		return;
	printf("epoch %" PRIu32 ", %" PRIu32 " rank%s, on failure %s, %" PRIu32 " recover%s\n",
	       c->epoch, c->nranks, c->nranks == 1 ? "" : "s",
	       gpusim_on_failure_name(c->on_failure), c->recoveries,
	       c->recoveries == 1 ? "y" : "ies");
	if (*recovered)
		printf("last: %s\n", recovered);
}

enum rc
run_comm_status(struct cli *cli, const struct args *a, struct err *err)
{
	const struct gpusim_comm_info *c = NULL;
	char recovered[sizeof err->text];
	struct gpusim_status s = {0};
	struct gpusim_comm *comm;
	enum gpusim_state state;
	uint64_t id;
	enum rc rc = cli_named_comm(cli, a, &comm, err);

	if (rc != RC_OK)
		return rc;
	id = gpusim_comm_id(comm).id;
	rc = api(gpusim_comm_status(comm, GPUSIM_ASYNC, &state), err);
	gpusim_comm_free(comm);
	if (rc != RC_OK)
		return rc;
	snprintf(recovered, sizeof recovered, "%s", gpusim_note());
	if (!a->json && state == GPUSIM_STATE_FAILED)
		printf("failed: %s\n", gpusim_error());
	else if (!a->json)
		puts(state_name((int)state));
	rc = api(gpusim_status(cli->g, &s), err);
	if (rc == RC_OK)
		rc = find_comm(&s, id, &c, err);
	if (rc == RC_OK && a->json) {
		json_comm(&(struct json){stdout, false}, c, recovered);
		putchar('\n');
	} else if (rc == RC_OK) {
		print_recovery(c, recovered);
	}
	gpusim_status_fini(&s);
	return rc;
}

/* Wait until nothing is in progress; the verb fails if a queued operation fails. */
enum rc
run_wait(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	enum gpusim_state state;
	enum rc rc = cli_named_comm(cli, a, &comm, err);

	if (rc == RC_OK)
		rc = api(gpusim_comm_status(comm, GPUSIM_SYNC, &state), err);
	if (rc == RC_OK && state == GPUSIM_STATE_FAILED)
		rc = err_set(err, RC_FAILED, "%s", gpusim_error());
	else if (rc == RC_OK)
		cli_note();
	gpusim_comm_free(comm);
	return rc;
}
