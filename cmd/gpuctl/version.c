/* gpuctl version */
#include <stdio.h>

#include "cli.h"

enum rc
run_version(struct cli *cli, const struct args *a, struct err *err)
{
	(void)cli;
	(void)a;
	(void)err;
	printf("gpuctl %s\n", GPUSIM_VERSION);
	return RC_OK;
}
