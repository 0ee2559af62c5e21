/* Fuzz Chakra's execution traces: rejected with a message, or nodes whose dependencies exist and
 * form no cycle. */
#include <stdlib.h>

#include "replay/et.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct et_job job = {.rank = calloc(2, sizeof *job.rank), .nranks = 2};
	struct err err = {0};
	size_t half = size ? data[0] * size / 256 : 0;
	enum rc rc = size ? et_read(&job, 0, data + 1, half, &err) : RC_BADDATA;

	/* Two ranks: the rest of the input, or the same again. */
	if (rc == RC_OK)
		rc = data[0] & 1 ? et_read(&job, 1, data + 1, half, &err)
				 : et_read(&job, 1, data + 1 + half, size - 1 - half, &err);
	if (rc == RC_OK)
		rc = et_check(&job, &err);
	if (rc != RC_OK && size && !err.text[0])
		abort();
	for (uint32_t r = 0; rc == RC_OK && r < 2; r++)
		for (size_t i = 0; i < job.rank[r].ndeps; i++)
			if (job.rank[r].dep[i] >= job.rank[r].nnodes)
				abort();
	if (rc == RC_OK && et_room(&job) < 4096)
		abort();
	et_job_fini(&job);
	return 0;
}
