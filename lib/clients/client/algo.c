/* Algorithms from files, which the coordinator keeps. */
#include <stdio.h>
#include <stdlib.h>

#include "client/client_impl.h"

static void
copy_info(const GpuSim__AlgoInfo *from, struct gpusim_algo *to)
{
	*to = (struct gpusim_algo){.coll = (enum gpusim_coll)from->coll,
				   .nranks = from->nranks,
				   .root = from->root,
				   .chunks = from->chunks,
				   .slots = from->slots,
				   .in_place = from->inplace,
				   .out_of_place = from->outofplace,
				   .leased = from->lease,
				   .min_bytes = from->minbytes,
				   .max_bytes = from->maxbytes,
				   .steps = from->steps,
				   .messages = from->messages};
	snprintf(to->name, sizeof to->name, "%s", from->name);
	snprintf(to->digest, sizeof to->digest, "%s", from->digest);
}

enum gpusim_rc
gpusim_algo_add(struct gpusim *g, const void *bytes, uint64_t nbytes,
		const struct gpusim_algo_config *config, struct gpusim_algo *out)
{
	GpuSim__AlgoPutRequest m = GPU_SIM__ALGO_PUT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(ALGO_PUT, algoput, m);
	struct gpusim_algo_config cfg = {GPUSIM_ALGO_CONFIG_INIT};
	GpuSim__Reply *reply;
	enum rc rc = config ? client_take("gpusim_algo_config", config, &cfg, sizeof cfg) : RC_OK;

	if (rc == RC_OK && nbytes == 0)
		rc = err_set(client_err(), RC_BADDATA, "%s: the algorithm file is empty",
			     cfg.path ? cfg.path : "algorithm");
	m.name = (char *)(cfg.name ? cfg.name : "");
	m.path = (char *)(cfg.path ? cfg.path : "");
	m.replace = cfg.replace != 0;
	m.lease = cfg.life == GPUSIM_LEASE;
	m.nbytes = nbytes;
	for (; m.offset < nbytes && rc == RC_OK; m.offset += WIRE_BULK_MAX) {
		bool last = nbytes - m.offset <= WIRE_BULK_MAX;

		m.data.data = (uint8_t *)bytes + m.offset;
		m.data.len = last ? nbytes - m.offset : WIRE_BULK_MAX;
		rc = client_call(g, &req,
				 last ? GPU_SIM__REPLY__BODY_ALGO_PUT : GPU_SIM__REPLY__BODY_DONE,
				 &reply);
		if (rc != RC_OK)
			break;
		/* The last answer describes the algorithm. */
		if (last && !reply->algoput->algo)
			rc = err_set(client_err(), RC_BADDATA, "an answer without the algorithm");
		else if (last && out)
			copy_info(reply->algoput->algo, out);
		wire_reply_free(reply);
	}
	return client_rc(rc);
}

enum gpusim_rc
gpusim_algo_remove(struct gpusim *g, const char *name)
{
	GpuSim__AlgoRemoveRequest m = GPU_SIM__ALGO_REMOVE_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(ALGO_REMOVE, algoremove, m);

	m.name = (char *)name;
	return client_rc(client_call(g, &req, GPU_SIM__REPLY__BODY_DONE, NULL));
}

enum gpusim_rc
gpusim_algo_list(struct gpusim *g, struct gpusim_algo **out, size_t *n)
{
	GpuSim__AlgoListRequest m = GPU_SIM__ALGO_LIST_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(ALGO_LIST, algolist, m);
	struct gpusim_algo *v;
	GpuSim__Reply *reply;
	enum rc rc;

	rc = client_call(g, &req, GPU_SIM__REPLY__BODY_ALGO_LIST, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	v = alloc_zeroed(reply->algolist->n_algos + 1, sizeof *v);
	if (v) {
		*n = reply->algolist->n_algos;
		for (size_t i = 0; i < *n; i++)
			copy_info(reply->algolist->algos[i], &v[i]);
		*out = v;
	} else {
		rc = err_set(client_err(), RC_NOMEM, "out of memory");
	}
	wire_reply_free(reply);
	return client_rc(rc);
}

void
gpusim_algo_list_free(struct gpusim_algo *v)
{
	free(v);
}
