/* gpuctl inject - inject faults, now or at a point of a collective. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/must.h"
#include "base/parse.h"
#include "cli.h"
#include "coll/fault.h"

/* A fault and its victim. */
struct order {
	struct gpusim_fault f;
	bool named;		     /* the victim is named */
	struct gpusim_device device; /* 0: the coordinator */
};

/* The communicator that rank= refers to: --comm, or the only one. */
static enum rc
which_comm(struct cli *cli, const struct args *a, uint64_t *id, struct err *err)
{
	struct gpusim_status s;
	enum rc rc;

	*id = a->comm;
	if (a->comm)
		return RC_OK;
	rc = api(gpusim_status(cli->g, &s), err);
	if (rc != RC_OK)
		return rc;
	if (s.ncomms == 1)
		*id = s.comms[0].id.id;
	else if (s.ncomms == 0)
		rc = err_set(err, RC_INVAL, "rank=: no communicator exists");
	else
		rc = err_set(err, RC_INVAL, "rank=: %zu communicators exist; use --comm ID",
			     s.ncomms);
	gpusim_status_fini(&s);
	return rc;
}

static enum rc
name_rank(struct cli *cli, const struct args *a, const char *rank, struct order *o, struct err *err)
{
	struct args of = {0};
	uint64_t n;
	enum rc rc = parse_u64(rank, 0, UINT32_MAX, &n, err);

	if (rc != RC_OK)
		return err_prefix(err, "rank");
	rc = which_comm(cli, a, &of.comm, err);
	if (rc == RC_OK)
		rc = cli_device(cli, &of, rank, &o->device, err);
	o->f.comm.id = of.comm;
	return rc;
}

/* Parse a word that names the victim; RC_NOTFOUND: it names none. */
static enum rc
name_target(struct cli *cli, const struct args *a, const char *word, struct order *o,
	    struct err *err)
{
	const struct args alone = {0};
	bool rank = strncmp(word, "rank=", 5) == 0, device = strncmp(word, "device=", 7) == 0;

	if (!rank && !device && strcmp(word, "coordinator") != 0)
		return RC_NOTFOUND;
	if (o->named)
		return err_set(err, RC_INVAL, "'%.64s': the fault already has a target", word);
	o->named = true;
	if (rank)
		return name_rank(cli, a, word + 5, o, err);
	return device ? cli_device(cli, &alone, word + 7, &o->device, err) : RC_OK;
}

static enum rc
finish(const struct args *a, struct order *o, struct err *err)
{
	if (!o->named)
		return err_set(err, RC_INVAL,
			       "%s: needs a target: rank=RANK, device=DEVICE or coordinator",
			       fault_name(o->f.kind));
	if (a->comm)
		o->f.comm.id = a->comm;
	return fault_complete(&o->f, err);
}

static enum rc
parse_orders(struct cli *cli, const struct args *a, struct order *order, size_t *n, struct err *err)
{
	enum rc rc = RC_OK;

	for (int i = 0; i < a->nrest && rc == RC_OK; i++) {
		const char *word = a->rest[i];
		struct gpusim_fault f;

		if (fault_kind_parse(word, &f)) {
			if (*n)
				rc = finish(a, &order[*n - 1], err);
			order[(*n)++].f = f;
			continue;
		}
		if (*n == 0)
			return err_set(err, RC_INVAL,
				       "'%.64s' is not a fault; must be kill, stop, slow, drop, "
				       "corrupt, cut, flip, "
				       "list or clear",
				       word);
		rc = name_target(cli, a, word, &order[*n - 1], err);
		if (rc == RC_NOTFOUND)
			rc = err->rc == RC_OK ? fault_word(&order[*n - 1].f, word, err) : rc;
		if (rc == RC_NOTFOUND && err->rc == RC_OK)
			rc = err_set(err, RC_INVAL,
				     "'%.64s' is not one of rank=, device=, at=, for=, by=, "
				     "count=, n=, p=, seed=, peer=",
				     word);
	}
	return rc == RC_OK ? finish(a, &order[*n - 1], err) : rc;
}

