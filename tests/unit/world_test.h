/*
 * world_test.h - worlds for tests of views: answers made by hand, recorders in memory.
 */
#ifndef WORLD_TEST_H
#define WORLD_TEST_H

#include <stdlib.h>
#include <string.h>

#include "flight/read.h"
#include "flight/write.h"
#include "view/world.h"

#define AREA_RECORDS 256u
#define AREA_RINGS   4u

/* A recorder. */
struct area {
	_Alignas(FLIGHT_PAGE) unsigned char at[FLIGHT_AREA_BYTES(AREA_RINGS, AREA_RECORDS)];
	struct flight *flight;
	struct flight_bytes bytes;
	struct flight_source source;
};

static inline struct area *
area_new(void)
{
	struct area *a = aligned_alloc(FLIGHT_PAGE, sizeof *a);

	return a ? memset(a, 0, sizeof *a) : NULL;
}

static inline void
area_open(struct area *a, uint64_t device_id)
{
	struct flight_identity who = {.device_id = device_id, .name = "gpudev"};
	struct err err;

	flight_open(a->at, sizeof a->at, AREA_RECORDS, &who, NULL, NULL, &a->flight, &err);
	a->bytes = (struct flight_bytes){a->at, sizeof a->at};
	a->source = flight_bytes_source(&a->bytes);
}

static inline void
area_close(struct area *a)
{
	flight_close(a->flight);
}

/* A message as from unpacking. */
static inline void *
message_copy(const void *m)
{
	const ProtobufCMessageDescriptor *d = ((const ProtobufCMessage *)m)->descriptor;
	size_t n = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = malloc(n + 1);
	void *copy;

	protobuf_c_message_pack(m, bytes);
	copy = protobuf_c_message_unpack(d, NULL, n, bytes);
	free(bytes);
	return copy;
}

/* Devices 1 and 2, communicator 7 of both in epoch 3. */
static inline struct world *
world_of_two(void)
{
	GpuSim__StatusResponse status = GPU_SIM__STATUS_RESPONSE__INIT;
	GpuSim__DeviceMetadata m[2] = {GPU_SIM__DEVICE_METADATA__INIT,
				       GPU_SIM__DEVICE_METADATA__INIT},
			       *devices[2] = {&m[0], &m[1]};
	GpuSim__DeviceId id[2] = {GPU_SIM__DEVICE_ID__INIT, GPU_SIM__DEVICE_ID__INIT};
	GpuSim__CommSummary comm = GPU_SIM__COMM_SUMMARY__INIT, *comms[1] = {&comm};
	uint64_t ids[2] = {1, 2};
	struct world *w = NULL;

	for (uint32_t i = 0; i < 2; i++) {
		id[i].value = i + 1;
		m[i].deviceid = &id[i];
		m[i].ordinal = i;
		m[i].host = (char *)"";
	}
	comm.commid = 7;
	comm.epoch = 3;
	comm.n_deviceids = 2;
	comm.deviceids = ids;
	status.n_devices = 2;
	status.devices = devices;
	status.n_comms = 1;
	status.comms = comms;
	world_new(message_copy(&status), NULL, UINT64_C(1700000000000000000), &w, NULL);
	return w;
}

#endif
