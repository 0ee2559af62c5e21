/* Ranges, marks and names by NVTX; nvtx.bats finds them in the trace. */
#include <nvToolsExt.h>
#include <nvToolsExtCudaRt.h>
#include <pthread.h>

#include "cu.h"

static nvtxEventAttributes_t
attributes(const char *text)
{
	nvtxEventAttributes_t a = {0};

	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	a.colorType = NVTX_COLOR_ARGB;
	a.color = 0xff00ff80;
	a.category = 7;
	a.messageType = NVTX_MESSAGE_TYPE_ASCII;
	a.message.ascii = text;
	return a;
}

static void *
other(void *arg)
{
	nvtxRangePushA("other thread");
	nvtxRangeEnd(*(nvtxRangeId_t *)arg);
	CHECK(nvtxRangePop() == 0);
	return NULL;
}

int
main(void)
{
	nvtxDomainHandle_t net = nvtxDomainCreateA("net");
	nvtxEventAttributes_t a = attributes("layer");
	nvtxRangeId_t id;
	cudaStream_t s;
	pthread_t t;
	void *p;

	CHECK(nvtxRangePushA("outer") == 0);
	CHECK(nvtxRangePush("inner \"quoted\"") == 1);
	CHECK(nvtxRangePop() == 1);
	nvtxMarkA("here");
	CHECK(nvtxRangePop() == 0);
	CHECK(nvtxRangePushA("crosses") == 0);
	CHECK(nvtxDomainRangePushEx(net, &a) == 1);
	CHECK(nvtxRangePop() == 1); /* the default domain's: "crosses" */
	CHECK(nvtxRangePop() == -1);
	CHECK(nvtxDomainRangePop(net) == 0);
	nvtxDomainMarkEx(net, &a);
	id = nvtxRangeStartA("between threads");
	CHECK(id != 0);
	CHECK(pthread_create(&t, NULL, other, &id) == 0);
	pthread_join(t, NULL);
	nvtxRangeEnd(id);
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = nvtxDomainRegisterStringA(net, "registered");
	nvtxRangePushEx(&a);
	nvtxRangePop();
	for (int i = 0; i < 100; i++)
		CHECK(nvtxRangePushA("deep") == i);
	for (int i = 99; i >= 0; i--)
		CHECK(nvtxRangePop() == i);
	CU(cudaStreamCreate(&s));
	nvtxNameCudaStreamA(s, "copies");
	CU(cudaMalloc(&p, 1 << 20));
	CU(cudaMemsetAsync(p, 1, 1 << 20, s));
	CU(cudaStreamSynchronize(s));
	nvtxRangePushW(L"wide, cut after thirty-one bytes");
	nvtxRangePop();
	puts("all is well");
	return 0;
}
