/*
 * recorder.h - for gpuctl and mnist-train: the coordinator's raw answers, devices' recorders, the progress of
 * trainings. Not part of gpusim.h.
 */
#ifndef CLIENT_RECORDER_H
#define CLIENT_RECORDER_H

#include <stdbool.h>

#include "flight/read.h"
#include "wire/wire.h"
#include "gpusim.h"

/* The caller's, to wire_reply_free (each holds its answer: reply->status, reply->events). */
enum gpusim_rc client_status(struct gpusim *g, GpuSim__Reply **out);
enum gpusim_rc client_history(struct gpusim *g, uint64_t after, uint32_t wait_ms,
			      GpuSim__Reply **out);

/*
 * A recorder: read from the device's file if that is on this host and ours, else by requests. An open one
 * stays readable when its device and the file are gone. device id 0: the coordinator's.
 */
struct client_recorder;
enum gpusim_rc client_recorder_open(struct gpusim *g, const GpuSim__DeviceMetadata *meta,
				    struct client_recorder **out);
enum gpusim_rc client_recorder_open_coordinator(struct gpusim *g, struct client_recorder **out);
void client_recorder_close(struct client_recorder *r); /* NULL is legal */
struct flight_source client_recorder_source(struct client_recorder *r);

/* Is it read from the file, without a request? */
bool client_recorder_is_file(const struct client_recorder *r);

/* Have the device record all steps for the next `ms` milliseconds. */
enum gpusim_rc client_recorder_trace(struct client_recorder *r, uint32_t ms);

/* Open a recorder's file of this user; the caller closes it. False: not one. */
bool client_recorder_file(const char *path, struct flight_file *out);

/* Bytes that are in allocations of the device now, by its own answer: heartbeats are older. */
enum gpusim_rc client_used_bytes(struct gpusim *g, struct gpusim_device device, uint64_t *out);

/* ---- for mnist-train: report a training's progress to the coordinator. Not part of gpusim.h */

struct client_training {
	uint64_t training; /* random for each training, never 0 */
	const char *name;  /* of its network */
	uint32_t epoch, epochs;
	uint64_t step;
	double loss;	 /* mean of the epoch */
	double accuracy; /* share of the test set, 0 to 1 */
	double rate;	 /* samples a second */
};

/* GPUSIM_INVAL: the coordinator shows no curves; other errors as gpusim_model_put. */
enum gpusim_rc client_training_put(struct gpusim *g, const struct client_training *t);

#endif
