/*
 * nvtx3/nvToolsExt.h - NVTX: ranges, marks and names of a program, with NVIDIA's declarations. `gpuctl trace`
 * shows them. Payloads are not recorded. All functions are of this header; without libcudart they do nothing.
 */
#ifndef NVTOOLSEXT_V3
#define NVTOOLSEXT_V3

#pragma GCC system_header /* a C compiler that is asked to be strict minds "return" of nothing */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <gpusim_nvtx.h>

#define NVTX_VERSION		  3
#define NVTX_SUCCESS		  0
#define NVTX_NO_PUSH_POP_TRACKING ((int)-2)

typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st *nvtxStringHandle_t;

enum { NVTX_COLOR_UNKNOWN, NVTX_COLOR_ARGB };
enum {
	NVTX_MESSAGE_UNKNOWN,
	NVTX_MESSAGE_TYPE_ASCII,
	NVTX_MESSAGE_TYPE_UNICODE,
	NVTX_MESSAGE_TYPE_REGISTERED
};
enum {
	NVTX_PAYLOAD_UNKNOWN,
	NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
	NVTX_PAYLOAD_TYPE_INT64,
	NVTX_PAYLOAD_TYPE_DOUBLE,
	NVTX_PAYLOAD_TYPE_UNSIGNED_INT32,
	NVTX_PAYLOAD_TYPE_INT32,
	NVTX_PAYLOAD_TYPE_FLOAT
};

typedef union nvtxMessageValue_t {
	const char *ascii;
	const wchar_t *unicode;
	nvtxStringHandle_t registered;
} nvtxMessageValue_t;

typedef struct nvtxEventAttributes_v2 {
	uint16_t version, size;
	uint32_t category;
	int32_t colorType; /* NVTX_COLOR_ARGB */
	uint32_t color;
	int32_t payloadType;
	int32_t reserved0;
	union payload_t {
		uint64_t ullValue;
		int64_t llValue;
		double dValue;
		uint32_t uiValue;
		int32_t iValue;
		float fValue;
	} payload;
	int32_t messageType; /* NVTX_MESSAGE_TYPE_ASCII ... */
	nvtxMessageValue_t message;
} nvtxEventAttributes_v2, nvtxEventAttributes_t;
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))

#define GPUSIM_NVTX static inline __attribute__((unused))

GPUSIM_NVTX uint64_t
gpusim_nvtx(int what, uint64_t arg, nvtxDomainHandle_t domain, const char *text, uint32_t colour,
	    uint32_t category)
{
	struct __gpusim_note n;

	n.domain = domain;
	n.text = text;
	n.colour = colour;
	n.category = category;
	if (!__gpusim_nvtx)
		return what == GPUSIM_NVTX_PUSH || what == GPUSIM_NVTX_POP
			   ? (uint64_t)NVTX_NO_PUSH_POP_TRACKING
			   : 0;
	return __gpusim_nvtx(what, arg, &n);
}

GPUSIM_NVTX uint64_t
gpusim_nvtx_wide(int what, uint64_t arg, nvtxDomainHandle_t domain, const wchar_t *text,
		 uint32_t colour, uint32_t category)
{
	char narrow[128] = "";

	if (text && wcstombs(narrow, text, sizeof narrow - 1) == (size_t)-1)
		narrow[0] = '\0';
	return gpusim_nvtx(what, arg, domain, narrow, colour, category);
}

GPUSIM_NVTX uint64_t
gpusim_nvtx_ex(int what, nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
	uint32_t colour = a && a->colorType == NVTX_COLOR_ARGB ? a->color : 0;
	uint32_t category = a ? a->category : 0;

	if (a && a->messageType == NVTX_MESSAGE_TYPE_UNICODE)
		return gpusim_nvtx_wide(what, 0, domain, a->message.unicode, colour, category);
	/* A registered string is the string. */
	return gpusim_nvtx(what, 0, domain,
			   a && a->messageType != NVTX_MESSAGE_UNKNOWN ? a->message.ascii : NULL,
			   colour, category);
}

