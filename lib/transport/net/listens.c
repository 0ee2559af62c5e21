/* Check for a listening process at an address, even a frozen one. */
#include <nng/nng.h>
#include <nng/supplemental/util/platform.h>
#include <string.h>

#include "net/net.h"
#include "net/times.h"

bool
net_listens(const char *addr)
{
	nng_stream_dialer *dialer = NULL;
	nng_aio *aio = NULL;
	bool listens = false;

	if (strncmp(addr, "tls+", 4) == 0)
		addr += 4;
	if (nng_stream_dialer_alloc(&dialer, addr) == 0 && nng_aio_alloc(&aio, NULL, NULL) == 0) {
		nng_aio_set_timeout(aio, NET_PROBE_MS);
		nng_stream_dialer_dial(dialer, aio);
		nng_aio_wait(aio);
		listens = nng_aio_result(aio) == 0;
	}
	if (listens)
		nng_stream_free(nng_aio_get_output(aio, 0));
	nng_aio_free(aio);
	nng_stream_dialer_free(dialer);
	return listens;
}
