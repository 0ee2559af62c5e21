/* gpuctl stragglers - print how long each rank of a communicator held up the others. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli.h"

static double
mean_us(const struct gpusim_lateness *l)
{
	return l->operations ? (double)l->sum_ns / 1e3 / (double)l->operations : 0;
}

static void
print_text(const struct gpusim_lateness *v, uint32_t nranks)
{
	printf("%5s  %-16s  %10s  %12s  %12s\n", "RANK", "DEVICE", "OPERATIONS", "MEAN us",
	       "MAX us");
	for (uint32_t r = 0; r < nranks; r++)
		printf("%5" PRIu32 "  %016" PRIx64 "  %10" PRIu64 "  %12.1f  %12.1f\n", r,
		       v[r].device.id, v[r].operations, mean_us(&v[r]), (double)v[r].max_ns / 1e3);
}

static void
print_json(const struct gpusim_lateness *v, uint32_t nranks)
{
	struct json j = {stdout, false};

	json_put(&j, "[");
	for (uint32_t r = 0; r < nranks; r++)
		json_put(&j,
			 "{rank:%" PRIu32 " device:%016" PRIx64 " operations:%" PRIu64
			 " sum_ns:%" PRIu64 " max_ns:%" PRIu64 "}",
			 r, v[r].device.id, v[r].operations, v[r].sum_ns, v[r].max_ns);
	json_put(&j, "]\n");
}

enum rc
run_stragglers(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_lateness *v = NULL;
	struct gpusim_comm *comm = NULL;
	uint32_t nranks = 0;
	enum rc rc = cli_named_comm(cli, a, &comm, err);

	if (rc == RC_OK)
		rc = api(gpusim_comm_lateness(comm, &v, &nranks), err);
	if (rc == RC_OK && a->json)
		print_json(v, nranks);
	else if (rc == RC_OK)
		print_text(v, nranks);
	free(v);
	gpusim_comm_free(comm);
	return rc;
}
