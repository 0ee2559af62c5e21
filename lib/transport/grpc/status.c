#include "grpc/session.h"

#include <string.h>

#define TIMEOUT_DIGITS 8

enum grpc_code
grpc_code_of(enum rc rc)
{
	switch (rc) {
	case RC_OK:
		return GRPC_OK;
	case RC_INVAL:
		return GRPC_INVALID_ARGUMENT;
	case RC_NOTFOUND:
		return GRPC_NOT_FOUND;
	case RC_BUSY:
	case RC_NOMEM:
		return GRPC_RESOURCE_EXHAUSTED;
	case RC_TIMEOUT:
		return GRPC_DEADLINE_EXCEEDED;
	case RC_UNREACHABLE:
		return GRPC_UNAVAILABLE;
	case RC_ABORTED:
	case RC_RECOVERED:
		return GRPC_ABORTED;
	case RC_FAILED:
		return GRPC_FAILED_PRECONDITION;
	case RC_BADDATA:
		return GRPC_DATA_LOSS;
	case RC_INTERNAL:
		break;
	}
	return GRPC_INTERNAL;
}

void
grpc_message_encode(const char *text, char *out, size_t size)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		bool plain = *p >= 0x20 && *p < 0x7f && *p != '%';

		if (n + (plain ? 1 : 3) >= size)
			break;
		if (plain) {
			out[n++] = (char)*p;
			continue;
		}
		out[n++] = '%';
		out[n++] = hex[*p >> 4];
		out[n++] = hex[*p & 15];
	}
	out[n] = '\0';
}

bool
grpc_timeout_parse(const char *text, size_t n, uint64_t *ns)
{
	static const struct {
		char unit;
		uint64_t ns;
	} units[] = {{'H', 3600000000000}, {'M', 60000000000}, {'S', 1000000000},
		     {'m', 1000000},	   {'u', 1000},	       {'n', 1}};
	uint64_t value = 0;

	if (n < 2 || n > TIMEOUT_DIGITS + 1)
		return false;
	for (size_t i = 0; i + 1 < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (units[i].unit == text[n - 1]) {
			*ns = value > UINT64_MAX / units[i].ns ? UINT64_MAX : value * units[i].ns;
			return true;
		}
	return false;
}
