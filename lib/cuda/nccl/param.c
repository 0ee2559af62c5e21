/* ncclParam*: the environment variables that this library reads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/nccl_impl.h"

static const char *const keys[] = {
    "NCCL_ALGO",	 "NCCL_COMM_BLOCKING", "NCCL_DEBUG",	   "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS", "NCCL_HOSTID",	       "NCCL_P2P_DISABLE", "NCCL_TUNER_CONFIG_FILE",
};
#define NKEYS (sizeof keys / sizeof *keys)

static const char *
value_of(ncclParamHandle_t h)
{
	const char *text = getenv(*(const char *const *)h);

	return text ? text : "";
}

ncclResult_t
ncclParamBind(ncclParamHandle_t *out, const char *key)
{
	for (size_t i = 0; out && key && i < NKEYS; i++)
		if (strcmp(keys[i], key) == 0) {
			*out = (ncclParamHandle_t)&keys[i];
			return ncclSuccess;
		}
	return nccl_fail(ncclInvalidArgument, "ncclParamBind : unknown parameter '%s'",
			 key ? key : "(null)");
}
NCCL_ALIAS(ncclParamBind);

static bool
is_key(ncclParamHandle_t h)
{
	return (const char *const *)h >= keys && (const char *const *)h < keys + NKEYS;
}

/* The value as an integer in lo .. hi. */
static ncclResult_t
number(ncclParamHandle_t h, const void *out, int64_t lo, uint64_t hi, int64_t *value)
{
	const char *text;
	char *end;

	if (!is_key(h) || !out)
		return nccl_fail(ncclInvalidArgument, "ncclParamGet : %s",
				 out ? "invalid handle" : "out argument is NULL");
	text = value_of(h);
	errno = 0;
	*value = hi == UINT64_MAX ? (int64_t)strtoull(text, &end, 0) : strtoll(text, &end, 0);
	if (errno || end == text || *end ||
	    (hi != UINT64_MAX && (*value < lo || *value > (int64_t)hi)))
		return nccl_fail(ncclInvalidUsage,
				 "ncclParamGet : '%s' is not a number of this type", text);
	return ncclSuccess;
}

#define GET(suffix, type, lo, hi)                                         \
	ncclResult_t ncclParamGet##suffix(ncclParamHandle_t h, type *out) \
	{                                                                 \
		int64_t value;                                            \
		ncclResult_t r = number(h, out, lo, hi, &value);          \
                                                                          \
		if (r == ncclSuccess)                                     \
			*out = (type)value;                               \
		return r;                                                 \
	}                                                                 \
	NCCL_ALIAS(ncclParamGet##suffix)

GET(I8, int8_t, INT8_MIN, INT8_MAX);
GET(I16, int16_t, INT16_MIN, INT16_MAX);
GET(I32, int32_t, INT32_MIN, INT32_MAX);
GET(I64, int64_t, INT64_MIN, INT64_MAX);
GET(U8, uint8_t, 0, UINT8_MAX);
GET(U16, uint16_t, 0, UINT16_MAX);
GET(U32, uint32_t, 0, UINT32_MAX);
GET(U64, uint64_t, 0, UINT64_MAX);

ncclResult_t
ncclParamGetStr(ncclParamHandle_t h, const char **out)
{
	if (!is_key(h) || !out)
		return nccl_fail(ncclInvalidArgument, "ncclParamGetStr : %s",
				 out ? "invalid handle" : "out argument is NULL");
	*out = value_of(h);
	return ncclSuccess;
}
NCCL_ALIAS(ncclParamGetStr);

ncclResult_t
ncclParamGet(ncclParamHandle_t h, void *out, int maxLen, int *len)
{
	const char *text = NULL;
	ncclResult_t r = ncclParamGetStr(h, &text);

	if (r != ncclSuccess)
		return r;
	if (!out || !len || maxLen < 0 || strlen(text) > (size_t)maxLen)
		return nccl_fail(ncclInvalidArgument,
				 "ncclParamGet : the buffer is smaller than %zu bytes",
				 strlen(text));
	memcpy(out, text, strlen(text));
	*len = (int)strlen(text);
	return ncclSuccess;
}
NCCL_ALIAS(ncclParamGet);

ncclResult_t
ncclParamGetParameter(const char *key, const char **value, int *valueLen)
{
	ncclParamHandle_t h;
	ncclResult_t r = ncclParamBind(&h, key);

	if (r == ncclSuccess)
		r = ncclParamGetStr(h, value);
	if (r == ncclSuccess && valueLen)
		*valueLen = (int)strlen(*value);
	return r;
}
NCCL_ALIAS(ncclParamGetParameter);

ncclResult_t
ncclParamGetAllParameterKeys(const char ***table, int *tableLen)
{
	static __thread const char *copy[NKEYS];

	if (!table || !tableLen)
		return nccl_fail(ncclInvalidArgument,
				 "ncclParamGetAllParameterKeys : an argument is NULL");
	memcpy(copy, keys, sizeof keys);
	*table = copy;
	*tableLen = NKEYS;
	return ncclSuccess;
}
NCCL_ALIAS(ncclParamGetAllParameterKeys);

void
ncclParamDumpAll(void)
{
	for (size_t i = 0; i < NKEYS; i++)
		nccl_log(LOG_INFO, LOG_ENV, -1, "%s=%s", keys[i],
			 value_of((ncclParamHandle_t)&keys[i]));
}
NCCL_ALIAS(ncclParamDumpAll);
