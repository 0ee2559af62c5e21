#include "dev/device_recorder.h"

#include <unistd.h>

#include "base/clock.h"

enum rc
device_recorder_open(struct device_recorder *r, struct devmem *mem, uint32_t nrecords,
		     const struct flight_identity *who, struct err *err)
{
	uint32_t n = nrecords ? UINT32_C(1) << (31 - __builtin_clz(nrecords)) : 0;
	void *area = NULL;
	enum rc rc;

	r->nbytes = n ? FLIGHT_AREA_BYTES(FLIGHT_RINGS_MAX, n) : 0;
	rc = devmem_recorder(mem, r->nbytes, &area, err);
	if (rc == RC_OK && area)
		rc = flight_open(area, r->nbytes, n, who, devmem_recorder_reserve, mem, &r->flight,
				 err);
	r->mem = mem;
	r->area = area;
	pthread_mutex_init(&r->lock, NULL);
	recorder_init(&r->service);
	recorder_open(&r->service, r->flight, FLIGHT_SERVICE, 0, 0, 0, "service");
	device_recorder_mark(
	    r, &(struct flight_mark){.what = FLIGHT_MARK_START, .value = (uint64_t)getpid()}, NULL);
	return rc;
}

void
device_recorder_close(struct device_recorder *r)
{
	if (!r->mem)
		return;
	device_recorder_mark(r, &(struct flight_mark){.what = FLIGHT_MARK_END}, NULL);
	recorder_close(&r->service);
	flight_close(r->flight);
	pthread_mutex_destroy(&r->lock);
	r->flight = NULL;
}

void
device_recorder_mark(struct device_recorder *r, const struct flight_mark *m, const char *text)
{
	if (!r || !r->flight)
		return;
	pthread_mutex_lock(&r->lock);
	flight_mark(&r->service.w, m, text);
	pthread_mutex_unlock(&r->lock);
}

void
device_recorder_copy(struct device_recorder *r, const struct flight_copy *c)
{
	if (!r || !r->flight)
		return;
	pthread_mutex_lock(&r->lock);
	recorder_clock(&r->service);
	recorder_copy(&r->service, c);
	pthread_mutex_unlock(&r->lock);
}

void
device_recorder_trace(struct device_recorder *r, uint32_t ms)
{
	uint64_t ticks = (uint64_t)((unsigned __int128)ticks_hz() * ms / 1000);

	if (r && r->flight)
		flight_trace_until(r->flight, ticks_now() + ticks);
}
