#include "base/launcher.h"

#include <stdlib.h>

#include "base/parse.h"

static enum rc
first_set(const char *const *name, uint64_t lo, uint32_t *out, struct err *err)
{
	const char *text = NULL;
	uint64_t v;

	while (*name && (!(text = getenv(*name)) || !*text))
		name++;
	if (!*name)
		return RC_OK;
	if (parse_u64(text, lo, UINT32_MAX, &v, err) != RC_OK)
		return err_prefix(err, "%s", *name);
	*out = (uint32_t)v;
	return RC_OK;
}

enum rc
launcher_rank(uint32_t *rank, struct err *err)
{
	static const char *const name[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK",
					   "SLURM_PROCID", NULL};

	return first_set(name, 0, rank, err);
}

enum rc
launcher_size(uint32_t *n, struct err *err)
{
	static const char *const name[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE",
					   "SLURM_NTASKS", NULL};

	return first_set(name, 1, n, err);
}
