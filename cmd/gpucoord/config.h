/*
 * config.h - gpucoord.conf: the devices that are known beforehand, and the coordinator's settings.
 *
 *	[coordinator]
 *	listen = ipc:///run/gpusim/coord.sock
 *	heartbeat = 1s
 *	missed = 10/12
 *	on-failure = respawn
 *	op-timeout = 30s
 *	comm-timeout = 5m
 *	job-timeout = 24h
 *
 *	[device left]		; the name is for people
 *	id = 0x7f3a
 *	address = ipc:///run/gpusim/left.sock
 */
#ifndef GPUCOORD_CONFIG_H
#define GPUCOORD_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "net/net.h"

#define CONFIG_MAX_DEVICES 1024

struct config_device {
	char name[64];
	uint64_t id; /* 0: any */
	char address[NET_ADDR_MAX];
};

struct config_missed {
	uint32_t n, of;
};

/* "8/10": 8 of the last 10. RC_INVAL. */
enum rc config_missed(const char *text, struct config_missed *out, struct err *err);

struct config {
	char listen[NET_ADDR_MAX];					       /* empty: not set */
	uint32_t heartbeat_ms, op_timeout_ms, comm_timeout_ms, job_timeout_ms; /* 0: not set */
	struct config_missed missed;					       /* of 0: not set */
	int on_failure; /* enum gpusim_on_failure, 0: not set */
	struct config_device *device;
	size_t ndevices;
};

/* Read a file. RC_FAILED it cannot be opened, RC_BADDATA "FILE:LINE: reason". Release with
 * config_fini. */
enum rc config_read(const char *path, struct config *out, struct err *err);

/* The same from a string. */
enum rc config_parse(const char *text, const char *name, struct config *out, struct err *err);

void config_fini(struct config *c);

#endif
