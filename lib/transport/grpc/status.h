/*
 * status.h - gRPC's status codes, and the texts that travel in its headers.
 */
#ifndef GRPC_STATUS_H
#define GRPC_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

enum grpc_code {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_ALREADY_EXISTS = 6,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_ABORTED = 10,
	GRPC_OUT_OF_RANGE = 11,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_DATA_LOSS = 15,
};

/* The status for a result; every rc has one. The table is in gpucoord(8). */
enum grpc_code grpc_code_of(enum rc rc);

/* Encode a message for grpc-message: '%' and all but printable ASCII as %XX. Truncated to size, which is
 * at least 1. */
void grpc_message_encode(const char *text, char *out, size_t size);

/* "100m" and the like: up to eight digits and one of H M S m u n. False: malformed. */
bool grpc_timeout_parse(const char *text, size_t n, uint64_t *ns);

#endif
