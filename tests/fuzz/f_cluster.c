/* Fuzz cluster files. An accepted file has usable constants, and its printed form is accepted again. */
#include <stdlib.h>

#include "cluster/cluster.h"

#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cluster c, again;
	struct err err = {0};
	struct buf print = {0};
	char *text = text_of(data, size);

	if (!text)
		return 0;
	if (cluster_read(text, "fuzz", &c, &err) == RC_OK) {
		require(c.hosts && c.gpus_per_host && c.domain &&
			cluster_gpus(&c) <= CLUSTER_MAX_GPUS);
		require(c.inside_gbs > 0 && c.pcie_gbs > 0 && (!c.nics || c.nic_gbs > 0));
		if (cluster_print(&c, &print, &err) == RC_OK) {
			require(buf_add(&print, "", 1));
			require(cluster_read(print.data, "print", &again, &err) == RC_OK);
		}
	} else {
		require(err.rc != RC_OK && err.text[0]);
	}
	buf_fini(&print);
	free(text);
	return 0;
}