static enum rc
send_orders(struct cli *cli, struct order *order, size_t n, struct err *err)
{
	struct gpusim_fault f[GPUSIM_FAULTS_MAX];
	enum rc rc = RC_OK;

	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		size_t k = 0;

		if (!order[i].named)
			continue;
		for (size_t j = i; j < n && k < GPUSIM_FAULTS_MAX; j++)
			if (order[j].named && order[j].device.id == order[i].device.id) {
				f[k++] = order[j].f;
				order[j].named = j == i;
			}
		rc = api(gpusim_inject(cli->g, order[i].device, 0, f, k, NULL), err);
	}
	return rc;
}

static void
print_json(struct json *j, struct gpusim_device device, const struct gpusim_injected *in)
{
	if (device.id)
		json_put(j, "{device:%016" PRIx64, device.id);
	else
		json_put(j, "[{device:null");
	json_put(j, "fired:%" PRIu64 " damaged_frames:%" PRIu64 " armed:[", in->fired, in->damaged);
	for (size_t i = 0; i < in->narmed; i++)
		json_put(j, "%s", in->armed[i]);
	json_put(j, "]}");
}

enum visit { VISIT_CLEAR, VISIT_LIST, VISIT_LIST_JSON };

/* List or disarm the faults of one target; 0: the coordinator, which comes first. */
static enum rc
visit(struct cli *cli, struct gpusim_device device, enum visit why, struct json *j, struct err *err)
{
	struct gpusim_injected in;
	char who[64] = "coordinator";
	enum rc rc = api(gpusim_inject(cli->g, device, why == VISIT_CLEAR, NULL, 0, &in), err);

	if (rc != RC_OK)
		return rc;
	if (device.id)
		snprintf(who, sizeof who, "device %016" PRIx64, device.id);
	if (why == VISIT_LIST) {
		printf("%s: %" PRIu64 " fault%s took place, %" PRIu64 " damaged frame%s arrived\n",
		       who, in.fired, in.fired == 1 ? "" : "s", in.damaged,
		       in.damaged == 1 ? "" : "s");
		for (size_t i = 0; i < in.narmed; i++)
			printf("  %s\n", in.armed[i]);
	} else if (why == VISIT_LIST_JSON)
		print_json(j, device, &in);
	gpusim_injected_fini(&in);
	return rc;
}

static enum rc
visit_all(struct cli *cli, enum visit why, struct err *err)
{
	struct gpusim_device_info *list;
	size_t n;
	struct json j = {stdout, false};
	enum rc rc = visit(cli, (struct gpusim_device){0}, why, &j, err);

	if (rc == RC_OK)
		rc = api(gpusim_devices(cli->g, &list, &n), err);
	if (rc != RC_OK)
		return rc;
	for (size_t i = 0; i < n && rc == RC_OK; i++)
		if (!list[i].lost)
			rc = visit(cli, list[i].device, why, &j, err);
	free(list);
	if (rc == RC_OK && why == VISIT_LIST_JSON)
		json_put(&j, "]\n");
	return rc;
}

enum rc
run_inject(struct cli *cli, const struct args *a, struct err *err)
{
	bool clear = strcmp(a->rest[0], "clear") == 0;
	struct order *order;
	size_t n = 0;
	enum rc rc = cli_open(cli, err);

	if (rc != RC_OK)
		return rc;
	if (clear || strcmp(a->rest[0], "list") == 0) {
		if (a->nrest > 1)
			return err_set(err, RC_INVAL, "unexpected operand '%.64s'", a->rest[1]);
		return visit_all(cli,
				 clear	   ? VISIT_CLEAR
				 : a->json ? VISIT_LIST_JSON
					   : VISIT_LIST,
				 err);
	}
	if (a->json)
		return err_set(err, RC_INVAL, "--json: only for list");
	order = must_alloc((size_t)a->nrest, sizeof *order);
	rc = parse_orders(cli, a, order, &n, err);
	if (rc == RC_OK)
		rc = send_orders(cli, order, n, err);
	free(order);
	return rc;
}
