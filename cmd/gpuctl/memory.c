/* gpuctl malloc, free, memset - manage the memory of one device. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/parse.h"
#include "cli.h"

enum rc
run_malloc(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device device;
	struct gpusim_addr addr;
	uint64_t nbytes;
	enum rc rc = parse_size(a->rest[0], &nbytes, err);

	if (rc == RC_OK)
		rc = cli_target(cli, a, &device, err);
	if (rc == RC_OK)
		rc = api(gpusim_malloc(cli->g, device, nbytes, GPUSIM_PERSIST, &addr), err);
	if (rc == RC_OK && a->json)
		json_put(&(struct json){stdout, false},
			 "{device:%016" PRIx64 " address:%" PRIu64 " bytes:%" PRIu64 "}\n",
			 device.id, addr.addr, nbytes);
	else if (rc == RC_OK)
		printf("0x%" PRIx64 "\n", addr.addr);
	return rc;
}

enum rc
run_free(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device device;
	struct gpusim_addr addr;
	enum rc rc = parse_u64(a->rest[0], 0, UINT64_MAX, &addr.addr, err);

	if (rc == RC_OK)
		rc = cli_target(cli, a, &device, err);
	return rc == RC_OK ? api(gpusim_free(cli->g, device, addr), err) : rc;
}

enum rc
run_memset(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device device;
	struct gpusim_addr addr;
	uint64_t value, nbytes;
	enum rc rc = parse_u64(a->rest[0], 0, UINT64_MAX, &addr.addr, err);

	if (rc == RC_OK)
		rc = parse_u64(a->rest[1], 0, UINT8_MAX, &value, err);
	if (rc == RC_OK)
		rc = parse_size(a->rest[2], &nbytes, err);
	if (rc == RC_OK)
		rc = cli_target(cli, a, &device, err);
	return rc == RC_OK ? api(gpusim_memset(cli->g, device, addr, (int)value, nbytes), err) : rc;
}
