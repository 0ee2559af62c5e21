/* Fuzz control messages from a peer, as request and as reply: rejected, or packed again with the
 * same meaning. */
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unpacking what was packed gives the same bytes again. */
static void
request_again(const GpuSim__Request *req)
{
	size_t n = gpu_sim__request__get_packed_size(req);
	uint8_t *once = malloc(n + 1), *twice = malloc(n + 1);
	GpuSim__Request *back = NULL;
	struct err err;

	gpu_sim__request__pack(req, once);
	if (n <= WIRE_CONTROL_MAX && wire_request_unpack(once, n, &back, &err) == RC_OK) {
		if (gpu_sim__request__get_packed_size(back) != n)
			abort();
		gpu_sim__request__pack(back, twice);
		if (memcmp(once, twice, n) != 0)
			abort();
	}
	wire_request_free(back);
	free(once);
	free(twice);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	GpuSim__Request *req = NULL;
	GpuSim__Reply *reply = NULL;
	struct err err = {0};

	if (wire_request_unpack(data, size, &req, &err) == RC_OK) {
		if (!wire_request_name(req)[0])
			abort();
		request_again(req);
	} else if (req || err.rc == RC_OK || !err.text[0]) {
		abort();
	}
	wire_request_free(req);
	if (wire_reply_unpack(data, size, &reply, &err) == RC_OK &&
	    wire_reply_rc(reply, &err) != RC_OK && !err.text[0])
		abort();
	wire_reply_free(reply);
	return 0;
}