#define GPUSIM_NVTX_IS(type, name, parameters, value) \
	GPUSIM_NVTX type name parameters              \
	{                                             \
		return (type)(value);                 \
	}
/* A range or mark in its forms. */
#define GPUSIM_NVTX_FORMS(name, type, what)                                         \
	GPUSIM_NVTX_IS(type, nvtxDomain##name##Ex,                                  \
		       (nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a), \
		       gpusim_nvtx_ex(what, domain, a))                             \
	GPUSIM_NVTX_IS(type, nvtx##name##Ex, (const nvtxEventAttributes_t *a),      \
		       gpusim_nvtx_ex(what, NULL, a))                               \
	GPUSIM_NVTX_IS(type, nvtx##name##A, (const char *text),                     \
		       gpusim_nvtx(what, 0, NULL, text, 0, 0))                      \
	GPUSIM_NVTX_IS(type, nvtx##name##W, (const wchar_t *text),                  \
		       gpusim_nvtx_wide(what, 0, NULL, text, 0, 0))
GPUSIM_NVTX_FORMS(RangePush, int, GPUSIM_NVTX_PUSH)
GPUSIM_NVTX_FORMS(RangeStart, nvtxRangeId_t, GPUSIM_NVTX_START)
GPUSIM_NVTX_FORMS(Mark, void, GPUSIM_NVTX_MARK)
GPUSIM_NVTX_IS(int, nvtxDomainRangePop, (nvtxDomainHandle_t domain),
	       gpusim_nvtx(GPUSIM_NVTX_POP, 0, domain, NULL, 0, 0))
GPUSIM_NVTX_IS(int, nvtxRangePop, (void), gpusim_nvtx(GPUSIM_NVTX_POP, 0, NULL, NULL, 0, 0))
GPUSIM_NVTX_IS(void, nvtxRangeEnd, (nvtxRangeId_t id),
	       gpusim_nvtx(GPUSIM_NVTX_END, id, NULL, NULL, 0, 0))
GPUSIM_NVTX_IS(void, nvtxDomainRangeEnd, (nvtxDomainHandle_t domain, nvtxRangeId_t id),
	       gpusim_nvtx(GPUSIM_NVTX_END, id, domain, NULL, 0, 0))
GPUSIM_NVTX_IS(void, nvtxInitialize, (const void *reserved), reserved)

/* Names: of domains (which stay, as open ranges may name them), strings, threads; of categories they are not shown. */
GPUSIM_NVTX_IS(nvtxDomainHandle_t, nvtxDomainCreateA, (const char *name), strdup(name))
GPUSIM_NVTX_IS(void, nvtxDomainDestroy, (nvtxDomainHandle_t domain), domain)
GPUSIM_NVTX_IS(nvtxStringHandle_t, nvtxDomainRegisterStringA,
	       (nvtxDomainHandle_t domain, const char *string), ((void)domain, strdup(string)))
GPUSIM_NVTX_IS(void, nvtxNameCategoryA, (uint32_t category, const char *name),
	       ((void)category, name))
GPUSIM_NVTX_IS(void, nvtxDomainNameCategoryA,
	       (nvtxDomainHandle_t domain, uint32_t category, const char *name),
	       ((void)domain, (void)category, name))
GPUSIM_NVTX_IS(void, nvtxNameOsThreadA, (uint32_t thread, const char *name),
	       gpusim_nvtx(GPUSIM_NVTX_THREAD, thread, NULL, name, 0, 0))

#define nvtxRangePush		 nvtxRangePushA
#define nvtxRangeStart		 nvtxRangeStartA
#define nvtxMark		 nvtxMarkA
#define nvtxDomainCreate	 nvtxDomainCreateA
#define nvtxDomainRegisterString nvtxDomainRegisterStringA
#define nvtxNameCategory	 nvtxNameCategoryA
#define nvtxDomainNameCategory	 nvtxDomainNameCategoryA
#define nvtxNameOsThread	 nvtxNameOsThreadA

#endif
