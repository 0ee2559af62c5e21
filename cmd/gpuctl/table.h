/*
 * table.h - print devices and communicators as tables, and as JSON.
 */
#ifndef GPUCTL_TABLE_H
#define GPUCTL_TABLE_H

#include <stdio.h>

#include "base/json.h"
#include "gpusim.h"

/* "in-progress", "success", "failed": enum gpusim_state. Static storage. */
const char *state_name(int state);

/* A time since the Unix epoch as local time: "2026-11-22 10:00:00". */
#define TIME_TEXT 32
const char *time_text(uint64_t ms, char out[TIME_TEXT]);

/* Print a header and a row for each device; the first column is the index that options accept. */
void table_devices(const struct gpusim_device_info *d, size_t n, FILE *f);
/* Print the progress of the ranks that are in an operation. */
void table_progress(const struct gpusim_comm_info *c, size_t n, FILE *f);
void table_comms(const struct gpusim_comm_info *c, size_t n, FILE *f);

/* Print JSON without a newline. Ids of devices are strings of 16 hexadecimal digits. index: of each device,
 * as options accept it; NULL: its position. recovered: the communicator's latest recovery; NULL omits it. */
void json_devices(struct json *j, const struct gpusim_device_info *d, const size_t *index,
		  size_t n);
void json_comm(struct json *j, const struct gpusim_comm_info *c, const char *recovered);

/* Print a new communicator as members of an object: comm, nranks, devices. */
void json_members(struct json *j, struct gpusim_comm *comm);

#endif
