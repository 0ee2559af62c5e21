/* gpuctl version */
#include <stdio.h>

#include "cli.h"

enum rc
run_version(struct cli *cli, const struct args *a, struct err *err)
{
	(void)cli;
	(void)err;
	if (a->json)
		puts("{\"program\":\"gpuctl\",\"version\":\"" GPUSIM_VERSION "\"}");
	else
		puts("gpuctl " GPUSIM_VERSION);
	return RC_OK;
}
