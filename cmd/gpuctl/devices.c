/* gpuctl devices - the devices; a line's position is the device's index. */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "table.h"

enum rc
run_devices(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device_info *list;
	size_t n;
	enum rc rc = cli_open(cli, err);

	if (rc == RC_OK)
		rc = api(gpusim_devices(cli->g, &list, &n), err);
	if (rc != RC_OK)
		return rc;
	if (!a->json) {
		table_devices(list, n, stdout);
	} else {
		putchar('[');
		for (size_t i = 0; i < n; i++) {
			fputs(i ? "," : "", stdout);
			json_device(&list[i], i, stdout);
		}
		puts("]");
	}
	free(list);
	return RC_OK;
}
