/*
 * options.h - the options of gpucoord, from flags, the environment and files such as
 *
 *	[coordinator]
 *	listen = ipc:///run/gpusim/coord.sock
 *	heartbeat = 1s
 *
 *	[device left]		; the name is for people
 *	id = 0x7f3a
 *	address = ipc:///run/gpusim/left.sock
 */
#ifndef GPUCOORD_OPTIONS_H
#define GPUCOORD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "coord/coord.h"
#include "net/net.h"

#define OPTIONS_MAX_DEVICES 1024

/* A device that a configuration file names. */
struct options_device {
	char name[64];
	uint64_t id; /* 0: any */
	char address[NET_ADDR_MAX];
};

struct options {
	struct coord_config coord;
	char listen[NET_ADDR_MAX];
	/* NULL: not given */
	const char *state, *report_dir, *tuner, *algo, *algo_files, *http, *http_names, *grpc,
	    *record;
	bool record_data, calibrate, allow_inject, insecure, print_address;
	struct net_tls_files tls;
	int ready_fd, exits, lifeline; /* -1: none */
	unsigned verbose;
	uint64_t recorder; /* records */
	struct options_device *device;
	size_t ndevices;
	char section[64];	   /* the last section read from a file */
	struct option_text *texts; /* the strings above */
};

/*
 * options_parse - flags override files, files override the environment, and that overrides the defaults.
 *
 *	out	[out] release with options_fini; untouched on error
 *
 * Ends the program for -h, -V and --help-options. Errors: RC_INVAL "--option: reason", "FILE:LINE: option:
 * reason"; RC_FAILED a file that cannot be read; RC_NOMEM.
 */
enum rc options_parse(int argc, char **argv, struct options *out, struct err *err);

/* Parse the text of one file, which is called `name`. */
enum rc options_parse_text(const char *text, const char *name, struct options *out,
			   struct err *err);

void options_fini(struct options *o);

#endif
